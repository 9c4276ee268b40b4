package ingress

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"smg/bootstrap"
	"smg/engine"
	"smg/wire"
	"smg/worker"
)

// patience catches hangs; nothing is expected to take so long.
const patience = 20 * time.Second

// within polls until what holds.
func within(tb testing.TB, d time.Duration, what string, holds func() bool) {
	tb.Helper()
	for end := time.Now().Add(d); !holds(); {
		if time.Now().After(end) {
			tb.Fatalf("not within %v: %s", d, what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// fakeSelector picks its workers in turn and keeps book of the leases.
type fakeSelector struct {
	mu      sync.Mutex
	workers []*worker.Spec
	err     error // answers every Select
	plans   uint64
	asks    []wire.Select
	open    map[worker.LeaseID]int
	ends    map[worker.LeaseID][]ending
	begun   int
	probes  bool                      // every pick probes a half-open breaker
	epoch   func(*worker.Spec) uint64 // of picks; nil: unknown
	matched int64                     // of picks
	heads   []worker.LeaseID
}

type ending struct {
	Outcome   worker.Outcome
	Unreached bool
}

func (f *fakeSelector) Plan() worker.LeaseID {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.plans++
	return worker.LeaseID{Incarnation: 1, Plan: f.plans}
}

func (f *fakeSelector) Select(ctx context.Context, ask *wire.Select) (wire.Pick, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	kept := *ask // its text and tokens are the asker's
	kept.Text, kept.TokenIDs = strings.Clone(ask.Text), slices.Clone(ask.TokenIDs)
	f.asks = append(f.asks, kept)
	if ctx.Err() != nil {
		return wire.Pick{}, ctx.Err()
	}
	if f.err != nil {
		return wire.Pick{}, f.err
	}
	leg := slices.DeleteFunc(slices.Clone(f.workers), func(w *worker.Spec) bool { return w.Leg != ask.Lease.Leg })
	if len(leg) == 0 {
		return wire.Pick{}, fmt.Errorf("%s: %w", ask.Lease.Leg, worker.ErrNoWorkers)
	}
	if fit := slices.DeleteFunc(slices.Clone(leg), func(w *worker.Spec) bool { return !ask.Fit.Admits(w.Class()) }); len(fit) > 0 {
		leg = fit
	} else {
		m := &worker.Mismatch{}
		for _, w := range leg {
			m.Classes = append(m.Classes, w.Class())
		}
		return wire.Pick{}, m
	}
	fresh := slices.DeleteFunc(slices.Clone(leg), func(w *worker.Spec) bool { return slices.Contains(ask.Skip, w.ID) })
	if len(fresh) > 0 {
		leg = fresh
	}
	w := leg[f.begun%len(leg)]
	if ask.Model != "" && ask.Model != w.ModelID() {
		return wire.Pick{}, worker.ErrNoWorkers
	}
	f.begun++
	f.open[ask.Lease]++
	pick := wire.Pick{Worker: w, Policy: "round_robin", Probe: f.probes, Matched: f.matched}
	if f.epoch != nil {
		pick.Epoch = f.epoch(w)
	}
	return pick, nil
}

func (f *fakeSelector) Head(id worker.LeaseID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.heads = append(f.heads, id)
}

func (f *fakeSelector) End(id worker.LeaseID, outcome worker.Outcome, unreached bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open[id]--
	f.ends[id] = append(f.ends[id], ending{outcome, unreached})
}

func (f *fakeSelector) active() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, k := range f.open {
		n += k
	}
	return n
}

// last is how the youngest lease ended.
func (f *fakeSelector) last(tb testing.TB) ending {
	tb.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.ends[worker.LeaseID{Incarnation: 1, Plan: f.plans}]
	if len(e) != 1 {
		tb.Fatalf("the last lease ended %d times", len(e))
	}
	return e[0]
}

func (f *fakeSelector) lastAsk(tb testing.TB) wire.Select {
	tb.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.asks) == 0 {
		tb.Fatal("nobody was asked")
	}
	return f.asks[len(f.asks)-1]
}

func (f *fakeSelector) begins() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.begun
}

// verify fails unless every lease has ended, once.
func (f *fakeSelector) verify(tb testing.TB) {
	tb.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.ends) != f.begun {
		tb.Errorf("%d leases begun, %d ended", f.begun, len(f.ends))
	}
	for id, e := range f.ends {
		if len(e) != 1 || f.open[id] != 0 {
			tb.Errorf("lease %v ended %d times", id, len(e))
		}
	}
}

type fakeFleet struct {
	workers  []*worker.Worker
	selector *fakeSelector
	ready    atomic.Bool
	vetoed   sync.Map // IDs of workers that are overloaded
	epochs   sync.Map // of workers, by their IDs

	pairing   *worker.Pairing
	several   atomic.Bool
	alone     bool // decode workers can serve requests by themselves
	aliases   map[string]string
	roles     worker.Roles
	elsewhere sync.Map // IDs of workers that do not serve what they are asked for

	generation atomic.Uint64 // of the models
}

func (f *fakeFleet) Workers() []*worker.Worker { return slices.Clone(f.workers) }
func (f *fakeFleet) Active(worker.ID) int      { return f.selector.active() }

func (f *fakeFleet) Models() (ids []string, generation uint64) {
	for _, w := range f.workers {
		for _, m := range w.Spec.Models {
			if !slices.Contains(ids, m.ID) {
				ids = append(ids, m.ID)
			}
		}
	}
	return ids, f.generation.Load()
}

func (f *fakeFleet) Lookup(id worker.ID) *worker.Worker {
	for _, w := range f.workers {
		if w.Spec.ID == id {
			return w
		}
	}
	return nil
}

func (f *fakeFleet) Overloaded(id worker.ID) bool {
	_, ok := f.vetoed.Load(id)
	return ok
}

func (f *fakeFleet) Outdated(_ worker.Leg, id worker.ID, epoch uint64) bool {
	now, ok := f.epochs.Load(id)
	return ok && now.(uint64) > epoch
}

func (f *fakeFleet) Alone(string) bool { return f.alone }

func (f *fakeFleet) Sole() (model string, several bool) {
	if several = f.several.Load(); !several {
		model = "m"
	}
	return model, several
}
func (f *fakeFleet) Roles(string) worker.Roles { return f.roles }

func (f *fakeFleet) Canonical(name string) (string, bool) {
	id, ok := f.aliases[name]
	return id, ok
}

func (f *fakeFleet) Pairing(string) *worker.Pairing { return f.pairing }

func (f *fakeFleet) Serves(_ worker.Leg, _ string, id worker.ID) bool {
	_, elsewhere := f.elsewhere.Load(id)
	return !elsewhere
}

func (f *fakeFleet) Readiness() (ready bool, healthy, total int) {
	if f.ready.Load() {
		healthy = len(f.workers)
	}
	return f.ready.Load(), healthy, len(f.workers)
}

// fakeRegistrar keeps book of what it is asked, and answers as it is told.
type fakeRegistrar struct {
	mu                sync.Mutex
	added             []*worker.Spec
	removed           []worker.ID
	jobs              map[worker.ID]bootstrap.Job
	drained           []worker.ID
	replaced          []*worker.Spec
	patched           []patched
	addErr, removeErr error
	changeErr         error // of Replace and Patch
}

func (f *fakeRegistrar) Add(s *worker.Spec) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.added = append(f.added, s)
	return f.addErr
}

func (f *fakeRegistrar) Replace(_ context.Context, s *worker.Spec) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.replaced = append(f.replaced, s)
	return f.changeErr
}

func (f *fakeRegistrar) Patch(_ context.Context, id worker.ID, p bootstrap.Patch) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.patched = append(f.patched, patched{id, p})
	return f.changeErr
}

func (f *fakeRegistrar) Drain(_ context.Context, id worker.ID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.drained = append(f.drained, id)
	return f.removeErr
}

// patched is a call of Patch.
type patched struct {
	id    worker.ID
	patch bootstrap.Patch
}

func (f *fakeRegistrar) Remove(ctx context.Context, id worker.ID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.removed = append(f.removed, id)
	return errors.Join(f.removeErr, ctx.Err())
}

func (f *fakeRegistrar) Job(id worker.ID) (bootstrap.Job, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	j, ok := f.jobs[id]
	return j, ok
}

// gateway is a running Server with what it stands on.
type gateway struct {
	*Server
	tb       testing.TB
	addr     string
	url      string
	selector *fakeSelector
	fleet    *fakeFleet
	workers  *fakeRegistrar
	engines  *engine.Client
	registry *prometheus.Registry
	log      *logBuffer
	stop     context.CancelFunc
	done     chan error
	budget   int64
}

type logBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

type option func(*Config, *Deps)

func withDeps(set func(*Deps)) option { return func(_ *Config, d *Deps) { set(d) } }

func withConfig(set func(*Config)) option { return func(c *Config, _ *Deps) { set(c) } }

// start runs a Server over the engines at urls, which serve the model m. The test
// ends with all leases ended and all memory given back.
func start(tb testing.TB, urls []string, opts ...option) *gateway {
	tb.Helper()
	g := &gateway{tb: tb, registry: newRegistry(), log: &logBuffer{}, done: make(chan error, 1)}
	g.selector = &fakeSelector{open: map[worker.LeaseID]int{}, ends: map[worker.LeaseID][]ending{}}
	g.fleet = &fakeFleet{selector: g.selector}
	g.workers = &fakeRegistrar{jobs: map[worker.ID]bootstrap.Job{}}
	for _, u := range urls {
		spec := &worker.Spec{ID: worker.IDOf(u), URL: u, Runtime: worker.Generic, Models: []worker.Model{{ID: "m"}}, Priority: 50, Cost: 1}
		g.selector.workers = append(g.selector.workers, spec)
		g.fleet.workers = append(g.fleet.workers, &worker.Worker{Spec: spec, Record: worker.Record{Status: worker.Ready}})
	}
	g.fleet.ready.Store(len(urls) > 0)
	var err error
	if g.engines, err = engine.New(engine.DefaultConfig()); err != nil {
		tb.Fatal(err)
	}
	cfg := DefaultConfig()
	cfg.Retry.Attempts = 1   // tests of retries say so
	cfg.Upload.Edited = true // so that bodies are read; tests of uploads say so
	cfg.Grace = 2 * time.Second
	deps := Deps{
		Selector: g.selector, Dispatcher: g.engines, Fleet: g.fleet, Registrar: g.workers, Registerer: g.registry, Now: time.Now,
		Reads: func(worker.Leg) wire.Reads { return wire.ReadsKey | wire.ReadsImplicitKey },
		Log:   slog.New(slog.NewTextHandler(g.log, &slog.HandlerOptions{Level: slog.LevelInfo})),
	}
	for _, o := range opts {
		o(&cfg, &deps)
	}
	g.budget = cfg.MaxBufferedBytes
	if g.Server, err = New(cfg, deps); err != nil {
		tb.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	g.addr, g.url = l.Addr().String(), "http://"+l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	g.stop = cancel
	go func() { g.done <- g.Run(ctx, l) }()
	tb.Cleanup(g.close)
	return g
}

func (g *gateway) close() {
	g.Hurry()
	g.stop()
	select {
	case err := <-g.done:
		if err != nil {
			g.tb.Errorf("Run: %v", err)
		}
		g.done <- nil
	case <-time.After(patience):
		g.tb.Error("Run does not return")
	}
	g.engines.Close()
	g.selector.verify(g.tb)
	if left := g.Server.buffers.left.Load(); left != g.budget {
		g.tb.Errorf("budget: %d bytes are missing", g.budget-left)
	}
	if n := g.Server.active.Load(); n != 0 {
		g.tb.Errorf("%d handlers are left", n)
	}
	if strings.Contains(g.log.String(), "level=ERROR") {
		g.tb.Errorf("log:\n%s", g.log)
	}
}

// idle waits until no lease is open, as long as the acceptance cases allow.
func (g *gateway) idle() {
	g.tb.Helper()
	within(g.tb, 2*time.Second, "all leases end", func() bool { return g.selector.active() == 0 })
}

func newRegistry() *prometheus.Registry { return prometheus.NewRegistry() }
