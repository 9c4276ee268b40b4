package wire

import (
	"sync"

	"smg/wire/wirepb"
	"smg/worker"
)

// batchEncoder is the memory of one encoding, used again and again: batches are
// the most frequent messages there are.
type batchEncoder struct {
	msg     wirepb.LeaseBatch
	beat    wirepb.LeaseBeat
	entries reuse[wirepb.LeaseEntry]
	renewed reuse[wirepb.Lease]
	places  map[worker.ID]uint32
}

var batchEncoders = sync.Pool{New: func() any { return &batchEncoder{places: map[worker.ID]uint32{}} }}

// reuse keeps messages for their next use.
type reuse[M any] struct{ all []*M }

// take is n messages, with the contents of their last use.
func (r *reuse[M]) take(n int) []*M {
	if missing := n - len(r.all); missing > 0 {
		more := make([]M, missing)
		for i := range more {
			r.all = append(r.all, &more[i])
		}
	}
	return r.all[:n]
}

// fill sets every field of the message, since each may have been used before.
func (e *batchEncoder) fill(b *worker.Batch) *wirepb.LeaseBatch {
	clear(e.places)
	m := &e.msg
	m.Ingress = b.Ingress
	m.Incarnation = b.Incarnation
	m.Leg = toEnum[wirepb.Leg](b.Leg)
	m.Seq = b.Seq
	m.Workers = m.Workers[:0]
	m.Entries = e.entries.take(len(b.Entries))
	for i := range b.Entries {
		from, to := &b.Entries[i], m.Entries[i]
		to.Kind = toEnum[wirepb.EntryKind](from.Kind)
		to.Plan = from.Lease.ID.Plan
		to.Item = uint32(from.Lease.ID.Item)
		to.Worker = e.place(from.Lease.Worker)
		to.Tokens = uint64(from.Lease.Tokens)
		to.Probe = from.Lease.Probe
		to.Key = from.Lease.Key
		to.Units = uint32(from.Lease.Units)
		// Neutral is what an absent outcome reads as, so it need not travel.
		to.Outcome = wirepb.Outcome_OUTCOME_UNSPECIFIED
		if from.Outcome != worker.Neutral {
			to.Outcome = toEnum[wirepb.Outcome](from.Outcome)
		}
		to.Unreached = from.Unreached
	}
	m.Beat, m.Part = nil, nil
	if b.Beat != nil {
		e.fillBeat(b.Beat)
		if b.Beat.Parts > 1 {
			m.Part = &e.beat
		} else {
			m.Beat = &e.beat
		}
	}
	return m
}

func (e *batchEncoder) fillBeat(b *worker.Beat) {
	m := &e.beat
	m.Open = uint32(b.Open)
	m.Quarter = uint32(b.Quarter)
	m.Part, m.Parts = 0, 0
	if b.Parts > 1 {
		m.Part, m.Parts = uint32(b.Part), uint32(b.Parts)
	}
	m.Renewed = e.renewed.take(len(b.Renewed))
	for i := range b.Renewed {
		from, to := &b.Renewed[i], m.Renewed[i]
		to.Plan = from.ID.Plan
		to.Item = uint32(from.ID.Item)
		to.Worker = e.place(from.Worker)
		to.Tokens = uint64(from.Tokens)
		to.Probe = from.Probe
		to.Key = from.Key
		to.Units = uint32(from.Units)
	}
}

// place is where the message names the worker, from 1; 0 for nobody.
func (e *batchEncoder) place(id worker.ID) uint32 {
	if isZero(id) {
		return 0
	}
	n := e.places[id]
	if n == 0 {
		n = uint32(len(e.places) + 1)
		e.places[id] = n
		e.msg.Workers = append(e.msg.Workers, id[:]...)
	}
	return n
}
