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

// Branches of consistent_hashing; the last one is that of every policy with branches.
const (
	targetWorkerHit  = "target_worker_hit"
	targetWorkerMiss = "target_worker_miss"
	routingKeyHit    = "routing_key_hit"
	randomFallback   = "random_fallback"
	noHealthyWorkers = "no_healthy_workers"
)

// consistentHashing sends equal keys to the same worker: the first candidate
// clockwise from the key on the ring of all of the pool's registered workers, so
// that workers which cannot be chosen do not move the keys of the others.
type consistentHashing struct {
	rings   rings
	intN    func(n int) int
	counted branchCounters
	logger  *slog.Logger
}

var (
	_ Policy = (*consistentHashing)(nil)
	_ Reader = (*consistentHashing)(nil)
)

func newConsistentHashing(deps Deps) (*consistentHashing, error) {
	counted, err := newBranchCounters(deps.Registerer, ConsistentHashing,
		targetWorkerHit, targetWorkerMiss, routingKeyHit, randomFallback, noHealthyWorkers)
	if err != nil {
		return nil, err
	}
	return &consistentHashing{intN: deps.IntN, counted: counted, logger: deps.Logger}, nil
}

// Reads implements [Reader].
func (p *consistentHashing) Reads() Inputs { return ReadsKey | ReadsImplicitKey }

// Pick implements [Policy]. A target comes before a key, and a key before chance.
func (p *consistentHashing) Pick(req *Request, pool *worker.Pool) (Decision, error) {
	var d Decision
	var via string
	ask, key := req.ask(meanTokens), req.Keys.Hashed()
	var err error
	switch {
	case req.Target != "":
		via = targetWorkerHit
		d.Taken, err = p.takeTarget(ask, req.Target, pool)
	case !key.None():
		via = routingKeyHit
		d.Taken, err = p.rings.take(&ask, pool, func(circle *ring.Ring, v *worker.View) int {
			return owner(circle, key.Position(), v)
		})
	default:
		via = randomFallback
		d.Taken, err = pool.Take(&ask, func(v *worker.View) int { return uniform(v, p.intN) })
	}
	switch {
	case err == nil:
	case errors.Is(err, worker.ErrDeclined):
		via = targetWorkerMiss
	default:
		via = noHealthyWorkers
	}
	p.counted.add(via)
	d.Branch = via
	if p.logger.Enabled(context.Background(), slog.LevelDebug) {
		p.log(&d, pool)
	}
	return d, err
}

// takeTarget takes the available worker at the index that the request names. It is
// the only candidate that the request leaves, so that it was tried before is no
// reason to avoid it.
func (p *consistentHashing) takeTarget(ask worker.Ask, target string, pool *worker.Pool) (worker.Taken, error) {
	ask.Skip = nil
	index, parsed := parseIndex(target)
	available, full, fits := 0, false, true
	taken, err := pool.Take(&ask, func(v *worker.View) int {
		available = v.Len()
		if !parsed || index >= uint64(available) {
			return -1
		}
		if full = !v.Admits(int(index)); full {
			fits = ask.Fit.Admits(v.Worker(int(index)).Spec.Class())
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
	case !fits:
		err = fmt.Errorf("%w: the target worker does not fit the other leg's", err)
	case full:
		err = fmt.Errorf("%w: the target worker recovers and takes no more calls for now", err)
	default:
		err = fmt.Errorf("%w: %w: there are %d available workers, counted from 0", err, ErrInvalidTarget, available)
	}
	return taken, err
}

func (p *consistentHashing) log(d *Decision, pool *worker.Pool) {
	p.logger.Debug("consistent-hashing selection", "policy", ConsistentHashing, "branch", d.Branch, "worker", d.url(), "model_id", pool.Model())
}

// parseIndex reads an unsigned decimal number; a plus sign may lead, as in the
// original.
func parseIndex(s string) (index uint64, ok bool) {
	index, err := strconv.ParseUint(strings.TrimPrefix(s, "+"), 10, 64)
	return index, err == nil
}
