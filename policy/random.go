package policy

import "smg/worker"

// random gives every candidate the same chance, each time anew.
type random struct {
	intN func(n int) int
}

var _ Policy = (*random)(nil)

func newRandom(deps Deps) *random { return &random{intN: deps.IntN} }

// Pick implements [Policy].
func (p *random) Pick(req *Request, pool *worker.Pool) (Decision, error) {
	ask := req.ask(meanTokens)
	taken, err := pool.Take(&ask, func(v *worker.View) int { return uniform(v, p.intN) })
	return Decision{Taken: taken}, err
}

// uniform is the index of any candidate, each with the same chance.
func uniform(v *worker.View, intN func(int) int) int {
	return v.Candidate(intN(v.Candidates()))
}
