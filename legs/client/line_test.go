package client

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"smg/bus/bustest"
	"smg/legs"
	"smg/wire"
	"smg/worker"
)

// oneEach gives each worker one sequence at a time.
var oneEach = legs.Rooms{Bound: true, Most: 1}

// outcome is what became of a select that waits.
type outcome struct {
	number int
	lease  worker.LeaseID
	pick   wire.Pick
	err    error
}

// queued has select number i wait, and returns once it does.
func (f *fleet) queued(ctx context.Context, t *testing.T, i int, wait time.Duration, done chan<- outcome) {
	t.Helper()
	l := f.legs[worker.Regular]
	before := l.waiting.Load()
	ask := &wire.Select{Lease: f.Plan(), Model: "m", Wait: wait}
	go func() {
		pick, err := f.Select(ctx, ask)
		done <- outcome{i, ask.Lease, pick, err}
	}()
	bustest.Await(t, "the select to wait", func() bool { return l.waiting.Load() > before })
}

// inLine waits until so many selects wait at all replicas together.
func inLine(t *testing.T, all map[worker.ReplicaID]*selector, n int) {
	t.Helper()
	bustest.Await(t, "selects in line", func() bool {
		sum := 0
		for _, s := range all {
			sum += gauge(s.counts, "smg_selector_requests_waiting")
		}
		return sum == n
	})
}

// gauge is the sum of a gauge's series, or -1.
func gauge(reg *prometheus.Registry, name string) int {
	families, err := reg.Gather()
	if err != nil {
		return -1
	}
	sum := 0
	for _, mf := range families {
		if mf.GetName() == name {
			for _, m := range mf.GetMetric() {
				sum += int(m.GetGauge().GetValue())
			}
		}
	}
	return sum
}

// fill takes all rooms.
func (f *fleet) fill(t *testing.T, n int) (leases []worker.LeaseID) {
	t.Helper()
	for range n {
		id, _ := f.choose(t, "m")
		leases = append(leases, id)
	}
	return leases
}

func TestSelectsWaitInLine(t *testing.T) {
	t.Run("first come, first served", func(t *testing.T) {
		f, all := replicatedWith(t, 2, oneEach)
		held := f.fill(t, 2)
		f.settled(t, all, 2)
		done := make(chan outcome, 8)
		for i := range 6 {
			f.queued(t.Context(), t, i, time.Minute, done)
			inLine(t, all, i+1)
		}
		for i := range 6 {
			f.End(held[0], worker.Success, false)
			o := <-done
			if o.number != i || o.err != nil || o.pick.Degraded {
				t.Fatalf("select %d is served as the %d. (%v)", o.number, i+1, o.err)
			}
			held = append(held[1:], o.lease)
		}
		inLine(t, all, 0)
	})
	t.Run("one who leaves", func(t *testing.T) {
		f, all := replicatedWith(t, 2, oneEach)
		held := f.fill(t, 2)
		f.settled(t, all, 2)
		done := make(chan outcome, 8)
		ctx, leave := context.WithCancel(t.Context())
		f.queued(ctx, t, 0, time.Minute, done)
		inLine(t, all, 1)
		f.queued(t.Context(), t, 1, time.Minute, done)
		inLine(t, all, 2)
		leave()
		if o := <-done; o.number != 0 || !errors.Is(o.err, context.Canceled) {
			t.Errorf("select %d: %v, want the first to be canceled", o.number, o.err)
		}
		inLine(t, all, 1)
		f.End(held[0], worker.Success, false)
		if o := <-done; o.number != 1 || o.err != nil {
			t.Errorf("select %d: %v, want the second to be served", o.number, o.err)
		}
		f.settled(t, all, 2)
	})
	t.Run("the time is up", func(t *testing.T) {
		f, all := replicatedWith(t, 2, oneEach)
		f.fill(t, 2)
		f.settled(t, all, 2)
		done := make(chan outcome, 8)
		f.queued(t.Context(), t, 0, 300*time.Millisecond, done)
		if o := <-done; !errors.Is(o.err, worker.ErrFull) {
			t.Errorf("error %v, want %v", o.err, worker.ErrFull)
		}
		inLine(t, all, 0)
		f.settled(t, all, 2)
	})
	t.Run("nobody passes at another replica", func(t *testing.T) {
		f, all := replicatedWith(t, 2, oneEach)
		held := f.fill(t, 2)
		f.settled(t, all, 2)
		done := make(chan outcome, 8)
		f.queued(t.Context(), t, 0, time.Minute, done)
		inLine(t, all, 1)
		keys := func(i byte) worker.Keys { return worker.Keys{Header: worker.HashKey(string('a' + rune(i)))} }
		for i := range byte(8) { // keys of either replica
			if _, err := f.Select(t.Context(), &wire.Select{Lease: f.Plan(), Model: "m", Keys: keys(i)}); !errors.Is(err, worker.ErrFull) {
				t.Errorf("error %v, want %v", err, worker.ErrFull)
			}
		}
		f.End(held[0], worker.Success, false)
		if o := <-done; o.err != nil {
			t.Error(o.err)
		}
	})
	t.Run("at a replica of this process", func(t *testing.T) {
		f := startWith(t, true, func(c *legs.Config) { c.Rooms = oneEach })
		f.put(t, 2)
		held := f.fill(t, 2)
		done := make(chan outcome, 8)
		for i := range 3 {
			f.queued(t.Context(), t, i, time.Minute, done)
			bustest.Await(t, "the select in line", func() bool { return gauge(f.counts, "smg_selector_requests_waiting") == i+1 })
		}
		for i := range 3 {
			f.End(held[0], worker.Success, false)
			o := <-done
			if o.number != i || o.err != nil || o.pick.Degraded {
				t.Fatalf("select %d is served as the %d. (%v)", o.number, i+1, o.err)
			}
			held = append(held[1:], o.lease)
		}
		for _, id := range held {
			f.End(id, worker.Success, false)
		}
		bustest.Await(t, "nothing to be left", func() bool {
			n, err := f.selectorCounts()
			return err == nil && n == 0 && gauge(f.counts, "smg_selector_requests_waiting") == 0
		})
	})
}

// TestTwoIngressesShareOneBound: whoever asks, there are never more sequences than all
// workers together may have.
func TestTwoIngressesShareOneBound(t *testing.T) {
	f, all := replicatedWith(t, 1, oneEach)
	other := f.another(t)
	var mu sync.Mutex
	open, most, served := 0, 0, map[string]int{}
	var asking sync.WaitGroup
	for i := range 12 {
		c, name := f.Client, "i"
		if i%2 == 1 {
			c, name = other, "j"
		}
		asking.Go(func() {
			for range 5 {
				ask := &wire.Select{Lease: c.Plan(), Model: "m", Wait: time.Minute}
				if _, err := c.Select(t.Context(), ask); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				open++
				most = max(most, open)
				served[name]++
				mu.Unlock()
				time.Sleep(time.Millisecond)
				mu.Lock()
				open--
				mu.Unlock()
				c.End(ask.Lease, worker.Success, false)
			}
		})
	}
	asking.Wait()
	if most > 2 || served["i"] != 30 || served["j"] != 30 {
		t.Errorf("%d sequences at a time, want 2 at most; served %v, want 30 each", most, served)
	}
	inLine(t, all, 0)
	f.settled(t, all, 0)
}

// another is a second ingress.
func (f *fleet) another(t *testing.T) *Client {
	t.Helper()
	c, err := New(
		Config{Cluster: f.cluster, Name: "j", Incarnation: 6, Legs: []worker.Leg{worker.Regular}, PlanTimeout: time.Second},
		Deps{Bus: f.bus, Workers: f.workers, Log: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	run(t, c.Run)
	bustest.Await(t, "the selectors", func() bool { return c.legs[worker.Regular].ranking.Len() == f.legs[worker.Regular].ranking.Len() })
	return c
}

// TestAReplicaDiesWhileSelectsWait: those who wait there go on waiting at the next one.
// Nobody is lost, and nobody gets more than there is.
func TestAReplicaDiesWhileSelectsWait(t *testing.T) {
	const waiting = 20
	f, all := replicatedWith(t, 2, oneEach)
	first := f.ranked()[0]
	held := f.fill(t, 2)
	f.settled(t, all, 2)
	done := make(chan outcome, waiting)
	for i := range waiting {
		f.queued(t.Context(), t, i, time.Minute, done)
	}
	inLine(t, all, waiting)
	all[first].mu.Lock() // it stops, and beats no more
	thaw := sync.OnceFunc(all[first].mu.Unlock)
	defer thaw()
	left := all
	delete(left, first)
	inLine(t, left, waiting)
	var numbers []int
	for range waiting {
		f.End(held[0], worker.Success, false)
		o := <-done
		if o.err != nil || o.pick.Degraded {
			t.Fatalf("select %d: %v, degraded %v", o.number, o.err, o.pick.Degraded)
		}
		numbers, held = append(numbers, o.number), append(held[1:], o.lease)
	}
	slices.Sort(numbers)
	if len(slices.Compact(numbers)) != waiting {
		t.Errorf("served: %v", numbers)
	}
	inLine(t, left, 0)
	f.settled(t, left, 2)
}

// TestNobodyWaitsWithoutASelector: the copy decides at once.
func TestNobodyWaitsWithoutASelector(t *testing.T) {
	f := start(t, false, far)
	f.known(t, 2)
	pick, err := f.Select(t.Context(), &wire.Select{Lease: f.Plan(), Model: "m", Wait: time.Minute})
	if err != nil || !pick.Degraded {
		t.Errorf("picked %+v (%v), want a degraded pick", pick, err)
	}
}
