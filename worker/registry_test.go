package worker

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// names are the URLs' host numbers of the workers that can be chosen.
func names(t *testing.T, p *Pool) string {
	t.Helper()
	var out []string
	_, err := p.Take(&Ask{Lease: LeaseID{Incarnation: 1, Plan: 1 << 50}, Now: at(0)}, func(v *View) int {
		for k := range v.Candidates() {
			out = append(out, strings.TrimSuffix(strings.TrimPrefix(v.Worker(v.Candidate(k)).Spec.URL, "http://10.0.0."), ":8000"))
		}
		return -1
	})
	if err != nil && !errors.Is(err, ErrDeclined) {
		return err.Error()
	}
	return strings.Join(out, " ")
}

func TestRegistryOrderAndPools(t *testing.T) {
	r := NewRegistry(NewFold(), 3)
	a, b, c := specAt(1, "m"), specAt(2, "n", "m"), specAt(3)
	for _, s := range []*Spec{c, a, b} {
		r.Install(readyAt(s.ID, 1)) // a record may come first
		r.Put(s)
	}
	for _, want := range []struct{ model, names string }{{"", "1 2 3"}, {"m", "1 2"}, {"n", "2"}} {
		if got := names(t, r.Pool(Regular, want.model)); got != want.names {
			t.Errorf("pool %q has %q, want %q", want.model, got, want.names)
		}
	}
	if r.Pool(Regular, "x") != nil || r.Pool(Decode, "") != nil {
		t.Error("a pool without workers")
	}
	moved := specAt(2, "o")
	moved.Leg = Decode
	r.Put(moved)
	if r.Pool(Regular, "n") != nil || names(t, r.Pool(Regular, "m")) != "1" || names(t, r.Pool(Decode, "o")) != "2" {
		t.Error("a replaced worker is still in its old pools")
	}
	r.Remove(a.ID)
	r.Remove(a.ID)
	if r.Pool(Regular, "m") != nil || names(t, r.Pool(Regular, "")) != "3" {
		t.Error("a removed worker is still there")
	}
	if ws := r.Workers(); len(ws) != 2 || ws[0].Spec != moved || ws[1].Spec != c {
		t.Errorf("workers %v", ws)
	}
	if _, ok := r.Record(a.ID); ok || r.Lookup(a.ID) != nil || r.Lookup(c.ID).Spec != c {
		t.Error("a removed worker is remembered")
	}
	r.Put(specAt(9, "z"), specAt(9, "y"))
	if r.Pool(Regular, "z") != nil || r.Pool(Regular, "y").Members().Len() != 1 {
		t.Error("of two specs with one id the last must hold")
	}
}

func TestRegistryRecords(t *testing.T) {
	r, _, specs := fleet(2)
	id := specs[0].ID
	high := Record{Worker: id, Term: 2, Keeper: 5, Seq: 1, Status: NotReady}
	if held, changed := r.Install(high); !changed || held != high {
		t.Error("a higher record is not installed")
	}
	low := Record{Worker: id, Term: 1, Keeper: 9, Seq: 9, Status: Ready}
	held, changed := r.Install(low)
	if changed || held != high || !held.Corrects(low) {
		t.Error("a lower record is not answered with the one held")
	}
	if late := (Record{Worker: id, Term: 2, Keeper: 5}); held.Corrects(late) || held.Corrects(held) {
		t.Error("a keeper is corrected for its own late record")
	}
	if got := names(t, r.Pool(Regular, "m")); got != "1" {
		t.Errorf("available: %q", got)
	}
	early := Record{Worker: IDOf("http://later"), Term: 1, Seq: 2}
	for _, want := range []bool{true, false} {
		if _, changed := r.Install(early); changed != want {
			t.Errorf("an early record changes: %v, want %v", changed, want)
		}
	}
	for i := range maxEarly + 10 {
		r.Install(Record{Worker: IDOf(fmt.Sprint("http://x", i)), Term: 1})
	}
	if len(r.early) > maxEarly {
		t.Errorf("%d early records are kept", len(r.early))
	}
}

func TestRegistryReports(t *testing.T) {
	r, f, specs := fleet(1)
	id := specs[0].ID
	l := f.Load(id)
	s := &testStream{ingress: "i", incarnation: 7}
	f.Apply(s.batch(s.start(1, id, 10)), at(0), nil)
	f.Apply(s.batch(s.start(2, id, 20)), at(time.Second), nil)
	report := func(seq uint64, polled time.Duration, veto bool) {
		rec := readyAt(id, seq)
		rec.Report, rec.Overloaded = &Report{PolledAt: at(polled)}, veto
		r.Install(rec)
	}
	report(2, 500*ms, false)
	wantCounts(t, l, counts{2, 0, 20})
	report(3, 100*ms, true) // polled earlier: the younger report and its veto stay
	if w := r.Lookup(id); !w.Record.Report.PolledAt.Equal(at(500*ms)) || w.Record.Overloaded || w.Record.Seq != 3 {
		t.Errorf("record %+v", w.Record)
	}
	f.Apply(s.batch(s.start(3, id, 40)), at(2*time.Second), nil)
	report(4, 1500*ms, true)
	wantCounts(t, l, counts{3, 0, 40})
	if _, err := r.Pool(Regular, "m").Take(&Ask{Now: at(0)}, nil); !errors.Is(err, ErrOverloaded) {
		t.Errorf("a vetoed pool says %v", err)
	}
	r.Install(readyAt(id, 5)) // a failed poll
	if w := r.Lookup(id); w.Record.Report != nil || r.Pool(Regular, "m").Available() != 1 {
		t.Error("a report is kept after a failed poll")
	}
}

func TestRegistryAliases(t *testing.T) {
	r := NewRegistry(NewFold(), 3)
	with := func(i int, model string, names ...string) *Spec {
		s := specAt(i, model)
		s.Models[0].Aliases = names
		return s
	}
	target := func(name string) string {
		if p := r.Pool(Regular, name); p != nil {
			return p.Model()
		}
		return ""
	}
	r.Put(with(2, "b", "x"), with(1, "a", "x", "y"), with(3, "c", "a"))
	for name, want := range map[string]string{"x": "a", "y": "a", "a": "a", "b": "b", "z": ""} {
		if got := target(name); got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
	r.Put(with(1, "a")) // gives its names up
	if target("x") != "b" || target("y") != "" {
		t.Errorf("x is %q, y is %q", target("x"), target("y"))
	}
	r.Remove(specAt(1).ID) // now the name a is free for c's alias
	if target("a") != "c" {
		t.Errorf("a is %q", target("a"))
	}
	r.Remove(specAt(2).ID)
	if target("x") != "" || len(r.names.claims) != 1 {
		t.Errorf("x is %q, claims %v", target("x"), r.names.claims)
	}
}

// TestSetChanges changes records at random and compares each set, patched, with
// one built from scratch.
func TestSetChanges(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	r, _, specs := fleet(12)
	for i := range 4000 {
		s := specs[rnd.IntN(len(specs))]
		old, _ := r.Record(s.ID)
		rec := Record{Worker: s.ID, Term: 1, Seq: old.Seq + 1, Status: Ready, Overloaded: rnd.IntN(4) == 0}
		switch rnd.IntN(6) {
		case 0:
			rec.Breaker = Open
		case 1:
			rec.Breaker = HalfOpen
		case 2:
			rec.Status = NotReady
		case 3:
			rec.Epoch = old.Epoch + 1
		}
		p := r.Pool(Regular, "m")
		before, members := p.current(), p.Members()
		if rnd.IntN(2) == 0 {
			before.sign()
		}
		if i%7 == 0 {
			r.InstallAll([]Record{rec})
		} else {
			r.Install(rec)
		}
		got, want := p.current(), newSet(p.pending.roster)
		same := func(a, b *Worker) bool { return a.Spec == b.Spec && sameForPools(a.Record, b.Record) }
		if !slices.EqualFunc(got.available, want.available, same) || !slices.Equal(got.slot, want.slot) || !slices.Equal(got.halfOpen, want.halfOpen) || got.vetoed != want.vetoed || got.sign() != want.sign() {
			t.Fatalf("after %+v the set is\n%+v, want\n%+v", rec, got, want)
		}
		if p.Members() != members {
			t.Fatal("the membership changed with a record")
		}
		for j, c := range p.pending.roster {
			if c.now != r.Lookup(specs[j].ID) {
				t.Fatal("the roster is not what the registry knows")
			}
		}
	}
}

func TestViewExcludes(t *testing.T) {
	r, f, specs := fleet(6)
	p := r.Pool(Regular, "m")
	half := func(i int, seq uint64) {
		rec := readyAt(specs[i].ID, seq)
		rec.Breaker = HalfOpen
		r.Install(rec)
	}
	half(1, 2)
	half(4, 2)
	ids := func(is ...int) (out []ID) {
		for _, i := range is {
			out = append(out, specs[i].ID)
		}
		return out
	}
	look := func(skip []ID) string {
		t.Helper()
		var got []int
		_, err := p.Take(&Ask{Skip: skip, Now: at(0)}, func(v *View) int {
			if v.Len() != 6 || v.Slot(3) != 3 || v.Members().Len() != 6 || v.Signature() == 0 {
				t.Errorf("a view of %d", v.Len())
			}
			for k := range v.Candidates() {
				got = append(got, v.Candidate(k))
			}
			for i := range v.Len() {
				if v.Admits(i) != slices.Contains(got, i) {
					t.Errorf("index %d: admitted %v, candidates %v", i, v.Admits(i), got)
				}
			}
			return -1
		})
		if !errors.Is(err, ErrDeclined) {
			return err.Error()
		}
		return fmt.Sprint(got)
	}
	check := func(name, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	check("others treat half open as open", look(nil), "[0 2 3 5]")
	p.SetFirst(true)
	check("the first-ranked replica picks them", look(nil), "[0 1 2 3 4 5]")
	check("tried workers are avoided", look(ids(5, 0, 5, 1)), "[2 3 4]")
	check("unknown ones are nothing", look([]ID{{1}}), "[0 1 2 3 4 5]")
	check("all tried: again", look(ids(0, 1, 2, 3, 4, 5)), "[0 1 2 3 4 5]")
	for i := range uint64(3) {
		f.Grant(Lease{ID: LeaseID{Incarnation: 1, Plan: i}, Worker: specs[4].ID, Probe: true}, f.Load(specs[4].ID), at(0))
	}
	check("a half-open worker admits three probes", look(nil), "[0 1 2 3 5]")
	check("and is not tried again for want of others", look(ids(0, 1, 2, 3, 5)), "[0 1 2 3 5]")
	for _, i := range []int{0, 2, 3, 5, 1} {
		rec := readyAt(specs[i].ID, 3)
		rec.Status = Draining
		r.Install(rec)
	}
	if _, err := p.Take(&Ask{Now: at(0)}, nil); !errors.Is(err, ErrUnavailable) {
		t.Errorf("nothing but a full half-open worker: %v", err)
	}
	f.Tick(at(3*time.Second), false)
	got, err := p.Take(&Ask{Lease: LeaseID{Incarnation: 2, Plan: 9}, Tokens: 3, Now: at(3 * time.Second)}, func(v *View) int { return v.Candidate(0) })
	if err != nil || !got.Probe || got.Worker.Spec != specs[4] {
		t.Fatalf("took %+v, %v", got, err)
	}
	wantCounts(t, f.Load(specs[4].ID), counts{1, 1, 3})
}

// TestRegistryConcurrent is for the race detector: everything at the same time.
func TestRegistryConcurrent(t *testing.T) {
	r, f, specs := fleet(8)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 300 {
				p := r.Pool(Regular, "m")
				id := LeaseID{Incarnation: uint64(g + 1), Plan: uint64(i)}
				if p == nil {
					continue
				}
				p.SetFirst(i%2 == 0)
				_, _ = p.Take(&Ask{Lease: id, Skip: []ID{specs[i%8].ID}, Now: at(0)}, func(v *View) int { return v.Candidate(i % v.Candidates()) })
			}
		})
	}
	wg.Go(func() {
		for i := range 300 {
			rec := readyAt(specs[i%8].ID, uint64(i+2))
			rec.Breaker = Breaker(i % 3)
			r.Install(rec)
		}
	})
	wg.Go(func() {
		for i := range 300 {
			r.Put(specAt(i%8, "m"))
			if i%50 == 0 {
				r.Remove(specs[i%8].ID)
			}
			for p := range r.Pools {
				_ = p.Members().Index(specs[0].ID)
			}
		}
	})
	wg.Go(func() {
		for i := range 300 {
			f.Tick(at(time.Duration(i)*20*ms), false)
			f.Complete()
			r.Workers()
		}
	})
	wg.Wait()
	f.Tick(at(time.Hour), false)
	for _, w := range r.Workers() {
		wantCounts(t, w.Load, counts{})
	}
}

func BenchmarkPoolTake(b *testing.B) {
	for _, n := range []int{4, 256, 10_000} {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			r, _, _ := fleet(n)
			plan := uint64(0)
			ask := Ask{Tokens: 100, Now: at(0)}
			b.ReportAllocs()
			for b.Loop() {
				plan++
				ask.Lease = LeaseID{Incarnation: 7, Plan: plan % 1024}
				_, _ = r.Pool(Regular, "m").Take(&ask, func(v *View) int { return v.Candidate(int(plan) % v.Candidates()) })
			}
		})
	}
}

// BenchmarkRegistryStart is a fleet that registers and turns ready one by one.
func BenchmarkRegistryStart(b *testing.B) {
	const n = 10_000
	b.Run("put", func(b *testing.B) {
		for b.Loop() {
			r := NewRegistry(NewFold(), 3)
			for i := range n {
				r.Put(specAt(i, "m"))
			}
		}
	})
	b.Run("install", func(b *testing.B) {
		specs := make([]*Spec, n)
		for i := range specs {
			specs[i] = specAt(i, "m")
		}
		for b.Loop() {
			r := NewRegistry(NewFold(), 3)
			r.Put(specs...)
			for _, s := range specs {
				r.Install(readyAt(s.ID, 1))
			}
		}
	})
}

func TestRecordsOfALeg(t *testing.T) {
	r := NewRegistry(NewFold(), 0)
	a, b, c := IDOf("http://a"), IDOf("http://b"), IDOf("http://c")
	r.Put(&Spec{ID: a, URL: "http://a"}, &Spec{ID: b, URL: "http://b"}, &Spec{ID: c, URL: "http://c", Leg: Decode})
	kept := Record{Worker: a, Term: 1, Keeper: 7, Seq: 2, Status: Ready}
	r.InstallAll([]Record{
		kept,
		{Worker: b, Seq: 1, Status: Ready}, // by no keeper
		{Worker: c, Term: 1, Keeper: 7, Seq: 2},
		{Worker: IDOf("http://d"), Term: 1, Keeper: 7, Seq: 2}, // nobody is registered
	})
	if d := cmp.Diff([]Record{kept}, r.Records(Regular)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestRecordFollows(t *testing.T) {
	held := Record{Term: 3, Keeper: 7, Seq: 5}
	for _, tt := range []struct {
		name string
		rec  Record
		want bool
	}{
		{"the next", Record{Term: 3, Keeper: 7, Seq: 6}, true},
		{"the same again", held, true},
		{"a late one", Record{Term: 3, Keeper: 7, Seq: 2}, true},
		{"one was missed", Record{Term: 3, Keeper: 7, Seq: 7}, false},
		{"another keeper", Record{Term: 4, Keeper: 8, Seq: 9}, true},
		{"another term", Record{Term: 4, Keeper: 7, Seq: 9}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.rec.Follows(held); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
