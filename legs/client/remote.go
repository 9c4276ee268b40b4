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
	asks map[worker.LeaseID]asked
}

// asked is one of them.
type asked struct {
	subject string             // where the replica is asked
	answer  chan<- *wire.Reply // holds one: it comes once
}

func (w *waiting) add(id worker.LeaseID, subject string) <-chan *wire.Reply {
	answer := make(chan *wire.Reply, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asks[id] = asked{subject, answer}
	return answer
}

// take ends a wait and says whether it had not ended yet.
func (w *waiting) take(id worker.LeaseID) (asked, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a, ok := w.asks[id]
	delete(w.asks, id)
	return a, ok
}

// at ends the waits for one replica, or for all with subject "".
func (w *waiting) at(subject string) (all []asked) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, a := range w.asks {
		if subject == "" || a.subject == subject {
			all = append(all, a)
			delete(w.asks, id)
		}
	}
	return all
}

// service is how a replica is asked, made once.
func (l *leg) service(c *Client, leg worker.Leg, id worker.ReplicaID) wire.Service[wire.Select, wire.Reply] {
	if s, ok := l.services.Load(id); ok {
		return s.(wire.Service[wire.Select, wire.Reply])
	}
	s := c.cfg.Cluster.Select(leg, id)
	l.services.Store(id, s)
	return s
}

// remote asks a replica in another process and waits for its answer, at most the
// plan time-out.
func (c *Client) remote(ctx context.Context, l *leg, id worker.ReplicaID, ask *wire.Select) (wire.Pick, error) {
	sent := c.now()
	service := l.service(c, ask.Lease.Leg, id)
	answer := c.waiting.add(ask.Lease, service.Subject)
	if err := bus.Request(c.bus, service, ask, c.inbox); err != nil {
		c.waiting.take(ask.Lease)
		return wire.Pick{}, errNoMessage
	}
	reply, err := c.await(ctx, l, answer)
	if err != nil {
		if _, ended := c.waiting.take(ask.Lease); !ended {
			reply = <-answer // it came while the wait ended
		}
	}
	switch {
	case reply != nil:
		l.owed.Store(0)
		l.excluded.Answered(id)
	case ctx.Err() != nil:
		return wire.Pick{}, ctx.Err()
	default:
		// Once some have waited in vain, nobody does, and being late is being silent.
		if errors.Is(err, errSilent) || l.owed.Load() >= maxSilent {
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
	if l.silent.Add(1)+l.owed.Load() > maxSilent {
		return nil, errImpatient
	}
	late.Reset(max(0, c.cfg.PlanTimeout-hedgeAfter))
	select {
	case r := <-answer:
		return r, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-late.C:
		l.owed.Add(1) // before the place is free
		return nil, errSilent
	}
}

// onReply hands an answer to the select that waits for it. A worker that was
// granted to nobody any more is given back.
func (c *Client) onReply(r *wire.Reply) {
	if a, ok := c.waiting.take(r.Lease); ok {
		a.answer <- r
		return
	}
	if l := c.legs[r.Lease.Leg]; l != nil {
		l.owed.Store(0) // late, but not silent
		if r.Err == nil {
			l.wake(l.writer.LateReply(r.Lease))
		}
	}
}

// onNobody ends the waits for a replica that is not on the bus any more.
func (c *Client) onNobody(subject string) {
	for _, a := range c.waiting.at(subject) {
		a.answer <- &wire.Reply{Err: &wire.Error{Code: wire.CodeNotReady, Message: "the selector has left the bus"}}
	}
}
