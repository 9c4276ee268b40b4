package policy

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"smg/worker"
)

// bucket gives each prefill worker a range of prompt sizes, and the least busy one
// whatever would make the busiest too busy. Only the prefill leg has ranges: on
// others the choice is left to chance, which is said at each request.
type bucket struct {
	cfg    BucketConfig
	intN   func(n int) int
	logger *slog.Logger

	mu     sync.Mutex
	models map[string]*ranges
	due    time.Time // when the boundaries are looked at next
}

var (
	_ Policy    = (*bucket)(nil)
	_ Reader    = (*bucket)(nil)
	_ Forgetter = (*bucket)(nil)
	_ Undoer    = (*bucket)(nil)
	_ Ticker    = (*bucket)(nil)
)

func newBucket(cfg BucketConfig, deps Deps) *bucket {
	return &bucket{cfg: cfg, intN: deps.IntN, logger: deps.Logger, models: map[string]*ranges{}}
}

// Reads implements [Reader].
func (p *bucket) Reads() Inputs { return ReadsSize | NeedsText }

// The rules by which bucket chooses, as its log shows them.
const (
	byRange      = "range"
	byBalance    = "least_busy" // the busiest is too busy
	byAbsence    = "absent"     // the range's worker cannot be had
	withoutRange = "no_buckets" // not on this leg
	byNobody     = "no_workers"
)

// Pick implements [Policy]. Choosing and noting the size are one step.
func (p *bucket) Pick(req *Request, pool *worker.Pool) (Decision, error) {
	var d Decision
	var err error
	rule := byNobody
	ask := req.ask(meanTokens)
	d.Taken, err = pool.Take(&ask, func(v *worker.View) int {
		if pool.Leg() != worker.Prefill {
			rule = withoutRange
			return uniform(v, p.intN)
		}
		var index int
		index, rule = p.choose(v, pool.Model(), &ask, req.Size())
		return index
	})
	if rule == withoutRange {
		p.logger.Warn("bucket has no buckets on this leg, a worker is chosen by chance: use it as --prefill-policy alone",
			"leg", pool.Leg().String(), "model_id", pool.Model())
	}
	if p.logger.Enabled(context.Background(), slog.LevelDebug) {
		p.logger.Debug("bucket selection", "policy", Bucket, "rule", rule, "size", req.Size(), "worker", d.url(), "model_id", pool.Model())
	}
	return d, err
}

func (p *bucket) choose(v *worker.View, model string, ask *worker.Ask, size int64) (index int, rule string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.models[model]
	if r == nil {
		r = &ranges{}
		p.models[model] = r
	}
	r.adopt(v.Members())
	r.expire(ask.Now.Add(-p.cfg.Interval))
	member, busiest := p.extremes(v, r)
	rule = byBalance
	if !p.cfg.Balance.exceeded(busiest, r.loads[member]) {
		rule = byAbsence
		owner := r.owner(size)
		if slot := v.Slot(owner); slot >= 0 && v.Admits(slot) {
			member, rule = owner, byRange
		}
	}
	r.add(sized{int32(member), ask.Lease, size, ask.Now})
	return v.Slot(member), rule
}

// extremes is the member with the least recent load, and the most that one has. Only
// candidates count: one that gets nothing would look idle for ever.
func (p *bucket) extremes(v *worker.View, r *ranges) (least int, most int64) {
	var best draw
	for member, load := range r.loads {
		if slot := v.Slot(member); slot >= 0 && v.Admits(slot) {
			best.offer(member, float64(load), p.intN)
			most = max(most, load)
		}
	}
	return best.index, most
}

// exceeded says whether the busiest is off by both margins.
func (b Balance) exceeded(busiest, least int64) bool {
	return busiest-least > b.Abs && float32(busiest) > float32(b.Rel)*float32(least)
}

// Tick implements [Ticker]: it looks at the boundaries once in each interval.
func (p *bucket) Tick(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.due.IsZero() {
		p.due = now.Add(p.cfg.Interval)
	}
	if now.Before(p.due) {
		return
	}
	p.due = now.Add(p.cfg.Interval)
	for model, r := range p.models {
		r.expire(now.Add(-p.cfg.Interval))
		if r.adjust() {
			p.logger.Info("bucket boundaries changed", "model_id", model, "upper_bounds", r.upper)
		}
	}
}

// Undo implements [Undoer]: the call brought no load.
func (p *bucket) Undo(lease worker.LeaseID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.models {
		r.remove(lease)
	}
}

// Forget implements [Forgetter].
func (p *bucket) Forget(id worker.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for model, r := range p.models {
		if r.only(id) {
			delete(p.models, model)
		}
	}
}
