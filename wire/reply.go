package wire

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"smg/wire/wirepb"
	"smg/worker"
)

const replyName = "reply"

// Reply is a selector replica's answer to a [Select].
type Reply struct {
	Lease   worker.LeaseID   // of the Select
	Replica worker.ReplicaID // that answers
	// Pick is the zero Pick when Err or Queued is set. Of its worker travels what a call
	// needs: ID, URL, Leg, Mode, Runtime, the bootstrap address, what KV is handed over
	// by (KVConnector, KVEngineID), the rank, the group's label, the sealed key, the rules of
	// its breaker and its connections, and the first model's id.
	Pick Pick
	Err  *Error // why there is no pick, or nil
	// Queued says that there is neither yet: see [ErrQueued].
	Queued bool
}

// replyEncoder is the memory of one encoding, used again and again.
type replyEncoder struct {
	msg  wirepb.Reply
	pick wirepb.Pick
	err  wirepb.Error
}

var replyEncoders = sync.Pool{New: func() any { return new(replyEncoder) }}

// AppendReply encodes r at the end of buf. It is safe for concurrent use.
func AppendReply(buf []byte, r *Reply) ([]byte, error) {
	if err := checkReply(r); err != nil {
		return buf, unsendable(replyName, err)
	}
	e := replyEncoders.Get().(*replyEncoder)
	defer replyEncoders.Put(e)
	return marshal(buf, replyName, e.fill(r))
}

// fill sets every field of the message, since each may have been used before.
func (e *replyEncoder) fill(r *Reply) *wirepb.Reply {
	m := &e.msg
	m.Incarnation = r.Lease.Incarnation
	m.Plan = r.Lease.Plan
	m.Item = uint32(r.Lease.Item)
	m.Leg = toEnum[wirepb.Leg](r.Lease.Leg)
	m.Replica = uint64(r.Replica)
	m.Pick, m.Error = nil, nil
	if m.Queued = r.Queued; r.Queued {
		return m
	}
	if r.Err != nil {
		m.Error = &e.err
		m.Error.Code = toEnum[wirepb.ErrorCode](r.Err.Code)
		m.Error.Message = r.Err.Message
		m.Error.Classes = encodeClasses(r.Err.Classes)
		return m
	}
	m.Pick = &e.pick
	e.fillPick(&r.Pick)
	return m
}

func (e *replyEncoder) fillPick(p *Pick) {
	m, w := &e.pick, p.Worker
	m.Worker = append(m.Worker[:0], w.ID[:]...)
	m.Url = w.URL
	m.Leg = toEnum[wirepb.Leg](w.Leg)
	m.Mode = toEnum[wirepb.Mode](w.Mode)
	m.Runtime = string(w.Runtime)
	m.Model = w.ModelID()
	m.BootstrapHost = w.BootstrapHost
	m.BootstrapPort = uint32(w.BootstrapPort)
	m.Epoch = p.Epoch
	m.Probe = p.Probe
	m.Policy = p.Policy
	m.Branch = p.Branch
	m.Tokens = uint64(p.Tokens)
	m.Matched = uint64(p.Matched)
	m.KvConnector = w.KVConnector
	m.KvEngineId = w.KVEngineID
	m.DpSize = uint32(w.DPSize)
	m.DpRank = uint32(w.DPRank)
	m.BaseUrl = w.BaseURL
	m.PairGroup = w.Labels[worker.GroupLabel]
	m.SealedKey = w.SealedKey
	m.Breaker, m.Pool = breakerRules(w.Breaker), poolRules(w.Pool)
}

// DecodeReply reads a reply and keeps nothing of data. A worker of a leg or a mode
// that is absent, or newer than this program, is an error, as with [DecodeSpec].
func DecodeReply(data []byte) (*Reply, error) {
	var m wirepb.Reply
	if err := unmarshal(data, replyName, &m); err != nil {
		return nil, err
	}
	r, err := decodeReply(&m)
	if err == nil {
		err = checkReply(r)
	}
	if err != nil {
		return nil, malformed(replyName, err)
	}
	return r, nil
}

// checkReply is what holds for every reply, sent or received.
func checkReply(r *Reply) error {
	if err := checkLeaseID(r.Lease); err != nil {
		return err
	}
	switch {
	case r.Replica == 0:
		return errors.New("it is from no replica")
	case r.Queued && (r.Err != nil || r.Pick.Worker != nil):
		return errors.New("it waits and is an answer")
	case r.Queued:
		return nil
	case r.Err != nil && r.Pick.Worker != nil:
		return errors.New("it has both a pick and an error")
	case r.Err != nil && int(r.Err.Code) >= len(codes):
		return fmt.Errorf("unknown %s", r.Err.Code)
	case r.Err != nil:
		return errors.Join(checkString("the error", r.Err.Message, MaxString), checkClasses(r.Err.Classes))
	case r.Pick.Worker == nil:
		return errors.New("it has neither a pick nor an error")
	}
	return checkPick(&r.Pick)
}

func checkPick(p *Pick) error {
	w := p.Worker
	switch {
	case isZero(w.ID):
		return errors.New("the worker has no id")
	case p.Tokens < 0:
		return fmt.Errorf("%d tokens", p.Tokens)
	case p.Matched < 0:
		return fmt.Errorf("%d tokens that match", p.Matched)
	case w.URL == "":
		return errors.New("the worker has no URL")
	case w.Leg > worker.Decode:
		return fmt.Errorf("unknown %s", w.Leg)
	case w.Mode > worker.GRPC:
		return fmt.Errorf("unknown connection mode %d", uint8(w.Mode))
	case len(w.SealedKey) > MaxString:
		return fmt.Errorf("the sealed key has %d bytes, more than %d", len(w.SealedKey), MaxString)
	}
	return errors.Join(
		checkString("the URL", w.URL, MaxString),
		checkString("the runtime", string(w.Runtime), MaxName),
		checkString("the model", w.ModelID(), MaxString),
		checkString("the bootstrap host", w.BootstrapHost, MaxString),
		checkString("the pair group", w.Labels[worker.GroupLabel], MaxString),
		checkHandOver(w),
		checkString("the policy", p.Policy, MaxName),
		checkString("the branch", p.Branch, MaxName),
		checkRules(w),
	)
}

func decodeReply(m *wirepb.Reply) (*Reply, error) {
	id, err := decodeLeaseID(m.Incarnation, m.Plan, m.Item, m.Leg)
	if err != nil {
		return nil, err
	}
	r := &Reply{Lease: id, Replica: worker.ReplicaID(m.Replica)}
	if m.Error != nil {
		code, _ := fromEnum(m.Error.Code, Code(len(codes)-1))
		r.Err = &Error{Code: code, Message: m.Error.Message, Classes: decodeClasses(m.Error.Classes)}
	}
	r.Queued = m.Queued
	if m.Pick == nil {
		return r, nil
	}
	r.Pick, err = decodePick(m.Pick)
	return r, err
}

func decodePick(m *wirepb.Pick) (Pick, error) {
	id, err := decodeID(m.Worker)
	if err != nil {
		return Pick{}, err
	}
	leg, known := fromEnum(m.Leg, worker.Decode)
	if !known {
		return Pick{}, fmt.Errorf("the worker's leg: %w %d", errUnknownLeg, m.Leg)
	}
	mode, known := fromEnum(m.Mode, worker.GRPC)
	if !known {
		return Pick{}, fmt.Errorf("unknown connection mode %d", m.Mode)
	}
	if m.Tokens > math.MaxInt64 {
		return Pick{}, fmt.Errorf("%d tokens", m.Tokens)
	}
	if m.Matched > math.MaxInt64 {
		return Pick{}, fmt.Errorf("%d tokens that match", m.Matched)
	}
	if m.BootstrapPort > math.MaxUint16 {
		return Pick{}, fmt.Errorf("bootstrap port %d", m.BootstrapPort)
	}
	w := &worker.Spec{
		ID:            id,
		URL:           m.Url,
		Leg:           leg,
		Mode:          mode,
		Runtime:       worker.Runtime(m.Runtime),
		BootstrapHost: m.BootstrapHost,
		BootstrapPort: uint16(m.BootstrapPort),
		KVConnector:   m.KvConnector,
		KVEngineID:    m.KvEngineId,
		DPSize:        int(m.DpSize),
		DPRank:        int(m.DpRank),
		BaseURL:       m.BaseUrl,
	}
	if len(m.SealedKey) > 0 {
		w.SealedKey = m.SealedKey
	}
	if err := decodeRules(w, nil, m.Breaker, m.Pool); err != nil {
		return Pick{}, err
	}
	if m.PairGroup != "" {
		w.Labels = map[string]string{worker.GroupLabel: m.PairGroup}
	}
	if m.Model != "" {
		w.Models = []worker.Model{{ID: m.Model}}
	}
	return Pick{Worker: w, Epoch: m.Epoch, Probe: m.Probe, Policy: m.Policy, Branch: m.Branch, Tokens: int64(m.Tokens), Matched: int64(m.Matched)}, nil
}
