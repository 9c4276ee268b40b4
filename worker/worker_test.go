package worker

import (
	"fmt"
	"testing"
	"time"
)

// specAt is the i-th worker of a fleet in registration order.
func specAt(i int, models ...string) *Spec {
	url := fmt.Sprintf("http://10.0.0.%d:8000", i)
	s := &Spec{ID: IDOf(url), URL: url, RegisteredAt: harnessStart.Add(time.Duration(i) * time.Second)}
	for _, m := range models {
		s.Models = append(s.Models, Model{ID: m})
	}
	return s
}

// readyAt is a record that makes a worker available.
func readyAt(id ID, seq uint64) Record { return Record{Worker: id, Term: 1, Seq: seq, Status: Ready} }

// fleet is a registry with n ready workers of model "m".
func fleet(n int) (*Registry, *Fold, []*Spec) {
	f := NewFold()
	r := NewRegistry(f, 3)
	specs := make([]*Spec, n)
	recs := make([]Record, n)
	for i := range specs {
		specs[i] = specAt(i, "m")
		recs[i] = readyAt(specs[i].ID, 1)
	}
	r.Put(specs...)
	r.InstallAll(recs)
	return r, f, specs
}

// stream builds the batches of one ingress.
type testStream struct {
	ingress     string
	incarnation uint64
	seq         uint64
}

func (s *testStream) id(plan uint64) LeaseID { return LeaseID{Incarnation: s.incarnation, Plan: plan} }

func (s *testStream) batch(entries ...Entry) *Batch {
	s.seq++
	return &Batch{Ingress: s.ingress, Incarnation: s.incarnation, Seq: s.seq, Entries: entries}
}

func (s *testStream) start(plan uint64, w ID, tokens int64) Entry {
	return Entry{Kind: EntryStart, Lease: Lease{ID: s.id(plan), Worker: w, Tokens: tokens}}
}

func (s *testStream) end(plan uint64, o Outcome, unreached bool) Entry {
	return Entry{Kind: EntryEnd, Lease: Lease{ID: s.id(plan)}, Outcome: o, Unreached: unreached}
}

// beat lists the given plans, all of which must be of one quarter.
func (s *testStream) beat(quarter uint8, open int, ls ...Lease) *Batch {
	b := s.batch()
	b.Beat = &Beat{Open: open, Quarter: quarter, Renewed: ls}
	return b
}

type counts struct {
	Active, Probes int
	Credit         int64
}

func countsOf(l *Load) counts { return counts{l.Active(), l.Probes(), l.Credit()} }

func wantCounts(t *testing.T, l *Load, want counts) {
	t.Helper()
	if got := countsOf(l); got != want {
		t.Fatalf("load is %+v, want %+v", got, want)
	}
}

func at(d time.Duration) time.Time { return harnessStart.Add(d) }
