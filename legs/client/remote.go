package client

import (
	"context"
	"errors"
	"sync"
	"time"

	"smg/bus"
	"smg/wire"
	"smg/worker"
)

var (
	errSilent    = errors.New("the selector did not answer in time")
	errNoMessage = errors.New("the selector could not be asked")
)

// waiting are the selects that wait for a replica's answer.
type waiting struct {
	mu   sync.Mutex
	asks map[worker.LeaseID]chan *wire.Reply
}

func (w *waiting) add(id worker.LeaseID) chan *wire.Reply {
	ch := make(chan *wire.Reply, 1) // holds the answer, which comes once
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asks[id] = ch
	return ch
}

func (w *waiting) take(id worker.LeaseID) chan *wire.Reply {
	w.mu.Lock()
	defer w.mu.Unlock()
	ch := w.asks[id]
	delete(w.asks, id)
	return ch
}

// remote asks a replica in another process and waits for its answer, at most the
// plan time-out.
func (c *Client) remote(ctx context.Context, l *leg, id worker.ReplicaID, ask *wire.Select) (wire.Pick, error) {
	sent := c.now()
	answer := c.waiting.add(ask.Lease)
	if err := bus.Request(c.bus, c.cfg.Cluster.Select(ask.Lease.Leg, id), ask, c.inbox.Subject); err != nil {
		c.waiting.take(ask.Lease)
		return wire.Pick{}, errNoMessage
	}
	reply, err := c.await(ctx, l, answer)
	if err != nil {
		if c.waiting.take(ask.Lease) == nil {
			reply = <-answer // it came while the wait ended
		}
	}
	switch {
	case reply != nil:
		l.excluded.Answered(id)
	case ctx.Err() != nil:
		return wire.Pick{}, ctx.Err()
	default:
		if errors.Is(err, errSilent) {
			l.excluded.TimedOut(id, sent, c.now())
		}
		return wire.Pick{}, errSilent
	}
	if reply.Err != nil {
		return wire.Pick{}, reply.Err
	}
	return reply.Pick, nil
}

// errImpatient ends a wait early: enough others wait for the same replica.
var errImpatient = errors.New("others wait already")

// await waits for an answer. It gives up at the plan time-out, or once the answer
// is late while others wait for the same leg.
func (c *Client) await(ctx context.Context, l *leg, answer <-chan *wire.Reply) (*wire.Reply, error) {
	late := time.NewTimer(min(hedgeAfter, c.cfg.PlanTimeout))
	defer late.Stop()
	select {
	case r := <-answer:
		return r, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-late.C:
	}
	defer l.silent.Add(-1)
	if l.silent.Add(1) > maxSilent {
		return nil, errImpatient
	}
	late.Reset(max(0, c.cfg.PlanTimeout-hedgeAfter))
	select {
	case r := <-answer:
		return r, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-late.C:
		return nil, errSilent
	}
}

// onReply hands an answer to the select that waits for it. A worker that was
// granted to nobody any more is given back.
func (c *Client) onReply(r *wire.Reply) {
	if ch := c.waiting.take(r.Lease); ch != nil {
		ch <- r
		return
	}
	if l := c.legs[r.Lease.Leg]; l != nil && r.Err == nil {
		l.wake(l.writer.LateReply(r.Lease))
	}
}
