package worker

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func newTestWriter() (*LeaseWriter, *Plans) {
	p := NewPlans(7)
	return NewLeaseWriter("i", p.Incarnation(), Regular), p
}

func TestLeaseWriterEntries(t *testing.T) {
	w1 := IDOf("http://a")
	p := NewPlans(7)
	a := Lease{ID: p.Lease(1, Regular, 0), Worker: w1, Tokens: 5}
	probe := a
	probe.Probe = true
	cases := []struct {
		name string
		do   func(w *LeaseWriter)
		want []Entry
	}{
		{"a start", func(w *LeaseWriter) { w.Begin(a) }, []Entry{{Kind: EntryStart, Lease: a}}},
		{"begun twice", func(w *LeaseWriter) { w.Begin(a); w.Begin(a) }, []Entry{{Kind: EntryStart, Lease: a}}},
		{
			"begun and ended in one batch", func(w *LeaseWriter) { w.Begin(a); w.End(a.ID, Failure, true) },
			[]Entry{{Kind: EntryWhole, Lease: a, Outcome: Failure, Unreached: true}},
		},
		{"ended twice", func(w *LeaseWriter) {
			w.Begin(a)
			w.Flush()
			w.End(a.ID, Success, false)
			w.End(a.ID, Failure, false)
		}, []Entry{{Kind: EntryEnd, Lease: Lease{ID: a.ID}, Outcome: Success}}},
		{"never begun", func(w *LeaseWriter) { w.End(a.ID, Success, false); w.Head(a.ID) }, nil},
		{"only the head of a probe is published", func(w *LeaseWriter) { w.Begin(a); w.Flush(); w.Head(a.ID) }, nil},
		{"and once", func(w *LeaseWriter) {
			w.Begin(probe)
			w.Flush()
			w.Head(a.ID)
			w.Head(a.ID)
		}, []Entry{{Kind: EntryHead, Lease: Lease{ID: a.ID}}}},
		{"a late reply", func(w *LeaseWriter) { w.LateReply(a.ID) }, []Entry{{Kind: EntryEnd, Lease: Lease{ID: a.ID}, Unreached: true}}},
		{"a late reply of an open lease", func(w *LeaseWriter) { w.Begin(a); w.Flush(); w.LateReply(a.ID) }, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w, _ := newTestWriter()
			c.do(w)
			b, _ := w.Flush()
			if d := cmp.Diff(c.want, b.Entries, cmpopts.EquateEmpty()); d != "" {
				t.Errorf("entries (-want +got):\n%s", d)
			}
		})
	}
}

func TestLeaseWriterWakes(t *testing.T) {
	w, p := newTestWriter()
	var got []string
	for i := range uint64(BatchEntries + 2) {
		if k := w.Begin(Lease{ID: p.Lease(i, Regular, 0)}); k != WakeNone {
			got = append(got, fmt.Sprint(i, ":", k))
		}
	}
	if want := []string{"0:1", "63:2"}; !slices.Equal(got, want) {
		t.Errorf("wakes %v, want %v", got, want)
	}
	if k := w.End(p.Lease(0, Regular, 0), Success, false); k != WakeNone {
		t.Errorf("an end that joins its start wakes: %v", k)
	}
	first, _ := w.Flush()
	if n := len(first.Entries); n != BatchEntries+2 || first.Seq != 1 {
		t.Errorf("batch %d has %d entries", first.Seq, n)
	}
	if _, more := w.Flush(); more {
		t.Error("an empty batch")
	}
	if k := w.End(p.Lease(1, Regular, 0), Success, false); k != WakeSoon {
		t.Errorf("the first entry of a batch wakes %v", k)
	}
	if b, _ := w.Flush(); b.Seq != 2 || b.Ingress != "i" || b.Incarnation != 7 {
		t.Errorf("second batch %+v", b)
	}
}

func TestLeaseWriterBeats(t *testing.T) {
	w, p := newTestWriter()
	id := IDOf("http://a")
	open := map[LeaseID]bool{}
	for range 100 {
		l := Lease{ID: p.Lease(p.Next(), Regular, 0), Worker: id, Probe: true}
		w.Begin(l)
		open[l.ID] = true
	}
	for plan := uint64(1); plan <= 50; plan++ {
		w.End(p.Lease(plan, Regular, 0), Success, false)
		delete(open, p.Lease(plan, Regular, 0))
	}
	w.Head(p.Lease(51, Regular, 0))
	if n := len(w.ActiveByWorker()); n != 1 || w.Open() != 50 || w.Active(id) != 50 {
		t.Fatalf("%d workers, %d open, %d active", n, w.Open(), w.Active(id))
	}
	for i := range uint64(Quarters) {
		b := w.Beat()
		if b.Seq != i+1 || b.Beat.Open != 50 || int(b.Beat.Quarter) != int(i) {
			t.Fatalf("beat %d: %+v", i, b.Beat)
		}
		if pending := len(b.Entries); (i == 0) != (pending > 0) {
			t.Fatalf("beat %d carries %d entries", i, pending)
		}
		for _, l := range b.Beat.Renewed {
			if !open[l.ID] || l.ID.Quarter() != b.Beat.Quarter || l.Probe == (l.ID.Plan == 51) {
				t.Fatalf("beat %d renews %+v", i, l)
			}
			delete(open, l.ID)
		}
	}
	if len(open) != 0 {
		t.Fatalf("%d leases were not renewed", len(open))
	}
	for plan := uint64(51); plan <= 100; plan++ {
		w.End(p.Lease(plan, Regular, 0), Success, false)
	}
	if w.Open() != 0 || len(w.ActiveByWorker()) != 0 {
		t.Fatal("leases are left")
	}
}

// TestLeaseWriterConcurrent lets many requests write while one goroutine
// publishes, and a fold that hears everything agrees.
func TestLeaseWriterConcurrent(t *testing.T) {
	w, p := newTestWriter()
	f := NewFold()
	id := IDOf("http://a")
	l := f.Load(id)
	var requests, publisher sync.WaitGroup
	stop := make(chan struct{})
	publisher.Go(func() {
		for {
			if b, ok := w.Flush(); ok {
				f.Apply(&b, at(0), nil)
				continue
			}
			b := w.Beat()
			f.Apply(&b, at(0), nil)
			select {
			case <-stop:
				if b, ok := w.Flush(); ok {
					f.Apply(&b, at(0), nil)
				}
				return
			default:
			}
		}
	})
	for range 8 {
		requests.Go(func() {
			for i := range 500 {
				id := Lease{ID: p.Lease(p.Next(), Regular, 0), Worker: id, Probe: i%3 == 0}
				w.Begin(id)
				w.Head(id.ID)
				if i%7 != 0 {
					w.End(id.ID, Success, false)
				}
			}
		})
	}
	requests.Wait()
	close(stop)
	publisher.Wait()
	if l.Active() != w.Open() || l.Active() != 8*72 || l.Probes() != 0 {
		t.Fatalf("the fold counts %d (%d probes), the writer %d, want %d", l.Active(), l.Probes(), w.Open(), 8*72)
	}
}

func BenchmarkLeaseWriterPair(b *testing.B) {
	w, p := newTestWriter()
	id := IDOf("http://a")
	for range 1000 {
		w.Begin(Lease{ID: p.Lease(p.Next(), Regular, 0), Worker: id})
	}
	b.ReportAllocs()
	for b.Loop() {
		l := Lease{ID: p.Lease(p.Next(), Regular, 0), Worker: id, Tokens: 100}
		w.Begin(l)
		if w.End(l.ID, Success, false); l.ID.Plan%BatchEntries == 0 {
			w.Flush()
		}
	}
}

// TestLargeBeats: a quarter that is too large for a message goes out in parts, and each
// of them mends what it lists whatever becomes of the others.
func TestLargeBeats(t *testing.T) {
	const open, ended = Quarters*PartLeases + 4000, 500
	w, plans := newTestWriter()
	f := NewFold()
	id := specAt(1, "m").ID
	leases := make([]LeaseID, open)
	for i := range leases {
		leases[i] = plans.Lease(plans.Next(), Regular, 0)
		w.Begin(Lease{ID: leases[i], Worker: id, Tokens: 1})
	}
	w.Flush() // lost
	// round is a beat of each quarter, of which the parts with a number are lost.
	round := func(lost int) (most int) {
		for range Quarters {
			b, more := w.Beat(), true
			for n := 0; more; n++ {
				most = max(most, len(b.Beat.Renewed))
				if n != lost {
					f.Apply(&b, at(0), nil)
				}
				b, more = w.More()
			}
			if _, more := w.More(); more {
				t.Fatal("there is always more")
			}
		}
		return most
	}
	if most := round(-1); most > PartLeases || most < PartLeases/4 {
		t.Errorf("a message renews %d leases", most)
	}
	wantCounts(t, f.Load(id), counts{open, 0, 0})
	mended := 0
	for _, l := range leases[:ended] {
		w.End(l, Success, false)
		if l.Part(2) == 1 {
			mended++
		}
	}
	w.Flush() // lost
	round(0)
	wantCounts(t, f.Load(id), counts{open - mended, 0, 0})
	round(-1)
	wantCounts(t, f.Load(id), counts{open - ended, 0, 0})
}

// Of workers that have come and gone no counts are kept: no more than twice those that
// have leases.
func TestLeaseWriterForgetsWorkersThatAreGone(t *testing.T) {
	w, p := newTestWriter()
	begin := func(i int) LeaseID {
		id := p.Lease(p.Next(), Regular, 0)
		w.Begin(Lease{ID: id, Worker: IDOf(fmt.Sprintf("http://w%d", i))})
		return id
	}
	stays := begin(-1)
	for i := range 1000 {
		w.End(begin(i), Success, false)
		w.Flush()
	}
	if n := len(w.active); n > minCounts+1 {
		t.Errorf("%d workers are counted, and one has a lease", n)
	}
	if n := w.Active(IDOf("http://w-1")); n != 1 {
		t.Errorf("%d leases of the worker that stays, want 1", n)
	}
	w.End(stays, Success, false)
	if n := w.Active(IDOf("http://w-1")); n != 0 {
		t.Errorf("%d leases after the last has ended", n)
	}
	var open []LeaseID
	for i := range 1000 { // all at a time
		open = append(open, begin(i))
	}
	if n := len(w.ActiveByWorker()); n != 1000 {
		t.Errorf("%d workers have leases, want 1000", n)
	}
	for _, id := range open {
		w.End(id, Success, false)
	}
	if n := len(w.ActiveByWorker()); n != 0 {
		t.Errorf("%d workers have leases, want none", n)
	}
}
