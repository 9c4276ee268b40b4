package client

import (
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"smg/bus"
	"smg/bus/bustest"
	"smg/legs"
	"smg/policy"
	"smg/wire"
	"smg/worker"
)

// lossy passes what is said on a topic on to another one, but for one message in a
// hundred.
func lossy[T any](t *testing.T, seed uint64, subs *bus.Subscriptions, c *bus.Conn, from, to wire.Topic[T], lost *atomic.Int64) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 1)) // of one handler, so of one goroutine
	bus.Join(subs, c, from, func(m *T) {
		if rnd.IntN(100) == 0 {
			lost.Add(1)
			return
		}
		if err := bus.Publish(c, to, m); err != nil {
			t.Error(err)
		}
	})
}

// perWorker is what a page says of each worker.
func perWorker(t *testing.T, reg *prometheus.Registry, metric string) map[string]int {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	n := map[string]int{}
	for _, f := range families {
		if f.GetName() != metric {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "worker" {
					n[l.GetValue()] += int(m.GetGauge().GetValue())
				}
			}
		}
	}
	return n
}

// TestField holds the reports of the field that concern what an ingress tells.
func TestField(t *testing.T) {
	t.Run("NC-03_lost_events_and_an_outage", lostEvents)
	t.Run("NC-05_what_cannot_be_sent_is_said", saidToBeUnsendable)
}

// lostEvents loses one message in a hundred of what an ingress and a selector tell
// each other, and all of five seconds, under load. What the selector counts is then
// what is in flight.
func lostEvents(t *testing.T) {
	const workers, clients, held, outage = 3, 4, 10, 5 * time.Second
	ours, err := wire.ParseCluster("ingress")
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := wire.ParseCluster("selector")
	if err != nil {
		t.Fatal(err)
	}
	// Either is in a cluster of its own, and hears of the other what is passed on.
	server := bustest.Server(t)
	link := bustest.NewLink(server)
	connect := func() *bus.Conn { return bustest.Connect(t, link) }
	relay, a, b := bustest.Connect(t, server), connect(), connect()
	var lost atomic.Int64
	var subs bus.Subscriptions
	lossy(t, 1, &subs, relay, ours.Leases(worker.Regular), theirs.Leases(worker.Regular), &lost)
	lossy(t, 2, &subs, relay, theirs.Beat(worker.Regular), ours.Beat(worker.Regular), &lost)
	lossy(t, 3, &subs, relay, theirs.State(worker.Regular), ours.State(worker.Regular), &lost)
	if err := subs.Err(); err != nil {
		t.Fatal(err)
	}

	log, reg, counts := slog.New(slog.DiscardHandler), prometheus.NewRegistry(), prometheus.NewRegistry()
	selector, err := legs.New(legs.Config{
		Cluster: theirs, Replica: 1, Build: "test", Policy: policy.DefaultConfig(), Keeper: worker.DefaultKeeperConfig(), Endpoint: "/health",
	}, legs.Deps{Bus: b, Prober: wellProber{}, Log: log, Registerer: counts, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(Config{
		Cluster: ours, Name: "i", Incarnation: 5, Legs: []worker.Leg{worker.Regular}, PlanTimeout: time.Second,
	}, Deps{Bus: a, Workers: bus.NewBucket(a, ours.Workers()), Local: []Local{selector}, Log: log, Registerer: reg, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	run(t, selector.Run)
	run(t, c.Run)
	t.Cleanup(func() {
		if err := subs.Stop(); err != nil {
			t.Error(err)
		}
	})
	for i := range workers {
		for _, at := range []wire.Cluster{ours, theirs} {
			if err := bus.NewBucket(relay, at.Workers()).Put(t.Context(), spec(i+1)); err != nil {
				t.Fatal(err)
			}
		}
	}
	bustest.Await(t, "readiness", func() bool {
		ready, healthy, _ := c.Readiness()
		return ready && healthy == workers
	})

	// Each client has a few calls in flight, of which it ends one and begins another.
	var asked, degraded atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(3, uint64(i)))
			pace := time.NewTicker(time.Millisecond)
			defer pace.Stop()
			var open []worker.LeaseID
			for {
				select {
				case <-stop:
					return
				case <-pace.C:
				}
				if len(open) == held {
					n := rnd.IntN(held)
					c.End(open[n], worker.Success, false)
					open = slices.Delete(open, n, n+1)
				}
				id := c.Plan()
				pick, err := c.Select(t.Context(), &wire.Select{Lease: id, Model: "m"})
				if err != nil {
					t.Error(err)
					return
				}
				if pick.Degraded {
					degraded.Add(1)
				}
				asked.Add(1)
				open = append(open, id)
			}
		})
	}
	bustest.Await(t, "messages to be lost", func() bool { return lost.Load() >= 2 })
	link.Cut()
	missed := lost.Load()
	bustest.Await(t, "the loss to be noticed", func() bool { return !a.Connected() && !b.Connected() })
	<-time.After(outage) // how long it is gone
	link.Mend(server)
	bustest.Await(t, "the return", func() bool { return a.Connected() && b.Connected() })
	bustest.Await(t, "messages to be lost since", func() bool { return lost.Load() >= missed+3 })
	close(stop)
	wg.Wait()
	ended := time.Now()
	truth := perWorker(t, reg, "smg_worker_requests_active")
	bustest.Await(t, "the selector's counts to be right", func() bool {
		return cmp.Equal(truth, perWorker(t, counts, "smg_selector_requests_active"))
	})
	t.Logf("%d calls, %d of them chosen without a selector, %d messages lost besides the outage; counts were right after %s",
		asked.Load(), degraded.Load(), lost.Load(), time.Since(ended))
	if n := slices.Collect(maps.Values(truth)); len(n) != workers || n[0]+n[1]+n[2] != clients*held {
		t.Errorf("%v are in flight, want %d", truth, clients*held)
	}
	if testutil.ToFloat64(c.metrics.WithLabelValues("regular", reasonNoMessage)) == 0 {
		t.Error("there was no outage")
	}
}

// saidToBeUnsendable asks what the bus does not take: it is chosen without a selector,
// who says why, and others are asked as before.
func saidToBeUnsendable(t *testing.T) {
	var log strings.Builder // written to by this goroutine alone
	f := start(t, false, far, func(_ *Config, d *Deps) {
		d.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError}))
	})
	f.known(t, 2)
	f.replica(t, 9, "round_robin", func(s *wire.Select) *wire.Reply {
		return &wire.Reply{Lease: s.Lease, Replica: 9, Pick: wire.Pick{Worker: spec(1), Policy: "round_robin"}}
	})
	choose := func(skip ...worker.ID) wire.Pick {
		t.Helper()
		id := f.Plan()
		pick, err := f.Select(t.Context(), &wire.Select{Lease: id, Model: "m", Skip: skip})
		if err != nil {
			t.Fatal(err)
		}
		f.End(id, worker.Success, false)
		return pick
	}
	for range 2 {
		if !choose(make([]worker.ID, wire.MaxList+1)...).Degraded {
			t.Error("a selector has chosen, who was not asked")
		}
	}
	if n := testutil.ToFloat64(f.metrics.WithLabelValues("regular", reasonTooMuch)); n != 2 {
		t.Errorf("%v selections count as not to be sent, want 2", n)
	}
	if n := strings.Count(log.String(), "could not be asked"); n != 1 {
		t.Errorf("said %d times:\n%s", n, log.String())
	}
	if choose().Degraded {
		t.Error("a selector was not asked what can be sent")
	}
	if n := f.legs[worker.Regular].unanswered(9); n != 0 {
		t.Errorf("%d selects count as asked, want none", n)
	}
}
