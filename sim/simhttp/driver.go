package simhttp

import (
	"context"
	"slices"
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
}

// slot is where the progress of a sequence is kept.
type slot struct {
	job   *job
	index int
}

// job is the work of one HTTP request: one sequence or several.
type job struct {
	rids   []string
	driver *driver
	// changed holds one: "progress has something new".
	changed    chan struct{}
	everyToken bool

	// Guarded by driver.mu.
	sequences []progress
	left      int // sequences that are not done
}

// progress is how far one sequence is.
type progress struct {
	id      sim.ID
	tokens  int
	cached  int // prompt tokens found in the prefix cache
	done    bool
	aborted bool
	first   time.Time // when the first token came, in real time
}

func newDriver(engine *sim.Engine, scale float64, clock func() time.Time) *driver {
	return &driver{
		scale: scale, clock: clock, origin: clock(), engine: engine,
		wake: make(chan struct{}, 1), slots: make(map[sim.ID]slot),
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

// submit queues all requests or none. With everyToken the job signals each
// token, else only its end.
func (d *driver) submit(rids []string, requests []sim.Request, everyToken bool) (*job, error) {
	j := &job{
		rids: rids, driver: d, changed: make(chan struct{}, 1), everyToken: everyToken,
		sequences: make([]progress, len(requests)), left: len(requests),
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	for i, r := range requests {
		id, err := d.engine.Submit(now, r)
		if err != nil {
			d.abortLocked(j)
			for _, p := range j.sequences[:i] {
				delete(d.slots, p.id)
			}
			return nil, err
		}
		j.sequences[i].id = id
		d.slots[id] = slot{job: j, index: i}
	}
	d.poke()
	return j, nil
}

// abort ends what is left of j and frees its blocks before it returns.
func (d *driver) abort(j *job) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.abortLocked(j)
	d.poke()
}

func (d *driver) abortLocked(j *job) {
	now := d.now()
	for _, p := range j.sequences {
		if p.id != 0 && !p.done {
			d.engine.Abort(now, p.id)
		}
	}
}

// abortWhere aborts the jobs that match.
func (d *driver) abortWhere(match func(rid string) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	seen := map[*job]bool{}
	for _, s := range d.slots {
		if j := s.job; !seen[j] && slices.ContainsFunc(j.rids, match) {
			seen[j] = true
			d.abortLocked(j)
		}
	}
	d.poke()
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

func (d *driver) poke() {
	select {
	case d.wake <- struct{}{}:
	default:
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
		for _, ev := range d.engine.Step(now) {
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
	p.tokens, p.cached = ev.Tokens, ev.Cached
	if ev.Kind == sim.Token && ev.Tokens == 1 {
		p.first = d.clock()
	}
	if ev.Kind == sim.Done {
		p.done, p.aborted = true, ev.Aborted
		delete(d.slots, ev.ID)
		j.left--
	}
	if j.left > 0 && !j.everyToken {
		return
	}
	select {
	case j.changed <- struct{}{}:
	default:
	}
}

// progress copies the state of all sequences into dst.
func (j *job) progress(dst []progress) []progress {
	j.driver.mu.Lock()
	defer j.driver.mu.Unlock()
	return append(dst[:0], j.sequences...)
}

// wait returns when all sequences are done, or with the error of ctx.
func (j *job) wait(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-j.changed:
			j.driver.mu.Lock()
			left := j.left
			j.driver.mu.Unlock()
			if left == 0 {
				return nil
			}
		}
	}
}
