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

// Fleet is n workers of one model on the regular leg: worker i, counted from 0, is
// http://w<i+1>:8000, registered i seconds after the first. It is safe for
// concurrent use.
type Fleet struct {
	Registry *worker.Registry
	Fold     *worker.Fold

	tb    testing.TB
	plans atomic.Uint64

	mu      sync.Mutex
	specs   []*worker.Spec
	records []worker.Record
}

// NewFleet is a fleet of n workers, all ready.
func NewFleet(tb testing.TB, n int) *Fleet {
	tb.Helper()
	fold := worker.NewFold()
	f := &Fleet{Registry: worker.NewRegistry(fold, Probes), Fold: fold, tb: tb}
	for i := range n {
		f.specs = append(f.specs, spec(i))
		f.records = append(f.records, worker.Record{Worker: f.specs[i].ID, Status: worker.Ready, Term: 1, Seq: 1})
		// Before the workers, so that there are not n pools on the way.
		f.Registry.Install(f.records[i])
	}
	f.Registry.Put(f.specs...)
	return f
}

func spec(i int) *worker.Spec {
	url := fmt.Sprintf("http://w%d:8000", i+1)
	return &worker.Spec{
		ID: worker.IDOf(url), URL: url, Leg: worker.Regular, Mode: worker.HTTP, Runtime: worker.SGLang,
		Models: []worker.Model{{ID: Model}}, RegisteredAt: start.Add(time.Duration(i) * time.Second),
	}
}

// Pool is the pool of the fleet's model. The test fails at once if there is none.
func (f *Fleet) Pool() *worker.Pool {
	f.tb.Helper()
	p := f.Registry.Pool(worker.Regular, Model)
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
		Lease: worker.LeaseID{Incarnation: 1, Plan: f.plans.Add(1), Leg: worker.Regular},
		Now:   start.Add(time.Hour),
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
