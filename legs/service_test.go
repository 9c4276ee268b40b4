package legs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"smg/bus"
	"smg/bus/bustest"
	"smg/policy"
	"smg/wire"
	"smg/worker"
)

// prober answers as it is told.
type prober struct {
	mu    sync.Mutex
	bad   map[string]error
	asked map[string]int
}

func (p *prober) Health(_ context.Context, w *worker.Spec, _ string) error {
	url := w.Base()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked == nil {
		p.asked = map[string]int{}
	}
	p.asked[url]++
	return p.bad[url]
}

func (p *prober) set(url string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bad == nil {
		p.bad = map[string]error{}
	}
	p.bad[url] = err
}

func (p *prober) count(url string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[url]
}

// bench is a service on a bus of its own.
type bench struct {
	*Service
	bus     *bus.Conn
	cluster wire.Cluster
	prober  *prober
	workers *bus.Bucket[worker.ID, worker.Spec]
	reg     *prometheus.Registry
	seq     uint64
	records chan worker.Record
}

func start(t testing.TB, change func(*Config), with ...func(*Deps)) *bench {
	t.Helper()
	return startOn(t, func(*bus.Conn, wire.Cluster) {}, change, with...)
}

func startRecorded(t testing.TB, rec Recorder, change func(*Config)) *bench {
	t.Helper()
	return start(t, change, func(d *Deps) { d.Recorder = rec })
}

// startOn is start where others are on the bus before.
func startOn(t testing.TB, before func(*bus.Conn, wire.Cluster), change func(*Config), with ...func(*Deps)) *bench {
	t.Helper()
	cluster, err := wire.ParseCluster("test")
	if err != nil {
		t.Fatal(err)
	}
	keeper := worker.DefaultKeeperConfig()
	keeper.Health.Interval = 5 * time.Millisecond // probed anew in each round
	cfg := Config{
		Cluster: cluster, Leg: worker.Regular, Replica: 7, Build: "test", Policy: policy.DefaultConfig(), Keeper: keeper, Endpoint: "/health",
	}
	if change != nil {
		change(&cfg)
	}
	b := &bench{bus: bustest.Start(t), cluster: cluster, prober: &prober{}, reg: prometheus.NewRegistry(), records: make(chan worker.Record, 1024)}
	b.workers = bus.NewBucket(b.bus, cluster.Workers())
	before(b.bus, cluster)
	sub, err := bus.Subscribe(b.bus, cluster.State(cfg.Leg), func(records *wire.Records) {
		for i := range *records {
			select {
			case b.records <- (*records)[i].Record(time.Now()):
			default: // the test has seen enough
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	deps := Deps{Bus: b.bus, Prober: b.prober, Log: slog.New(slog.DiscardHandler), Registerer: b.reg, Now: time.Now}
	for _, f := range with {
		f(&deps)
	}
	b.Service, err = New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1) // one: Run's result
	go func() { done <- b.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-done, sub.Stop()); err != nil {
			t.Error(err)
		}
	})
	return b
}

func spec(i int, model string) *worker.Spec {
	url := fmt.Sprintf("http://w%d:8000", i)
	s := &worker.Spec{ID: worker.IDOf(url), URL: url, Cost: 1, RegisteredAt: time.UnixMilli(int64(1000 + i))}
	if model != "" {
		s.Models = []worker.Model{{ID: model}}
	}
	return s
}

func (b *bench) put(t testing.TB, specs ...*worker.Spec) {
	t.Helper()
	for _, s := range specs {
		if err := b.workers.Put(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
}

func (b *bench) ready(t testing.TB, n int) {
	t.Helper()
	bustest.Await(t, fmt.Sprintf("%d ready workers", n), func() bool {
		ready := 0
		for _, w := range b.registry.Workers() {
			if w.Record.Status == worker.Ready {
				ready++
			}
		}
		return ready == n
	})
}

func (b *bench) ask(plan uint64, model string) (wire.Pick, error) {
	return b.Select(&wire.Select{Lease: worker.LeaseID{Incarnation: 1, Plan: plan}, Model: model})
}

func (b *bench) leases(t *testing.T, entries ...worker.Entry) {
	t.Helper()
	b.seq++
	batch := &worker.Batch{Ingress: "i", Incarnation: 1, Leg: b.cfg.Leg, Seq: b.seq, Entries: entries}
	if err := bus.Publish(b.bus, b.cluster.Leases(b.cfg.Leg), batch); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) active(id worker.ID) int { return b.fold.Load(id).Active() }

func TestSelectCountsUntilTheLeaseEnds(t *testing.T) {
	b := start(t, nil)
	b.put(t, spec(1, "m"), spec(2, "m"))
	b.ready(t, 2)
	pick, err := b.ask(1, "m")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := pick.Policy, policy.DefaultConfig().Policy; got != want {
		t.Errorf("policy %q, want %q", got, want)
	}
	id := pick.Worker.ID
	if got := b.active(id); got != 1 {
		t.Fatalf("after the select %d calls are counted, want 1", got)
	}
	lease := worker.Lease{ID: worker.LeaseID{Incarnation: 1, Plan: 1}, Worker: id}
	b.leases(t, worker.Entry{Kind: worker.EntryStart, Lease: lease})
	b.leases(t, worker.Entry{Kind: worker.EntryEnd, Lease: worker.Lease{ID: lease.ID}, Outcome: worker.Success})
	bustest.Await(t, "the count to fall", func() bool { return b.active(id) == 0 })
	want := `
# HELP smg_selector_requests_active Calls in flight at a worker, of all ingresses, as this selector counts them.
# TYPE smg_selector_requests_active gauge
smg_selector_requests_active{worker="http://w1:8000"} 0
smg_selector_requests_active{worker="http://w2:8000"} 0
`
	if err := testutil.GatherAndCompare(b.reg, stringReader(want), "smg_selector_requests_active"); err != nil {
		t.Error(err)
	}
}

func TestSelectRefuses(t *testing.T) {
	tests := []struct {
		name  string
		model string
		bad   bool
		want  error
	}{
		{name: "a model that nobody serves", model: "other", want: worker.ErrNoWorkers},
		{name: "a model whose only worker is not well", model: "m", bad: true, want: worker.ErrUnavailable},
		{name: "a model that is served", model: "m"},
		{name: "no model", model: ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := start(t, nil)
			w := spec(1, "m")
			if tt.bad {
				b.prober.set(w.URL, errors.New("down"))
			}
			b.put(t, w)
			bustest.Await(t, "the worker's first probe", func() bool { return b.prober.count(w.URL) > 1 })
			if !tt.bad {
				b.ready(t, 1)
			}
			bustest.Await(t, "readiness", func() bool {
				_, err := b.ask(1, tt.model)
				return !errors.Is(err, wire.ErrSelectionUnavailable)
			})
			if _, err := b.ask(2, tt.model); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

func TestNotReadyBeforeItHasSettled(t *testing.T) {
	b := start(t, func(c *Config) { c.Settle = time.Hour })
	b.put(t, spec(1, "m"))
	bustest.Await(t, "the worker to be known", func() bool { return len(b.registry.Workers()) == 1 })
	if _, err := b.ask(1, "m"); !errors.Is(err, wire.ErrSelectionUnavailable) {
		t.Errorf("got %v, want %v", err, wire.ErrSelectionUnavailable)
	}
}

// TestNotReadyBeforeItKnowsTheWorkers has a replica on a bus whose bucket cannot be
// read, as in the smaller half of a cluster: however long that lasts, it does not
// refuse for want of workers what ingresses can serve by their copies.
func TestNotReadyBeforeItKnowsTheWorkers(t *testing.T) {
	b := start(t, nil)
	now := time.Now()
	s, err := New(b.cfg, Deps{Bus: b.bus, Prober: b.prober, Log: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	s.now = func() time.Time { return now }
	s.readiness.Connected(now)
	now = now.Add(time.Hour)
	s.tick(true)
	if s.ready.Load() {
		t.Error("it is ready and knows nobody")
	}
	s.knowsWorkers()
	if !s.ready.Load() {
		t.Error("it is not ready although it knows who exists")
	}
}

func TestHealthFollowsTheWorker(t *testing.T) {
	b := start(t, nil)
	w := spec(1, "m")
	b.put(t, w)
	b.ready(t, 1)
	b.prober.set(w.URL, errors.New("connection refused"))
	b.ready(t, 0)
	if _, err := b.ask(1, "m"); !errors.Is(err, worker.ErrUnavailable) {
		t.Errorf("a worker that fails its probes: got %v, want %v", err, worker.ErrUnavailable)
	}
	b.prober.set(w.URL, nil)
	b.ready(t, 1)
	if _, err := b.ask(2, "m"); err != nil {
		t.Errorf("a worker that came back: %v", err)
	}
}

func TestKeeperPublishesItsRecord(t *testing.T) {
	b := start(t, nil)
	w := spec(1, "m")
	b.put(t, w)
	b.ready(t, 1)
	deadline := time.After(10 * time.Second)
	for {
		select {
		case rec := <-b.records:
			if rec.Worker != w.ID || rec.Keeper != b.cfg.Replica {
				t.Fatalf("record of worker %s by keeper %d", rec.Worker, rec.Keeper)
			}
			if rec.Status == worker.Ready {
				return
			}
		case <-deadline:
			t.Fatal("no record says that the worker is ready")
		}
	}
}

func TestAHigherRecordIsAdopted(t *testing.T) {
	b := start(t, nil)
	w := spec(1, "m")
	b.put(t, w)
	b.ready(t, 1)
	higher := worker.Record{Worker: w.ID, Epoch: 1 << 50, Term: 1000, Keeper: 99, Seq: 1, Status: worker.Draining}
	if err := bus.Publish(b.bus, b.cluster.State(worker.Regular), &wire.Records{*wire.StateOf(higher, time.Now())}); err != nil {
		t.Fatal(err)
	}
	// The other keeper never beats, so this replica takes over from its record.
	bustest.Await(t, "the takeover", func() bool {
		rec, _ := b.registry.Record(w.ID)
		return rec.Term > higher.Term && rec.Keeper == b.cfg.Replica && rec.Status == worker.Draining
	})
}

func TestWorkersComeAndGo(t *testing.T) {
	b := start(t, nil)
	b.put(t, spec(1, "m"), spec(2, "m"), &worker.Spec{
		ID: worker.IDOf("http://p:1"), URL: "http://p:1", Leg: worker.Prefill, Cost: 1, RegisteredAt: time.UnixMilli(1),
	})
	b.ready(t, 2)
	if n := len(b.registry.Workers()); n != 2 {
		t.Errorf("%d workers, want the 2 of the leg", n)
	}
	if err := b.workers.Delete(t.Context(), spec(1, "m").ID); err != nil {
		t.Fatal(err)
	}
	bustest.Await(t, "the removal", func() bool { return len(b.registry.Workers()) == 1 })
	for plan := range uint64(10) {
		pick, err := b.ask(plan+1, "m")
		if err != nil {
			t.Fatal(err)
		}
		if pick.Worker.URL != "http://w2:8000" {
			t.Errorf("picked %s, which was removed", pick.Worker.URL)
		}
	}
}

// A worker that comes back on another leg, its removal unseen, is nobody's here.
func TestAWorkerChangesItsLeg(t *testing.T) {
	b := start(t, nil)
	b.put(t, spec(1, "m"), spec(2, "m"))
	b.ready(t, 2)
	moved := spec(1, "m")
	moved.Leg = worker.Prefill
	b.put(t, moved)
	bustest.Await(t, "the worker to be gone", func() bool { return len(b.registry.Workers()) == 1 })
	if n := len(b.keeperIDs()); n != 1 {
		t.Errorf("%d workers are kept, want 1", n)
	}
}

func (b *bench) keeperIDs() []worker.ID {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Keys(b.keepers))
}

// TestPolicies holds the numbered cases that are decided by who keeps a worker. What
// a source of loads makes of an engine's answers is for package engine to say.
func TestPolicies(t *testing.T) {
	t.Run("AV-3 AV-7 vetoes by report", vetoedByReport)
	t.Run("LR-1 LR-8 a source lives as long as a stay", sourceOfAStay)
	t.Run("LR-3 no report and eligible", unreportedIsEligible)
	t.Run("LR-5 PT-5 LR-11 polled on demand", polledOnDemand)
	t.Run("LR-8 not ready", leavesTheReady)
	t.Run("LR-9 groups come and go", groupsComeAndGo)
	// Labels of a replacement are taken while requests run, whose count stays.
	t.Run("IF-7_a_replacement_with_new_labels_keeps_the_count", func(t *testing.T) {
		b := start(t, nil)
		w := spec(1, "m")
		b.put(t, w)
		b.ready(t, 1)
		for plan := range uint64(3) {
			pick, err := b.ask(plan+1, "m")
			if err != nil {
				t.Fatal(err)
			}
			b.leases(t, worker.Entry{Kind: worker.EntryStart, Lease: worker.Lease{ID: worker.LeaseID{Incarnation: 1, Plan: plan + 1}, Worker: pick.Worker.ID}})
		}
		again := spec(1, "m")
		again.Labels, again.RegisteredAt = map[string]string{"zone": "b"}, again.RegisteredAt.Add(time.Hour)
		b.put(t, again)
		bustest.Await(t, "the new labels", func() bool { return b.registry.Lookup(w.ID).Spec.Labels["zone"] == "b" })
		if n := b.active(w.ID); n != 3 {
			t.Errorf("%d calls are counted, want 3", n)
		}
		if err := b.workers.Delete(t.Context(), w.ID); err != nil {
			t.Fatal(err)
		}
		bustest.Await(t, "the removal", func() bool { return len(b.registry.Workers()) == 0 })
		b.put(t, spec(1, "m"))
		bustest.Await(t, "its return", func() bool { return len(b.registry.Workers()) == 1 })
		if n := b.active(w.ID); n != 3 {
			t.Errorf("%d calls are counted after a removal, want 3", n)
		}
		for plan := range uint64(3) {
			b.leases(t, worker.Entry{Kind: worker.EntryEnd, Lease: worker.Lease{ID: worker.LeaseID{Incarnation: 1, Plan: plan + 1}}, Outcome: worker.Success})
		}
		bustest.Await(t, "the count to fall", func() bool { return b.active(w.ID) == 0 })
	})
}

func TestReplicaBeatsSayWhatItReads(t *testing.T) {
	beats := make(chan wire.Beat, 64)
	b := start(t, func(c *Config) { c.Policy.Policy = policy.ConsistentHashing })
	sub, err := bus.Subscribe(b.bus, b.cluster.Beat(worker.Regular), func(x *wire.Beat) {
		select {
		case beats <- *x:
		default:
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := sub.Stop(); err != nil {
			t.Error(err)
		}
	}()
	b.put(t, spec(1, "m"))
	b.ready(t, 1)
	want := wire.Beat{
		Replica: 7, Ready: true, Build: "test", Versions: []uint32{wire.Version},
		Policies: []wire.PolicyUse{{Name: policy.ConsistentHashing, Reads: wire.ReadsKey | wire.ReadsImplicitKey}}, Models: []string{"m"},
	}
	var got wire.Beat
	bustest.Await(t, "a ready beat with the model", func() bool {
		select {
		case got = <-beats:
		default:
		}
		return got.Ready && len(got.Models) > 0
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("beat (-want +got):\n%s", diff)
	}
}
