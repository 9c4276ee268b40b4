package worker

import "time"

// polling is where a keeper stands with the load polls of its worker.
type polling struct {
	stay  uint64    // numbers the stays among the ready ones
	under bool      // a poll of this stay is under way
	last  time.Time // when the last one of this stay was due, zero before the first
}

// begin starts another stay: what was asked in the last one says nothing about it.
func (p *polling) begin() { *p = polling{stay: p.stay + 1} }

// Stay numbers the worker's present stay among the ready ones as this replica keeps
// it: it changes when the worker leaves them, is replaced, or was kept by another
// replica meanwhile. It is 0 while there is none.
func (k *Keeper) Stay() uint64 {
	if !k.active || k.held.Status != Ready {
		return 0
	}
	return k.polls.stay
}

// PollDue says whether a load poll is to be sent now, and counts it as sent. The
// first of a stay is due at once, the others at the interval, though never before
// the result of the last. The result goes to Polled, together with the stay.
func (k *Keeper) PollDue(now time.Time, interval time.Duration) (stay uint64, due bool) {
	p := &k.polls
	next := p.last.Add(interval)
	if k.Stay() == 0 || p.under || !p.last.IsZero() && now.Before(next) {
		return 0, false
	}
	if p.last.IsZero() || now.Sub(next) >= interval {
		next = now // not to catch up on what was missed
	}
	p.under, p.last = true, next
	return p.stay, true
}

// PollAt is when PollDue says so next, as [Keeper.TickAt].
func (k *Keeper) PollAt(interval time.Duration) (at time.Time, ever bool) {
	p := &k.polls
	if k.Stay() == 0 || p.under {
		return time.Time{}, false
	}
	if p.last.IsZero() {
		return time.Time{}, true
	}
	return p.last.Add(interval), true
}

// Polled takes the result of a load poll: a report and whether it vetoes the worker,
// or nil if the poll failed. It is dropped if the stay has ended.
func (k *Keeper) Polled(stay uint64, rep *Report, overloaded bool, now time.Time) (Record, bool) {
	if stay != k.Stay() {
		return k.held, false
	}
	k.polls.under = false
	return k.Report(rep, overloaded, now)
}
