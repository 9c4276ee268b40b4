package worker

import (
	"maps"
	"sync"
	"sync/atomic"
)

// Plans numbers the plans of one incarnation of an ingress, over all its legs. It
// is safe for concurrent use.
type Plans struct {
	incarnation uint64
	last        atomic.Uint64
}

// NewPlans numbers the plans of an incarnation from 1. Incarnations must rise with
// each start of an ingress: use the time.
func NewPlans(incarnation uint64) *Plans { return &Plans{incarnation: incarnation} }

// Incarnation is the incarnation whose plans are numbered.
func (p *Plans) Incarnation() uint64 { return p.incarnation }

// Next is the number of a new plan. Any ask that is not a hedge takes one.
func (p *Plans) Next() uint64 { return p.last.Add(1) }

// Lease is the id of a plan's lease on a leg; item counts the media items of an
// encode leg, else it is 0.
func (p *Plans) Lease(plan uint64, leg Leg, item uint16) LeaseID {
	return LeaseID{Incarnation: p.incarnation, Plan: plan, Leg: leg, Item: item}
}

// Wake says what a new entry asks of the goroutine that publishes a stream.
type Wake uint8

// Wakes. None of them may be dropped.
const (
	WakeNone Wake = iota
	WakeSoon      // the first entry of a batch: flush within BatchDelay
	WakeNow       // the batch is full: flush now
)

// LeaseWriter is an ingress's end of the lease stream on one leg: it knows which
// leases are open and turns their changes into batches. Each lease is ended once,
// whatever is called how often. It is safe for concurrent use; Flush and Beat are
// for the one goroutine that publishes.
type LeaseWriter struct {
	ingress     string
	incarnation uint64
	leg         Leg

	mu      sync.Mutex
	open    map[uint64]*held // by plan and item
	quarter [Quarters][]*held
	active  map[ID]*int // of workers that have some, and of some that had
	roomy   int         // how many are in active before those that have none are dropped
	free    []*held

	pending []Entry
	flushed []Entry // lent out by Flush or Beat
	batch   uint64  // counts the swaps of pending
	renewed []Lease
	seq     uint64
	beats   uint64
	part    int // of the last beat, the last one that was published
	parts   int
}

// held is one open lease and where its start waits to be published.
type held struct {
	lease  Lease
	active *int   // of its worker
	pos    int    // in quarter
	batch  uint64 // in which it was begun
	entry  int    // index of its start in pending while batch is the writer's
	head   bool
}

// NewLeaseWriter is a stream without leases. ingress is the stable name of the
// ingress process, different from those of all others.
func NewLeaseWriter(ingress string, incarnation uint64, leg Leg) *LeaseWriter {
	return &LeaseWriter{ingress: ingress, incarnation: incarnation, leg: leg, open: map[uint64]*held{}, active: map[ID]*int{}}
}

// key is a lease of this writer as it is kept: plans have 48 bits, which would last
// for years at a million a second. False: it is of another incarnation or leg.
func (w *LeaseWriter) key(id LeaseID) (uint64, bool) {
	return id.Plan<<16 | uint64(id.Item), id.Incarnation == w.incarnation && id.Leg == w.leg
}

// find is the open lease of an id, or nil.
func (w *LeaseWriter) find(id LeaseID) *held {
	key, own := w.key(id)
	if !own {
		return nil
	}
	return w.open[key]
}

// Begin opens a lease that a selector's reply has granted, or that the ingress
// chose itself. A second Begin of an open id is a late reply and changes nothing;
// nor does an id that is not of the writer's incarnation and leg.
func (w *LeaseWriter) Begin(l Lease) Wake {
	w.mu.Lock()
	defer w.mu.Unlock()
	key, own := w.key(l.ID)
	if !own || w.open[key] != nil {
		return WakeNone
	}
	var h *held
	if n := len(w.free); n > 0 {
		h, w.free = w.free[n-1], w.free[:n-1]
	} else {
		h = &held{}
	}
	q := &w.quarter[l.ID.Quarter()]
	n := w.active[l.Worker]
	if n == nil {
		n = w.count(l.Worker)
	}
	*n++
	*h = held{lease: l, active: n, pos: len(*q), batch: w.batch, entry: len(w.pending)}
	*q = append(*q, h)
	w.open[key] = h
	return w.add(Entry{Kind: EntryStart, Lease: l})
}

// minCounts is how many workers keep their count at least, though they have no lease.
const minCounts = 64

// count makes the count of a worker. Workers come and go: when those that have none are
// half of all, or more, they are dropped. w.mu is held.
func (w *LeaseWriter) count(id ID) *int {
	if len(w.active) >= max(w.roomy, minCounts) {
		maps.DeleteFunc(w.active, func(_ ID, n *int) bool { return *n == 0 })
		w.roomy = 2 * len(w.active)
	}
	n := new(int)
	w.active[id] = n
	return n
}

// Head says that the answer head of an open lease was good. It is published for a
// probe, whose half-open slot it frees; the end then repeats no success.
func (w *LeaseWriter) Head(id LeaseID) Wake {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.find(id)
	if h == nil || h.head || !h.lease.Probe {
		return WakeNone
	}
	h.head = true
	h.lease.Probe = false // what beats say from now on
	return w.add(Entry{Kind: EntryHead, Lease: Lease{ID: id}})
}

// End closes a lease. unreached says that the call never got to the worker. An id
// that is not open is ended already; then nothing happens.
func (w *LeaseWriter) End(id LeaseID, outcome Outcome, unreached bool) Wake {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.find(id)
	if h == nil {
		return WakeNone
	}
	key, _ := w.key(id)
	delete(w.open, key)
	*h.active--
	q := &w.quarter[id.Quarter()]
	last := len(*q) - 1
	moved := (*q)[last]
	(*q)[h.pos], moved.pos = moved, h.pos
	(*q)[last] = nil
	*q = (*q)[:last]
	if len(w.free) < spareCalls {
		w.free = append(w.free, h)
	}
	if h.batch == w.batch {
		e := &w.pending[h.entry]
		e.Kind, e.Outcome, e.Unreached = EntryWhole, outcome, unreached
		return WakeNone
	}
	return w.add(Entry{Kind: EntryEnd, Lease: Lease{ID: id}, Outcome: outcome, Unreached: unreached})
}

// LateReply answers a grant that nobody waits for any more with its end, unless
// the lease is open: then another replica's grant of the same id was taken.
func (w *LeaseWriter) LateReply(id LeaseID) Wake {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.find(id) != nil {
		return WakeNone
	}
	return w.add(Entry{Kind: EntryEnd, Lease: Lease{ID: id}, Unreached: true})
}

// add queues an entry.
func (w *LeaseWriter) add(e Entry) Wake {
	w.pending = append(w.pending, e)
	switch len(w.pending) {
	case 1:
		return WakeSoon
	case BatchEntries:
		return WakeNow
	}
	return WakeNone
}

// Flush is the next batch to publish; false: there is none. The batch is valid
// until the next Flush or Beat. It is numbered whether or not it can be published:
// what is lost is mended by beats.
func (w *LeaseWriter) Flush() (Batch, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.pending) == 0 {
		return Batch{}, false
	}
	return w.take(), true
}

// Beat is what to publish every [BeatInterval], and first after a reconnect, followed
// by what More has. Like that of Flush, the batch carries what is pending, and is valid
// until the next Flush, Beat or More.
func (w *LeaseWriter) Beat() Batch {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.beats++
	w.part = 0
	w.parts = min(MaxParts, max(1, (len(w.quarter[w.beaten()])+PartLeases-1)/PartLeases))
	maps.DeleteFunc(w.active, func(_ ID, n *int) bool { return *n == 0 })
	return w.beat()
}

// More is the next part of the last Beat; false: there is none.
func (w *LeaseWriter) More() (Batch, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.part+1 >= w.parts {
		return Batch{}, false
	}
	w.part++
	return w.beat(), true
}

// beaten is the quarter of the last beat.
func (w *LeaseWriter) beaten() uint8 { return uint8((w.beats - 1) % Quarters) }

// beat is the part of a beat that is due.
func (w *LeaseWriter) beat() Batch {
	b := w.take()
	w.renewed = w.renewed[:0]
	for _, h := range w.quarter[w.beaten()] {
		if h.lease.ID.Part(w.parts) == w.part {
			w.renewed = append(w.renewed, h.lease)
		}
	}
	b.Beat = &Beat{Open: len(w.open), Quarter: w.beaten(), Renewed: w.renewed}
	if w.parts > 1 {
		b.Beat.Part, b.Beat.Parts = w.part, w.parts
	}
	return b
}

// take lends the pending entries out.
func (w *LeaseWriter) take() Batch {
	w.pending, w.flushed = w.flushed[:0], w.pending
	w.batch++
	w.seq++
	return Batch{Ingress: w.ingress, Incarnation: w.incarnation, Leg: w.leg, Seq: w.seq, Entries: w.flushed}
}

// Open is the number of open leases.
func (w *LeaseWriter) Open() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.open)
}

// Worker is whom an open lease is on, or the zero ID.
func (w *LeaseWriter) Worker(id LeaseID) ID {
	w.mu.Lock()
	defer w.mu.Unlock()
	if h := w.find(id); h != nil {
		return h.lease.Worker
	}
	return ID{}
}

// Active is the number of open leases of one worker.
func (w *LeaseWriter) Active(id ID) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := w.active[id]; n != nil {
		return *n
	}
	return 0
}

// ActiveByWorker is a copy of the number of open leases of every worker that has
// any.
func (w *LeaseWriter) ActiveByWorker() map[ID]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := make(map[ID]int, len(w.active))
	for id, n := range w.active {
		if *n > 0 {
			m[id] = *n
		}
	}
	return m
}
