package client

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"smg/bus"
	"smg/bus/bustest"
	"smg/wire"
	"smg/worker"
)

// far makes the client ask over the bus.
func far(_ *Config, d *Deps) { d.Local = nil }

// known waits until the client's copy has n ready workers.
func (f *fleet) known(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		if err := f.workers.Put(t.Context(), spec(i+1)); err != nil {
			t.Fatal(err)
		}
		f.Offer(spec(i + 1))
	}
}

// replica is a selector that beats, and answers as it is told.
func (f *fleet) replica(t *testing.T, id worker.ReplicaID, policy string, answer func(*wire.Select) *wire.Reply) {
	t.Helper()
	f.replicaOf(t, id, wire.PolicyUse{Name: policy, Reads: wire.ReadsKey}, answer)
}

func (f *fleet) replicaOf(t *testing.T, id worker.ReplicaID, use wire.PolicyUse, answer func(*wire.Select) *wire.Reply) {
	t.Helper()
	var subs bus.Subscriptions
	bus.Serve(&subs, f.bus, f.cluster.Select(worker.Regular, id), answer)
	if err := subs.Err(); err != nil {
		t.Fatal(err)
	}
	beat := &wire.Beat{Replica: id, Ready: true, Policies: []wire.PolicyUse{use}}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			if err := bus.Publish(f.bus, f.cluster.Beat(worker.Regular), beat); err != nil {
				t.Error(err)
			}
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		<-done
		if err := subs.Stop(); err != nil {
			t.Error(err)
		}
	})
	bustest.Await(t, "the replica to be ranked", func() bool {
		return slices.Contains(f.legs[worker.Regular].ranking.Rank(0, nil), id)
	})
}

func TestASelectorInAnotherProcess(t *testing.T) {
	f := start(t, true, far)
	f.put(t, 2)
	bustest.Await(t, "the selector", func() bool { return f.legs[worker.Regular].ranking.Len() == 1 })
	id, pick := f.choose(t, "m")
	if pick.Degraded || pick.Policy != "cache_aware" {
		t.Errorf("picked %+v, want a pick of the selector", pick)
	}
	if n, err := f.selectorCounts(); err != nil || n != 1 {
		t.Errorf("the selector counts %d calls (%v), want 1", n, err)
	}
	f.End(id, worker.Success, false)
	bustest.Await(t, "the selector's count to fall", func() bool {
		n, err := f.selectorCounts()
		return err == nil && n == 0
	})
	if _, err := f.Select(t.Context(), &wire.Select{Lease: f.Plan(), Model: "x"}); !errors.Is(err, worker.ErrNoWorkers) {
		t.Errorf("unknown model: got %v, want %v", err, worker.ErrNoWorkers)
	}
}

func TestDegraded(t *testing.T) {
	choose := func(t *testing.T, f *fleet, key worker.Key) wire.Pick {
		t.Helper()
		id := f.Plan()
		pick, err := f.Select(t.Context(), &wire.Select{Lease: id, Model: "m", Keys: worker.Keys{Header: key}})
		if err != nil {
			t.Fatal(err)
		}
		f.End(id, worker.Success, false)
		return pick
	}
	t.Run("no selector at all", func(t *testing.T) {
		f := start(t, false, far)
		f.known(t, 2)
		seen := map[string]bool{}
		for range 50 {
			pick := choose(t, f, worker.Key{})
			if !pick.Degraded {
				t.Fatal("the pick does not say that it is degraded")
			}
			seen[pick.Worker.URL] = true
		}
		if len(seen) != 2 {
			t.Errorf("%d workers were chosen, want 2", len(seen))
		}
		if n := testutil.ToFloat64(f.metrics.WithLabelValues("regular", reasonNone)); n != 50 {
			t.Errorf("%v degraded selections are counted, want 50", n)
		}
	})
	t.Run("a worker that failed is avoided", func(t *testing.T) {
		f := start(t, false, far)
		f.known(t, 2)
		id, pick := f.choose(t, "m")
		f.End(id, worker.Failure, false)
		for range 20 {
			if got := choose(t, f, worker.Key{}); got.Worker.URL == pick.Worker.URL {
				t.Fatalf("%s was chosen again at once", got.Worker.URL)
			}
		}
	})
	t.Run("a selector that has left the bus costs no time-out", func(t *testing.T) {
		f := start(t, false, far, func(c *Config, _ *Deps) { c.PlanTimeout = time.Hour })
		f.known(t, 1)
		if err := bus.Publish(f.bus, f.cluster.Beat(worker.Regular), &wire.Beat{Replica: 9, Ready: true}); err != nil {
			t.Fatal(err)
		}
		bustest.Await(t, "its last beat", func() bool { return f.legs[worker.Regular].ranking.Len() == 1 })
		if !choose(t, f, worker.Key{}).Degraded {
			t.Error("a selector that is not there has picked")
		}
	})
	t.Run("a silent selector is found out by those who ask at the time", func(t *testing.T) {
		const timeout = 300 * time.Millisecond
		f := start(t, false, far, func(c *Config, _ *Deps) { c.PlanTimeout = timeout })
		f.known(t, 2)
		f.replica(t, 9, "round_robin", func(*wire.Select) *wire.Reply { return nil })
		var wg sync.WaitGroup
		for range 30 {
			wg.Go(func() {
				if !choose(t, f, worker.Key{}).Degraded {
					t.Error("a silent selector has picked")
				}
			})
		}
		wg.Wait()
		if n := testutil.ToFloat64(f.metrics.WithLabelValues("regular", reasonSilent)); n != 30 {
			t.Errorf("%v selections count as silent, want 30", n)
		}
		choose(t, f, worker.Key{})
		if n := testutil.ToFloat64(f.metrics.WithLabelValues("regular", reasonExcluded)); n != 1 {
			t.Errorf("%v selections count as excluded, want 1: it is left alone now", n)
		}
	})
	t.Run("an answer that comes too late is given back", func(t *testing.T) {
		f := start(t, false, far, func(c *Config, _ *Deps) { c.PlanTimeout = 50 * time.Millisecond })
		f.known(t, 1)
		proceed, asked := make(chan struct{}), make(chan *wire.Select, 1)
		f.replica(t, 9, "round_robin", func(s *wire.Select) *wire.Reply {
			asked <- s
			<-proceed
			return &wire.Reply{Lease: s.Lease, Replica: 9, Pick: wire.Pick{Worker: spec(1), Policy: "round_robin"}}
		})
		choose(t, f, worker.Key{}) // begun and ended degraded, under the same id
		before := len(f.kinds())
		close(proceed)
		<-asked
		bustest.Await(t, "the end of the late grant", func() bool {
			kinds := f.kinds()
			return len(kinds) > before && kinds[len(kinds)-1] == worker.EntryEnd
		})
	})
	t.Run("the ring needs no selector", func(t *testing.T) {
		f := start(t, false, far)
		f.known(t, 3)
		f.replica(t, 9, hashing, func(*wire.Select) *wire.Reply {
			return &wire.Reply{Err: &wire.Error{Code: wire.CodeNotReady}}
		})
		if f.Reads(worker.Regular)&wire.ReadsKey == 0 {
			t.Error("the client does not know that the leg reads keys")
		}
		// The verified owners of these keys among w1, w2 and w3.
		for key, want := range map[string]string{"user-123": "http://w3:8000", "user-0": "http://w2:8000", "session-abc-123": "http://w1:8000"} {
			if got := choose(t, f, worker.HashKey(key)); got.Worker.URL != want || !got.Degraded {
				t.Errorf("key %s: %s (degraded %v), want %s", key, got.Worker.URL, got.Degraded, want)
			}
		}
	})
	t.Run("refused if the operator wants it so", func(t *testing.T) {
		f := start(t, false, far, func(c *Config, _ *Deps) { c.FailDegraded = true })
		f.known(t, 1)
		if _, err := f.Select(t.Context(), &wire.Select{Lease: f.Plan(), Model: "m"}); !errors.Is(err, wire.ErrSelectionUnavailable) {
			t.Errorf("got %v, want %v", err, wire.ErrSelectionUnavailable)
		}
	})
}
