package policy

import (
	"log/slog"
	"sync/atomic"

	"smg/worker"
)

// passthrough gives everything to the first candidate. It is meant for one worker;
// with more it says once that it does not balance, and goes on.
type passthrough struct {
	logger *slog.Logger
	warned *atomic.Bool
}

var _ Policy = (*passthrough)(nil)

func newPassthrough(deps Deps) *passthrough {
	return &passthrough{logger: deps.Logger, warned: deps.Warned}
}

// Pick implements [Policy].
func (p *passthrough) Pick(req *Request, pool *worker.Pool) (Decision, error) {
	if n := pool.Members().Len(); n > 1 && !p.warned.Load() && p.warned.CompareAndSwap(false, true) {
		p.logger.Warn("passthrough sends every request to the first available worker; choose another policy to use them all",
			"worker_count", n, "model_id", pool.Model())
	}
	ask := req.ask(meanTokens)
	taken, err := pool.Take(&ask, func(v *worker.View) int { return v.Candidate(0) })
	return Decision{Taken: taken}, err
}
