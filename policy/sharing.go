package policy

import (
	"maps"
	"time"

	"smg/worker"
)

// sharing is what other replicas of the leg are to be told of the pins, and what is
// known to be stored where all of them look. pins.mu guards it. Nothing here waits:
// [SharedPins] is what a writer of its own goes by.
type sharing struct {
	replica worker.ReplicaID
	every   time.Duration // between two writes of a pin that only is used; 0 is never
	changed chan struct{} // holds one: there is something to be written

	pass   uint32 // how often what is stored was told from the beginning
	synced bool   // all of it was, in this pass
	known  bool   // in any pass

	queue   pin       // list head: queue.behind is written next
	writing PinChange // while busy
	busy    bool

	// Keys that are to be forgotten by all, with the version of what is stored, 0 while
	// that is unknown.
	gone map[worker.PinKey]uint64
}

// mostGone is how many keys wait to be forgotten by all; of more, some are
// remembered until they have been idle for too long.
const mostGone = 4096

// copied is how a pin stands to what is stored of it.
type copied struct {
	own           bool // this replica has answered for the key
	pass          uint32
	version       uint64    // of what is stored, told in that pass
	saved         time.Time // when that was
	ahead, behind *pin      // in the queue, nil outside
}

// share begins to tell others.
func (p *pins) share(replica worker.ReplicaID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	sh := &sharing{replica: replica, changed: make(chan struct{}, 1), gone: map[worker.PinKey]uint64{}}
	if p.expires() {
		sh.every = p.idle / 10
	}
	sh.queue.copied.ahead, sh.queue.copied.behind = &sh.queue, &sh.queue
	p.shared = sh
}

// expires says whether pins are forgotten that are idle for too long.
func (p *pins) expires() bool { return p.idle > 0 && p.interval > 0 }

// changed has a pin written that is another now.
func (p *pins) changed(e *pin) {
	e.copied.own = true
	if p.shared != nil {
		p.shared.enqueue(e)
	}
}

// refresh has a pin that is used written again in time.
func (p *pins) refresh(e *pin, now time.Time) {
	e.copied.own = true
	if sh := p.shared; sh != nil && sh.every > 0 && now.Sub(e.copied.saved) >= sh.every && !sh.waiting(e) {
		sh.enqueue(e)
	}
}

// retract forgets a pin, and has all others forget it if it is this replica's.
func (p *pins) retract(e *pin) {
	p.remove(e)
	sh := p.shared
	if sh == nil || !e.copied.own {
		return
	}
	version, writing := sh.version(e), sh.isWriting(e.key)
	if never := e.copied.pass == 0 || version == 0 && sh.synced; never && !writing {
		return
	}
	if len(sh.gone) >= mostGone {
		for other := range sh.gone {
			delete(sh.gone, other)
			break
		}
	}
	sh.gone[e.key] = version
	sh.wake()
}

// learn takes over what is stored.
func (p *pins) learn(pin *worker.Pin, version uint64, age time.Duration, now time.Time) {
	sh, used, own := p.shared, now.Add(-age), pin.Replica == p.shared.replica
	e := p.keys[pin.Key]
	if e == nil {
		if own && sh.undone(pin.Key, version) {
			return
		}
		if p.expires() && age >= p.idle {
			return
		}
		e = p.add(pin.Key, used)
		e.workers, e.copied.own = pin.Workers, own
		sh.stored(e, version, used)
		return
	}
	if version <= sh.version(e) {
		return
	}
	sh.stored(e, version, used)
	if !own {
		p.keep(e) // it is another's too, whatever becomes of the call that made it here
	}
	switch {
	case e.workers == few(pin.Workers):
		e.leaveQueue()
	case own:
		if !sh.waiting(e) { // an older word of this replica
			sh.enqueue(e)
		}
	default:
		e.workers = pin.Workers
		e.leaveQueue()
	}
	if used.After(e.used) {
		e.used = used
		e.unlink()
		p.pushNewest(e)
	}
}

// unlearn forgets what somebody deleted.
func (p *pins) unlearn(key worker.PinKey, version uint64) {
	sh := p.shared
	if v, ok := sh.gone[key]; ok && v < version && !sh.isWriting(key) {
		delete(sh.gone, key)
	}
	e := p.keys[key]
	switch {
	case e == nil || version <= sh.version(e):
	case sh.waiting(e): // pinned anew meanwhile
		e.copied.version, e.copied.pass = version, sh.pass
	default:
		p.remove(e)
	}
}

// begin says that what is stored is told from the beginning; what was known of it
// says nothing any more.
func (sh *sharing) begin() {
	sh.pass++
	sh.synced = false
	for key := range sh.gone {
		sh.gone[key] = 0
	}
}

// refill has written again what this replica answered for and is not stored. It
// gives the lock back at times.
func (p *pins) refill() {
	sh := p.shared
	sh.synced, sh.known = true, true
	maps.DeleteFunc(sh.gone, func(key worker.PinKey, version uint64) bool { return version == 0 && !sh.isWriting(key) })
	seen := 0
	for _, e := range p.keys {
		if e.copied.own && e.copied.pass != sh.pass {
			sh.enqueue(e)
		}
		if seen++; seen%batch == 0 {
			p.mu.Unlock()
			p.mu.Lock()
		}
	}
	sh.wake()
}

// version is that of what is stored of a pin, 0 for nothing that is known.
func (sh *sharing) version(e *pin) uint64 {
	if e.copied.pass != sh.pass {
		return 0
	}
	return e.copied.version
}

// stored notes what is stored of a pin since when.
func (sh *sharing) stored(e *pin, version uint64, at time.Time) {
	e.copied.version, e.copied.pass = version, sh.pass
	if at.After(e.copied.saved) {
		e.copied.saved = at
	}
}

// isWriting says whether a pin of the key is being written.
func (sh *sharing) isWriting(key worker.PinKey) bool {
	return sh.busy && sh.writing.Pin.Key == key && !sh.writing.Forget()
}

// undone says whether a pin of this replica that is stored is to be forgotten.
func (sh *sharing) undone(key worker.PinKey, version uint64) bool {
	c := &sh.writing
	_, waits := sh.gone[key]
	now := sh.busy && c.Pin.Key == key && c.Forget()
	if waits || now && (version > c.After || c.pass != sh.pass) {
		sh.gone[key] = version
	}
	return waits || now
}

// waiting says whether a pin is being written, or will be.
func (sh *sharing) waiting(e *pin) bool { return e.copied.behind != nil || sh.isWriting(e.key) }

func (sh *sharing) enqueue(e *pin) {
	if e.copied.behind == nil {
		last := sh.queue.copied.ahead
		e.copied.ahead, e.copied.behind = last, &sh.queue
		last.copied.behind, sh.queue.copied.ahead = e, e
	}
	sh.wake()
}

func (e *pin) leaveQueue() {
	if c := &e.copied; c.behind != nil {
		c.ahead.copied.behind, c.behind.copied.ahead = c.behind, c.ahead
		c.ahead, c.behind = nil, nil
	}
}

func (sh *sharing) wake() {
	select {
	case sh.changed <- struct{}{}:
	default:
	}
}
