package worker

import "sync/atomic"

// Load is the work that a worker has right now, fleet-wide, as one replica knows
// it, and its last report. The counts' one writer is the [Fold]; reads are atomic and need no lock. It belongs
// to the worker's id, so it outlives a replacement under the same URL.
type Load struct {
	active   atomic.Int64
	extra    atomic.Int64 // units of calls beyond one each
	credit   atomic.Int64
	sent     atomic.Int64
	keys     atomic.Int64
	probes   atomic.Int64
	report   atomic.Pointer[Report] // the last one, nil for none; written by the Registry
	window   atomic.Int64           // sequences that it runs at a time, as it has said, 0 if it has not
	windowOf uint64                 // the epoch that has said so

	// The rest is guarded by Fold.mu.
	id      ID
	held    bool // a registry knows the worker
	dropped bool // no longer in Fold.loads
	granted sum  // of grants, a part of credit and sent
	ledger  ledger
	sharing map[uint64]int // calls in flight with a counted key
}

// sum is requests and their tokens.
type sum struct{ requests, tokens int64 }

func (s sum) plus(t sum) sum  { return sum{s.requests + t.requests, s.tokens + t.tokens} }
func (s sum) minus(t sum) sum { return sum{s.requests - t.requests, s.tokens - t.tokens} }

// Active is the number of calls in flight: open leases plus own grants.
func (l *Load) Active() int { return int(l.active.Load()) }

// Rooms is the number of sequences of the calls in flight, as far as their leases say:
// at least one each.
func (l *Load) Rooms() int { return int(l.active.Load() + l.extra.Load()) }

// Probes is the number of calls in flight that probe a half-open breaker and have
// not seen a good answer head yet.
func (l *Load) Probes() int { return int(l.probes.Load()) }

// Credit is the estimated tokens sent since the last load report.
func (l *Load) Credit() int64 { return l.credit.Load() }

// Sent is the number of requests sent since the last load report.
func (l *Load) Sent() int64 { return l.sent.Load() }

// Keys is the number of distinct counted keys among the calls in flight.
func (l *Load) Keys() int { return int(l.keys.Load()) }

// share counts a call of a key, or takes it off with by -1.
func (l *Load) share(key uint64, by int) {
	if key == 0 {
		return
	}
	if l.sharing == nil {
		l.sharing = map[uint64]int{}
	}
	n := l.sharing[key] + by
	if n == 0 {
		delete(l.sharing, key)
	} else {
		l.sharing[key] = n
	}
	l.keys.Store(int64(len(l.sharing)))
}

// settleCredit shows what the ledger and the grants add up to.
func (l *Load) settleCredit() {
	s := l.ledger.sum.plus(l.granted)
	l.credit.Store(s.tokens)
	l.sent.Store(s.requests)
}

// Worker is one member of a pool at one moment: immutable, but for Load.
type Worker struct {
	Spec   *Spec
	Record Record
	Load   *Load
}

// Available says whether the worker may be chosen at all.
func (w *Worker) Available() bool {
	return w.Spec.Conflict == "" && !w.Spec.Draining() && w.Record.Available()
}

// Counts says whether the worker makes its leg ready: a conflict keeps one from being
// chosen however well it is.
func (w *Worker) Counts() bool { return w.Spec.Conflict == "" && w.Status() == Ready }

// Status is its keeper's word, unless whoever registered it takes it out.
func (w *Worker) Status() Status {
	if w.Spec.Draining() {
		return Draining
	}
	return w.Record.Status
}
