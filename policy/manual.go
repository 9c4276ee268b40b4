package policy

import (
	"context"
	"encoding/hex"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"smg/worker"
)

// Branches of manual and of sticky sessions, beside [noHealthyWorkers].
const (
	occupiedHit  = "occupied_hit"
	occupiedMiss = "occupied_miss"
	vacant       = "vacant"
	capRespill   = "cap_respill"
	noRoutingID  = "no_routing_id"
)

// manual keeps every key on the worker that it got first, for as long as that one is
// there. A second worker stands in while it is not.
type manual struct {
	pins    *pins
	place   placer
	counted pinCounters
	logger  *slog.Logger
}

var (
	_ Policy = (*manual)(nil)
	_ Reader = (*manual)(nil)
	_ Undoer = (*manual)(nil)
	_ Ticker = (*manual)(nil)
)

func newManual(cfg PinConfig, deps Deps) (*manual, error) {
	if deps.pins == nil {
		var err error
		if deps.pins, err = newPins(cfg, deps); err != nil {
			return nil, err
		}
	}
	counted, err := newPinCounters(deps.Registerer)
	if err != nil {
		return nil, err
	}
	return &manual{pins: deps.pins, place: placer{cfg.Assignment, deps.IntN}, counted: counted, logger: deps.Logger}, nil
}

// Reads implements [Reader]. With sticky sessions the key of the body is read too,
// which is up to the [Book].
func (p *manual) Reads() Inputs { return ReadsKey | ReadsPinnedKey }

// Undo implements [Undoer].
func (p *manual) Undo(lease worker.LeaseID) { p.pins.undo(lease) }

// Tick implements [Ticker].
func (p *manual) Tick(now time.Time) { p.pins.tick(now) }

// Pick implements [Policy].
func (p *manual) Pick(req *Request, pool *worker.Pool) (Decision, error) {
	var d Decision
	var err error
	ask, key := req.ask(meanTokens), keyOf(pool, req.Keys.Manual())
	d.Taken, err = pool.Take(&ask, func(v *worker.View) int {
		if key.None() {
			d.Branch = noRoutingID
			return p.place.in(v)
		}
		f := p.pins.find(key, &ask, v)
		if f.index >= 0 {
			d.Branch = occupiedHit
			return f.index
		}
		d.Branch = f.branch()
		i := p.place.in(v)
		id := v.Worker(i).Spec.ID
		p.pins.put(key, f.placed(id, few.behind), id, &ask)
		return i
	})
	if err != nil {
		d.Branch = noHealthyWorkers
	}
	p.counted.add(&req.Keys, key, d.Branch)
	logPin(p.logger, Manual, pool.Model(), &req.Keys, key, &d)
	return d, err
}

// placer chooses a worker for a key that has none.
type placer struct {
	mode string // one of [Assignments]
	intN func(n int) int
}

// in is the index of the chosen candidate of a view.
func (p *placer) in(v *worker.View) int {
	switch p.mode {
	case AssignRandom:
		return uniform(v, p.intN)
	case AssignMinGroup:
		return fewest(v.All(), func(i int) int { return v.Load(i).Keys() }, p.intN)
	default:
		return fewest(v.All(), func(i int) int { return v.Load(i).Active() }, p.intN)
	}
}

// keyOf is a key within a pool's model.
func keyOf(pool *worker.Pool, key worker.Key) worker.PinKey {
	return worker.PinKeyOf(pool.Model(), key)
}

// pinCounters counts the decisions of manual and of sticky sessions.
type pinCounters struct {
	branches    branchCounters
	rid, header prometheus.Counter
}

func newPinCounters(reg prometheus.Registerer) (c pinCounters, err error) {
	if c.branches, err = newBranchCounters(reg, Manual, occupiedHit, occupiedMiss, vacant, capRespill, noRoutingID, noHealthyWorkers); err != nil {
		return c, err
	}
	sources, err := register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "smg_routing_key_source_total",
		Help: "Selections by a key that is pinned, by where the key came from.",
	}, []string{"source"}))
	if err != nil {
		return c, err
	}
	c.rid, c.header = sources.WithLabelValues(sourceRID), sources.WithLabelValues(sourceHeader)
	return c, nil
}

func (c *pinCounters) add(keys *worker.Keys, key worker.PinKey, branch string) {
	c.branches.add(branch)
	switch {
	case key.None():
	case keys.RID.None():
		c.header.Inc()
	default:
		c.rid.Inc()
	}
}

// Where a key comes from.
const (
	sourceRID    = "rid"
	sourceHeader = "header"
)

// logPin writes the line of a decision. It shows a key as
// <length of the model>:<model>:<hash of the key>.
func logPin(logger *slog.Logger, policy, model string, keys *worker.Keys, key worker.PinKey, d *Decision) {
	if !logger.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	source, shown := sourceRID, fmt.Sprintf("%d:%s:%s", len(model), model, hex.EncodeToString(key.Sum[:]))
	switch {
	case key.None():
		source, shown = "none", "none"
	case keys.RID.None():
		source = sourceHeader
	}
	logger.Debug("sticky routing decision", "policy", policy, "source", source, "key", shown,
		"branch", d.Branch, "worker", d.url(), "model_id", model)
}
