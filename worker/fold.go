package worker

import (
	"sync"
	"time"
)

// Event is what a lease stream tells about a call: its outcome, or that of the head
// of a probe's answer, for the worker's keeper; and that it never got to its
// worker, for the policy that chose it.
type Event struct {
	Lease     LeaseID
	Worker    ID // zero when nothing was counted for the lease any more
	Outcome   Outcome
	Probe     bool // the call was picked while the breaker was half open
	Unreached bool
}

// Fold is what one replica makes of the lease streams of all ingresses, together
// with the choices that it made itself (grants). The count of a worker is its open
// leases plus the own grants whose lease is not open. A Fold is safe for
// concurrent use; reading a [Load] takes no lock.
type Fold struct {
	mu        sync.Mutex
	base      time.Time // instant 0 of all times below, which are nanoseconds
	clock     int64     // the latest instant heard of
	connected bool
	loads     map[ID]*Load
	calls     map[leaseKey]*call // grants and open leases
	streams   map[streamKey]*stream
	grants    call  // list head; oldest first
	free      *call // recycled calls, linked by next
	spare     int   // length of free
}

// leaseKey is a LeaseID without padding, which hashes faster.
type leaseKey [3]uint64

func (id LeaseID) key() leaseKey {
	return leaseKey{id.Incarnation, id.Plan, uint64(id.Leg)<<16 | uint64(id.Item)}
}

// call is one counted call: an own grant while stream is nil, else an open lease.
type call struct {
	id     LeaseID
	load   *Load
	tokens int64
	at     int64 // of the grant, or of the start that gave credit

	prev, next *call // grants: neighbours in the list
	stream     *stream
	pos        int    // open: index in stream.open[quarter]
	seen       uint64 // open: number of the last beat that listed it

	marks
	headed   bool // its good head has been reported
	credited bool // open: its tokens are in the ledger as of at
}

// marks are what a call counts at its worker beside itself.
type marks struct {
	key   uint64 // in load.sharing
	extra int64  // units beyond the first, in load.extra
	probe bool   // in load.probes
}

func marksOf(l *Lease) marks { return marks{l.Key, max(0, int64(l.Units)-1), l.Probe} }

// spareCalls bounds the memory that is kept for reuse after a peak.
const spareCalls = 1 << 14

// NewFold is an empty fold, connected.
func NewFold() *Fold {
	f := &Fold{
		connected: true,
		loads:     map[ID]*Load{},
		calls:     map[leaseKey]*call{},
		streams:   map[streamKey]*stream{},
	}
	f.grants.prev, f.grants.next = &f.grants, &f.grants
	return f
}

// Load is the counter of a worker. It is made on first use and kept, however idle,
// until [Fold.Release].
func (f *Fold) Load(id ID) *Load {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.load(id)
	l.held = true
	return l
}

// Release says that a worker was removed. Its credit goes at once, its counter
// when the last call in flight has ended.
func (f *Fold) Release(id ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.loads[id]
	if l == nil {
		return
	}
	l.held = false
	l.ledger = ledger{}
	l.settleCredit()
	f.settle(l)
}

// Reported clears the credit that a load report covers: that of the starts folded
// before polledAt, the instant at which the poll was sent. Later starts and grants
// stay.
func (f *Fold) Reported(id ID, polledAt time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if l := f.loads[id]; l != nil && !f.base.IsZero() {
		l.ledger.clear(int64(polledAt.Sub(f.base)))
		l.settleCredit()
	}
}

// Grant counts an own choice until its ingress starts or ends it, wherever it sent
// the call, or until [GrantLife] has passed. A second grant of an id replaces the
// first; one whose lease is open already counts nothing. load is the counter of
// l.Worker.
func (f *Fold) Grant(l Lease, load *Load, now time.Time) { f.grant(l, load, 0, now) }

// grant is Grant, unless the worker would then have more sequences than most, if that
// is not 0: then nothing is counted, and it is false.
func (f *Fold) grant(l Lease, load *Load, most int64, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.instant(now)
	key := l.ID.key()
	c := f.calls[key]
	switch {
	case c == nil:
		c = f.newCall(l.ID)
		f.calls[key] = c
	case c.stream != nil:
		return true
	default:
		f.ungrant(c)
		f.uncount(c)
	}
	if load.dropped {
		load = f.load(l.Worker)
	}
	if !load.fits(max(1, int64(l.Units)), most) {
		f.forget(c)
		return false
	}
	f.count(c, load, marksOf(&l))
	c.tokens, c.at = max(0, l.Tokens), t
	load.granted = load.granted.plus(sum{1, c.tokens})
	load.settleCredit()
	last := f.grants.prev
	c.prev, c.next = last, &f.grants
	last.next, f.grants.prev = c, c
	return true
}

// Holds says whether a lease is open.
func (f *Fold) Holds(id LeaseID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.calls[id.key()]
	return c != nil && c.stream != nil
}

// Hears says whether an ingress of this incarnation has been heard, and not been silent
// since.
func (f *Fold) Hears(incarnation uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.streams {
		if s.incarnation == incarnation && !s.silent {
			return true
		}
	}
	return false
}

// instant is now on the fold's clock, which never goes back.
func (f *Fold) instant(now time.Time) int64 {
	if f.base.IsZero() {
		f.base = now
	}
	f.clock = max(f.clock, int64(now.Sub(f.base)))
	return f.clock
}

// load is the counter of a worker, made if need be.
func (f *Fold) load(id ID) *Load {
	l := f.loads[id]
	if l == nil {
		l = &Load{id: id}
		f.loads[id] = l
	}
	return l
}

// settle drops the counter of a worker that is not registered once it is idle.
func (f *Fold) settle(l *Load) {
	if !l.held && !l.dropped && l.active.Load() == 0 {
		delete(f.loads, l.id)
		l.dropped = true
	}
}

func (f *Fold) newCall(id LeaseID) *call {
	c := f.free
	if c == nil {
		c = &call{}
	} else {
		f.free = c.next
		f.spare--
	}
	*c = call{id: id}
	return c
}

// forget takes a call off the map; it must be neither granted nor open any more.
func (f *Fold) forget(c *call) {
	delete(f.calls, c.id.key())
	*c = call{}
	if f.spare < spareCalls {
		c.next = f.free
		f.free = c
		f.spare++
	}
}

// count puts a call on a counter.
func (f *Fold) count(c *call, l *Load, m marks) {
	c.load, c.marks = l, m
	l.active.Add(1)
	if m.extra > 0 {
		l.extra.Add(m.extra)
	}
	l.share(m.key, 1)
	if m.probe {
		l.probes.Add(1)
	}
}

// uncount undoes count.
func (f *Fold) uncount(c *call) {
	l := c.load
	f.freeSlot(c)
	l.active.Add(-1)
	if c.extra > 0 {
		l.extra.Add(-c.extra)
	}
	l.share(c.key, -1)
	c.load = nil
	f.settle(l)
}

// freeSlot gives the half-open slot of a call back.
func (f *Fold) freeSlot(c *call) {
	if c.probe {
		c.load.probes.Add(-1)
		c.probe = false
	}
}

// ungrant takes a grant off the list, and its tokens off the credit.
func (f *Fold) ungrant(c *call) {
	c.prev.next, c.next.prev = c.next, c.prev
	c.prev, c.next = nil, nil
	c.load.granted = c.load.granted.minus(sum{1, c.tokens})
	c.load.settleCredit()
}

// addCredit books tokens that were sent to a worker.
func (f *Fold) addCredit(l *Load, t, tokens int64) {
	l.ledger.add(t, max(0, tokens))
	l.settleCredit()
}

// sharing is the number of calls with a counted key in flight at a worker.
func (f *Fold) sharing(l *Load, key uint64) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return l.sharing[key]
}
