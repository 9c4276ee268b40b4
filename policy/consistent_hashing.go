package policy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"smg/policy/ring"
	"smg/worker"
)

// consistentHashing sends equal keys to the same worker: the first candidate
// clockwise from the key on the ring of all of the pool's registered workers, so
// that workers which cannot be chosen do not move the keys of the others.
type consistentHashing struct {
	rings   rings
	intN    func(n int) int
	counted *branchCounters
	logger  *slog.Logger
}

var (
	_ Policy = (*consistentHashing)(nil)
	_ Reader = (*consistentHashing)(nil)
)

func newConsistentHashing(deps Deps) (*consistentHashing, error) {
	m, err := newMetrics(deps.Registerer)
	if err != nil {
		return nil, fmt.Errorf("making %s: %w", ConsistentHashing, err)
	}
	return &consistentHashing{intN: deps.IntN, counted: m.consistentHashing, logger: deps.Logger}, nil
}

// Reads implements [Reader].
func (p *consistentHashing) Reads() Inputs { return ReadsKey }

// Pick implements [Policy]. A target comes before a key, and a key before chance.
func (p *consistentHashing) Pick(req *Request, pool *worker.Pool) (Decision, error) {
	var d Decision
	var via branch
	var err error
	switch {
	case req.Target != "":
		via = targetWorkerHit
		d.Taken, err = p.takeTarget(req, pool)
	case req.Key.Source != worker.NoKey:
		via = routingKeyHit
		d.Taken, err = p.takeOwner(req, pool)
	default:
		via = randomFallback
		d.Taken, err = pool.Take(&req.Ask, func(v *worker.View) int { return uniform(v, p.intN) })
	}
	switch {
	case err == nil:
	case errors.Is(err, worker.ErrDeclined):
		via = targetWorkerMiss
	default:
		via = noHealthyWorkers
	}
	p.counted.add(via)
	d.Branch = via.String()
	if p.logger.Enabled(context.Background(), slog.LevelDebug) {
		p.log(&d, pool)
	}
	return d, err
}

// takeTarget takes the available worker at the index that the request names. It is
// the only candidate that the request leaves, so that it was tried before is no
// reason to avoid it.
func (p *consistentHashing) takeTarget(req *Request, pool *worker.Pool) (worker.Taken, error) {
	ask := req.Ask
	ask.Skip = nil
	index, parsed := parseIndex(req.Target)
	available, full := 0, false
	taken, err := pool.Take(&ask, func(v *worker.View) int {
		available = v.Len()
		if !parsed || index >= uint64(available) {
			return -1
		}
		if full = !v.Admits(int(index)); full {
			return -1
		}
		return int(index)
	})
	if !errors.Is(err, worker.ErrDeclined) {
		return taken, err
	}
	switch {
	case !parsed:
		err = fmt.Errorf("%w: %w: it is not a number", err, ErrInvalidTarget)
	case full:
		err = fmt.Errorf("%w: the target worker recovers and takes no more calls for now", err)
	default:
		err = fmt.Errorf("%w: %w: there are %d available workers, counted from 0", err, ErrInvalidTarget, available)
	}
	return taken, err
}

// takeOwner takes the first candidate on the ring from the request's key. The ring
// is made before the pool is locked, which leaves time for the membership to
// change; then the choice is made anew.
func (p *consistentHashing) takeOwner(req *Request, pool *worker.Pool) (worker.Taken, error) {
	for range 3 {
		if taken, stale, err := p.takeOn(pool.Members(), req, pool); !stale {
			return taken, err
		}
	}
	taken, _, err := p.takeOn(nil, req, pool)
	return taken, err
}

// takeOn takes the first candidate on the ring of members. It is stale, and nothing
// is taken, if those are not the pool's any more. With nil members the ring is made
// under the pool's lock and never stale.
func (p *consistentHashing) takeOn(members *worker.Members, req *Request, pool *worker.Pool) (taken worker.Taken, stale bool, err error) {
	var circle *ring.Ring
	if members != nil {
		circle = p.rings.of(pool, members)
	}
	taken, err = pool.Take(&req.Ask, func(v *worker.View) int {
		switch {
		case circle == nil:
			circle = p.rings.of(pool, v.Members())
		case v.Members() != members:
			stale = true
			return -1
		}
		chosen := -1
		circle.First(req.Key.Position(), func(owner int) bool {
			slot := v.Slot(owner)
			if slot < 0 || !v.Admits(slot) {
				return false
			}
			chosen = slot
			return true
		})
		return chosen
	})
	return taken, stale, err
}

func (p *consistentHashing) log(d *Decision, pool *worker.Pool) {
	chosen := "none"
	if d.Worker != nil {
		chosen = d.Worker.Spec.URL
	}
	p.logger.Debug("consistent hashing decision", "branch", d.Branch, "worker", chosen, "model_id", pool.Model())
}

// parseIndex reads an unsigned decimal number; a plus sign may lead, as in the
// original.
func parseIndex(s string) (index uint64, ok bool) {
	index, err := strconv.ParseUint(strings.TrimPrefix(s, "+"), 10, 64)
	return index, err == nil
}
