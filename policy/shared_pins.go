package policy

import (
	"time"

	"smg/worker"
)

// SharedPins are the pins of a [Book] as the other replicas of its leg see them,
// through a store that all of them watch: every replica's pins are a copy of it. They
// do not know the store. A change made here waits, without memory of its own, until
// it is taken with [SharedPins.Next]; a pin that is only used is written again at a
// tenth of the idle limit. Where two replicas pin a key at the same time, what is
// stored holds.
//
// Versions tell apart what is stored under a key one after the other; they grow
// until [SharedPins.Begin], after which the store may be another.
//
// SharedPins are safe for concurrent use. Next and what is said of its change are
// one goroutine's.
type SharedPins struct{ pins *pins }

// PinChange is a pin that is to be stored.
type PinChange struct {
	// Pin has no workers if the key is to be forgotten by all.
	Pin worker.Pin
	// After is the version that the change follows, 0 if nothing is known to be stored.
	After uint64

	pass uint32
}

// Forget says whether the key is to be forgotten.
func (c *PinChange) Forget() bool { return c.Pin.Workers == few{} }

// SharePins begins to share the book's pins, in the name of a replica. It is called
// once.
func (b *Book) SharePins(replica worker.ReplicaID) SharedPins {
	b.deps.pins.share(replica)
	return SharedPins{b.deps.pins}
}

// Changed is sent to when there may be a change to take.
func (s SharedPins) Changed() <-chan struct{} { return s.pins.shared.changed }

// Known says whether all that was stored has been told at least once.
func (s SharedPins) Known() bool {
	s.pins.mu.Lock()
	defer s.pins.mu.Unlock()
	return s.pins.shared.known
}

// Next takes the change that waited longest, if it is known what is stored. What
// becomes of it is told with [SharedPins.Stored], [SharedPins.Conflict],
// [SharedPins.Retry] or [SharedPins.Drop] before the next one is taken.
func (s SharedPins) Next() (c PinChange, ok bool) {
	s.pins.mu.Lock()
	defer s.pins.mu.Unlock()
	sh := s.pins.shared
	if !sh.synced {
		return c, false
	}
	c.Pin.Replica, c.pass = sh.replica, sh.pass
	for c.Pin.Key, c.After = range sh.gone {
		ok = true
		break
	}
	if e := sh.queue.copied.behind; !ok && e != &sh.queue {
		ok = true
		e.leaveQueue()
		c.Pin.Key, c.Pin.Workers, c.After = e.key, e.workers, sh.version(e)
	}
	if ok {
		delete(sh.gone, c.Pin.Key)
		sh.writing, sh.busy = c, true
	}
	return c, ok
}

// Stored says that a change was stored at version, or forgotten.
func (s SharedPins) Stored(c PinChange, version uint64, now time.Time) {
	s.pins.mu.Lock()
	defer s.pins.mu.Unlock()
	sh := s.pins.shared
	if c.pass != sh.pass {
		s.pins.retry(c)
		return
	}
	sh.busy = false
	if c.Forget() {
		return
	}
	e := s.pins.keys[c.Pin.Key]
	if _, undone := sh.gone[c.Pin.Key]; undone && e == nil {
		sh.gone[c.Pin.Key] = version
	}
	if e != nil && version > sh.version(e) {
		sh.stored(e, version, now)
	}
}

// Conflict says that a change was turned down, since something else is stored, for
// age: pin, or nothing if that is nil. What is stored holds, unless it is an older
// word of this replica.
func (s SharedPins) Conflict(c PinChange, pin *worker.Pin, version uint64, age time.Duration, now time.Time) {
	s.pins.mu.Lock()
	defer s.pins.mu.Unlock()
	sh := s.pins.shared
	if c.pass != sh.pass {
		s.pins.retry(c)
		return
	}
	sh.busy = false
	e := s.pins.keys[c.Pin.Key]
	switch {
	case pin != nil && e == nil && c.Forget():
		sh.gone[c.Pin.Key] = 0 // learn decides
		s.pins.learn(pin, version, age, now)
		sh.wake()
	case pin != nil:
		s.pins.learn(pin, version, age, now)
		if e != nil && e.workers != few(pin.Workers) {
			sh.enqueue(e)
		}
	case e != nil: // it was stored for too long
		e.copied.version = 0
		sh.enqueue(e)
	}
}

// Retry says that a change may be stored or not, and has it tried again.
func (s SharedPins) Retry(c PinChange) {
	s.pins.mu.Lock()
	defer s.pins.mu.Unlock()
	s.pins.retry(c)
}

// retry is called with p.mu held.
func (p *pins) retry(c PinChange) {
	sh := p.shared
	sh.busy = false
	e := p.keys[c.Pin.Key]
	switch {
	case !c.Forget():
		if e != nil {
			sh.enqueue(e)
		}
	case e == nil && c.pass == sh.pass:
		sh.gone[c.Pin.Key] = c.After
		sh.wake()
	}
}

// Drop says that a change cannot be stored. A pin that is used is tried again when
// it would be written again anyway.
func (s SharedPins) Drop(c PinChange, now time.Time) {
	s.pins.mu.Lock()
	defer s.pins.mu.Unlock()
	s.pins.shared.busy = false
	if e := s.pins.keys[c.Pin.Key]; e != nil {
		e.copied.saved = now
	}
}

// Begin says that all that is stored is told with [SharedPins.Learn] from here on,
// and that the store may be another one.
func (s SharedPins) Begin() {
	s.pins.mu.Lock()
	defer s.pins.mu.Unlock()
	s.pins.shared.begin()
}

// Learn tells what is stored, by this replica or another, and for how long.
func (s SharedPins) Learn(pin *worker.Pin, version uint64, age time.Duration, now time.Time) {
	s.pins.mu.Lock()
	defer s.pins.mu.Unlock()
	s.pins.learn(pin, version, age, now)
}

// Unlearn tells that somebody has deleted a pin.
func (s SharedPins) Unlearn(key worker.PinKey, version uint64) {
	s.pins.mu.Lock()
	defer s.pins.mu.Unlock()
	s.pins.unlearn(key, version)
}

// Synced says that all that was stored at Begin has been told: what this replica
// answered for and is not among it is stored again.
func (s SharedPins) Synced() {
	s.pins.mu.Lock()
	defer s.pins.mu.Unlock()
	s.pins.refill()
}
