package legs

import (
	"testing"
	"time"

	"smg/bus/bustest"
	"smg/wire"
	"smg/worker"
)

// TestARestartedWorkerHoldsNothing: what was sent to the process before is in no cache
// any more.
func TestARestartedWorkerHoldsNothing(t *testing.T) {
	b := start(t, nil)
	first := spec(1, "m")
	b.put(t, first)
	b.ready(t, 1)
	plan := uint64(0)
	branch := func() string {
		plan++
		pick, err := b.Select(&wire.Select{Lease: worker.LeaseID{Incarnation: 1, Plan: plan}, Model: "m", Text: "hello world", Chars: 11})
		if err != nil {
			return err.Error()
		}
		return pick.Branch
	}
	if got := branch(); got != "expected_wait_fallback" {
		t.Fatalf("the first prompt: %s", got)
	}
	if got := branch(); got != "tree_match" {
		t.Fatalf("the same again: %s", got)
	}
	again := first.Clone()
	again.RegisteredAt = first.RegisteredAt.Add(time.Minute)
	b.put(t, again)
	bustest.Await(t, "the new process to be ready", func() bool {
		w := b.registry.Lookup(first.ID)
		return w != nil && w.Spec.RegisteredAt.Equal(again.RegisteredAt) && w.Record.Status == worker.Ready
	})
	// The policies are told a moment after the registry.
	bustest.Await(t, "the cache of the process before to be forgotten", func() bool { return branch() == "expected_wait_fallback" })
}
