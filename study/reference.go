package study

import (
	"math"
	"time"

	"smg/policy"
	"smg/worker"
)

// Greedy sends each request where its first token will come first. It sees inside
// the engines: what is cached, what is under way, how long every answer will be. No
// site can have that; it is what a policy is measured against. It knows nothing of
// what comes next.
func Greedy() Contender {
	return Contender{Name: greedyName, New: func(fleet *Fleet, deps policy.Deps) (policy.Policy, error) {
		return &least{deps.IntN, func(w *worker.Worker) time.Duration { return fleet.Forecast(w.Spec.ID) }}, nil
	}}
}

const greedyName = "greedy, clairvoyant"

// LeastRequests sends each request to the worker with the fewest in flight.
func LeastRequests() Contender {
	return Contender{Name: "fewest requests", New: func(_ *Fleet, deps policy.Deps) (policy.Policy, error) {
		return &least{deps.IntN, func(w *worker.Worker) time.Duration { return time.Duration(w.Load.Active()) }}, nil
	}}
}

// least is the policy of least cost; ties are broken by chance.
type least struct {
	intN func(n int) int
	cost func(*worker.Worker) time.Duration
}

var _ policy.Policy = (*least)(nil)

// Pick implements [policy.Policy].
func (p *least) Pick(req *policy.Request, pool *worker.Pool) (policy.Decision, error) {
	ask := req.Ask
	ask.Tokens = req.Tokens
	taken, err := pool.Take(&ask, p.choose)
	return policy.Decision{Taken: taken}, err
}

func (p *least) choose(v *worker.View) int {
	chosen, low, ties := -1, time.Duration(math.MaxInt64), 0
	for k := range v.Candidates() {
		i := v.Candidate(k)
		switch cost := p.cost(v.Worker(i)); {
		case chosen < 0 || cost < low:
			chosen, low, ties = i, cost, 1
		case cost == low:
			ties++
			if p.intN(ties) == 0 {
				chosen = i
			}
		}
	}
	return chosen
}
