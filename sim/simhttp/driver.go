package simhttp

import (
	"context"
	"sync"
	"time"

	"smg/sim"
)

// driver runs a scheduler in real time, scaled. It is the only one who touches
// it, always under mu.
type driver struct {
	scale float64
	clock func() time.Time
	wake  chan struct{} // holds one: "look again"

	mu       sync.Mutex
	engine   *sim.Engine
	origin   time.Time // the real time of the engine's time 0
	pausedAt time.Time // zero while time runs
	slots    map[sim.ID]slot
	jobs     map[*job]struct{} // those that are not closed
	running  map[string]int    // how many of them have a request id
	// blocks, if set, hears how the prefix cache changes, under mu.
	blocks func([]sim.BlockEvent)
}

// slot is where the progress of a sequence is kept.
type slot struct {
	job   *job
	index int
}

func newDriver(engine *sim.Engine, scale float64, clock func() time.Time) *driver {
	return &driver{
		scale: scale, clock: clock, origin: clock(), engine: engine,
		wake: make(chan struct{}, 1), slots: make(map[sim.ID]slot), jobs: make(map[*job]struct{}),
		running: make(map[string]int),
	}
}

// now returns the engine's time. With a scale of 0 it moves only with events.
func (d *driver) now() time.Duration {
	if d.scale == 0 {
		return d.engine.Now()
	}
	at := d.clock()
	if !d.pausedAt.IsZero() {
		at = d.pausedAt
	}
	return time.Duration(float64(at.Sub(d.origin)) / d.scale)
}

// do gives f the engine and its time.
func (d *driver) do(f func(e *sim.Engine, now time.Duration)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f(d.engine, d.now())
	d.poke()
}

// pause stops the engine's time, or lets it go on from where it was.
func (d *driver) pause(on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case on && d.pausedAt.IsZero():
		d.pausedAt = d.clock()
	case !on && !d.pausedAt.IsZero():
		d.origin = d.origin.Add(d.clock().Sub(d.pausedAt))
		d.pausedAt = time.Time{}
	}
	d.poke()
}

// poke has the loop look again. It is called whenever the engine was given something.
func (d *driver) poke() {
	d.tellBlocks()
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// tellBlocks passes on how the prefix cache has changed. mu is held.
func (d *driver) tellBlocks() {
	if d.blocks == nil {
		return
	}
	if changes := d.engine.BlockEvents(); len(changes) > 0 {
		d.blocks(changes)
	}
}

// run steps the engine whenever something is due, until ctx ends.
func (d *driver) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for ctx.Err() == nil {
		wait, due := d.step()
		if due && wait <= 0 {
			continue
		}
		var expired <-chan time.Time
		if due {
			timer.Reset(wait)
			expired = timer.C
		}
		select {
		case <-ctx.Done():
		case <-d.wake:
		case <-expired:
		}
	}
}

// stepsPerLock bounds how long step keeps others from the engine.
const stepsPerLock = 64

// step does what is due and returns the real time until the next event, and
// false if none is to come.
func (d *driver) step() (time.Duration, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for range stepsPerLock {
		if !d.pausedAt.IsZero() {
			return 0, false
		}
		at, ok := d.engine.Next()
		if !ok {
			return 0, false
		}
		now := d.now()
		if d.scale == 0 {
			now = at
		}
		if at > now {
			return max(time.Duration(float64(at-now)*d.scale), 1), true
		}
		events := d.engine.Step(now)
		d.tellBlocks()
		for _, ev := range events {
			d.dispatch(ev)
		}
	}
	return 0, true
}

func (d *driver) dispatch(ev sim.Event) {
	s, ok := d.slots[ev.ID]
	if !ok {
		return // of a batch that was refused as a whole
	}
	j, p := s.job, &s.job.sequences[s.index]
	if !p.done {
		p.tokens, p.cached = ev.Tokens, ev.Cached
	}
	switch ev.Kind {
	case sim.Token:
		if ev.Tokens == 1 {
			p.first = d.clock()
		}
	case sim.Admitted:
		if d.engine.Awaits(ev.ID) {
			p.openGate()
		}
	case sim.Ready:
		if j.onReady != nil {
			j.settle(p, false)
			j.onReady(s.index, ev.ID)
		}
		p.openGate()
	case sim.Done:
		j.settle(p, ev.Aborted)
		p.ended, p.lost = true, ev.Aborted
		p.openGate()
		if p.over != nil {
			close(p.over)
		}
		delete(d.slots, ev.ID)
	}
	if j.left == 0 || j.everyToken {
		j.signal()
	}
}
