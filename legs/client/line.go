package client

import (
	"context"
	"errors"
	"slices"
	"time"

	"smg/wire"
	"smg/worker"
)

// Waiter is a [Local] at which selects can wait.
type Waiter interface {
	// Enqueue is Select for an ask that waits if nobody has room. Then the error is
	// wire.ErrQueued, and reply is told what comes of it, as over the bus.
	Enqueue(ask *wire.Select, reply func(*wire.Reply)) (wire.Pick, error)
}

const (
	// fullFor is how long a leg is taken to be full once somebody was told so. Then all
	// are asked of the replica where others wait: another one would have them pass.
	fullFor = time.Second
	// lookEvery is how often one who waits looks whether the replica is still the one
	// where all wait.
	lookEvery = 500 * time.Millisecond
	// linePause is between two rounds of questions, if nobody could be asked.
	linePause = 200 * time.Millisecond
	// lineLost is how long one who has waited waits for a replica to wait at: a selector
	// that is started again takes its time, and a choice from the copy passes all others.
	lineLost = 10 * time.Second
	// mostLines is how often a select is sent.
	mostLines = 128
)

// isFull says whether a replica said just now that every worker is full.
func (l *leg) isFull(now time.Time) bool { return now.UnixNano() < l.fullUntil.Load() }

// line is a select that may wait, at the replica that is ranked first for its pool.
type line struct {
	c     *Client
	l     *leg
	ask   *wire.Select
	until time.Time
	wait  *wait
	asks  int
	owner worker.ReplicaID // where it waits, 0 for nowhere
	been  bool             // it has waited
	lost  time.Time        // since when there is nobody to wait at, zero while there is
}

// selectInLine is selectOnce for an ask that may wait.
func (c *Client) selectInLine(ctx context.Context, l *leg, ask *wire.Select) (pick wire.Pick, outdated bool, err error) {
	n := line{c: c, l: l, ask: ask, until: c.now().Add(ask.Wait)}
	n.wait = c.waiting.begin(ask.Lease, 2*mostLines)
	l.waiting.Add(1)
	pick, reason, err := n.run(ctx)
	l.waiting.Add(-1)
	ask.Wait = max(0, n.rest())
	pick, outdated, err = c.begin(l, ask, pick, reason, err)
	c.waiting.close(ask.Lease, n.wait, nil)
	if err != nil || outdated {
		l.wake(l.writer.LateReply(ask.Lease)) // wherever it waits, or was picked
	}
	return pick, outdated, err
}

// rest is how long it may still wait.
func (n *line) rest() time.Duration { return n.until.Sub(n.c.now()).Truncate(time.Microsecond) }

// run waits until a replica decides, or until the time is up. A reason says that there
// is no replica to wait at.
func (n *line) run(ctx context.Context) (pick wire.Pick, reason string, err error) {
	for {
		pick, s, err := n.enter(ctx)
		if s == decided || s == left {
			return pick, "", err
		}
		now := n.c.now()
		if n.lost.IsZero() {
			n.lost = now
		}
		switch {
		case !n.been || now.Sub(n.lost) > lineLost || n.asks >= mostLines:
			if s == unsent {
				return pick, reasonNoMessage, nil
			}
			return pick, reasonNotReady, nil
		case n.rest() <= 0:
			return pick, "", worker.ErrFull
		}
		if pick, s, err = n.pause(ctx); s != exhausted {
			return pick, "", err
		}
	}
}

// pause waits a moment for who was asked before.
func (n *line) pause(ctx context.Context) (pick wire.Pick, s step, err error) {
	t := time.NewTimer(min(linePause, n.rest()))
	defer t.Stop()
	for {
		select {
		case a := <-n.wait.answers:
			if pick, s, err = n.took(a); s == decided {
				return pick, s, err
			}
		case <-t.C:
			return pick, exhausted, nil
		case <-ctx.Done():
			return pick, left, ctx.Err()
		}
	}
}

// order is whom to ask, one after the other.
func (n *line) order() []worker.ReplicaID {
	now := n.c.now()
	return slices.DeleteFunc(n.l.ranking.Rank(worker.PoolKey(n.ask.Lease.Leg, n.c.model(n.ask)), nil), func(id worker.ReplicaID) bool {
		return n.l.excluded.Excluded(id, now)
	})
}

// enter asks one replica after the other until one has decided, and waits where it is
// told to. asked is that it has waited in vain: the replica is not the first any more.
func (n *line) enter(ctx context.Context) (pick wire.Pick, s step, err error) {
	s = exhausted
	for _, id := range n.order() {
		if n.asks++; n.asks > mostLines {
			return pick, s, nil
		}
		if n.ask.Wait = n.rest(); n.ask.Wait <= 0 {
			return pick, decided, worker.ErrFull
		}
		p := n.l.peer(n.c, n.ask.Lease.Leg, id)
		n.owner = 0
		if local := n.l.local[id]; local != nil {
			if pick, s, err = n.enqueue(local, p); s == exhausted {
				continue
			}
		} else if n.c.request(n.wait, p, n.ask) != nil { // the bus is gone, which is told elsewhere
			n.c.waiting.giveUp(n.wait, id, nil)
			s = unsent
			continue
		}
		if s == decided {
			return pick, s, err
		}
		if pick, s, err = n.await(ctx, id); s != exhausted {
			return pick, s, err
		}
	}
	return pick, s, nil
}

// enqueue asks a replica of this process.
func (n *line) enqueue(local Local, p *peer) (wire.Pick, step, error) {
	w, ok := local.(Waiter)
	if !ok {
		pick, err := local.Select(n.ask)
		return pick, decided, err
	}
	n.c.waiting.add(n.wait, p, n.c.now())
	pick, err := w.Enqueue(n.ask, n.c.replied)
	switch {
	case errors.Is(err, wire.ErrQueued):
		n.c.onReply(&wire.Reply{Lease: n.ask.Lease, Replica: p.id, Queued: true})
		return pick, asked, nil
	case errors.Is(err, wire.ErrSelectionUnavailable):
		n.c.waiting.giveUp(n.wait, p.id, nil)
		return pick, exhausted, nil
	}
	return pick, decided, err
}

// await waits for what the replica says that was asked: for a first word of it as long
// as any plan, and then as long as it is where all wait. exhausted is that it says
// nothing.
func (n *line) await(ctx context.Context, id worker.ReplicaID) (pick wire.Pick, s step, err error) {
	look := time.NewTimer(n.c.cfg.PlanTimeout)
	defer look.Stop()
	end := time.NewTimer(n.rest())
	defer end.Stop()
	for {
		select {
		case a := <-n.wait.answers:
			switch {
			case a.Queued:
				n.entered(a.Replica)
				look.Reset(lookEvery)
				continue
			case a.Err != nil && errors.Is(a.Err, wire.ErrSelectionUnavailable) && a.Replica != id:
				continue // of one who was asked before
			}
			pick, s, err = n.took(a)
			return pick, s, err
		case <-ctx.Done():
			return pick, left, ctx.Err()
		case <-end.C:
			return pick, decided, worker.ErrFull
		case <-look.C:
			switch {
			case n.owner == 0:
				n.c.waiting.giveUp(n.wait, id, n.c.timedOut(n.l))
				return pick, exhausted, nil
			case n.moved():
				return pick, asked, nil
			}
			look.Reset(lookEvery)
		}
	}
}

// entered notes where it waits.
func (n *line) entered(at worker.ReplicaID) { n.owner, n.been, n.lost = at, true, time.Time{} }

// took takes an answer.
func (n *line) took(a *wire.Reply) (wire.Pick, step, error) {
	switch {
	case a.Queued:
		n.entered(a.Replica)
		return wire.Pick{}, asked, nil
	case a.Err == nil:
		return a.Pick, decided, nil
	case errors.Is(a.Err, wire.ErrSelectionUnavailable):
		return wire.Pick{}, exhausted, nil
	}
	return wire.Pick{}, decided, a.Err
}

// moved says whether all wait at another replica by now, or at none.
func (n *line) moved() bool {
	order := n.order()
	return len(order) == 0 || order[0] != n.owner || n.l.local[n.owner] == nil && !n.c.bus.Connected()
}
