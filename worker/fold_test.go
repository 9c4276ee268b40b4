package worker

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestFoldGrants(t *testing.T) {
	w1, w2 := IDOf("http://a"), IDOf("http://b")
	s := &testStream{ingress: "i", incarnation: 7}
	grant := func(f *Fold, plan uint64, w ID, tokens int64, now time.Duration) {
		f.Grant(Lease{ID: s.id(plan), Worker: w, Tokens: tokens}, f.Load(w), at(now))
	}
	cases := []struct {
		name       string
		do         func(f *Fold)
		one, other counts
	}{
		{"a grant counts and credits", func(f *Fold) { grant(f, 1, w1, 10, 0) }, counts{1, 0, 10}, counts{}},
		{"a second grant of an id replaces the first", func(f *Fold) {
			grant(f, 1, w1, 10, 0)
			grant(f, 1, w2, 20, 0)
		}, counts{}, counts{1, 0, 20}},
		{"it falls on its start, which counts instead", func(f *Fold) {
			grant(f, 1, w1, 10, 0)
			f.Apply(s.batch(s.start(1, w1, 11)), at(ms), nil)
		}, counts{1, 0, 11}, counts{}},
		{"it falls on its start elsewhere", func(f *Fold) {
			grant(f, 1, w1, 10, 0)
			f.Apply(s.batch(s.start(1, w2, 11)), at(ms), nil)
		}, counts{}, counts{1, 0, 11}},
		{"it falls on a beat that lists the lease, without credit", func(f *Fold) {
			grant(f, 1, w1, 10, 0)
			f.Apply(s.beat(s.id(1).Quarter(), 1, Lease{ID: s.id(1), Worker: w2, Tokens: 10}), at(ms), nil)
		}, counts{}, counts{1, 0, 0}},
		{"it falls on the end of a dropped plan", func(f *Fold) {
			grant(f, 1, w1, 10, 0)
			f.Apply(s.batch(s.end(1, Neutral, true)), at(ms), nil)
		}, counts{}, counts{}},
		{"it falls on an end whose start was lost, and keeps its credit", func(f *Fold) {
			grant(f, 1, w1, 10, 0)
			f.Apply(s.batch(s.end(1, Success, false)), at(ms), nil)
		}, counts{0, 0, 10}, counts{}},
		{"it falls after its life", func(f *Fold) {
			grant(f, 1, w1, 10, 0)
			grant(f, 2, w1, 5, time.Second)
			f.Tick(at(GrantLife+ms), false)
		}, counts{1, 0, 5}, counts{}},
		{"a grant whose lease is open counts nothing", func(f *Fold) {
			f.Apply(s.batch(s.start(1, w2, 11)), at(0), nil)
			grant(f, 1, w1, 10, ms)
		}, counts{}, counts{1, 0, 11}},
		{"a whole call leaves credit only", func(f *Fold) {
			grant(f, 1, w1, 10, 0)
			e := s.start(1, w1, 12)
			e.Kind, e.Outcome = EntryWhole, Success
			f.Apply(s.batch(e), at(ms), nil)
		}, counts{0, 0, 12}, counts{}},
		{"a whole call that never reached its worker leaves nothing", func(f *Fold) {
			e := s.start(1, w1, 12)
			e.Kind, e.Unreached = EntryWhole, true
			f.Apply(s.batch(e), at(ms), nil)
		}, counts{}, counts{}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := NewFold()
			l1, l2 := f.Load(w1), f.Load(w2)
			s.seq = 0
			c.do(f)
			wantCounts(t, l1, c.one)
			wantCounts(t, l2, c.other)
		})
	}
}

// TestFoldRooms: a lease counts as many rooms as it has units, wherever it is heard of.
func TestFoldRooms(t *testing.T) {
	w := IDOf("http://a")
	s := &testStream{ingress: "i", incarnation: 7}
	lease := func(plan uint64, units int) Lease { return Lease{ID: s.id(plan), Worker: w, Units: units} }
	start := func(plan uint64, units int) *Batch {
		return s.batch(Entry{Kind: EntryStart, Lease: lease(plan, units)})
	}
	cases := []struct {
		name          string
		do            func(f *Fold)
		active, rooms int
	}{
		{"none said is one", func(f *Fold) { f.Grant(lease(1, 0), f.Load(w), at(0)) }, 1, 1},
		{"a grant", func(f *Fold) { f.Grant(lease(1, 8), f.Load(w), at(0)) }, 1, 8},
		{"a start replaces the grant's", func(f *Fold) {
			f.Grant(lease(1, 8), f.Load(w), at(0))
			f.Apply(start(1, 3), at(ms), nil)
		}, 1, 3},
		{"a beat brings what was not heard", func(f *Fold) {
			f.Apply(s.beat(s.id(1).Quarter(), 1, lease(1, 5)), at(0), nil)
		}, 1, 5},
		{"a beat mends what was heard", func(f *Fold) {
			f.Apply(start(1, 2), at(0), nil)
			f.Apply(s.beat(s.id(1).Quarter(), 1, lease(1, 5)), at(ms), nil)
		}, 1, 5},
		{"an end", func(f *Fold) {
			f.Apply(start(1, 8), at(0), nil)
			f.Apply(start(2, 2), at(0), nil)
			f.Apply(s.batch(s.end(1, Success, false)), at(ms), nil)
		}, 1, 2},
		{"a grant's life", func(f *Fold) {
			f.Grant(lease(1, 8), f.Load(w), at(0))
			f.Tick(at(GrantLife+ms), false)
		}, 0, 0},
		{"a silent ingress", func(f *Fold) {
			f.Apply(start(1, 8), at(0), nil)
			f.Tick(at(IngressSilent+ms), false)
		}, 0, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := NewFold()
			l := f.Load(w)
			s.seq = 0
			c.do(f)
			if l.Active() != c.active || l.Rooms() != c.rooms {
				t.Errorf("%d calls with %d rooms, want %d with %d", l.Active(), l.Rooms(), c.active, c.rooms)
			}
		})
	}
}

func TestFoldStream(t *testing.T) {
	w := IDOf("http://a")
	newStream := func() *testStream { return &testStream{ingress: "i", incarnation: 7} }

	t.Run("old_and_doubled_batches_are_dropped", func(t *testing.T) {
		f, s := NewFold(), newStream()
		l := f.Load(w)
		first := s.batch(s.start(1, w, 0))
		f.Apply(first, at(0), nil)
		f.Apply(s.batch(s.end(1, Failure, false)), at(0), nil)
		if events := f.Apply(first, at(0), nil); len(events) != 0 || l.Active() != 0 {
			t.Fatalf("a doubled start was applied: %v, active %d", events, l.Active())
		}
	})
	t.Run("gaps_are_ignored", func(t *testing.T) {
		f, s := NewFold(), newStream()
		l := f.Load(w)
		s.seq = 10
		f.Apply(s.batch(s.start(1, w, 0)), at(0), nil)
		s.seq = 20
		f.Apply(s.batch(s.end(1, Success, false)), at(0), nil)
		wantCounts(t, l, counts{})
	})
	t.Run("a_beat_replaces_its_quarter_only", func(t *testing.T) {
		f, s := NewFold(), newStream()
		l := f.Load(w)
		var starts []Entry
		n := map[uint8]int{}
		for p := range uint64(40) {
			starts = append(starts, s.start(p, w, 0))
			n[s.id(p).Quarter()]++
		}
		f.Apply(s.batch(starts...), at(0), nil)
		kept := starts[0].Lease
		fresh := Lease{ID: s.id(100), Worker: w}
		for fresh.ID.Quarter() != kept.ID.Quarter() {
			fresh.ID.Plan++
		}
		q := kept.ID.Quarter()
		f.Apply(s.beat(q, 42, kept, fresh, Lease{ID: LeaseID{Incarnation: 99, Plan: 1}, Worker: w}), at(time.Second), nil)
		wantCounts(t, l, counts{Active: 40 - n[q] + 2})
	})
	t.Run("foreign_ids_are_ignored", func(t *testing.T) {
		f, s := NewFold(), newStream()
		l := f.Load(w)
		f.Apply(s.batch(Entry{Lease: Lease{ID: LeaseID{Incarnation: 8, Plan: 1}, Worker: w}}), at(0), nil)
		f.Apply(s.batch(Entry{Lease: Lease{ID: LeaseID{Incarnation: 7, Plan: 1, Leg: Decode}, Worker: w}}), at(0), nil)
		wantCounts(t, l, counts{})
	})
	t.Run("a_silent_ingress_loses_its_leases_and_comes_back", func(t *testing.T) {
		f, s := NewFold(), newStream()
		l := f.Load(w)
		f.Apply(s.batch(s.start(1, w, 5)), at(0), nil)
		f.Tick(at(IngressSilent), false)
		wantCounts(t, l, counts{1, 0, 5})
		f.Tick(at(IngressSilent+ms), false)
		wantCounts(t, l, counts{0, 0, 5})
		f.Apply(s.beat(s.id(1).Quarter(), 1, Lease{ID: s.id(1), Worker: w}), at(5*time.Second), nil)
		wantCounts(t, l, counts{1, 0, 5})
	})
	t.Run("late_loops_and_reconnects_expire_nobody", func(t *testing.T) {
		f, s := NewFold(), newStream()
		l := f.Load(w)
		f.Apply(s.batch(s.start(1, w, 0)), at(0), nil)
		f.Tick(at(9*time.Second), true)
		f.Tick(at(12*time.Second), false)
		wantCounts(t, l, counts{Active: 1})
		f.Disconnected()
		f.Tick(at(60*time.Second), false)
		f.Reconnected(at(90 * time.Second))
		f.Tick(at(93*time.Second), false)
		wantCounts(t, l, counts{Active: 1})
		f.Tick(at(95*time.Second), false)
		wantCounts(t, l, counts{})
	})
	t.Run("a_newer_incarnation_ends_the_older", func(t *testing.T) {
		f, s := NewFold(), newStream()
		l := f.Load(w)
		f.Apply(s.batch(s.start(1, w, 0), s.start(2, w, 0)), at(0), nil)
		young := &testStream{ingress: "i", incarnation: 8}
		f.Apply(young.batch(young.start(1, w, 0)), at(ms), nil)
		wantCounts(t, l, counts{Active: 1})
		f.Apply(s.batch(s.start(3, w, 0)), at(2*ms), nil)
		wantCounts(t, l, counts{Active: 1})
	})
	t.Run("a_lower_incarnation_is_heard_once_the_higher_is_silent", func(t *testing.T) {
		f, s := NewFold(), newStream()
		l := f.Load(w)
		f.Apply(s.batch(s.start(1, w, 0)), at(0), nil)
		f.Tick(at(5*time.Second), false)
		back := &testStream{ingress: "i", incarnation: 6} // its clock was set back
		f.Apply(back.batch(back.start(1, w, 0), back.start(2, w, 0)), at(6*time.Second), nil)
		wantCounts(t, l, counts{Active: 2})
	})
	t.Run("one_ingress_writes_several_legs", func(t *testing.T) {
		f, s := NewFold(), newStream()
		l := f.Load(w)
		f.Apply(s.batch(s.start(1, w, 0)), at(0), nil)
		other := &Batch{Ingress: "i", Incarnation: 7, Leg: Decode, Seq: 1, Entries: []Entry{{Lease: Lease{ID: LeaseID{Incarnation: 7, Plan: 1, Leg: Decode}, Worker: w}}}}
		f.Apply(other, at(0), nil)
		wantCounts(t, l, counts{Active: 2})
	})
	t.Run("long_silent_streams_are_forgotten", func(t *testing.T) {
		f, s := NewFold(), newStream()
		f.Apply(s.batch(), at(0), nil)
		f.Tick(at(forgotten+ms), false)
		if len(f.streams) != 0 {
			t.Fatal("a silent stream is kept")
		}
	})
}

func TestFoldEvents(t *testing.T) {
	w := IDOf("http://a")
	s := &testStream{ingress: "i", incarnation: 7}
	probe := func(plan uint64) Entry {
		e := s.start(plan, w, 0)
		e.Lease.Probe = true
		return e
	}
	head := func(plan uint64) Entry { return Entry{Kind: EntryHead, Lease: Lease{ID: s.id(plan)}} }
	whole := func(e Entry, o Outcome) Entry { e.Kind, e.Outcome = EntryWhole, o; return e }
	cases := []struct {
		name    string
		entries []Entry
		want    []Event
		probes  int
	}{
		{"success", []Entry{s.start(1, w, 0), s.end(1, Success, false)}, []Event{{Lease: s.id(1), Worker: w, Outcome: Success}}, 0},
		{"failure", []Entry{s.start(1, w, 0), s.end(1, Failure, true)}, []Event{{Lease: s.id(1), Worker: w, Outcome: Failure, Unreached: true}}, 0},
		{"neutral", []Entry{s.start(1, w, 0), s.end(1, Neutral, false)}, nil, 0},
		{"unknown", []Entry{s.end(1, Failure, false)}, nil, 0},
		{"ended twice", []Entry{s.start(1, w, 0), s.end(1, Failure, false), s.end(1, Failure, false)}, []Event{{Lease: s.id(1), Worker: w, Outcome: Failure}}, 0},
		{"a probe holds its slot", []Entry{probe(1)}, nil, 1},
		{"a probe's head succeeds and frees its slot", []Entry{probe(1), head(1)}, []Event{{Lease: s.id(1), Worker: w, Outcome: Success, Probe: true}}, 0},
		{"once", []Entry{probe(1), head(1), head(1), s.end(1, Success, false)}, []Event{{Lease: s.id(1), Worker: w, Outcome: Success, Probe: true}}, 0},
		{"a stream that breaks after its head fails", []Entry{probe(1), head(1), s.end(1, Failure, false)}, []Event{{Lease: s.id(1), Worker: w, Outcome: Success, Probe: true}, {Lease: s.id(1), Worker: w, Outcome: Failure}}, 0},
		{"a probe that fails", []Entry{probe(1), s.end(1, Failure, false)}, []Event{{Lease: s.id(1), Worker: w, Outcome: Failure, Probe: true}}, 0},
		{"a whole probe", []Entry{whole(probe(1), Success), head(1)}, []Event{{Lease: s.id(1), Worker: w, Outcome: Success, Probe: true}}, 0},
		{"a whole neutral call", []Entry{whole(s.start(1, w, 0), Neutral)}, nil, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := NewFold()
			l := f.Load(w)
			s.seq = 0
			got := f.Apply(s.batch(c.entries...), at(0), nil)
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("events (-want +got):\n%s", d)
			}
			if l.Probes() != c.probes {
				t.Errorf("probes %d, want %d", l.Probes(), c.probes)
			}
		})
	}
	t.Run("another choice than the own one was taken", func(t *testing.T) {
		v := IDOf("http://b")
		for _, c := range []struct {
			name  string
			entry Entry
			want  []Event
		}{
			{"elsewhere", s.start(1, v, 0), []Event{{Lease: s.id(1), Worker: w, Unreached: true}}},
			{"elsewhere, begun and ended", whole(s.start(1, v, 0), Success), []Event{{Lease: s.id(1), Worker: w, Unreached: true}, {Lease: s.id(1), Worker: v, Outcome: Success}}},
			{"the same worker", s.start(1, w, 0), nil},
		} {
			t.Run(c.name, func(t *testing.T) {
				f := NewFold()
				f.Grant(Lease{ID: s.id(1), Worker: w}, f.Load(w), at(0))
				s.seq = 0
				if d := cmp.Diff(c.want, f.Apply(s.batch(c.entry), at(0), nil)); d != "" {
					t.Errorf("events (-want +got):\n%s", d)
				}
			})
		}
	})
	t.Run("a beat takes a probe's slot up, and gives it back", func(t *testing.T) {
		f := NewFold()
		l := f.Load(w)
		s.seq = 0
		lease := probe(1).Lease
		f.Apply(s.beat(lease.ID.Quarter(), 1, lease), at(0), nil)
		wantCounts(t, l, counts{1, 1, 0})
		lease.Probe = false
		f.Apply(s.beat(lease.ID.Quarter(), 1, lease), at(0), nil)
		wantCounts(t, l, counts{1, 0, 0})
	})
}

func TestFoldCredit(t *testing.T) {
	w := IDOf("http://a")
	f := NewFold()
	l := f.Load(w)
	s := &testStream{ingress: "i", incarnation: 7}
	f.Apply(s.batch(s.start(1, w, 1)), at(0), nil)
	f.Apply(s.batch(s.start(2, w, 2)), at(10*ms), nil)
	f.Apply(s.batch(s.start(3, w, 4)), at(20*ms), nil)
	f.Grant(Lease{ID: s.id(4), Worker: w, Tokens: 8}, l, at(5*ms))
	wantCounts(t, l, counts{4, 0, 15})
	f.Reported(w, at(10*ms)) // what was folded at that instant stays
	wantCounts(t, l, counts{4, 0, 14})
	f.Apply(s.batch(s.end(1, Failure, true)), at(30*ms), nil) // cleared already
	wantCounts(t, l, counts{3, 0, 14})
	f.Apply(s.batch(s.end(2, Failure, true)), at(30*ms), nil)
	wantCounts(t, l, counts{2, 0, 12})
	f.Apply(s.batch(s.end(3, Success, false)), at(30*ms), nil) // reached: stays
	wantCounts(t, l, counts{1, 0, 12})
	f.Apply(s.batch(s.start(4, w, 8)), at(40*ms), nil)
	f.Reported(w, at(41*ms))
	wantCounts(t, l, counts{1, 0, 0})
	f.Reported(IDOf("http://unknown"), at(0))
}

func TestFoldComplete(t *testing.T) {
	w := IDOf("http://a")
	f := NewFold()
	s := &testStream{ingress: "i", incarnation: 7}
	if !f.Complete() {
		t.Fatal("a fold that hears nobody lacks nothing")
	}
	f.Apply(s.batch(), at(0), nil)
	if f.Complete() {
		t.Fatal("complete before the first beat")
	}
	var leases [Quarters][]Lease
	for p := range uint64(100) {
		id := s.id(p)
		leases[id.Quarter()] = append(leases[id.Quarter()], Lease{ID: id, Worker: w})
	}
	for q := range uint8(Quarters) {
		if f.Complete() {
			t.Fatalf("complete after %d of %d beats", q, Quarters)
		}
		f.Apply(s.beat(q, 100, leases[q]...), at(time.Duration(q)*time.Second), nil)
	}
	if !f.Complete() {
		t.Fatal("incomplete after all beats")
	}
	f.Apply(s.beat(0, 112), at(4*time.Second), nil)
	if f.Complete() {
		t.Fatal("complete with three quarters of the leases")
	}
	f.Tick(at(9*time.Second), false)
	if !f.Complete() {
		t.Fatal("a silent ingress keeps the replica waiting")
	}
}

func TestFoldDropsIdleLoads(t *testing.T) {
	w := IDOf("http://a")
	f := NewFold()
	s := &testStream{ingress: "i", incarnation: 7}
	l := f.Load(w)
	f.Apply(s.batch(s.start(1, w, 5), s.start(2, w, 5)), at(0), nil)
	f.Release(w)
	wantCounts(t, l, counts{2, 0, 0})
	if f.Load(w) != l {
		t.Fatal("a worker that comes back while calls run lost its counts")
	}
	f.Release(w)
	f.Apply(s.batch(s.end(1, Success, false), s.end(2, Success, false)), at(0), nil)
	if len(f.loads) != 0 {
		t.Fatal("the idle load of a removed worker is kept")
	}
	// A pool that was taken from just before the removal still has the old load.
	again := f.Load(w)
	f.Grant(Lease{ID: s.id(3), Worker: w}, l, at(0))
	wantCounts(t, again, counts{1, 0, 0})
	// A call of a worker that nobody has registered is counted, then forgotten.
	f.Apply(s.batch(s.start(4, IDOf("http://stranger"), 5)), at(0), nil)
	f.Apply(s.batch(s.end(4, Success, false)), at(0), nil)
	if len(f.loads) != 1 {
		t.Fatalf("%d loads are kept, want 1", len(f.loads))
	}
}

// TestLedger compares the ledger with a plain list while it does not merge, and
// bounds its error where it does.
func TestLedger(t *testing.T) {
	type booked struct{ at, tokens int64 }
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var l ledger
		var plain []booked
		now := int64(0)
		for range 60 {
			switch r.IntN(6) {
			case 0:
				cut := now - r.Int64N(50)
				l.clear(cut)
				kept := plain[:0]
				for _, b := range plain {
					if b.at >= cut {
						kept = append(kept, b)
					}
				}
				plain = kept
			case 1:
				if len(plain) > 0 {
					i := r.IntN(len(plain))
					l.takeBack(plain[i].at, plain[i].tokens)
					plain = append(plain[:i], plain[i+1:]...)
				}
				l.takeBack(now-1000, 7) // cleared or never booked
			default:
				now += r.Int64N(20)
				b := booked{now, 1 + r.Int64N(9)}
				l.add(b.at, b.tokens)
				plain = append(plain, b)
			}
			sum := int64(0)
			for _, b := range plain {
				sum += b.tokens
			}
			if l.sum.tokens != sum || l.sum.requests != int64(len(plain)) {
				t.Fatalf("sum %d, want %d", l.sum, sum)
			}
		}
	}
	var l ledger
	for i := range int64(10_000) {
		l.add(i, 1)
	}
	if len(l.slots) > maxSlots || l.sum.tokens != 10_000 {
		t.Fatalf("%d slots, sum %v", len(l.slots), l.sum)
	}
	for i := range int64(100) {
		l.takeBack(i*100, 1)
	}
	l.clear(5_000)
	if off := l.sum.tokens - 4_950; off < 0 || off > 2*10_000/resolution {
		t.Fatalf("%v are left after half was cleared, want about 4950", l.sum)
	}
	l.clear(10_000)
	if l.sum.tokens != 0 || len(l.slots) != 0 {
		t.Fatalf("%v left in %d slots", l.sum, len(l.slots))
	}
}

func TestQuartersAreEven(t *testing.T) {
	var n [Quarters]int
	for p := range uint64(10_000) {
		n[LeaseID{Incarnation: 1_800_000_000_000_000_000, Plan: p}.Quarter()]++
	}
	for q, k := range n {
		if k < 2300 || k > 2700 {
			t.Errorf("quarter %d has %d of 10000 leases", q, k)
		}
	}
}

func BenchmarkFoldGrantEnd(b *testing.B) {
	f := NewFold()
	w := IDOf("http://a")
	l := f.Load(w)
	s := &testStream{ingress: "i", incarnation: 7}
	for p := range uint64(1000) { // others in flight
		f.Grant(Lease{ID: s.id(1<<40 + p), Worker: w}, l, at(0))
	}
	batch := &Batch{Ingress: "i", Incarnation: 7, Entries: make([]Entry, 64)}
	var events []Event
	plan := uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		f.Grant(Lease{ID: s.id(plan), Worker: w, Tokens: 100}, l, at(time.Duration(plan)))
		e := s.start(plan, w, 100)
		e.Kind, e.Outcome = EntryWhole, Success
		batch.Entries[plan%64] = e
		plan++
		if plan%64 == 0 {
			batch.Seq++
			events = f.Apply(batch, at(time.Duration(plan)), events[:0])
		}
	}
}

func BenchmarkFoldGrant(b *testing.B) {
	f := NewFold()
	w := IDOf("http://a")
	l := f.Load(w)
	plan := uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		f.Grant(Lease{ID: LeaseID{Incarnation: 7, Plan: plan % 1024}, Worker: w, Tokens: 100}, l, at(0))
		plan++
	}
}
