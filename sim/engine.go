package sim

import (
	"fmt"
	"slices"
	"time"
)

// Engine is one simulated engine. It is not safe for concurrent use. Times
// passed to it must not go back; an earlier time counts as the latest one.
type Engine struct {
	cfg  Config
	pool *pool

	now       time.Duration
	busy      bool // an iteration is running and ends at iterEnd
	iterEnd   time.Duration
	nextID    ID
	window    int // limit on running sequences below MaxRunning; -1 is none
	waiting   []*sequence
	running   []*sequence // in order of admission
	receiving []*sequence // admitted, without KV yet
	sending   []*sequence // computed, with their blocks, in the order of Ready
	line      []*sequence // the share of sending that is on the line, by sentAt
	lineFree  time.Duration
	// Of the transfer that ended last: how long it took, and bytes per second.
	lastTransfer time.Duration
	lastSpeed    float64
	sequences    map[ID]*sequence
	backlog      int // sum of the waiting sequences' estimates

	events, spare []Event
	totals        Totals
	meter         meter
}

// New returns an idle engine at time 0.
func New(cfg Config) (*Engine, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("simulated engine: %w", err)
	}
	return &Engine{
		cfg:       cfg,
		pool:      newPool(cfg.KVBlocks),
		window:    -1,
		sequences: make(map[ID]*sequence),
	}, nil
}

// Config returns what the engine was made from.
func (e *Engine) Config() Config { return e.cfg }

// Now returns the latest time the engine has been told.
func (e *Engine) Now() time.Duration { return e.now }

// Submit queues r. It fails with ErrEmpty, ErrTooLong or ErrQueueFull, which
// leave no trace. Requests submitted at the same instant enter the same batch.
func (e *Engine) Submit(now time.Duration, r Request) (ID, error) {
	e.advance(now)
	switch {
	case r.PromptTokens < 1:
		return 0, ErrEmpty
	case r.PromptTokens+max(r.OutputTokens, 0) > e.cfg.Context():
		return 0, ErrTooLong
	case e.cfg.MaxQueue > 0 && len(e.waiting) >= e.cfg.MaxQueue:
		return 0, ErrQueueFull
	}
	e.nextID++
	s := &sequence{id: e.nextID, req: r, arrived: e.now}
	if r.Handover != Receive {
		matched, _ := e.pool.match(e.reusable(s))
		s.estimate = s.total() - matched*e.cfg.BlockSize
	}
	e.enqueue(len(e.waiting), s)
	e.sequences[s.id] = s
	e.totals.Requests++
	return s.id, nil
}

// Abort ends a sequence wherever it is and frees its blocks at once. It
// reports false for an ID that is unknown or already done.
func (e *Engine) Abort(now time.Duration, id ID) bool {
	e.advance(now)
	s, ok := e.sequences[id]
	if !ok {
		return false
	}
	if !remove(&e.running, s) && !remove(&e.receiving, s) && !e.withdraw(s) {
		e.dequeue(slices.Index(e.waiting, s))
	}
	e.end(s, true)
	return true
}

// remove takes s out of list, if it is there.
func remove(list *[]*sequence, s *sequence) bool {
	i := slices.Index(*list, s)
	if i < 0 {
		return false
	}
	*list = slices.Delete(*list, i, i+1)
	return true
}

// Step brings the engine to now: it ends every iteration that is due, starts
// the ones that follow, and returns what happened since the last call, in
// order. The slice is valid until the next Step.
func (e *Engine) Step(now time.Duration) []Event {
	e.advance(now)
	if !e.busy {
		e.begin()
	}
	out := e.events
	e.events, e.spare = e.spare[:0], out
	return out
}

// Next returns the moment at which Step has something to do or to tell, and
// false while nothing can happen without another call.
func (e *Engine) Next() (time.Duration, bool) {
	if len(e.events) > 0 {
		return e.now, true
	}
	if !e.busy && e.runnable() {
		return e.now, true
	}
	if at, ok := e.due(); ok {
		return at, true
	}
	return e.now, false
}

// SetWindow admits at most n sequences at a time and lets the others wait; a
// negative n removes the limit. Sequences already running go on.
func (e *Engine) SetWindow(now time.Duration, n int) {
	e.advance(now)
	e.window = max(n, -1)
}

// Flush empties the prefix cache. Like real engines it refuses while
// sequences are in flight, and reports so.
func (e *Engine) Flush() bool {
	if len(e.sequences) > 0 {
		return false
	}
	e.pool.flush()
	if e.pool.told {
		e.pool.change = append(e.pool.change[:0], BlockEvent{Kind: Cleared})
	}
	return true
}

// TellBlocks has the engine note from now on how its prefix cache changes.
func (e *Engine) TellBlocks() { e.pool.told = true }

// BlockEvents returns how the prefix cache has changed since the last call, in order.
func (e *Engine) BlockEvents() []BlockEvent {
	out := e.pool.change
	e.pool.change = nil
	return out
}

// advance ends the iterations and transfers that are due up to and including
// now. An iteration that would start exactly at now is left for Step, so that
// everything submitted at that instant can still join it.
func (e *Engine) advance(now time.Duration) {
	for {
		at, due := e.due()
		if due && at <= e.now {
			e.settle()
			continue
		}
		if !e.busy && e.now < now && e.begin() {
			continue
		}
		if !due || at > now {
			break
		}
		e.now = at
		e.settle()
	}
	e.now = max(e.now, now)
}

// due returns the moment at which the current iteration or a transfer ends,
// whichever is first.
func (e *Engine) due() (at time.Duration, ok bool) {
	at, ok = e.iterEnd, e.busy
	if len(e.line) > 0 && (!ok || e.line[0].sentAt < at) {
		at, ok = e.line[0].sentAt, true
	}
	return at, ok
}

// settle ends what is due at this instant: a transfer before an iteration.
func (e *Engine) settle() {
	if len(e.line) > 0 && e.line[0].sentAt <= e.now {
		e.sent()
		return
	}
	e.finish()
}

func (e *Engine) limit() int {
	if e.window >= 0 {
		return min(e.window, e.cfg.MaxRunning)
	}
	return e.cfg.MaxRunning
}

// runnable reports whether begin would do something. A running sequence can
// always go on; the first in the queue may have to wait for the blocks of
// sequences that are being sent or received.
func (e *Engine) runnable() bool {
	return len(e.running) > 0 || e.admissible()
}

func (e *Engine) enqueue(i int, s *sequence) {
	e.waiting = slices.Insert(e.waiting, i, s)
	e.backlog += s.estimate
}

func (e *Engine) dequeue(i int) *sequence {
	s := e.waiting[i]
	e.waiting = slices.Delete(e.waiting, i, i+1)
	e.backlog -= s.estimate
	return s
}

func (e *Engine) emit(s *sequence, kind EventKind) {
	e.events = append(e.events, Event{
		ID: s.id, Kind: kind, At: e.now, Tokens: s.generated, Cached: s.cached,
	})
}

// end takes s, which is in no queue any more, out of the engine.
func (e *Engine) end(s *sequence, aborted bool) {
	s.release(e.pool)
	delete(e.sequences, s.id)
	if aborted {
		e.totals.Aborted++
	} else {
		e.totals.Finished++
	}
	e.emit(s, Done)
	e.events[len(e.events)-1].Aborted = aborted
}
