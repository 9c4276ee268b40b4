package client

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"smg/bus"
	"smg/wire"
	"smg/worker"
)

// hedgeAfter is how long an answer may take before it counts as late.
const hedgeAfter = 25 * time.Millisecond

// maxSilent is how many selects of a leg may wait for the whole plan time-out once one
// has waited in vain: they find out whether the replicas are gone. Everybody else then
// stops waiting as soon as all that were asked are late. Before, everybody waits: a
// replica that is busy, or paused for a moment, is no reason to do without one.
const maxSilent = 2

// mostAsked is how many replicas may have a select to answer at the same time.
const mostAsked = 2

// step is where a select stands.
type step uint8

const (
	decided    step = iota // a replica has picked, or refused for good
	asked                  // a replica was asked
	exhausted              // there is nobody left to ask, and nobody who was asked is ready
	unsent                 // nobody can be asked: the bus is gone
	unsendable             // nobody can be asked this: the bus does not take it
	left                   // the client has left
	silent                 // nobody has answered within the plan time-out
	impatient              // nobody has answered yet, and others have waited in vain
)

// round is one select's asking of its leg's replicas. The first that decides wins.
// Others that were asked count the lease until they hear where it went.
type round struct {
	c     *Client
	l     *leg
	ask   *wire.Select
	order []worker.ReplicaID // not asked yet
	began time.Time          // when the first replica in another process was asked
	wait  *wait              // for such replicas, nil before
	open  int                // those that were asked and have not answered
	ended step
}

// run asks one replica after the other: the next one at once when one is not ready,
// and one more when the first is late. It gives up at the plan time-out, or once all
// are late and others have found them silent. A reason says that nobody has decided;
// otherwise pick and err are the decision.
func (r *round) run(ctx context.Context) (pick wire.Pick, reason string, err error) {
	pick, r.ended, err = r.askNext()
	if r.ended == asked {
		pick, r.ended, err = r.await(ctx)
	}
	switch r.ended {
	case unsent:
		reason = reasonNoMessage
	case unsendable:
		reason = reasonTooMuch
	case exhausted:
		reason = reasonNotReady
	case silent, impatient:
		reason = reasonSilent
	}
	return pick, reason, err
}

// askNext asks the next replica. One of this process answers at once.
func (r *round) askNext() (wire.Pick, step, error) {
	for len(r.order) > 0 {
		id := r.order[0]
		r.order = r.order[1:]
		if local := r.l.local[id]; local != nil {
			pick, err := local.Select(r.ask)
			if errors.Is(err, wire.ErrSelectionUnavailable) {
				continue
			}
			return pick, decided, err
		}
		if r.wait == nil {
			r.wait, r.began = r.c.waiting.begin(r.ask.Lease, 2*(1+len(r.order))), r.c.now()
		}
		if err := r.c.request(r.wait, r.l.peer(r.c, r.ask.Lease.Leg, id), r.ask); err != nil {
			return wire.Pick{}, r.notAsked(err), nil
		}
		r.open++
		return wire.Pick{}, asked, nil
	}
	return wire.Pick{}, exhausted, nil
}

// notAsked is where a select stands that was not sent. That the bus is gone is told
// where it is noticed.
func (r *round) notAsked(err error) step {
	if errors.Is(err, bus.ErrDisconnected) {
		return unsent
	}
	if !r.l.mute.Swap(true) {
		r.c.log.Error("a selector could not be asked; further such requests are only counted",
			slog.String("leg", r.ask.Lease.Leg.String()), slog.Any("error", err))
	}
	return unsendable
}

// took takes an answer, and asks the next replica if it decides nothing.
func (r *round) took(a *wire.Reply) (wire.Pick, step, error) {
	if a.Queued { // nobody has asked it to wait
		return wire.Pick{}, asked, nil
	}
	r.open--
	switch {
	case a.Err == nil:
		return a.Pick, decided, nil
	case !errors.Is(a.Err, wire.ErrSelectionUnavailable):
		return wire.Pick{}, decided, a.Err
	}
	pick, s, err := r.askNext()
	if s == exhausted && r.open > 0 {
		s = asked // somebody else was
	}
	return pick, s, err
}

// await waits for the answer that decides.
func (r *round) await(ctx context.Context) (pick wire.Pick, s step, err error) {
	timer := time.NewTimer(min(r.c.late, r.c.cfg.PlanTimeout))
	defer timer.Stop()
	for {
		select {
		case a := <-r.wait.answers:
			pick, s, err = r.took(a)
		case <-ctx.Done():
			return pick, left, ctx.Err()
		case <-timer.C:
			if r.open == mostAsked {
				return r.stay(ctx, timer)
			}
			if pick, s, err = r.askNext(); s == exhausted {
				return r.stay(ctx, timer)
			}
		}
		if s != asked {
			return pick, s, err
		}
		timer.Reset(min(r.c.late, r.rest()))
	}
}

// stay waits for those who are late: if somebody has waited for them in vain, only as
// long as few others do.
func (r *round) stay(ctx context.Context, timer *time.Timer) (pick wire.Pick, s step, err error) {
	defer r.l.silent.Add(-1)
	if waiting, owed := r.l.silent.Add(1), r.l.owed.Load(); owed > 0 && waiting+owed > maxSilent {
		return pick, impatient, nil
	}
	timer.Reset(r.rest())
	for {
		select {
		case a := <-r.wait.answers:
			if pick, s, err = r.took(a); s != asked {
				return pick, s, err
			}
		case <-ctx.Done():
			return pick, left, ctx.Err()
		case <-timer.C:
			r.l.owed.Add(1) // before the place is free
			return pick, silent, nil
		}
	}
}

// rest is what is left of the plan time-out.
func (r *round) rest() time.Duration {
	return max(0, r.c.cfg.PlanTimeout-r.c.now().Sub(r.began))
}

// end is called once the lease has begun, or will not. Whoever was asked and has not
// answered may still do so in time; then it is not silent.
func (r *round) end() {
	if r.wait == nil {
		return
	}
	w, id, one, gone := &r.c.waiting, r.ask.Lease, r.wait, r.c.timedOut(r.l)
	switch {
	// Once some have waited in vain, nobody does, and being late is being silent.
	case r.ended == silent, r.ended == impatient && r.l.owed.Load() >= maxSilent:
		w.close(id, one, gone)
	case r.ended == decided && r.open > 0:
		if last, open := w.linger(id, one); open {
			time.AfterFunc(r.c.cfg.PlanTimeout-r.c.now().Sub(last), func() { w.close(id, one, gone) })
		}
	default:
		w.close(id, one, nil)
	}
	for {
		select {
		case a := <-one.answers: // after the one that decided
			r.c.giveBack(r.l, a)
		default:
			return
		}
	}
}

// timedOut excludes replicas that do not answer.
func (c *Client) timedOut(l *leg) func(*call) {
	return func(k *call) { l.excluded.TimedOut(k.peer.id, k.sent, c.now()) }
}
