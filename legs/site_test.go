package legs

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"smg/bus"
	"smg/bus/bustest"
	"smg/policy"
	"smg/wire"
	"smg/worker"
)

// engines are the workers of a test as their pollers see them.
type engines struct {
	mu      sync.Mutex
	answers map[string]func(ctx context.Context) (Loads, error) // by URL
	polls   map[string][]time.Time
	sources map[string]int // that were made
	under   int            // polls under way
}

// source is one stay's source of a worker's loads.
type source struct {
	engines *engines
	url     string
}

func (e *engines) newSource(s *worker.Spec) LoadSource {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sources[s.URL]++
	return source{e, s.URL}
}

func (s source) Poll(ctx context.Context) (Loads, error) {
	e := s.engines
	e.mu.Lock()
	e.polls[s.url] = append(e.polls[s.url], time.Now())
	e.under++
	answer := e.answers[s.url]
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.under--
	}()
	if answer == nil {
		return Loads{Sums: worker.Report{Queued: worker.NotReported}}, nil
	}
	return answer(ctx)
}

// says is what an engine answers from now on.
func (e *engines) says(s *worker.Spec, waiting int64, usage float64) {
	e.does(s, func(context.Context) (Loads, error) {
		return Loads{Sums: worker.Report{Waiting: waiting, Queued: worker.NotReported, KVUsage: usage}}, nil
	})
}

func (e *engines) fails(s *worker.Spec, reason string) {
	e.does(s, func(context.Context) (Loads, error) { return Loads{}, errors.New(reason) })
}

// hangs lets polls take so long.
func (e *engines) hangs(s *worker.Spec, d time.Duration) {
	e.does(s, func(ctx context.Context) (Loads, error) {
		pause(ctx, d)
		return Loads{}, errors.New("no answer in time")
	})
}

func (e *engines) does(s *worker.Spec, answer func(context.Context) (Loads, error)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answers[s.URL] = answer
}

// asked is when a worker was polled, since a moment.
func (e *engines) asked(s *worker.Spec, since time.Time) []time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []time.Duration
	for _, at := range e.polls[s.URL] {
		if d := at.Sub(since); d >= 0 {
			all = append(all, d)
		}
	}
	return all
}

func (e *engines) made(s *worker.Spec) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sources[s.URL]
}

// logged keeps what a service says.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// lines are those that say something.
func (l *logged) lines(what string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(strings.Split(l.b.String(), "\n"), func(line string) bool { return !strings.Contains(line, what) })
}

// site is the loops of a service, in a bubble of time, over engines that do as told.
type site struct {
	*Service
	engines *engines
	prober  *prober
	reg     *prometheus.Registry
	log     *logged
	events  *publishers
	begun   time.Time
}

// inTime runs body over a service whose time passes at once. The bus is outside: the
// service talks, but hears only what body tells it.
func inTime(t *testing.T, change func(*Config), body func(t *testing.T, s *site)) {
	t.Helper()
	inTimeOn(t, bustest.Start(t), change, body)
}

func testCluster(t testing.TB) wire.Cluster {
	t.Helper()
	cluster, err := wire.ParseCluster("test")
	if err != nil {
		t.Fatal(err)
	}
	return cluster
}

// inTimeOn is inTime over a bus that the test listens to.
func inTimeOn(t *testing.T, conn *bus.Conn, change func(*Config), body func(t *testing.T, s *site)) {
	t.Helper()
	cluster := testCluster(t)
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{
			Cluster: cluster, Replica: 7, Build: "test", Policy: policy.DefaultConfig(), Keeper: worker.DefaultKeeperConfig(),
			Loads: DefaultLoadConfig(), Endpoint: "/health",
		}
		cfg.Policy.Policy = policy.RoundRobin
		cfg.Keeper.Health.Interval = time.Second
		if change != nil {
			change(&cfg)
		}
		s := &site{
			engines: &engines{answers: map[string]func(context.Context) (Loads, error){}, polls: map[string][]time.Time{}, sources: map[string]int{}},
			events:  &publishers{by: map[string]*publisher{}}, prober: &prober{}, reg: prometheus.NewRegistry(), log: &logged{}, begun: time.Now(),
		}
		var err error
		s.Service, err = New(cfg, Deps{
			Bus: conn, Prober: s.prober, Loads: s.engines.newSource, Events: s.events.source, Registerer: s.reg, Now: time.Now,
			Log: slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		})
		if err != nil {
			t.Fatal(err)
		}
		s.Service.ready.Store(true)
		ctx, stop := context.WithCancel(t.Context())
		var loops sync.WaitGroup
		loops.Go(func() { s.loop(ctx) })
		loops.Go(func() { s.pollLoads(ctx) })
		loops.Go(func() { s.followEvents(ctx) })
		loops.Go(func() {
			for ctx.Err() == nil { // its own beats, as if heard over the bus
				s.onBeat(&wire.Beat{Replica: cfg.Replica, Ready: true})
				pause(ctx, worker.BeatInterval)
			}
		})
		synctest.Wait()
		body(t, s)
		stop()
		loops.Wait()
	})
}

// pass lets time pass.
func (s *site) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// come registers workers and lets them turn ready and be polled for the first time.
func (s *site) come(specs ...*worker.Spec) {
	s.add(specs...)
	s.pass(2 * newsDelay)
}

// record is what is published of a worker.
func (s *site) record(t *testing.T, w *worker.Spec) worker.Record {
	t.Helper()
	rec, ok := s.registry.Record(w.ID)
	if !ok {
		t.Fatalf("nothing is known of %s", w.URL)
	}
	return rec
}

// reported says whether a worker has a report that holds.
func (s *site) reported(t *testing.T, w *worker.Spec) bool {
	t.Helper()
	r := s.record(t, w).Report
	return r != nil && !r.Stale(time.Now())
}

// ill makes a worker fail its health probes until it is not ready, and well the
// other way round.
func (s *site) ill(w *worker.Spec) {
	s.prober.set(w.URL, errors.New("down"))
	s.pass(4 * time.Second)
}

func (s *site) well(w *worker.Spec) {
	s.prober.set(w.URL, nil)
	s.pass(3 * time.Second)
}

func (s *site) pick(plan uint64, model string) (wire.Pick, error) {
	return s.Select(&wire.Select{Lease: worker.LeaseID{Incarnation: 1, Plan: plan}, Model: model})
}
