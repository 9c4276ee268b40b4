package policy_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"smg/policy"
	"smg/policy/policytest"
	"smg/worker"
)

func rotates(t *testing.T) {
	wantPicks(t, newPolicy(t, policy.RoundRobin), policytest.NewFleet(t, 3), 0, 1, 2, 0, 1)
}

func rotatesAroundDown(t *testing.T) {
	f := policytest.NewFleet(t, 3)
	f.Down(1)
	wantPicks(t, newPolicy(t, policy.RoundRobin), f, 0, 2, 0, 2)
}

func rotatesNoneAndOne(t *testing.T) {
	f, p := policytest.NewFleet(t, 1), newPolicy(t, policy.RoundRobin)
	wantPicks(t, p, f, 0, 0, 0)
	f.Down(0)
	wantNobody(t, p, f, plain(f), worker.ErrUnavailable)
}

func rotatesTwoSets(t *testing.T) {
	f, p := policytest.NewFleet(t, 8), newPolicy(t, policy.RoundRobin)
	got := make([]int, 8)
	for range 40 {
		for _, upper := range []bool{false, true} {
			if upper {
				f.Down(0, 1, 2, 3)
				f.Up(4, 5, 6, 7)
			} else {
				f.Down(4, 5, 6, 7)
				f.Up(0, 1, 2, 3)
			}
			got[pick(t, p, f, plain(f))]++
		}
	}
	if diff := cmp.Diff([]int{10, 10, 10, 10, 10, 10, 10, 10}, got); diff != "" {
		t.Errorf("picks per worker (-want +got):\n%s", diff)
	}
}

func rotationContinues(t *testing.T) {
	f, p := policytest.NewFleet(t, 3), newPolicy(t, policy.RoundRobin)
	wantPicks(t, p, f, 0)
	f.Down(1)
	wantPicks(t, p, f, 2, 0)
	f.Up(1)
	wantPicks(t, p, f, 1, 2)
}

// rotationsAreBounded walks through more sets than are remembered. The sets are
// the subsets of 13 workers; the hot one is all of them.
func rotationsAreBounded(t *testing.T) {
	const workers, kept = 13, 4096
	f, p := policytest.NewFleet(t, workers), newPolicy(t, policy.RoundRobin)
	gray := func(i int) int { return i ^ i>>1 } // neighbours differ in one worker
	now := 1<<workers - 1
	show := func(set int) {
		for i := range workers {
			switch bit := 1 << i; {
			case set&bit != 0 && now&bit == 0:
				f.Up(i)
			case set&bit == 0 && now&bit != 0:
				f.Down(i)
			}
		}
		now = set
	}
	hot := func() int { show(1<<workers - 1); return pick(t, p, f, plain(f)) }

	wantHot := 0
	next := func() {
		t.Helper()
		if got := hot(); got != wantHot%workers {
			t.Fatalf("pick %d of the hot set: worker %d, want %d", wantHot, got, wantHot%workers)
		}
		wantHot++
	}
	next()
	for i := 1; i < kept; i++ {
		show(gray(i))
		pick(t, p, f, plain(f))
		if i%512 == 0 {
			next()
		}
	}
	if got := policy.Rotations(p); got != kept {
		t.Fatalf("%d sets remembered, want %d", got, kept)
	}
	next()

	// One set more drives out the oldest, gray(1), and nobody else.
	show(gray(kept))
	pick(t, p, f, plain(f))
	if got := policy.Rotations(p); got != kept {
		t.Fatalf("%d sets remembered, want %d", got, kept)
	}
	next()
	show(gray(1))
	if policy.RemembersSet(p, signature(t, f)) {
		t.Error("the oldest set is still remembered")
	}
	show(gray(2)) // two workers; it began at its number, 2, and stands at 3
	if got := pick(t, p, f, plain(f)); got != 1 {
		t.Errorf("the second oldest set was forgotten: worker %d, want 1", got)
	}
	next()
}

// signature identifies the available workers of f.
func signature(t *testing.T, f *policytest.Fleet) uint64 {
	t.Helper()
	var s uint64
	ask := f.Ask()
	_, err := f.Pool().Take(&ask, func(v *worker.View) int { s = v.Signature(); return -1 })
	if !errors.Is(err, worker.ErrDeclined) {
		t.Fatalf("looking at the pool: %v", err)
	}
	return s
}

func rotationReset(t *testing.T) {
	f := policytest.NewFleet(t, 3)
	wantPicks(t, newPolicy(t, policy.RoundRobin), f, 0, 1)
	wantPicks(t, newPolicy(t, policy.RoundRobin), f, 0, 1)
}

func rotatesExactly(t *testing.T) {
	f, p := policytest.NewFleet(t, 4), newPolicy(t, policy.RoundRobin)
	pool := f.Pool()
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			for range 100 {
				if _, err := p.Pick(plain(f), pool); err != nil {
					t.Errorf("pick: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if diff := cmp.Diff([]int{2500, 2500, 2500, 2500}, f.Active()); diff != "" {
		t.Errorf("picks per worker (-want +got):\n%s", diff)
	}
}

// TestRoundRobinPassesOverTried shows a retry inside a rotation: the worker that
// was passed over has had its turn, nobody comes twice in a row.
func TestRoundRobinPassesOverTried(t *testing.T) {
	f, p := policytest.NewFleet(t, 3), newPolicy(t, policy.RoundRobin)
	wantPicks(t, p, f, 0)
	if got := pick(t, p, f, plain(f, 1)); got != 2 {
		t.Errorf("worker 1 tried: got %d, want 2", got)
	}
	wantPicks(t, p, f, 0, 1, 2)
}

// TestRoundRobinKeepsPoolsApart shows that pools of the same workers share one
// rotation, and pools of others do not.
func TestRoundRobinKeepsPoolsApart(t *testing.T) {
	f, p := policytest.NewFleet(t, 2), newPolicy(t, policy.RoundRobin)
	other := policytest.NewFleet(t, 3)
	wantPicks(t, p, f, 0)
	wantPicks(t, p, other, 1) // a new set starts where the last but one left off
	d, err := p.Pick(plain(f), f.Registry.Pool(worker.Regular, ""))
	if err != nil || f.Index(d.Worker) != 1 {
		t.Errorf("the pool without a model: worker %d, error %v, want 1", f.Index(d.Worker), err)
	}
	wantPicks(t, p, f, 0)
	wantPicks(t, p, other, 2)
}
