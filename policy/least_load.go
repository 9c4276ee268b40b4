package policy

import (
	"context"
	"log/slog"
	"slices"

	"smg/worker"
)

// leastLoad takes the worker with the lowest expected wait of all.
type leastLoad struct {
	wait
	cap    int64 // requests that may wait at a worker that reports, 0 for no cap
	intN   func(n int) int
	logger *slog.Logger
}

var (
	_ Policy     = (*leastLoad)(nil)
	_ LoadReader = (*leastLoad)(nil)
)

func newLeastLoad(cfg LeastLoadConfig, deps Deps) *leastLoad {
	return &leastLoad{wait: newWait(cfg), cap: cfg.MaxWaiting, intN: deps.IntN, logger: deps.Logger}
}

// Pick implements [Policy].
func (p *leastLoad) Pick(req *Request, pool *worker.Pool) (Decision, error) {
	var d Decision
	var err error
	s := scored{seen: req.Seen}
	ask := req.ask(p.mean)
	d.Taken, err = pool.Take(&ask, func(v *worker.View) int {
		group := v.All()
		if p.cap > 0 {
			group = slices.DeleteFunc(group, func(i int32) bool { return p.full(v, int(i)) })
		}
		if len(group) == 0 {
			return -1
		}
		return s.shortest(&p.wait, v, group, p.intN)
	})
	s.log(p.logger, LeastLoad, &d, pool)
	return d, err
}

// full says whether a worker that reports has as many requests waiting, with those
// sent to it since, as the cap allows.
func (p *leastLoad) full(v *worker.View, i int) bool {
	r := v.Report(i)
	return r != nil && r.Waiting+v.Load(i).Sent() >= p.cap
}

// scored is what is logged of a choice by score, and where what was compared is
// noted, if anywhere.
type scored struct {
	seen       *Shortlist
	score      float64
	inFlight   int // before the choice
	candidates int
}

// shortest is [wait.shortest], remembering what it saw.
func (s *scored) shortest(w *wait, v *worker.View, group []int32, intN func(int) int) int {
	s.seen.begin()
	index, score := w.shortest(v, group, s.seen, intN)
	s.seen.end(v, len(group), score)
	s.score, s.inFlight, s.candidates = score, v.Load(index).Active(), len(group)
	return index
}

// log writes the line of a decision.
func (s *scored) log(logger *slog.Logger, policy string, d *Decision, pool *worker.Pool) {
	if logger.Enabled(context.Background(), slog.LevelDebug) {
		logger.Debug("load selection", "policy", policy, "worker", d.url(), "model_id", pool.Model(),
			"score", s.score, "in_flight", s.inFlight, "candidates", s.candidates)
	}
}
