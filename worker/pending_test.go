package worker

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestReportsBuildNoSets is what large fleets at rest live on: each of their workers
// reports its load again and again.
func TestReportsBuildNoSets(t *testing.T) {
	r, _, specs := fleet(3)
	p := r.Pool(Regular, "m")
	before := p.current()
	for i, all := range []bool{false, true} {
		rec := readyAt(specs[1].ID, uint64(2+i))
		rec.Report = &Report{PolledAt: at(time.Duration(i) * time.Second), GoodFor: time.Minute, Waiting: int64(1 + i)}
		if all {
			r.InstallAll([]Record{rec})
		} else {
			r.Install(rec)
		}
		if p.current() != before {
			t.Error("a report alone has built the set anew")
		}
		if got := waiting(p, 1, at(2*time.Second)); got != int64(1+i) {
			t.Errorf("a choice sees %d waiting, want %d", got, 1+i)
		}
	}
}

// waiting is what a choice sees of the i-th worker's report, or -1.
func waiting(p *Pool, i int, now time.Time) int64 {
	got := int64(-1)
	_, _ = p.Peek(&Ask{Now: now}, func(v *View) int {
		if rep := v.Report(i); rep != nil {
			got = rep.Waiting
		}
		return -1
	})
	return got
}

// TestChangesCostOneBuild: pools that nobody looks at are not built, and those that
// somebody looks at are built once for all that has happened.
func TestChangesCostOneBuild(t *testing.T) {
	r := NewRegistry(NewFold(), 3)
	r.Put(specAt(0, "m"))
	p := r.Pool(Regular, "m")
	before := p.set.Load()
	for i := 1; i < 3000; i++ {
		r.Put(specAt(i, "m"))
		r.Install(readyAt(specAt(i, "m").ID, 1))
		if i%3 == 0 {
			r.Remove(specAt(i, "m").ID)
		}
	}
	if p.set.Load() != before {
		t.Error("a pool was built although nobody looked")
	}
	if n := len(p.pending.added) + len(p.pending.removed); n > len(p.pending.roster)+spareEdits {
		t.Errorf("%d edits wait beside a roster of %d", n, len(p.pending.roster))
	}
	if got, want := p.Available(), 2000; got != want {
		t.Errorf("%d are available, want %d", got, want)
	}
	if got, want := p.Members().Len(), 2001; got != want {
		t.Errorf("%d members, want %d", got, want)
	}
	if built := p.current(); p.current() != built {
		t.Error("a set is built again although nothing has changed")
	}
}

// TestUnavailableAtOnce: that sets are built late delays nothing that anybody sees.
func TestUnavailableAtOnce(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Record)
	}{
		{"not ready", func(rec *Record) { rec.Status = NotReady }},
		{"breaker open", func(rec *Record) { rec.Breaker = Open }},
		{"vetoed", func(rec *Record) { rec.Overloaded = true }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, _, specs := fleet(3)
			p := r.Pool(Regular, "m")
			if got := names(t, p); got != "0 1 2" {
				t.Fatalf("available: %q", got)
			}
			for i, want := range []string{"1 2", "2"} { // patched, and with another beside it
				rec := readyAt(specs[i].ID, 2)
				tt.change(&rec)
				r.Install(rec)
				if got := names(t, p); got != want {
					t.Errorf("available: %q, want %q", got, want)
				}
			}
		})
	}
}

// TestPendingAgainstModel has workers come, go, change and report at random, and
// somebody look now and then.
func TestPendingAgainstModel(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	r := NewRegistry(NewFold(), 3)
	known := map[ID]*Spec{}
	for step := range 6000 {
		s := specAt(rnd.IntN(20), "m")
		old, _ := r.Record(s.ID)
		rec := readyAt(s.ID, old.Seq+1)
		rec.Report = old.Report
		switch rnd.IntN(8) {
		case 0:
			if rnd.IntN(2) == 0 {
				s.RegisteredAt = at(time.Duration(rnd.IntN(100)) * time.Second)
			}
			r.Put(s)
			known[s.ID] = s
		case 1:
			r.Remove(s.ID)
			delete(known, s.ID)
		case 2:
			rec.Status = NotReady
			r.Install(rec)
		case 3:
			rec.Breaker, rec.Keeper = Breaker(rnd.IntN(3)), ReplicaID(7)
			r.Install(rec)
		case 4:
			rec.Overloaded = true
			r.InstallAll([]Record{rec})
		default:
			rec.Report = &Report{PolledAt: at(time.Duration(step) * time.Second), GoodFor: time.Second, Waiting: int64(step)}
			r.Install(rec)
		}
		if rnd.IntN(3) > 0 {
			continue
		}
		var roster []*cell
		var want Census
		for _, s := range known {
			w := r.Lookup(s.ID)
			roster = append(roster, &cell{now: w})
			want.add(w, 1)
		}
		slices.SortFunc(roster, func(a, b *cell) int { return a.now.Spec.Compare(b.now.Spec) })
		if d := cmp.Diff(want, r.Census(Regular)); d != "" {
			t.Fatalf("step %d, census (-want +got):\n%s", step, d)
		}
		p := r.Pool(Regular, "m")
		if p == nil {
			if len(known) > 0 {
				t.Fatalf("step %d: there is no pool of %d workers", step, len(known))
			}
			continue
		}
		got, model := p.current(), newSet(roster)
		same := func(a, b *Worker) bool { return a.Spec == b.Spec && sameForPools(a.Record, b.Record) }
		if !slices.EqualFunc(got.available, model.available, same) || !slices.Equal(got.members.specs, model.members.specs) ||
			!slices.Equal(got.slot, model.slot) || !slices.Equal(got.halfOpen, model.halfOpen) || got.vetoed != model.vetoed || got.sign() != model.sign() {
			t.Fatalf("step %d: the set is\n%+v, want\n%+v", step, got, model)
		}
		for i, w := range got.available {
			want := int64(-1)
			now := at(time.Duration(step) * time.Second)
			if rep := r.Lookup(w.Spec.ID).Record.Report; rep != nil && !rep.Stale(now) {
				want = rep.Waiting
			}
			if got := waiting(p, i, now); got != want {
				t.Fatalf("step %d: a choice sees %d waiting, want %d", step, got, want)
			}
		}
	}
}

// TestCensusOfConflicts: a worker that is never chosen makes no fleet ready.
func TestCensusOfConflicts(t *testing.T) {
	r := NewRegistry(NewFold(), 3)
	s := specAt(0, "m")
	s.Conflict = "role_mismatch"
	r.Put(s)
	r.Install(readyAt(s.ID, 1))
	if c := r.Census(Regular); c.Workers != 1 || c.Ready != 0 {
		t.Errorf("got %+v", c)
	}
}
