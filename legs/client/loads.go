package client

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"smg/bus"
	"smg/wire"
	"smg/worker"
)

const (
	// loadsWait is how long replicas may take to tell what engines report.
	loadsWait = 300 * time.Millisecond
	// loadsHold is how long what they said is shown.
	loadsHold = time.Second
)

// reporter is a [Local] that knows what engines report.
type reporter interface {
	EngineLoads() []worker.Loads
}

// loads is what engines report, as replicas have said last.
type loads struct {
	turn  chan struct{} // holds one: somebody asks
	held  []worker.Loads
	taken time.Time // zero before the first; held and taken are guarded by turn

	mu       sync.Mutex // below it: the question under way
	question uint64
	pending  map[worker.ReplicaID]bool // who has not said everything
	got      []worker.Loads
	whole    chan struct{} // closed once nobody is pending
}

func newLoads() *loads { return &loads{turn: make(chan struct{}, 1)} }

// EngineLoads is what the engines of workers report, in no order, each worker once. It
// asks the replicas of all legs, for at most [loadsWait], unless they were asked within
// the last second; no worker is asked. A worker whose last poll failed is absent, and so
// is one whose replica does not answer. With the end of ctx it is what was known.
func (c *Client) EngineLoads(ctx context.Context) []worker.Loads {
	l := c.loads
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return nil
	}
	defer func() { <-l.turn }()
	if now := c.now(); l.taken.IsZero() || now.Sub(l.taken) >= loadsHold {
		if all, whole := c.askLoads(ctx); whole {
			l.held, l.taken = all, c.now()
		}
	}
	return l.held
}

// askLoads asks everybody. It is not whole if ctx has ended meanwhile.
func (c *Client) askLoads(ctx context.Context) (all []worker.Loads, whole bool) {
	l := c.loads
	var own []worker.Loads
	var ask []worker.Leg
	pending := map[worker.ReplicaID]bool{}
	for i, of := range c.legs {
		if of == nil {
			continue
		}
		for _, local := range of.local {
			if r, ok := local.(reporter); ok {
				own = append(own, r.EngineLoads()...)
			}
		}
		others := false
		for _, id := range of.ranking.Rank(0, nil) {
			if of.local[id] == nil {
				pending[id], others = true, true
			}
		}
		if others {
			ask = append(ask, worker.Leg(i))
		}
	}
	if len(ask) == 0 {
		return distinct(own), true
	}
	question, done := l.begin(pending)
	for _, leg := range ask {
		err := bus.Publish(c.bus, c.cfg.Cluster.LoadsAsk(leg), &wire.LoadsAsk{Asker: c.cfg.Incarnation, Question: question})
		if err != nil && !errors.Is(err, bus.ErrDisconnected) {
			c.log.Error("nobody could be asked for the loads of engines", slog.String("leg", leg.String()), slog.Any("error", err))
		}
	}
	t := time.NewTimer(loadsWait)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	case <-ctx.Done():
		l.end()
		return nil, false
	}
	return distinct(append(own, l.end()...)), true
}

// begin is a new question to those who are pending.
func (l *loads) begin(pending map[worker.ReplicaID]bool) (question uint64, done <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.question++
	l.pending, l.got, l.whole = pending, nil, make(chan struct{})
	return l.question, l.whole
}

// end is what was said.
func (l *loads) end() []worker.Loads {
	l.mu.Lock()
	defer l.mu.Unlock()
	got := l.got
	l.pending, l.got = nil, nil
	return got
}

// hear takes a part of an answer.
func (l *loads) hear(m *wire.Loads) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m.Question != l.question || !l.pending[m.Replica] {
		return // late, or of this process
	}
	l.got = append(l.got, m.Workers...)
	if m.Last {
		if delete(l.pending, m.Replica); len(l.pending) == 0 {
			close(l.whole)
		}
	}
}

// distinct drops what is said of a worker twice, as when its keeper has just changed.
func distinct(all []worker.Loads) []worker.Loads {
	seen := make(map[worker.ID]bool, len(all))
	kept := all[:0]
	for _, one := range all {
		if !seen[one.Worker] {
			seen[one.Worker] = true
			kept = append(kept, one)
		}
	}
	return kept
}
