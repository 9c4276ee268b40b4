package study

import (
	"smg/policy"
	"smg/worker"
)

// Built is how a contender makes the policy of cfg: with everything that a selector
// puts around it.
func Built(cfg policy.Config) func(*Fleet, policy.Deps) (policy.Policy, error) {
	return func(_ *Fleet, deps policy.Deps) (policy.Policy, error) {
		book, err := policy.NewBook(cfg, deps)
		if err != nil {
			return nil, err
		}
		return booked{book}, nil
	}
}

// booked is a book as the policy of a model without labels.
type booked struct{ *policy.Book }

var (
	_ policy.Policy = booked{}
	_ policy.Undoer = booked{}
	_ policy.Ticker = booked{}
)

// Pick implements [policy.Policy].
func (b booked) Pick(req *policy.Request, pool *worker.Pool) (policy.Decision, error) {
	_, p := b.For(pool.Model())
	return p.Pick(req, pool)
}
