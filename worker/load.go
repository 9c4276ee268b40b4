package worker

import "sync/atomic"

// Load is the work that a worker has right now, fleet-wide, as one replica knows
// it. Its one writer is the [Fold]; reads are atomic and need no lock. It belongs
// to the worker's id, so it outlives a replacement under the same URL.
type Load struct {
	active atomic.Int64
	probes atomic.Int64
	credit atomic.Int64

	// The rest is guarded by Fold.mu.
	id      ID
	held    bool  // a registry knows the worker
	dropped bool  // no longer in Fold.loads
	granted int64 // tokens of grants, a part of credit
	ledger  ledger
}

// Active is the number of calls in flight: open leases plus own grants.
func (l *Load) Active() int { return int(l.active.Load()) }

// Probes is the number of calls in flight that probe a half-open breaker and have
// not seen a good answer head yet.
func (l *Load) Probes() int { return int(l.probes.Load()) }

// Credit is the estimated tokens sent since the last load report.
func (l *Load) Credit() int64 { return l.credit.Load() }

// Worker is one member of a pool at one moment: immutable, but for Load.
type Worker struct {
	Spec   *Spec
	Record Record
	Load   *Load
}

// Available says whether the worker may be chosen at all.
func (w *Worker) Available() bool { return w.Spec.Conflict == "" && w.Record.Available() }
