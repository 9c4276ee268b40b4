package wire

import (
	"errors"
	"fmt"
	"strconv"

	"google.golang.org/protobuf/proto"

	"smg/wire/wirepb"
	"smg/worker"
)

// Service is requests of one type and their answers of another. An answer goes
// where its request says: to a topic of who asks. Its functions are safe for
// concurrent use.
type Service[Q, A any] struct {
	Topic[Q] // of the requests
	// AppendAnswer encodes an answer at the end of buf, as in [Topic].
	AppendAnswer func(buf []byte, v *A) ([]byte, error)
	// Refuse answers a request that Decode turned down with err. It is nil if the
	// request does not even say what to answer to.
	Refuse func(data []byte, err error) *A
}

// Select is how a selector replica is asked: smg.v1.<cluster>.select.<leg>.<replica>,
// the replica's id in decimal.
func (c Cluster) Select(leg worker.Leg, replica worker.ReplicaID) Service[Select, Reply] {
	return Service[Select, Reply]{
		Topic: Topic[Select]{
			Kind:    "select",
			Subject: c.subject("select", leg) + "." + strconv.FormatUint(uint64(replica), 10),
			Append:  AppendSelect,
			Decode: func(data []byte) (*Select, error) {
				s, err := DecodeSelect(data)
				if err == nil && s.Lease.Leg != leg {
					return nil, malformed(selectName, fmt.Errorf("it is about leg %s", s.Lease.Leg))
				}
				return s, err
			},
		},
		AppendAnswer: AppendReply,
		Refuse:       func(data []byte, err error) *Reply { return refuse(data, err, leg, replica) },
	}
}

// refuse answers a select that is malformed, if it says whose it is.
func refuse(data []byte, err error, leg worker.Leg, replica worker.ReplicaID) *Reply {
	var m wirepb.Select
	if len(data) > MaxMessage || (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, &m) != nil {
		return nil
	}
	r := &Reply{
		Lease:   worker.LeaseID{Incarnation: m.Incarnation, Plan: m.Plan, Leg: leg, Item: uint16(m.Item)},
		Replica: replica,
		Err:     ErrorOf(err),
	}
	if errors.Is(err, errUnknownLeg) { // known to who asks
		r.Err.Code = CodeUnsupportedVersion
	}
	if checkReply(r) != nil {
		return nil
	}
	return r
}

// Replies is the inbox of an ingress for the answers of selector replicas:
// smg.v1.<cluster>.replies.<incarnation>, in decimal. Nobody else reads it.
func (c Cluster) Replies(incarnation uint64) Topic[Reply] {
	return Topic[Reply]{
		Kind:    "replies",
		Subject: fmt.Sprintf("smg.v%d.%s.replies.%d", Version, c.name, incarnation),
		Append:  AppendReply,
		Decode: func(data []byte) (*Reply, error) {
			r, err := DecodeReply(data)
			if err == nil && r.Lease.Incarnation != incarnation {
				return nil, malformed(replyName, fmt.Errorf("it is to incarnation %d", r.Lease.Incarnation))
			}
			return r, err
		},
	}
}
