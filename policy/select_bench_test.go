package policy_test

import (
	"fmt"
	"testing"

	"smg/policy"
	"smg/policy/policytest"
	"smg/worker"
)

// BenchmarkSelect is one selection at the selector: the policy looked up, its
// choice over a pool of n workers, the count, and the end of the call as it comes
// in a batch of the lease stream.
func BenchmarkSelect(b *testing.B) {
	for _, name := range policy.BuiltNames() {
		for _, n := range []int{4, 256, 10_000} {
			b.Run(fmt.Sprintf("%s/n=%d", name, n), func(b *testing.B) { benchmarkSelect(b, name, n) })
		}
	}
}

func benchmarkSelect(b *testing.B, name string, n int) {
	f := policytest.NewFleet(b, n)
	book, err := policy.NewBook(policy.Config{Policy: name}, policy.Deps{})
	if err != nil {
		b.Fatal(err)
	}
	keys := make([]worker.Key, 1024)
	for i := range keys {
		keys[i] = worker.HashKey(fmt.Sprintf("user-%d", i))
	}
	req := &policy.Request{Ask: f.Ask()}
	ends := worker.Batch{Ingress: "bench", Incarnation: req.Ask.Lease.Incarnation, Leg: worker.Regular}
	ends.Entries = make([]worker.Entry, 0, worker.BatchEntries)
	var events []worker.Event
	choose := func() {
		pool := f.Registry.Pool(worker.Regular, policytest.Model)
		_, p := book.For(pool.Model())
		req.Ask.Lease.Plan++
		req.Keys.Header = keys[req.Ask.Lease.Plan%uint64(len(keys))]
		if _, err := p.Pick(req, pool); err != nil {
			b.Fatal(err)
		}
		ends.Entries = append(ends.Entries, worker.Entry{Kind: worker.EntryEnd, Lease: worker.Lease{ID: req.Ask.Lease}, Outcome: worker.Success})
		if len(ends.Entries) == worker.BatchEntries {
			ends.Seq++
			events = f.Fold.Apply(&ends, req.Ask.Now, events[:0])
			ends.Entries = ends.Entries[:0]
		}
	}
	for range 2 * worker.BatchEntries { // the ring is made, memory is reused from now on
		choose()
	}
	b.ReportAllocs()
	for b.Loop() {
		choose()
	}
	if active := f.Active(); max(active[0], active[n-1]) > worker.BatchEntries {
		b.Errorf("calls are not ended: %d and more in flight", active[0])
	}
}
