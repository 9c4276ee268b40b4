package policy

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"smg/policy/kvindex"
	"smg/policy/radix"
	"smg/worker"
)

// Branches of cache_aware. The first four are counted, those of the tree; the others
// are logged.
const (
	treeMatch            = "tree_match"
	spill                = "spill"
	expectedWaitFallback = "expected_wait_fallback"
	firstHealthyFallback = "first_healthy_fallback" // nobody was chosen
	pressedFallback      = "kv_pressure_expected_wait"
	eventHit             = "event_hit"
	eventSpill           = "event_spill"
	hashHit              = "hash_hit"
	hashSpill            = "hash_spill"
	shortRequest         = "short_request"
)

// cacheAware sends a prompt to a worker that is likely to have its beginning in the
// KV cache: one that was sent a prompt like it, or whose engine says so. Without such
// a worker, or if all of them are far busier than the fleet, the expected wait
// decides. What it did is remembered, so that a spilled prompt spreads.
type cacheAware struct {
	affinity
	threshold  float32
	treeSize   int64
	hashed     bool
	ttl        time.Duration
	bounds     kvindex.Bounds
	interval   time.Duration
	boundaries []int
	metrics    *cacheMetrics
	logger     *slog.Logger
	walks      sync.Pool // of *walk
	undo       receipts

	mu     sync.RWMutex
	models map[string]*cacheModel
	due    time.Time // of the next sweep

	pruneDue time.Time // of the next pruning of events
}

var (
	_ Policy    = (*cacheAware)(nil)
	_ Reader    = (*cacheAware)(nil)
	_ Forgetter = (*cacheAware)(nil)
	_ Undoer    = (*cacheAware)(nil)
	_ Ticker    = (*cacheAware)(nil)
	_ Ender     = (*cacheAware)(nil)

	_ LoadReader  = (*cacheAware)(nil)
	_ EventReader = (*cacheAware)(nil)
)

func newCacheAware(cfg Config, deps Deps) (*cacheAware, error) {
	m, err := newCacheMetrics(deps.Registerer)
	if err != nil {
		return nil, err
	}
	c := &cfg.CacheAware
	return &cacheAware{
		affinity: newAffinity(c, deps.IntN), threshold: float32(c.Threshold), treeSize: c.MaxTreeSize,
		hashed: c.Index == HashIndex, ttl: c.TTL, bounds: kvindex.Bounds{TTL: c.KVTTL, MaxBlocks: int(c.KVMaxBlocks)}, interval: c.EvictionInterval, boundaries: cfg.Boundaries,
		metrics: m, logger: deps.Logger, models: map[string]*cacheModel{},
		walks: sync.Pool{New: func() any { return new(walk) }},
	}, nil
}

// Reads implements [Reader].
func (p *cacheAware) Reads() Inputs { return ReadsTokens | ReadsText | NeedsText }

// ReadsLoads implements [LoadReader].
func (p *cacheAware) ReadsLoads() bool { return true }

// Events implements [EventReader]. While the index is empty, the tree decides.
func (p *cacheAware) Events(model string) *kvindex.Index {
	if p.hashed {
		return nil
	}
	return p.model(model).events
}

// Pick implements [Policy]. It matches, then takes, then notes what was taken.
func (p *cacheAware) Pick(req *Request, pool *worker.Pool) (Decision, error) {
	w := p.walks.Get().(*walk)
	defer p.release(w)
	w.begin(req, pool, p.model(pool.Model()))
	var err error
	switch {
	case p.hashed:
		err = p.pickByHead(w)
	case len(req.TokenIDs) > 0 && w.model.events.Len() > 0:
		err = p.pickByEvents(w)
	default:
		err = p.pickByTree(w)
	}
	if p.logger.Enabled(context.Background(), slog.LevelDebug) {
		p.log(w)
	}
	return w.decision, err
}

// walk is the memory of one decision, used again and again.
type walk struct {
	req      *Request
	pool     *worker.Pool
	model    *cacheModel
	ask      worker.Ask
	decision Decision
	scored   scored

	place   radix.Place
	holders holders
	scores  []kvindex.Score
	hasher  headOf
	heads   []placement // that the prompt reaches, shortest first
	level   int         // boundary that matched, 0 for none
	pressed bool
	hit     bool
	ratio   float32
}

func (w *walk) begin(req *Request, pool *worker.Pool, m *cacheModel) {
	w.req, w.pool, w.model = req, pool, m
	w.ask = req.ask(meanTokens)
	w.decision, w.scored = Decision{}, scored{seen: req.Seen}
	w.heads, w.level, w.pressed, w.hit, w.ratio = w.heads[:0], 0, false, false, 0
	w.holders.reset()
}

func (p *cacheAware) release(w *walk) {
	w.place.Release()
	w.req, w.pool, w.model, w.decision, w.scored, w.hasher = nil, nil, nil, Decision{}, scored{}, headOf{}
	w.ask.Skip = nil
	p.walks.Put(w)
}

// take runs a choice. Under pressure affinity does not count, whatever is known.
func (p *cacheAware) take(w *walk, choose func(v *worker.View) int) (err error) {
	w.decision.Taken, err = w.pool.Take(&w.ask, func(v *worker.View) int {
		w.holders.reset()
		if w.pressed = p.affinity.pressed(v); w.pressed {
			return p.shortest(v, &w.scored)
		}
		return choose(v)
	})
	return err
}

// pickByTree decides by the prompts that were sent before.
func (p *cacheAware) pickByTree(w *walk) error {
	units := w.match(p.treeSize)
	if w.place.Input > 0 {
		w.ratio = float32(w.place.Matched) / float32(w.place.Input)
	}
	w.hit = w.ratio > p.threshold
	blocks := max(1, float64(units/int(p.blockSize)))
	held := false
	err := p.take(w, func(v *worker.View) int {
		if !w.hit {
			return p.shortest(v, &w.scored)
		}
		for _, t := range w.place.Holders {
			w.holders.add(v, t.ID(), 1)
		}
		return p.choose(v, &w.holders, blocks, &w.scored)
	})
	if err == nil {
		held = w.held()
	}
	if held {
		w.decision.Matched = w.tokens(w.place.Matched)
	}
	switch {
	case err != nil:
		w.decision.Branch = firstHealthyFallback
	case w.pressed:
		w.decision.Branch = pressedFallback
	case !w.hit:
		w.decision.Branch = expectedWaitFallback
	case held:
		w.decision.Branch = treeMatch
	default:
		w.decision.Branch = spill
	}
	if !w.pressed {
		p.metrics.branches.add(w.decision.Branch)
		p.metrics.ratio.Observe(float64(w.place.Matched) / float64(max(1, w.place.Input)))
	}
	if err == nil {
		p.undo.keep(w.ask.Lease, w.model, w.insert())
	}
	return err
}

// tokens is how many tokens of the prompt n units of its tree are, rounded down.
func (w *walk) tokens(n int) int64 {
	if len(w.req.TokenIDs) > 0 {
		return int64(n)
	}
	return int64(n) / charsPerToken
}

// held says whether the worker that was taken is one of the matched holders.
func (w *walk) held() bool {
	for _, t := range w.place.Holders {
		if worker.ID(t.ID()) == w.decision.Worker.Spec.ID {
			return true
		}
	}
	return false
}

// pickByEvents decides by what the engines say they hold. Selections are not noted:
// the engines will say what came of them.
func (p *cacheAware) pickByEvents(w *walk) error {
	w.scores = w.model.events.Match(w.req.TokenIDs, w.ask.Now, w.scores[:0])
	w.hit = len(w.scores) > 0
	blocks := 1.0
	for _, s := range w.scores {
		blocks = max(blocks, float64(len(w.req.TokenIDs)/s.BlockSize))
	}
	err := p.take(w, func(v *worker.View) int {
		for _, s := range w.scores {
			w.holders.add(v, s.Worker, float64(s.Blocks))
		}
		w.holders.merge()
		w.hit = len(w.holders.index) > 0
		return p.choose(v, &w.holders, blocks, &w.scored)
	})
	if err == nil {
		for _, s := range w.scores {
			if s.Worker == w.decision.Worker.Spec.ID {
				w.decision.Matched = max(w.decision.Matched, int64(s.Blocks)*int64(s.BlockSize))
			}
		}
	}
	switch {
	case err != nil:
		w.decision.Branch = firstHealthyFallback
	case w.pressed:
		w.decision.Branch = pressedFallback
		p.undo.keep(w.ask.Lease, w.model, w.matchAndInsert(p.treeSize))
	case !w.hit:
		w.decision.Branch = expectedWaitFallback
	default:
		w.decision.Branch = eventSpill
		for _, s := range w.scores {
			if s.Worker == w.decision.Worker.Spec.ID {
				w.decision.Branch = eventHit
			}
		}
	}
	return err
}

// pickByHead decides by where prompts with the same head were sent lately.
func (p *cacheAware) pickByHead(w *walk) error {
	w.hasher = headOf{tokens: w.req.TokenIDs}
	for _, b := range p.boundaries {
		if b > len(w.req.TokenIDs) {
			break
		}
		w.heads = append(w.heads, placement{w.hasher.tokensTo(b) ^ w.req.Namespace, b})
	}
	wait := func(v *worker.View) int { return p.shortest(v, &w.scored) }
	if len(w.heads) == 0 { // nothing that could be noted either
		var err error
		w.decision.Taken, err = w.pool.Take(&w.ask, wait)
		w.decision.Branch = expectedWaitFallback
		if len(w.req.TokenIDs) > 0 {
			w.decision.Branch = shortRequest
		}
		return err
	}
	var known []worker.ID
	err := p.take(w, func(v *worker.View) int {
		for i := len(w.heads) - 1; i >= 0 && len(w.holders.index) == 0; i-- {
			w.model.placements.live(w.heads[i], v, w.ask.Now, &w.holders)
			w.level = w.heads[i].boundary
		}
		if w.hit = len(w.holders.index) > 0; !w.hit {
			w.level = 0
			return wait(v)
		}
		for _, i := range w.holders.index {
			known = append(known, v.Worker(int(i)).Spec.ID)
		}
		return p.coolest(v, w.holders.index, &w.scored)
	})
	if err != nil {
		return err
	}
	id := w.decision.Worker.Spec.ID
	switch {
	case w.pressed:
		w.decision.Branch = pressedFallback
	case !w.hit:
		w.decision.Branch = expectedWaitFallback
	default:
		w.decision.Branch = hashSpill
		for _, k := range known {
			if k == id {
				w.decision.Branch, w.decision.Matched = hashHit, int64(w.level)
			}
		}
	}
	added := w.model.placements.record(w.heads, id, w.ask.Now)
	p.undo.keep(w.ask.Lease, w.model, receipt{heads: added, worker: id, at: w.ask.Now})
	return nil
}

// log writes the line of a decision.
func (p *cacheAware) log(w *walk) {
	attrs := []any{
		"policy", CacheAware, "branch", w.decision.Branch, "worker", w.decision.url(), "model_id", w.pool.Model(),
		"score", w.scored.score, "in_flight", w.scored.inFlight,
	}
	switch w.decision.Branch {
	case pressedFallback:
	case eventHit, eventSpill:
		attrs = append(attrs, "index", "event")
	default:
		switch {
		case p.hashed:
			attrs = append(attrs, "index", HashIndex, "level", w.level)
		case len(w.req.TokenIDs) > 0 && w.model.events.Len() > 0:
			attrs = append(attrs, "index", "event")
		default:
			attrs = append(attrs, "index", TreeIndex, "matched_ratio", w.ratio, "threshold", p.threshold)
		}
	}
	p.logger.Debug("cache-aware selection", attrs...)
}
