package worker

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// bounded is a registry of n ready workers of model "m", each of which gets most
// sequences.
func bounded(n, most int) (*Registry, *Fold, []*Spec) {
	f := NewFold()
	r := NewRegistry(f, 3)
	r.Bound(most)
	specs := make([]*Spec, n)
	for i := range specs {
		specs[i] = specAt(i, "m")
		r.Put(specs[i])
		r.Install(readyAt(specs[i].ID, 1))
	}
	return r, f, specs
}

// reports has a worker say how much it runs at a time; negative is no report.
func reports(r *Registry, s *Spec, seq uint64, running int64) {
	rec := readyAt(s.ID, seq)
	if running >= 0 {
		rec.Report = &Report{PolledAt: at(time.Duration(seq)), GoodFor: time.Second, MaxRunning: running}
	}
	r.Install(rec)
}

// taker takes the first candidate for a call of so many sequences, and tells whose
// index it has, or why there is none.
func taker(r *Registry, plan uint64, units int, skip ...ID) string {
	t, err := r.Pool(Regular, "m").Take(&Ask{Lease: LeaseID{Incarnation: 7, Plan: plan}, Units: units, Skip: skip, Now: at(0)},
		func(v *View) int { return v.Candidate(0) })
	switch {
	case errors.Is(err, ErrFull):
		return "full"
	case err != nil:
		return err.Error()
	}
	return fmt.Sprint(r.Pool(Regular, "m").Members().Index(t.Worker.Spec.ID))
}

func TestBound(t *testing.T) {
	s := &testStream{ingress: "i", incarnation: 7}
	for _, tt := range []struct {
		name string
		most int
		do   func(r *Registry, f *Fold, specs []*Spec) []string
		want []string
	}{
		{"one after the other is filled", 2, func(r *Registry, _ *Fold, _ []*Spec) (got []string) {
			for plan := range uint64(5) {
				got = append(got, taker(r, plan+1, 0))
			}
			return got
		}, []string{"0", "0", "1", "1", "full"}},
		{"sequences count", 4, func(r *Registry, _ *Fold, _ []*Spec) []string {
			return []string{taker(r, 1, 3), taker(r, 2, 2), taker(r, 3, 1), taker(r, 4, 3), taker(r, 5, 2)}
		}, []string{"0", "1", "0", "full", "1"}},
		{"a worker that has nothing gets any call", 2, func(r *Registry, _ *Fold, _ []*Spec) []string {
			return []string{taker(r, 1, 9), taker(r, 2, 9), taker(r, 3, 1)}
		}, []string{"0", "1", "full"}},
		{"an end makes room", 1, func(r *Registry, f *Fold, specs []*Spec) []string {
			got := []string{taker(r, 1, 0), taker(r, 2, 0), taker(r, 3, 0)}
			f.Apply(s.batch(s.start(2, specs[1].ID, 0), s.end(2, Success, false)), at(0), nil)
			return append(got, taker(r, 3, 0))
		}, []string{"0", "1", "full", "1"}},
		{"calls of others count", 1, func(r *Registry, f *Fold, specs []*Spec) []string {
			f.Apply(s.batch(s.start(1, specs[0].ID, 0)), at(0), nil)
			return []string{taker(r, 2, 0), taker(r, 3, 0)}
		}, []string{"1", "full"}},
		{"a second ask for a lease replaces the first", 1, func(r *Registry, _ *Fold, _ []*Spec) []string {
			return []string{taker(r, 1, 0), taker(r, 1, 0), taker(r, 2, 0), taker(r, 3, 0)}
		}, []string{"0", "1", "0", "full"}},
		{"what was reported", 0, func(r *Registry, _ *Fold, specs []*Spec) []string {
			reports(r, specs[0], 2, 1)
			reports(r, specs[1], 2, 2)
			return []string{taker(r, 1, 0), taker(r, 2, 0), taker(r, 3, 0), taker(r, 4, 0)}
		}, []string{"0", "1", "1", "full"}},
		{"nothing reported", 0, func(r *Registry, _ *Fold, _ []*Spec) []string {
			return []string{taker(r, 1, 0), taker(r, 2, 300)}
		}, []string{"0", "0"}},
		{"a poll that fails opens no door", 0, func(r *Registry, _ *Fold, specs []*Spec) []string {
			reports(r, specs[0], 2, 1)
			reports(r, specs[1], 2, 1)
			reports(r, specs[0], 3, -1)
			return []string{taker(r, 1, 0), taker(r, 2, 0), taker(r, 3, 0)}
		}, []string{"0", "1", "full"}},
		{"a poll that learns less opens no door", 0, func(r *Registry, _ *Fold, specs []*Spec) []string {
			reports(r, specs[0], 2, 1)
			reports(r, specs[1], 2, 1)
			reports(r, specs[0], 3, 0)
			return []string{taker(r, 1, 0), taker(r, 2, 0), taker(r, 3, 0)}
		}, []string{"0", "1", "full"}},
		{"another process that says nothing of it", 0, func(r *Registry, _ *Fold, specs []*Spec) []string {
			reports(r, specs[0], 2, 1)
			reports(r, specs[1], 2, 1)
			rec := readyAt(specs[0].ID, 3)
			rec.Epoch, rec.Report = 9, &Report{PolledAt: at(3), GoodFor: time.Second}
			r.Install(rec)
			return []string{taker(r, 1, 0), taker(r, 2, 0), taker(r, 3, 0), taker(r, 4, 0)}
		}, []string{"0", "0", "0", "0"}},
		{"one that was tried is no room", 1, func(r *Registry, _ *Fold, specs []*Spec) []string {
			return []string{taker(r, 1, 0, specs[0].ID), taker(r, 2, 0, specs[0].ID), taker(r, 3, 0)}
		}, []string{"1", "full", "0"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, f, specs := bounded(2, tt.most)
			s.seq = 0
			if got := tt.do(r, f, specs); !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	t.Run("a policy that wants one worker", func(t *testing.T) {
		r, _, _ := bounded(2, 1)
		only := func(i int) func(*View) int {
			return func(v *View) int {
				if v.Admits(i) {
					return i
				}
				return -1
			}
		}
		pool := r.Pool(Regular, "m")
		ask := func(plan uint64) *Ask { return &Ask{Lease: LeaseID{Incarnation: 7, Plan: plan}, Now: at(0)} }
		if _, err := pool.Take(ask(1), only(0)); err != nil {
			t.Fatal(err)
		}
		if _, err := pool.Take(ask(2), only(0)); !errors.Is(err, ErrFull) {
			t.Errorf("error %v, want %v", err, ErrFull)
		}
		if !pool.Room(1) {
			t.Error("there is no room, though a worker has nothing")
		}
		if _, err := pool.Take(ask(3), only(1)); err != nil || pool.Room(1) {
			t.Errorf("error %v, and room: %v", err, pool.Room(1))
		}
	})
	t.Run("an unbounded leg", func(t *testing.T) {
		r, _, specs := fleet(1)
		reports(r, specs[0], 2, 1)
		if got := []string{taker(r, 1, 5), taker(r, 2, 5)}; got[1] != "0" {
			t.Errorf("got %q", got)
		}
	})
}

// TestBoundHolds takes and ends calls at random, in pools that share workers: nobody
// ever has more than the bound, but for a call that alone is more, and nobody is
// refused while there is room.
func TestBoundHolds(t *testing.T) {
	const most = 4
	rng := rand.New(rand.NewPCG(1, 2))
	r, f, specs := bounded(3, most)
	s := &testStream{ingress: "i", incarnation: 7}
	var open []uint64
	granted := 0
	for plan := uint64(1); plan < 20_000; plan++ {
		if len(open) > 0 && rng.IntN(2) == 0 {
			i := rng.IntN(len(open))
			f.Apply(s.batch(s.end(open[i], Success, false)), at(0), nil)
			open = slices.Delete(open, i, i+1)
			continue
		}
		units := 1 + rng.IntN(6)
		model := []string{"m", ""}[rng.IntN(2)]
		room := slices.ContainsFunc(specs, func(s *Spec) bool { n := f.Load(s.ID).Rooms(); return n == 0 || n+units <= most })
		_, err := r.Pool(Regular, model).Take(&Ask{Lease: s.id(plan), Units: units, Now: at(0)},
			func(v *View) int { return v.Candidate(rng.IntN(v.Candidates())) })
		if (err == nil) != room {
			t.Fatalf("plan %d of %d sequences: error %v, though room is %v", plan, units, err, room)
		}
		if err == nil {
			open = append(open, plan)
			granted++
		}
		for _, s := range specs {
			if l := f.Load(s.ID); l.Rooms() > most && l.Active() > 1 {
				t.Fatalf("worker has %d sequences of %d calls", l.Rooms(), l.Active())
			}
		}
	}
	if granted < 1000 {
		t.Errorf("%d calls were granted", granted)
	}
}

// TestBoundIsFree: a fleet with room pays nothing for its bound.
func TestBoundIsFree(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	open, _, _ := fleet(3)
	shut, _, specs := bounded(3, 0)
	for _, s := range specs {
		reports(shut, s, 2, 8)
	}
	for name, r := range map[string]*Registry{"unbounded": open, "bounded": shut} {
		pool, ask := r.Pool(Regular, "m"), &Ask{Lease: LeaseID{Incarnation: 7, Plan: 1}, Now: at(0)}
		choose := func(v *View) int { return v.Candidate(0) }
		if n := testing.AllocsPerRun(100, func() {
			if _, err := pool.Take(ask, choose); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
