package client

import (
	"cmp"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"smg/policy/ring"
	"smg/wire"
	"smg/worker"
)

// failedFor is how long a worker that failed this ingress is avoided while there is
// no selector to say more.
const failedFor = 5 * time.Second

// failures are the workers that failed this ingress, and when.
type failures struct {
	mu sync.Mutex
	at map[worker.ID]time.Time
}

func (f *failures) note(id worker.ID, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at[id] = now
	for old, at := range f.at {
		if now.Sub(at) > failedFor {
			delete(f.at, old)
		}
	}
}

// recent appends the workers that failed lately to skip.
func (f *failures) recent(skip []worker.ID, now time.Time) []worker.ID {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, at := range f.at {
		if now.Sub(at) <= failedFor {
			skip = append(skip, id)
		}
	}
	return skip
}

// hashing is the policy whose choice needs no selector: the ring is the same
// everywhere.
const hashing = "consistent_hashing"

// meanTokens is what a call of unknown size counts as, as in the selectors.
const meanTokens = 1024

// fromCopy chooses without a selector, from what was last heard of the fleet: the
// worker that a pinned key had last, by the ring where the leg's policy is the ring
// and the ask has a key, else the better of two random workers by this ingress's own
// calls.
func (c *Client) fromCopy(l *leg, ask *wire.Select, reason string) (wire.Pick, error) {
	name := ask.Lease.Leg.String()
	if !l.degraded.Swap(true) {
		at, why := slog.String("leg", name), slog.String("reason", reason)
		if c.cfg.FailDegraded {
			c.log.Warn("requests are refused, since no selector chooses workers", at, why)
		} else {
			c.log.Warn("workers are chosen without a selector", at, why)
		}
	}
	if c.cfg.FailDegraded {
		return wire.Pick{}, wire.ErrSelectionUnavailable
	}
	pool := c.registry.Pool(ask.Lease.Leg, ask.Model)
	if pool == nil {
		return wire.Pick{}, worker.ErrNoWorkers
	}
	policy, _ := l.policy.Load().(string)
	choose := c.betterOfTwo(l)
	if key := ask.Keys.Hashed(); policy == hashing && !key.None() {
		choose = ringed(pool, key)
	}
	choose = c.remembered(l, ask, choose)
	now := c.now()
	w, err := pool.Peek(&worker.Ask{Skip: c.failures.recent(slices.Clone(ask.Skip), now), Fit: ask.Fit, Now: now}, choose)
	if err != nil {
		return wire.Pick{}, err
	}
	c.metrics.WithLabelValues(name, reason).Inc()
	return wire.Pick{Worker: w.Spec, Epoch: w.Record.Epoch, Policy: policy, Tokens: cmp.Or(ask.Tokens, meanTokens), Degraded: true}, nil
}

// recovered notes that a selector decides again.
func (c *Client) recovered(l *leg, leg worker.Leg) {
	if l.degraded.Load() && l.degraded.Swap(false) {
		c.log.Info("a selector chooses workers again", slog.String("leg", leg.String()))
	}
}

// betterOfTwo draws two candidates and takes the one with fewer calls of this
// ingress in flight.
func (c *Client) betterOfTwo(l *leg) func(*worker.View) int {
	return func(v *worker.View) int {
		n := v.Candidates()
		a := v.Candidate(rand.IntN(n))
		if n == 1 {
			return a
		}
		b := v.Candidate(rand.IntN(n))
		if l.writer.Active(v.Worker(b).Spec.ID) < l.writer.Active(v.Worker(a).Spec.ID) {
			return b
		}
		return a
	}
}

// ringed takes the first candidate on the ring over the pool's members.
func ringed(pool *worker.Pool, key worker.Key) func(*worker.View) int {
	members := pool.Members()
	r := members.Memo(func(m *worker.Members) any {
		urls := make([]string, m.Len())
		for i := range urls {
			urls[i] = m.Spec(i).URL
		}
		return ring.New(urls)
	}).(*ring.Ring)
	return func(v *worker.View) int {
		if v.Members() != members {
			return v.Candidate(0) // the fleet changed this instant
		}
		owner := r.First(key.Position(), func(i int) bool {
			slot := v.Slot(i)
			return slot >= 0 && v.Admits(slot)
		})
		if owner < 0 {
			return -1
		}
		return v.Slot(owner)
	}
}
