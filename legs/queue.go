package legs

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"smg/wire"
	"smg/worker"
)

// Bounds of what waits.
const (
	maxWaiting = 4096     // selects of a model
	maxPrompts = 64 << 20 // bytes of their prompts; what comes beyond waits without its prompt
)

// waiter is a select that waits for a worker with room.
type waiter struct {
	ask    *wire.Select // a copy, with nothing that is somebody else's
	model  string       // of the pool
	number uint64       // in the order in which they came
	since  time.Time
	until  time.Time // nobody waits for the answer after it
	bytes  int       // of the prompt

	// reply sends an answer. It does not block and calls nobody back.
	reply func(*wire.Reply)
	// answer is a pick whose lease is not open yet, and granted when it was made.
	answer  *wire.Reply
	granted time.Time
}

// choosy says that not everybody who has room is good enough, so that others behind
// need not wait for it.
func (w *waiter) choosy() bool {
	return w.ask.Fit != nil || w.ask.Target != "" || len(w.ask.Skip) > 0
}

// before says whether w comes before o: by its priority, then by its number.
func (w *waiter) before(o *waiter) bool {
	if w.ask.Priority != o.ask.Priority {
		return w.ask.Priority > o.ask.Priority
	}
	return w.number < o.number
}

// queue is the selects of a leg that wait, a line for each model. It is a value: nothing
// in it happens by itself. Finding out that nobody waits takes no lock.
type queue struct {
	size atomic.Int64 // selects in all lines, with picks that are not begun yet

	mu      sync.Mutex
	lines   map[string][]*waiter // in order; none is empty
	leases  map[worker.LeaseID]*waiter
	number  uint64
	prompts int // bytes
}

func newQueue() *queue {
	return &queue{lines: map[string][]*waiter{}, leases: map[worker.LeaseID]*waiter{}}
}

// waits says whether somebody in a model's line comes before a new ask of this priority.
func (q *queue) waits(model string, priority int) bool {
	if q.size.Load() == 0 {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.ContainsFunc(q.lines[model], func(w *waiter) bool { return w.answer == nil && w.ask.Priority >= priority })
}

// waiting is how many selects wait.
func (q *queue) waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for _, line := range q.lines {
		for _, w := range line {
			if w.answer == nil {
				n++
			}
		}
	}
	return n
}

// enter takes a select in. One that is in already stays where it is; answer is what it
// has got, if that may have been lost. full says that there is no place.
func (q *queue) enter(ask *wire.Select, model string, reply func(*wire.Reply), now time.Time) (answer *wire.Reply, full bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w := q.leases[ask.Lease]; w != nil {
		w.reply, w.until = reply, now.Add(ask.Wait)
		return w.answer, false
	}
	line := q.lines[model]
	if len(line) >= maxWaiting {
		return nil, true
	}
	q.number++
	w := &waiter{ask: q.kept(ask), model: model, number: q.number, since: now, until: now.Add(ask.Wait), reply: reply}
	w.bytes = len(w.ask.Text) + 4*len(w.ask.TokenIDs)
	q.prompts += w.bytes
	at, _ := slices.BinarySearchFunc(line, w, func(o, w *waiter) int {
		if o.before(w) {
			return -1
		}
		return 1
	})
	q.lines[model] = slices.Insert(line, at, w)
	q.leases[ask.Lease] = w
	q.size.Add(1)
	return nil, false
}

// kept is a copy of an ask that shares nothing with it. q.mu is held.
func (q *queue) kept(ask *wire.Select) *wire.Select {
	c := *ask
	c.Now = time.Time{}
	c.Skip = slices.Clone(ask.Skip)
	if q.prompts+len(ask.Text)+4*len(ask.TokenIDs) > maxPrompts {
		c.Text, c.TokenIDs = "", nil
		return &c
	}
	c.Text, c.TokenIDs = string([]byte(ask.Text)), slices.Clone(ask.TokenIDs)
	return &c
}

// leave takes a select out, wherever it has got.
func (q *queue) leave(id worker.LeaseID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w := q.leases[id]; w != nil {
		q.remove(w)
	}
}

// remove is leave. q.mu is held.
func (q *queue) remove(w *waiter) {
	line := q.lines[w.model]
	if i := slices.Index(line, w); len(line) > 1 {
		q.lines[w.model] = slices.Delete(line, i, i+1)
	} else {
		delete(q.lines, w.model)
	}
	delete(q.leases, w.ask.Lease)
	q.prompts -= w.bytes
	q.size.Add(-1)
}

// mostTries is how many choosy selects of a line are tried in vain, one after the
// other. Who would take anybody is tried beyond that: the worker that all of them leave
// out may be free.
const mostTries = 64

// serve tries to have workers picked for those who wait, the first of each line first.
// Nobody passes one who would take anybody, but many of them: one who waits for certain
// workers stops nobody. room says whether a try is worth it, try makes it. The answers
// that came of it are to be sent.
func (q *queue) serve(now time.Time, room func(model string, units int) bool, try func(*waiter) (wire.Pick, error)) (answers []answered) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for model, line := range q.lines {
		tries, stopped := 0, false
		for _, w := range slices.Clone(line) {
			if w.answer != nil || stopped && !w.choosy() || tries >= mostTries && w.choosy() {
				continue
			}
			if !room(model, 1) {
				break
			}
			a, ok := w.answered(try)
			if !ok {
				tries++
				stopped = stopped || !w.choosy()
				continue
			}
			answers = append(answers, answered{w.reply, a})
			if a.Err != nil {
				q.remove(w)
			} else {
				w.answer, w.granted = a, now
			}
		}
	}
	return answers
}

// answered is an answer, and how it is sent.
type answered struct {
	send  func(*wire.Reply)
	reply *wire.Reply
}

// answered is what comes of a try, if anything.
func (w *waiter) answered(try func(*waiter) (wire.Pick, error)) (*wire.Reply, bool) {
	pick, err := try(w)
	switch {
	case err == nil:
		return &wire.Reply{Lease: w.ask.Lease, Pick: pick}, true
	case isFull(err):
		return nil, false
	}
	return &wire.Reply{Lease: w.ask.Lease, Err: wire.ErrorOf(err)}, true
}

// tick does what time brings: whoever has waited too long is told so, and those of an
// ingress that is gone are dropped. A pick that nobody has begun in time was lost, and
// so was its grant: its select comes first once more, unless it is open after all.
func (q *queue) tick(now time.Time, hears func(incarnation uint64) bool, holds func(worker.LeaseID) bool) (answers []answered) {
	q.mu.Lock()
	defer q.mu.Unlock()
	heard := map[uint64]bool{}
	for _, w := range q.leases {
		from := w.ask.Lease.Incarnation
		if _, known := heard[from]; !known {
			heard[from] = hears(from)
		}
		switch {
		case !heard[from] && now.Sub(w.since) > worker.IngressSilent:
			q.remove(w)
		case now.After(w.until):
			if w.answer == nil {
				answers = append(answers, answered{w.reply, &wire.Reply{Lease: w.ask.Lease, Err: wire.ErrorOf(worker.ErrFull)}})
			}
			q.remove(w)
		case w.answer != nil && now.Sub(w.granted) > worker.GrantLife:
			if holds(w.ask.Lease) {
				q.remove(w)
			} else {
				w.answer = nil
			}
		}
	}
	return answers
}
