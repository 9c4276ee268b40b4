package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
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

type wellProber struct{}

func (wellProber) Health(context.Context, *worker.Spec, string) error { return nil }

// fleet is a client and the selector of its one leg, on a bus of their own.
type fleet struct {
	*Client
	selector *legs.Service
	bus      *bus.Conn
	cluster  wire.Cluster
	workers  *bus.Bucket[worker.ID, worker.Spec]
	reg      *prometheus.Registry // of the client
	counts   *prometheus.Registry // of the selector

	mu      sync.Mutex
	batches []worker.Batch

	stop func() // of the client
}

// option changes how the client is made.
type option func(*Config, *Deps)

func start(t *testing.T, withSelector bool, opts ...option) *fleet {
	t.Helper()
	return startWith(t, withSelector, func(*legs.Config) {}, opts...)
}

// startWith is start with changes of the selector.
func startWith(t *testing.T, withSelector bool, change func(*legs.Config), opts ...option) *fleet {
	t.Helper()
	cluster, err := wire.ParseCluster("test")
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{bus: bustest.Start(t), cluster: cluster, reg: prometheus.NewRegistry(), counts: prometheus.NewRegistry()}
	f.workers = bus.NewBucket(f.bus, cluster.Workers())
	log := slog.New(slog.DiscardHandler)
	selectorConfig := legs.Config{
		Cluster: cluster, Replica: 1, Build: "test", Policy: policy.DefaultConfig(), Keeper: worker.DefaultKeeperConfig(), Endpoint: "/health",
	}
	change(&selectorConfig)
	f.selector, err = legs.New(selectorConfig, legs.Deps{Bus: f.bus, Prober: wellProber{}, Log: log, Registerer: f.counts, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Cluster: cluster, Name: "i", Incarnation: 5, Legs: []worker.Leg{worker.Regular}, PlanTimeout: 200 * time.Millisecond}
	deps := Deps{Bus: f.bus, Workers: f.workers, Local: []Local{f.selector}, Log: log, Registerer: f.reg, Now: time.Now}
	for _, o := range opts {
		o(&cfg, &deps)
	}
	if f.Client, err = New(cfg, deps); err != nil {
		t.Fatal(err)
	}
	sub, err := bus.Subscribe(f.bus, cluster.Leases(worker.Regular), func(b *worker.Batch) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.batches = append(f.batches, *b)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sub.Stop(); err != nil {
			t.Error(err)
		}
	})
	if withSelector {
		run(t, f.selector.Run)
	}
	f.stop = run(t, f.Client.Run)
	<-f.Joined()
	return f
}

// run runs a service until the test ends or stop is called.
func run(t *testing.T, service func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1) // one: the service's result
	go func() { done <- service(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func spec(i int) *worker.Spec {
	url := fmt.Sprintf("http://w%d:8000", i)
	return &worker.Spec{
		ID: worker.IDOf(url), URL: url, Cost: 1, RegisteredAt: time.UnixMilli(int64(i)),
		Models: []worker.Model{{ID: "m", Aliases: []string{"nick"}}},
	}
}

func (f *fleet) put(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		if err := f.workers.Put(t.Context(), spec(i+1)); err != nil {
			t.Fatal(err)
		}
	}
	bustest.Await(t, "readiness", func() bool {
		ready, healthy, total := f.Readiness()
		return ready && healthy == n && total == n
	})
}

func (f *fleet) choose(t *testing.T, model string) (worker.LeaseID, wire.Pick) {
	t.Helper()
	id := f.Plan()
	pick, err := f.Select(t.Context(), &wire.Select{Lease: id, Model: model})
	if err != nil {
		t.Fatal(err)
	}
	return id, pick
}

// kinds are the entries that were published, in order.
func (f *fleet) kinds() []worker.EntryKind {
	f.mu.Lock()
	defer f.mu.Unlock()
	var kinds []worker.EntryKind
	for _, b := range f.batches {
		for _, e := range b.Entries {
			kinds = append(kinds, e.Kind)
		}
	}
	return kinds
}

func TestALeaseIsCountedUntilItEnds(t *testing.T) {
	f := start(t, true)
	f.put(t, 1)
	id, pick := f.choose(t, "m")
	if got := f.Active(pick.Worker.ID); got != 1 {
		t.Errorf("%d calls in flight, want 1", got)
	}
	want := `
# HELP smg_worker_requests_active Calls of this ingress in flight at a worker.
# TYPE smg_worker_requests_active gauge
smg_worker_requests_active{worker="http://w1:8000"} 1
`
	if err := testutil.GatherAndCompare(f.reg, strings.NewReader(want), "smg_worker_requests_active"); err != nil {
		t.Error(err)
	}
	bustest.Await(t, "the start to be published", func() bool { return len(f.kinds()) == 1 })
	f.End(id, worker.Success, false)
	f.End(id, worker.Failure, false) // ending twice is harmless
	if got := f.Active(pick.Worker.ID); got != 0 {
		t.Errorf("%d calls in flight, want 0", got)
	}
	bustest.Await(t, "the end to be published", func() bool { return len(f.kinds()) == 2 })
	if diff := cmp.Diff([]worker.EntryKind{worker.EntryStart, worker.EntryEnd}, f.kinds()); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

func TestBeatsNameWhatIsOpen(t *testing.T) {
	f := start(t, true)
	f.put(t, 1)
	id, _ := f.choose(t, "m")
	bustest.Await(t, "a beat that renews the lease", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, b := range f.batches {
			if b.Beat != nil && b.Beat.Open == 1 && len(b.Beat.Renewed) == 1 && b.Beat.Renewed[0].ID == id {
				return true
			}
		}
		return false
	})
	f.End(id, worker.Success, false)
}

func TestTheLastActPublishesWhatHasEnded(t *testing.T) {
	f := start(t, true)
	f.put(t, 1)
	id, _ := f.choose(t, "m")
	bustest.Await(t, "the start to be published", func() bool { return len(f.kinds()) == 1 })
	f.End(id, worker.Success, false)
	f.stop()
	bustest.Await(t, "the end to be published", func() bool { return len(f.kinds()) == 2 })
}

func TestPlansDiffer(t *testing.T) {
	f := start(t, true)
	a, b := f.Plan(), f.Plan()
	if a == b || a.Incarnation != 5 || b.Plan <= a.Plan {
		t.Errorf("plans %+v and %+v", a, b)
	}
}

func TestSelectRefuses(t *testing.T) {
	t.Run("no selector", func(t *testing.T) {
		f := start(t, false, func(c *Config, _ *Deps) { c.FailDegraded = true })
		_, err := f.Select(t.Context(), &wire.Select{Lease: f.Plan(), Model: "m"})
		if !errors.Is(err, wire.ErrSelectionUnavailable) {
			t.Errorf("got %v, want %v", err, wire.ErrSelectionUnavailable)
		}
	})
	f := start(t, true)
	f.put(t, 2)
	t.Run("a client that has left", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := f.Select(ctx, &wire.Select{Lease: f.Plan(), Model: "m"}); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
	})
	t.Run("a model that nobody serves", func(t *testing.T) {
		if _, err := f.Select(t.Context(), &wire.Select{Lease: f.Plan(), Model: "x"}); !errors.Is(err, worker.ErrNoWorkers) {
			t.Errorf("got %v, want %v", err, worker.ErrNoWorkers)
		}
	})
	t.Run("a leg that requests do not have", func(t *testing.T) {
		id := f.Plan()
		id.Leg = worker.Decode
		if _, err := f.Select(t.Context(), &wire.Select{Lease: id, Model: "m"}); !errors.Is(err, worker.ErrNoWorkers) {
			t.Errorf("got %v, want %v", err, worker.ErrNoWorkers)
		}
	})
	for i := range 2 {
		if got := f.Active(spec(i + 1).ID); got != 0 {
			t.Errorf("worker %d: %d calls in flight after refusals, want 0", i+1, got)
		}
	}
}

func TestAnAliasFindsItsModel(t *testing.T) {
	f := start(t, true)
	f.put(t, 1)
	_, pick := f.choose(t, "nick")
	if got := pick.Worker.ModelID(); got != "m" {
		t.Errorf("picked a worker of model %q, want m", got)
	}
	if a, b := f.selectionKey(&wire.Select{Model: "nick"}), f.selectionKey(&wire.Select{Model: "m"}); a != b {
		t.Error("an alias is answered by another replica than its model")
	}
}

func TestReadinessFollowsTheFleet(t *testing.T) {
	f := start(t, true)
	if ready, _, _ := f.Readiness(); ready {
		t.Error("ready without workers")
	}
	f.put(t, 2)
	if err := f.workers.Delete(t.Context(), spec(1).ID); err != nil {
		t.Fatal(err)
	}
	bustest.Await(t, "one worker to be left", func() bool {
		ready, healthy, total := f.Readiness()
		return ready && healthy == 1 && total == 1
	})
	if got := len(f.Workers()); got != 1 {
		t.Errorf("%d workers, want 1", got)
	}
}

// TestPolicies holds the acceptance cases of counting that concern the ingress's
// side and the selector's together.
// Whoever registers workers hears of all, and of those who go.
func TestOthersHearOfTheFleet(t *testing.T) {
	var mu sync.Mutex
	heard := map[worker.ID]*worker.Spec{}
	f := start(t, false, func(_ *Config, d *Deps) {
		if err := d.Workers.Put(t.Context(), spec(1)); err != nil {
			t.Fatal(err)
		}
		d.Heard = func(id worker.ID, s *worker.Spec) {
			mu.Lock()
			defer mu.Unlock()
			if heard[id] = s; s == nil {
				delete(heard, id)
			}
		}
	})
	knows := func(n int) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(heard) == n && len(f.Workers()) == n
		}
	}
	bustest.Await(t, "the one that was there", knows(1))
	if err := f.workers.Put(t.Context(), spec(2)); err != nil {
		t.Fatal(err)
	}
	bustest.Await(t, "another one", knows(2))
	if err := f.workers.Delete(t.Context(), spec(1).ID); err != nil {
		t.Fatal(err)
	}
	bustest.Await(t, "a removal", knows(1))
	f.Offer(spec(3))
	f.Withdraw(spec(3).ID)
	if n := len(f.Workers()); n != 1 {
		t.Errorf("%d workers after one was offered and withdrawn, want 1", n)
	}
}

func TestPolicies(t *testing.T) {
	t.Run("IF-9_pairs_from_many_goroutines", func(t *testing.T) {
		f := start(t, true)
		f.put(t, 4)
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				for range 50 {
					id := f.Plan()
					if _, err := f.Select(t.Context(), &wire.Select{Lease: id, Model: "m"}); err != nil {
						t.Error(err)
						return
					}
					f.End(id, worker.Success, false)
				}
			})
		}
		wg.Wait()
		for i := range 4 {
			if got := f.Active(spec(i + 1).ID); got != 0 {
				t.Errorf("worker %d: %d calls in flight, want 0", i+1, got)
			}
		}
		bustest.Await(t, "the selector's counts to fall to 0", func() bool {
			n, err := f.selectorCounts()
			return err == nil && n == 0
		})
	})
}

// selectorCounts is the selector's count over all workers.
func (f *fleet) selectorCounts() (int, error) { return counted(f.counts) }

// counted is the count over all workers that a selector exports.
func counted(reg *prometheus.Registry) (int, error) {
	families, err := reg.Gather()
	if err != nil {
		return 0, err
	}
	sum := 0
	for _, mf := range families {
		if mf.GetName() == "smg_selector_requests_active" {
			for _, m := range mf.GetMetric() {
				sum += int(m.GetGauge().GetValue())
			}
		}
	}
	return sum, nil
}
