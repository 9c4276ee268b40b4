package ingress

import (
	"sync/atomic"
	"time"
)

const (
	// leastRate is how fast a large body has to come, in bytes a second over the stall
	// limit: one byte now and then would hold the memory for what has come.
	leastRate = 1 << 10
	// patientBelow is how much of a body may be outstanding without that.
	patientBelow = 64 << 10
)

// pace is how fast a request's body comes.
type pace struct {
	sum  atomic.Int64 // bytes that have come
	owes atomic.Bool  // so much is outstanding that they have to come fast
	slow atomic.Bool  // they did not

	// Of the sweep alone: where the stretch that is looked at began.
	since  time.Time
	before int64
}

// came says that n bytes have come, and how many are outstanding.
func (p *pace) came(n int, outstanding int64) {
	p.sum.Add(int64(n))
	if owes := outstanding > patientBelow; owes != p.owes.Load() {
		p.owes.Store(owes)
	}
}

// look says whether the body comes too slowly. A stretch is as long as the stall limit.
func (p *pace) look(wa *watcher, now time.Time) bool {
	sum := p.sum.Load()
	switch {
	case p.slow.Load():
		return true // ends the read again, should that have failed
	case !p.owes.Load():
		p.since = time.Time{}
		return false
	case p.since.IsZero():
		p.since, p.before = now, sum
		return false
	case now.Sub(p.since) < wa.readStall:
		return false
	case sum-p.before < wa.leastPiece():
		p.slow.Store(true)
		return true
	}
	p.since, p.before = now, sum
	return false
}

// leastPiece is how much of a large body has to come within the stall limit.
func (wa *watcher) leastPiece() int64 { return int64(wa.readStall.Seconds() * leastRate) }
