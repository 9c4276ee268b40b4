package policy

import (
	"context"
	"log/slog"
	"slices"

	"github.com/zeebo/xxh3"

	"smg/policy/ring"
	"smg/worker"
)

// Branches of prefix_hash.
const (
	ringHit           = "ring_hit"
	loadBalanceWalk   = "load_balance_walk"
	fallbackLeastLoad = "fallback_least_load" // without a ring, which every pool has
	noRoutingKey      = "no_routing_key"
)

// prefixHash sends prompts that begin alike to the same worker, by a hash of their
// heads, and moves one off that worker only when it is clearly busier than the
// others.
type prefixHash struct {
	cfg        PrefixHashConfig
	boundaries []int // ascending
	rings      rings
	places     *places
	intN       func(n int) int
	counted    branchCounters
	logger     *slog.Logger
}

var (
	_ Policy = (*prefixHash)(nil)
	_ Reader = (*prefixHash)(nil)
)

func newPrefixHash(cfg Config, deps Deps) (*prefixHash, error) {
	counted, err := newBranchCounters(deps.Registerer, PrefixHash,
		ringHit, loadBalanceWalk, fallbackLeastLoad, noRoutingKey, noHealthyWorkers)
	if err != nil {
		return nil, err
	}
	return &prefixHash{cfg: cfg.PrefixHash, boundaries: cfg.Boundaries, places: newPlaces(), intN: deps.IntN, counted: counted, logger: deps.Logger}, nil
}

// Reads implements [Reader].
func (p *prefixHash) Reads() Inputs { return ReadsKey | ReadsTokens | ReadsText }

// Pick implements [Policy].
func (p *prefixHash) Pick(req *Request, pool *worker.Pool) (Decision, error) {
	var d Decision
	var err error
	var room [16]head
	level := 0
	ask, heads := req.ask(meanTokens), p.heads(req, room[:0])
	if len(heads) == 0 {
		d.Branch = noRoutingKey
		d.Taken, err = pool.Take(&ask, func(v *worker.View) int { return p.leastBusy(v, v.All()) })
	} else {
		d.Taken, err = p.rings.take(&ask, pool, func(circle *ring.Ring, v *worker.View) (index int) {
			index, d.Branch, level = p.choose(circle, v, heads)
			return index
		})
	}
	if err != nil {
		d.Branch = noHealthyWorkers
	}
	p.counted.add(d.Branch)
	if p.logger.Enabled(context.Background(), slog.LevelDebug) {
		p.logger.Debug("prefix-hash selection", "policy", PrefixHash, "branch", d.Branch, "level", level, "worker", d.url(), "model_id", pool.Model())
	}
	return d, err
}

// heads appends the request's heads, deepest first; none if there is nothing to
// hash. Boundaries that the prompt does not reach are passed over; one that reaches
// none has the head of the fixed depth.
func (p *prefixHash) heads(req *Request, heads []head) []head {
	if k := req.Keys.Header; !k.None() {
		return append(heads, head{position: p.places.of(k.Short)})
	}
	h := headOf{tokens: req.TokenIDs, text: req.Text}
	switch {
	case len(h.tokens) > 0:
		for _, b := range p.boundaries {
			if len(req.TokenIDs) >= b {
				heads = append(heads, head{p.places.of(h.tokensTo(b)), b})
			}
		}
		if len(heads) == 0 {
			heads = append(heads, head{position: p.places.of(h.tokensTo(min(p.cfg.TokenCount, len(h.tokens))))})
		}
	case h.text != "":
		for _, b := range p.boundaries {
			sum, whole := h.textTo(charsPerToken * b)
			if !whole {
				break
			}
			heads = append(heads, head{p.places.of(sum), b})
		}
		if len(heads) == 0 {
			end, _ := runes(req.Text, charsPerToken*p.cfg.TokenCount)
			heads = append(heads, head{position: p.places.of(xxh3.HashString(req.Text[:end]))})
		}
	}
	slices.Reverse(heads)
	return heads
}

// choose takes the owner of the deepest head that is not overloaded, else whoever
// has the fewest calls in flight and is not, else the deepest head's owner after all.
func (p *prefixHash) choose(circle *ring.Ring, v *worker.View, heads []head) (index int, branch string, level int) {
	t := loadTest{policy: p, v: v}
	for _, h := range heads {
		if index := owner(circle, h.position, v); index >= 0 && t.passes(index) {
			return index, ringHit, h.level
		}
	}
	if index := p.leastBusy(v, v.All()); t.passes(index) {
		return index, loadBalanceWalk, 0
	}
	return owner(circle, heads[0].position, v), loadBalanceWalk, heads[0].level
}

func (p *prefixHash) leastBusy(v *worker.View, group []int32) int {
	return fewest(group, func(i int) int { return v.Load(i).Active() }, p.intN)
}

// loadTest says which workers are not overloaded: those with no more calls in flight
// than the mean times the load factor, or the mean plus the absolute margin.
type loadTest struct {
	policy *prefixHash
	v      *worker.View
	total  int // calls in flight of all available workers
	summed bool
}

func (t *loadTest) passes(i int) bool {
	load, n := t.v.Load(i).Active(), float64(t.v.Len())
	// The worker's own calls are a part of the mean: mostly that decides, and nobody
	// else's need be read.
	if float64(load) <= (float64(load)+1)/n+float64(t.policy.cfg.BalanceAbs) {
		return true
	}
	if !t.summed {
		for i := range t.v.Len() {
			t.total += t.v.Load(i).Active()
		}
		t.summed = true
	}
	mean := (float64(t.total) + 1) / n
	return t.total == 0 || float64(load) <= max(mean*t.policy.cfg.LoadFactor, mean+float64(t.policy.cfg.BalanceAbs))
}
