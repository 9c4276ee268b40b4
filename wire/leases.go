package wire

import (
	"errors"
	"fmt"
	"math"

	"smg/wire/wirepb"
	"smg/worker"
)

const batchName = "lease batch"

// AppendBatch encodes b at the end of buf. Every lease of b must have the
// incarnation and the leg of b; those travel once. It is safe for concurrent use.
func AppendBatch(buf []byte, b *worker.Batch) ([]byte, error) {
	if err := checkBatch(b); err != nil {
		return buf, unsendable(batchName, err)
	}
	e := batchEncoders.Get().(*batchEncoder)
	defer batchEncoders.Put(e)
	return marshal(buf, batchName, e.fill(b))
}

// DecodeBatch reads a lease batch and keeps nothing of data. Entries of a kind
// that is newer than this program are left out. An outcome that is absent is
// neutral.
func DecodeBatch(data []byte) (*worker.Batch, error) {
	var m wirepb.LeaseBatch
	if err := unmarshal(data, batchName, &m); err != nil {
		return nil, err
	}
	b, err := decodeBatch(&m)
	if err == nil {
		err = checkBatch(b)
	}
	if err != nil {
		return nil, malformed(batchName, err)
	}
	return b, nil
}

// checkBatch is what holds for every batch, sent or received.
func checkBatch(b *worker.Batch) error {
	switch {
	case b.Ingress == "":
		return errors.New("the ingress has no name")
	case b.Incarnation == 0:
		return errors.New("the incarnation is 0")
	case b.Seq == 0:
		return errors.New("the sequence number is 0")
	case b.Leg > worker.Decode:
		return fmt.Errorf("unknown %s", b.Leg)
	}
	if err := checkString("the ingress's name", b.Ingress, MaxName); err != nil {
		return err
	}
	if err := checkLen("entries", len(b.Entries), MaxEntries); err != nil {
		return err
	}
	for i := range b.Entries {
		e := &b.Entries[i]
		if e.Kind > worker.EntryWhole {
			return fmt.Errorf("plan %d has an entry of unknown kind %d", e.Lease.ID.Plan, e.Kind)
		}
		if e.Outcome > worker.Failure {
			return fmt.Errorf("plan %d ended in unknown outcome %d", e.Lease.ID.Plan, e.Outcome)
		}
		starts := e.Kind == worker.EntryStart || e.Kind == worker.EntryWhole
		if err := checkLease(b, &e.Lease, starts); err != nil {
			return err
		}
	}
	if b.Beat == nil {
		return nil
	}
	return checkLeaseBeat(b)
}

func checkLeaseBeat(b *worker.Batch) error {
	beat := b.Beat
	if err := checkLen("renewed leases", len(beat.Renewed), MaxRenewed); err != nil {
		return err
	}
	if beat.Open < len(beat.Renewed) || beat.Open > math.MaxInt32 {
		return fmt.Errorf("%d open leases, of which %d are renewed", beat.Open, len(beat.Renewed))
	}
	if beat.Quarter >= worker.Quarters {
		return fmt.Errorf("quarter %d", beat.Quarter)
	}
	if beat.Parts < 0 || beat.Parts > worker.MaxParts || beat.Part < 0 || beat.Part >= max(1, beat.Parts) {
		return fmt.Errorf("part %d of %d", beat.Part, beat.Parts)
	}
	for i := range beat.Renewed {
		if err := checkLease(b, &beat.Renewed[i], true); err != nil {
			return err
		}
	}
	return nil
}

func checkLease(b *worker.Batch, l *worker.Lease, atWorker bool) error {
	switch {
	case l.ID.Plan == 0:
		return errors.New("a lease has plan number 0")
	case l.ID.Incarnation != b.Incarnation || l.ID.Leg != b.Leg:
		return fmt.Errorf("plan %d is of another incarnation or leg", l.ID.Plan)
	case l.Tokens < 0:
		return fmt.Errorf("plan %d has %d tokens", l.ID.Plan, l.Tokens)
	case l.Units < 0 || l.Units > math.MaxInt32:
		return fmt.Errorf("plan %d has %d units", l.ID.Plan, l.Units)
	case atWorker && isZero(l.Worker):
		return fmt.Errorf("plan %d is at no worker", l.ID.Plan)
	}
	return nil
}

func decodeBatch(m *wirepb.LeaseBatch) (*worker.Batch, error) {
	leg, known := fromEnum(m.Leg, worker.Decode)
	if !known {
		return nil, fmt.Errorf("unknown leg %d", m.Leg)
	}
	if len(m.Workers)%len(worker.ID{}) != 0 {
		return nil, fmt.Errorf("the table of workers has %d bytes", len(m.Workers))
	}
	d := batchDecoder{incarnation: m.Incarnation, leg: leg, workers: m.Workers}
	b := &worker.Batch{Ingress: m.Ingress, Incarnation: m.Incarnation, Leg: leg, Seq: m.Seq}
	for _, from := range m.Entries {
		kind, known := fromEnum(from.Kind, worker.EntryWhole)
		if !known {
			continue
		}
		if b.Entries == nil {
			b.Entries = make([]worker.Entry, 0, len(m.Entries))
		}
		l, err := d.lease(from)
		if err != nil {
			return nil, err
		}
		outcome, _ := fromEnum(from.Outcome, worker.Failure)
		b.Entries = append(b.Entries, worker.Entry{Kind: kind, Lease: l, Outcome: outcome, Unreached: from.Unreached})
	}
	beat := m.Beat
	switch {
	case beat == nil && m.Part == nil:
		return b, nil
	case beat == nil:
		if beat = m.Part; beat.Parts < 2 || beat.Parts > worker.MaxParts || beat.Part >= beat.Parts {
			return nil, fmt.Errorf("part %d of %d", beat.Part, beat.Parts)
		}
	case m.Part != nil:
		return nil, errors.New("a beat and a part of one")
	}
	if beat.Quarter >= worker.Quarters {
		return nil, fmt.Errorf("quarter %d", beat.Quarter)
	}
	b.Beat = &worker.Beat{Open: int(beat.Open), Quarter: uint8(beat.Quarter)}
	if beat == m.Part {
		b.Beat.Part, b.Beat.Parts = int(beat.Part), int(beat.Parts)
	}
	if len(beat.Renewed) > 0 {
		b.Beat.Renewed = make([]worker.Lease, len(beat.Renewed))
	}
	for i, from := range beat.Renewed {
		l, err := d.lease(from)
		if err != nil {
			return nil, err
		}
		b.Beat.Renewed[i] = l
	}
	return b, nil
}

// batchDecoder is what the leases of one batch have in common.
type batchDecoder struct {
	incarnation uint64
	leg         worker.Leg
	workers     []byte
}

// encodedLease is a lease in either of its messages.
type encodedLease interface {
	GetPlan() uint64
	GetItem() uint32
	GetWorker() uint32
	GetTokens() uint64
	GetKey() uint64
	GetProbe() bool
	GetUnits() uint32
}

func (d *batchDecoder) lease(m encodedLease) (worker.Lease, error) {
	const size = len(worker.ID{})
	plan, item, place, tokens := m.GetPlan(), m.GetItem(), m.GetWorker(), m.GetTokens()
	l := worker.Lease{
		ID:     worker.LeaseID{Incarnation: d.incarnation, Plan: plan, Leg: d.leg, Item: uint16(item)},
		Tokens: int64(tokens),
		Key:    m.GetKey(),
		Probe:  m.GetProbe(),
		Units:  int(m.GetUnits()),
	}
	switch {
	case m.GetUnits() > math.MaxInt32:
		return l, fmt.Errorf("plan %d has %d units", plan, m.GetUnits())
	case item > math.MaxUint16:
		return l, fmt.Errorf("plan %d has item %d", plan, item)
	case tokens > math.MaxInt64:
		return l, fmt.Errorf("plan %d has %d tokens", plan, tokens)
	case uint64(place) > uint64(len(d.workers)/size):
		return l, fmt.Errorf("plan %d is at worker %d of %d", plan, place, len(d.workers)/size)
	case place > 0:
		l.Worker = worker.ID(d.workers[(int(place)-1)*size:][:size])
	}
	return l, nil
}
