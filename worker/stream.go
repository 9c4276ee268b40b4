package worker

import (
	"slices"
	"time"
)

// streamKey names a lease stream. A restarted ingress continues it under a higher
// incarnation.
type streamKey struct {
	ingress string
	leg     Leg
}

// stream is what a fold holds of one ingress on one leg.
type stream struct {
	incarnation uint64
	seq         uint64 // last applied
	heard       int64
	silent      bool // lost its leases
	beats       uint64
	want        int // leases that the last beat announced, -1 before the first
	open        [Quarters][]*call
}

// forgotten is how long a silent stream's last number is kept, so that a message
// delayed by less is still known to be old.
const forgotten = 10 * time.Minute

// held is the number of open leases.
func (s *stream) held() int {
	n := 0
	for _, q := range s.open {
		n += len(q)
	}
	return n
}

// Apply folds one message of a lease stream and appends to events what it says of
// workers' health. A message numbered not above the last one applied is dropped;
// gaps are ignored, since beats mend what was lost. A higher incarnation of an
// ingress ends the leases of the lower one, which is heard again only once the
// higher has been silent for [IngressSilent]; so ingresses that run at the same
// time need different names. The batch is not kept.
func (f *Fold) Apply(b *Batch, now time.Time, events []Event) []Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.instant(now)
	s := f.streams[streamKey{b.Ingress, b.Leg}]
	switch {
	case s == nil:
		s = &stream{incarnation: b.Incarnation, want: -1}
		f.streams[streamKey{b.Ingress, b.Leg}] = s
	case b.Incarnation > s.incarnation || b.Incarnation < s.incarnation && s.silent:
		f.closeAll(s)
		s.incarnation, s.seq, s.want = b.Incarnation, 0, -1
	case b.Incarnation < s.incarnation:
		return events
	}
	if b.Seq <= s.seq {
		return events
	}
	s.seq, s.heard, s.silent = b.Seq, t, false
	for i := range b.Entries {
		if e := &b.Entries[i]; b.owns(e.Lease.ID) {
			events = f.apply(s, e, t, events)
		}
	}
	if b.Beat != nil {
		f.renew(s, b, t)
	}
	return events
}

// owns says whether an id is the sender's to write.
func (b *Batch) owns(id LeaseID) bool {
	return id.Incarnation == b.Incarnation && id.Leg == b.Leg
}

func (f *Fold) apply(s *stream, e *Entry, t int64, events []Event) []Event {
	c := f.calls[e.Lease.ID.key()]
	switch e.Kind {
	case EntryStart:
		events = elsewhere(c, &e.Lease, events)
		c = f.open(s, c, &e.Lease, t)
		if !c.credited {
			c.credited, c.at = true, t
			f.addCredit(c.load, t, c.tokens)
		}
	case EntryHead:
		if c == nil || c.stream == nil || c.headed {
			return events
		}
		c.headed = true
		events = append(events, Event{Lease: c.id, Worker: c.load.id, Outcome: Success, Probe: c.probe})
		f.freeSlot(c)
	case EntryEnd:
		if c == nil {
			if e.Unreached {
				events = append(events, Event{Lease: e.Lease.ID, Unreached: true})
			}
			return events
		}
		events = f.end(c, e, t, events)
	case EntryWhole:
		events = elsewhere(c, &e.Lease, events)
		if c != nil {
			f.drop(c)
		}
		if l := f.loads[e.Lease.Worker]; l != nil && !e.Unreached {
			f.addCredit(l, t, e.Lease.Tokens)
		}
		if e.Outcome != Neutral || e.Unreached {
			events = append(events, Event{e.Lease.ID, e.Lease.Worker, e.Outcome, e.Lease.Probe, e.Unreached})
		}
	}
	return events
}

// elsewhere tells the policy that made an own choice that another one was taken: of
// another replica, or of the ingress itself.
func elsewhere(c *call, l *Lease, events []Event) []Event {
	if c == nil || c.stream != nil || c.load.id == l.Worker {
		return events
	}
	return append(events, Event{Lease: c.id, Worker: c.load.id, Unreached: true})
}

// end closes a lease whose start was heard, or a grant whose start was lost.
func (f *Fold) end(c *call, e *Entry, t int64, events []Event) []Event {
	if c.stream == nil {
		if !e.Unreached {
			f.addCredit(c.load, t, c.tokens)
		}
	} else if c.credited && e.Unreached {
		f.takeBack(c)
	}
	if e.Outcome == Failure || e.Outcome == Success && !c.headed || e.Unreached {
		events = append(events, Event{c.id, c.load.id, e.Outcome, c.probe, e.Unreached})
	}
	f.drop(c)
	return events
}

func (f *Fold) takeBack(c *call) {
	l := c.load
	l.ledger.takeBack(c.at, c.tokens)
	l.settleCredit()
	c.credited = false
}

// open makes c, which may be nil or a grant or open already, an open lease.
func (f *Fold) open(s *stream, c *call, l *Lease, t int64) *call {
	load := f.load(l.Worker)
	switch {
	case c == nil:
		c = f.newCall(l.ID)
		f.calls[l.ID.key()] = c
		f.count(c, load, marksOf(l))
	case c.stream == nil:
		f.ungrant(c)
		f.recount(c, load, marksOf(l))
	default:
		if c.credited && (c.load != load || c.tokens != l.Tokens) {
			f.takeBack(c)
		}
		m := marksOf(l)
		m.probe = m.probe && !c.headed
		f.recount(c, load, m)
		c.tokens = max(0, l.Tokens)
		return c
	}
	q := &s.open[l.ID.Quarter()]
	c.stream, c.pos, c.tokens, c.at = s, len(*q), max(0, l.Tokens), t
	*q = append(*q, c)
	return c
}

// recount moves a counted call to another counter or changes its marks.
func (f *Fold) recount(c *call, l *Load, m marks) {
	if c.load == l && c.marks == m {
		return
	}
	old := *c
	f.count(c, l, m)
	f.uncount(&old)
}

// drop ends a call, granted or open.
func (f *Fold) drop(c *call) {
	if c.stream == nil {
		f.ungrant(c)
	} else {
		q := &c.stream.open[c.id.Quarter()]
		last := len(*q) - 1
		moved := (*q)[last]
		(*q)[c.pos], moved.pos = moved, c.pos
		(*q)[last] = nil
		*q = (*q)[:last]
	}
	f.uncount(c)
	f.forget(c)
}

// renew replaces a quarter of a stream's leases, or a part of one, by what the beat
// lists. Such a
// lease gives no credit: nobody knows when it began.
func (f *Fold) renew(s *stream, b *Batch, t int64) {
	s.want = b.Beat.Open
	s.beats++
	for i := range b.Beat.Renewed {
		l := &b.Beat.Renewed[i]
		if b.owns(l.ID) && l.ID.Quarter() == b.Beat.Quarter && l.ID.Part(b.Beat.Parts) == b.Beat.Part {
			f.open(s, f.calls[l.ID.key()], l, t).seen = s.beats
		}
	}
	if b.Beat.Quarter >= Quarters {
		return
	}
	for _, c := range slices.Backward(s.open[b.Beat.Quarter]) { // drop moves only what was looked at
		if c.seen != s.beats && c.id.Part(b.Beat.Parts) == b.Beat.Part {
			f.drop(c)
		}
	}
}

// closeAll ends every lease of a stream.
func (f *Fold) closeAll(s *stream) {
	for q := range s.open {
		for n := len(s.open[q]); n > 0; n-- {
			f.drop(s.open[q][n-1])
		}
	}
}

// Tick ends what has lived too long: grants, and the leases of silent ingresses.
// late says that the caller's loop ran more than [LateLoop] behind; then it cannot
// tell who is silent, and the silence timers restart.
func (f *Fold) Tick(now time.Time, late bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.instant(now)
	for c := f.grants.next; c != &f.grants && t-c.at > int64(GrantLife); c = f.grants.next {
		f.drop(c)
	}
	if late || !f.connected {
		f.restart(t)
		return
	}
	for key, s := range f.streams {
		switch {
		case t-s.heard > int64(forgotten):
			f.closeAll(s)
			delete(f.streams, key)
		case t-s.heard > int64(IngressSilent) && !s.silent:
			f.closeAll(s)
			s.silent = true
		}
	}
}

// restart restarts the silence timers.
func (f *Fold) restart(t int64) {
	for _, s := range f.streams {
		if !s.silent {
			s.heard = t
		}
	}
}

// Disconnected says that this replica hears nothing at present: nobody is silent.
func (f *Fold) Disconnected() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.connected = false
}

// Reconnected restarts the silence timers: who was not heard had nobody to hear.
func (f *Fold) Reconnected(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.connected = true
	f.restart(f.instant(now))
}

// Complete says whether the fold holds nine tenths of the leases that each ingress
// it hears has announced. An ingress that was heard, but has not beaten yet, is
// not complete.
func (f *Fold) Complete() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.streams {
		if !s.silent && (s.want < 0 || s.held() < s.want*9/10) {
			return false
		}
	}
	return true
}
