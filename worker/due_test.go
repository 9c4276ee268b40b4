package worker

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestNothingIsDueBefore has things happen to a keeper at random: what it says is due
// later, or never, is nothing now, and what it says is due now is something.
func TestNothingIsDueBefore(t *testing.T) {
	const interval = 10 * time.Second
	for _, disabled := range []bool{false, true} {
		rnd := rand.New(rand.NewPCG(11, 12))
		cfg := DefaultKeeperConfig()
		cfg.Health.Disabled = disabled
		cfg.Breaker.FailureThreshold = 2
		id := IDOf("http://a")
		k, now, first := NewKeeper(id, 7, cfg), at(0), true
		due := func(t time.Time, ever bool) bool { return ever && !now.Before(t) }
		tested := map[string]int{}
		for step := range 20_000 {
			now = now.Add(time.Duration(rnd.IntN(3000)) * ms)
			switch rnd.IntN(9) {
			case 0:
				first = rnd.IntN(4) > 0
			case 1:
				k.Outcome(Event{Worker: id, Outcome: Failure}, now)
			case 2:
				k.Outcome(Event{Worker: id, Outcome: Success, Probe: true}, now)
			case 3:
				k.Hear(Record{Worker: id, Term: k.Record().Term + uint64(rnd.IntN(2)), Keeper: 8, Seq: 1, Status: Status(rnd.IntN(3))})
			case 4:
				k.Probe(k.Record().Epoch, rnd.IntN(4) > 0, now)
			case 5:
				k.Polled(k.Stay(), &Report{PolledAt: now, GoodFor: 3 * time.Second}, rnd.IntN(2) == 0, now)
			case 6:
				k.Polled(k.Stay(), nil, false, now)
			case 7:
				k.Replaced(now)
			}
			for name, try := range map[string]struct {
				due bool
				do  func(*Keeper) bool
			}{
				"tick": {due(k.TickAt(first)), func(k *Keeper) bool {
					was := k.active
					_, published := k.Tick(first, now)
					return published || k.active != was
				}},
				"probe": {due(k.ProbeAt()), func(k *Keeper) bool {
					_, ok := k.ProbeDue(now)
					return ok
				}},
				"poll": {due(k.PollAt(interval)), func(k *Keeper) bool {
					_, ok := k.PollDue(now, interval)
					return ok
				}},
			} {
				c := *k
				if did := try.do(&c); did != try.due {
					t.Fatalf("step %d at %s: a %s is due: %v, and did something: %v\n%+v", step, now.Sub(at(0)), name, try.due, did, *k)
				} else if did {
					tested[name]++
				} else if !same(&c, k) {
					t.Fatalf("step %d: a %s that is not due changed the keeper:\n%s", step, name, cmp.Diff(k.held, c.held))
				}
			}
			if rnd.IntN(2) == 0 {
				k.Tick(first, now)
				k.ProbeDue(now)
				k.PollDue(now, interval)
			}
		}
		if tested["tick"] == 0 || tested["poll"] == 0 || (tested["probe"] == 0) != disabled {
			t.Errorf("disabled %v: due were %v", disabled, tested)
		}
	}
}

// same compares what time can change of a keeper.
func same(a, b *Keeper) bool {
	return a.held == b.held && a.active == b.active && a.polls == b.polls && a.probeDue.Equal(b.probeDue) && a.published.Equal(b.published) && a.circuit.state == b.circuit.state
}

func TestRankingVersion(t *testing.T) {
	r := NewRanking()
	seen := map[uint64]bool{0: true}
	for _, tt := range []struct {
		name    string
		do      func()
		changes bool
	}{
		{"nobody yet", func() {}, true},
		{"one comes", func() { r.Apply(ReplicaBeat{Replica: 1, Ready: true}, at(0)) }, true},
		{"and says so again", func() { r.Apply(ReplicaBeat{Replica: 1, Ready: true}, at(time.Second)) }, false},
		{"nobody leaves", func() { r.Tick(at(2*time.Second), false) }, false},
		{"it falls silent", func() { r.Tick(at(time.Minute), false) }, true},
		{"it comes back", func() { r.Apply(ReplicaBeat{Replica: 1, Ready: true}, at(time.Minute)) }, true},
		{"it leaves", func() { r.Apply(ReplicaBeat{Replica: 1, Draining: true}, at(time.Minute)) }, true},
	} {
		tt.do()
		if v := r.Version(); seen[v] == tt.changes {
			t.Errorf("%s: version %d, seen before: %v", tt.name, v, seen[v])
		} else {
			seen[v] = true
		}
	}
}
