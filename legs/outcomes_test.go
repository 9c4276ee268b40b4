package legs

import (
	"testing"
	"time"

	"smg/worker"
)

// TestOutcomesAreCounted follows a worker's breaker by what is exported of it: what it was
// told, how it has turned, what is in a row, and how the worker was probed.
func TestOutcomesAreCounted(t *testing.T) {
	inTime(t, func(c *Config) {
		c.Keeper.Breaker = worker.BreakerConfig{FailureThreshold: 2, SuccessThreshold: 2, Timeout: 5 * time.Second, Window: time.Minute}
		c.Keeper.Health.Interval = time.Hour
	}, func(t *testing.T, s *site) {
		a := spec(1, "m")
		s.come(a)
		tell := func(o worker.Outcome, probe bool) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.outcome(s.keepers[a.ID], worker.Event{Worker: a.ID, Outcome: o, Probe: probe}, s.now())
			s.publish()
		}
		names := []string{"smg_worker_cb_outcomes", "smg_worker_cb_trans", "smg_worker_cb_consecutive", "smg_worker_health_checks"}
		s.shows(t, `
			worker_cb_consecutive_failures http://w1:8000 = 0
			worker_cb_consecutive_successes http://w1:8000 = 0
			worker_cb_outcomes_total failure http://w1:8000 = 0
			worker_cb_outcomes_total success http://w1:8000 = 0
			worker_health_checks_total success regular = 1
		`, names...)
		tell(worker.Success, false)
		tell(worker.Neutral, false)
		tell(worker.Failure, false)
		s.shows(t, `
			worker_cb_consecutive_failures http://w1:8000 = 1
			worker_cb_consecutive_successes http://w1:8000 = 0
			worker_cb_outcomes_total failure http://w1:8000 = 1
			worker_cb_outcomes_total success http://w1:8000 = 1
		`, names[:3]...)
		tell(worker.Failure, false)
		s.pass(6 * time.Second) // half open
		tell(worker.Success, true)
		s.shows(t, `
			worker_cb_consecutive_failures http://w1:8000 = 0
			worker_cb_consecutive_successes http://w1:8000 = 1
			worker_cb_outcomes_total failure http://w1:8000 = 2
			worker_cb_outcomes_total success http://w1:8000 = 2
			worker_cb_transitions_total closed open http://w1:8000 = 1
			worker_cb_transitions_total open half_open http://w1:8000 = 1
		`, names[:3]...)
		tell(worker.Failure, true)
		s.pass(6 * time.Second)
		tell(worker.Success, true)
		tell(worker.Success, true)
		all := `
			worker_cb_consecutive_failures http://w1:8000 = 0
			worker_cb_consecutive_successes http://w1:8000 = 0
			worker_cb_outcomes_total failure http://w1:8000 = 3
			worker_cb_outcomes_total success http://w1:8000 = 4
			worker_cb_transitions_total closed open http://w1:8000 = 1
			worker_cb_transitions_total half_open closed http://w1:8000 = 1
			worker_cb_transitions_total half_open open http://w1:8000 = 1
			worker_cb_transitions_total open half_open http://w1:8000 = 2
		`
		s.shows(t, all, names[:3]...)
		tell(worker.Failure, false)
		s.remove(a.ID) // what is in a row ends, what was counted stays for a while
		s.shows(t, `
			worker_cb_consecutive_failures http://w1:8000 = 0
			worker_cb_consecutive_successes http://w1:8000 = 0
			worker_cb_outcomes_total failure http://w1:8000 = 4
			worker_cb_outcomes_total success http://w1:8000 = 4
			worker_cb_transitions_total closed open http://w1:8000 = 1
			worker_cb_transitions_total half_open closed http://w1:8000 = 1
			worker_cb_transitions_total half_open open http://w1:8000 = 1
			worker_cb_transitions_total open half_open http://w1:8000 = 2
		`, names[:3]...)
		s.pass(goneFor + time.Minute)
		s.shows(t, "", names[:3]...)
	})
}

// TestOutcomesAreTheKeepers counts nothing where another replica keeps the worker, or two
// would show what happened once.
func TestOutcomesAreTheKeepers(t *testing.T) {
	inTime(t, func(c *Config) { c.Keeper.Breaker.FailureThreshold = 1 }, func(t *testing.T, s *site) {
		a := spec(1, "m")
		s.come(a)
		other := s.record(t, a)
		other.Term, other.Keeper = other.Term+1, 99
		s.ranking.Apply(worker.ReplicaBeat{Replica: 99, Ready: true}, time.Now())
		s.mu.Lock()
		k := s.keepers[a.ID]
		k.Hear(other)
		s.outcome(k, worker.Event{Worker: a.ID, Outcome: worker.Failure}, s.now())
		s.mu.Unlock()
		s.shows(t, `
			worker_cb_outcomes_total failure http://w1:8000 = 0
			worker_cb_outcomes_total success http://w1:8000 = 0
		`, "smg_worker_cb_outcomes", "smg_worker_cb_trans")
	})
}
