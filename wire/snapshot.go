package wire

import (
	"errors"
	"strconv"

	"smg/wire/wirepb"
	"smg/worker"
)

const snapshotName = "request for a snapshot"

// Snapshot asks for the keepers' records of a leg. Whoever is to answer and holds some
// does so with all of them, as [Records] to [Cluster.SnapshotOf].
type Snapshot struct {
	Asker uint64 // the id of a replica, or the incarnation of an ingress
	Stage worker.RecallStage
}

// Snapshot is where everybody is asked for the records of a leg:
// smg.v1.<cluster>.snapshot.<leg>. Selector replicas and ingresses ask when they
// begin to hear the leg's keepers, and when they may have missed something.
func (c Cluster) Snapshot(leg worker.Leg) Topic[Snapshot] {
	return Topic[Snapshot]{
		Kind:    "snapshot",
		Subject: c.subject("snapshot", leg),
		Append:  AppendSnapshot,
		Decode:  DecodeSnapshot,
	}
}

// SnapshotOf is the inbox of one who asks, for the answers:
// smg.v1.<cluster>.snapshot.<leg>.<asker>, in decimal. Nobody else reads it, unless a
// replica and an ingress of one process ask, whose ids are the same.
func (c Cluster) SnapshotOf(leg worker.Leg, asker uint64) Topic[Records] {
	return Topic[Records]{
		Kind:    "snapshot",
		Subject: c.subject("snapshot", leg) + "." + strconv.FormatUint(asker, 10),
		Append:  AppendRecords,
		Decode:  DecodeRecords,
	}
}

// AppendSnapshot encodes s at the end of buf.
func AppendSnapshot(buf []byte, s *Snapshot) ([]byte, error) {
	if err := checkSnapshot(s); err != nil {
		return buf, unsendable(snapshotName, err)
	}
	return marshal(buf, snapshotName, &wirepb.Snapshot{Asker: s.Asker, Stage: uint32(s.Stage)})
}

// DecodeSnapshot reads a request for a snapshot and keeps nothing of data.
func DecodeSnapshot(data []byte) (*Snapshot, error) {
	var m wirepb.Snapshot
	if err := unmarshal(data, snapshotName, &m); err != nil {
		return nil, err
	}
	s := &Snapshot{Asker: m.Asker, Stage: worker.RecallStage(min(m.Stage, uint32(worker.RecallAll)))}
	if err := checkSnapshot(s); err != nil {
		return nil, malformed(snapshotName, err)
	}
	return s, nil
}

// checkSnapshot is what holds for every request, sent or received.
func checkSnapshot(s *Snapshot) error {
	if s.Asker == 0 {
		return errors.New("it is from nobody")
	}
	return nil
}
