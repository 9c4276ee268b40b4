// Package policytest holds every policy to the contract of [policy.Policy], and
// makes the fleets that policies are tested on: a real registry, pool and fold,
// with workers whose records the test writes.
//
// It is for tests alone and knows no policy by name.
package policytest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"smg/worker"
)

// Model is the model that a fleet's workers serve.
const Model = "m"

// Probes is how many calls a half-open worker of a fleet takes at a time.
const Probes = 2

// start is when a fleet's first worker was registered.
var start = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

// Fleet is n workers of one model on one leg: worker i, counted from 0, is
// http://w<i+1>:8000, registered i seconds after the first. It is safe for
// concurrent use.
type Fleet struct {
	Registry *worker.Registry
	Fold     *worker.Fold

	tb    testing.TB
	leg   worker.Leg
	plans atomic.Uint64
	now   atomic.Int64 // nanoseconds since start

	mu      sync.Mutex
	specs   []*worker.Spec
	records []worker.Record
	held    map[heldKey][]worker.LeaseID
	seq     uint64 // of the lease stream that holds
}

// heldKey is what leases are let go by.
type heldKey struct {
	worker int
	key    uint64
}

// NewFleet is a fleet of n workers of the regular leg, all ready.
func NewFleet(tb testing.TB, n int) *Fleet {
	tb.Helper()
	return NewLegFleet(tb, worker.Regular, n)
}

// NewLegFleet is a fleet of n workers of a leg, all ready.
func NewLegFleet(tb testing.TB, leg worker.Leg, n int) *Fleet {
	tb.Helper()
	fold := worker.NewFold()
	f := &Fleet{Registry: worker.NewRegistry(fold, Probes), Fold: fold, tb: tb, leg: leg, held: map[heldKey][]worker.LeaseID{}}
	f.Advance(time.Hour)
	for i := range n {
		f.specs = append(f.specs, spec(i, leg))
		f.records = append(f.records, worker.Record{Worker: f.specs[i].ID, Status: worker.Ready, Term: 1, Seq: 1})
		// Before the workers, so that there are not n pools on the way.
		f.Registry.Install(f.records[i])
	}
	f.Registry.Put(f.specs...)
	return f
}

func spec(i int, leg worker.Leg) *worker.Spec {
	url := fmt.Sprintf("http://w%d:8000", i+1)
	return &worker.Spec{
		ID: worker.IDOf(url), URL: url, Leg: leg, Mode: worker.HTTP, Runtime: worker.SGLang,
		Models: []worker.Model{{ID: Model}}, RegisteredAt: start.Add(time.Duration(i) * time.Second),
	}
}

// Pool is the pool of the fleet's model. The test fails at once if there is none.
func (f *Fleet) Pool() *worker.Pool {
	f.tb.Helper()
	p := f.Registry.Pool(f.leg, Model)
	if p == nil {
		f.tb.Fatal("the fleet has no pool: no worker is registered")
	}
	return p
}

// Spec is worker i.
func (f *Fleet) Spec(i int) *worker.Spec {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.specs[i]
}

// ID is the id of worker i.
func (f *Fleet) ID(i int) worker.ID { return f.Spec(i).ID }

// Index is which worker w is, or -1.
func (f *Fleet) Index(w *worker.Worker) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, s := range f.specs {
		if w != nil && s.ID == w.Spec.ID {
			return i
		}
	}
	return -1
}

// Record changes what worker i's keeper says about it.
func (f *Fleet) Record(i int, change func(*worker.Record)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.records[i])
	f.records[i].Seq++
	f.Registry.Install(f.records[i])
}

// Down makes workers not ready.
func (f *Fleet) Down(workers ...int) { f.status(worker.NotReady, workers) }

// Up makes workers ready.
func (f *Fleet) Up(workers ...int) { f.status(worker.Ready, workers) }

func (f *Fleet) status(s worker.Status, workers []int) {
	for _, i := range workers {
		f.Record(i, func(r *worker.Record) { r.Status = s })
	}
}

// Overload sets or clears the overload veto of worker i.
func (f *Fleet) Overload(i int, on bool) {
	f.Record(i, func(r *worker.Record) { r.Overloaded = on })
}

// Now is the fleet's time.
func (f *Fleet) Now() time.Time { return start.Add(time.Duration(f.now.Load())) }

// Advance lets time pass.
func (f *Fleet) Advance(d time.Duration) { f.now.Add(int64(d)) }

// ReportLife is how long the reports of a fleet hold.
const ReportLife = 30 * time.Second

// Report has worker i report its load, polled at this instant.
func (f *Fleet) Report(i int, r worker.Report) {
	r.PolledAt, r.GoodFor = f.Now(), ReportLife
	f.Record(i, func(rec *worker.Record) { rec.Report = &r })
}

// ReportAll has every worker report its load, polled at this instant.
func (f *Fleet) ReportAll(of func(i int) worker.Report) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.records {
		r := of(i)
		r.PolledAt, r.GoodFor = f.Now(), ReportLife
		f.records[i].Report = &r
		f.records[i].Seq++
	}
	f.Registry.InstallAll(f.records)
}

// Silence takes worker i's report back, as a failed poll does.
func (f *Fleet) Silence(i int) { f.Record(i, func(rec *worker.Record) { rec.Report = nil }) }

// Hold puts n more calls in flight at worker i, told apart by key, 0 for none. They
// stay until they are let go.
func (f *Fleet) Hold(i, n int, key uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for range n {
		id := worker.LeaseID{Incarnation: 2, Plan: f.plans.Add(1), Leg: f.leg}
		k := heldKey{i, key}
		f.held[k] = append(f.held[k], id)
		f.apply(worker.Entry{Kind: worker.EntryStart, Lease: worker.Lease{ID: id, Worker: f.specs[i].ID, Key: key}})
	}
}

// LetGo ends n calls that Hold put in flight at worker i.
func (f *Fleet) LetGo(i, n int, key uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	k := heldKey{i, key}
	for range n {
		ids := f.held[k]
		f.held[k] = ids[1:]
		f.apply(worker.Entry{Kind: worker.EntryEnd, Lease: worker.Lease{ID: ids[0]}})
	}
}

// End ends a call that was chosen with [Fleet.Ask]. unreached says that it never got
// to its worker.
func (f *Fleet) End(lease worker.LeaseID, unreached bool) []worker.Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.apply(worker.Entry{Kind: worker.EntryEnd, Lease: worker.Lease{ID: lease}, Unreached: unreached})
}

// apply folds an entry of an ingress's lease stream. f.mu is held.
func (f *Fleet) apply(e worker.Entry) []worker.Event {
	f.seq++
	return f.Fold.Apply(&worker.Batch{
		Ingress: fmt.Sprint("ingress", e.Lease.ID.Incarnation), Incarnation: e.Lease.ID.Incarnation,
		Leg: f.leg, Seq: f.seq, Entries: []worker.Entry{e},
	}, f.Now(), nil)
}

// Remove takes worker i out of the registry.
func (f *Fleet) Remove(i int) { f.Registry.Remove(f.ID(i)) }

// Add registers worker i again, with the record that it had.
func (f *Fleet) Add(i int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Registry.Install(f.records[i])
	f.Registry.Put(f.specs[i])
}

// Ask is a question for a new lease that avoids the workers with the given indices.
func (f *Fleet) Ask(tried ...int) worker.Ask {
	ask := worker.Ask{
		Lease: worker.LeaseID{Incarnation: 1, Plan: f.plans.Add(1), Leg: f.leg},
		Now:   f.Now(),
	}
	for _, i := range tried {
		ask.Skip = append(ask.Skip, f.ID(i))
	}
	return ask
}

// Active is the number of calls in flight of every worker.
func (f *Fleet) Active() []int {
	f.mu.Lock()
	defer f.mu.Unlock()
	active := make([]int, len(f.specs))
	for i, s := range f.specs {
		active[i] = f.Fold.Load(s.ID).Active()
	}
	return active
}
