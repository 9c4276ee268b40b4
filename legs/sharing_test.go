package legs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"smg/bus"
	"smg/bus/bustest"
	"smg/policy"
	"smg/wire"
	"smg/worker"
)

// team is replicas of one leg, and who puts its workers.
type team struct {
	cluster wire.Cluster
	workers *bus.Bucket[worker.ID, worker.Spec]
	policy  policy.Config
	limits  bus.Limits
	next    worker.ReplicaID
	plan    uint64
}

// newTeam is a leg of four workers that pins keys. The workers are put by one of
// its own, so that they come back when the server forgets them.
func newTeam(t *testing.T, server bus.Dialer, change func(*policy.Config)) *team {
	t.Helper()
	cluster, err := wire.ParseCluster("test")
	if err != nil {
		t.Fatal(err)
	}
	m := &team{cluster: cluster, policy: policy.DefaultConfig(), workers: bus.NewBucket(bustest.Connect(t, server), cluster.Workers()), next: 1}
	m.policy.Policy, m.policy.Pins.Assignment = policy.Manual, policy.AssignRandom
	if change != nil {
		change(&m.policy)
	}
	if m.policy.Pins.EvictionInterval > 0 {
		m.limits.MaxIdle = m.policy.Pins.MaxIdle
	}
	for i := range 4 {
		if err := m.workers.Put(t.Context(), spec(i+1, "m")); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// mate is one of the replicas.
type mate struct {
	*Service
	reg  *prometheus.Registry
	stop func()
}

// join starts a replica that talks over server and waits until it answers. It runs
// until the test's end or until it is stopped.
func (m *team) join(t *testing.T, server bus.Dialer) *mate {
	t.Helper()
	keeper := worker.DefaultKeeperConfig()
	keeper.Health.Interval = 5 * time.Millisecond
	conn, reg := bustest.Connect(t, server), prometheus.NewRegistry()
	s, err := New(
		Config{Cluster: m.cluster, Replica: m.next, Build: "test", Policy: m.policy, Keeper: keeper, Endpoint: "/health"},
		Deps{
			Bus: conn, Prober: &prober{}, Pins: bus.NewVersioned(conn, m.cluster.Pins(worker.Regular), m.limits),
			Log: slog.New(slog.DiscardHandler), Registerer: reg, Now: time.Now,
		})
	if err != nil {
		t.Fatal(err)
	}
	m.next++
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1) // one: Run's result
	go func() { done <- s.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	bustest.Await(t, "the replica and its workers", func() bool {
		ready := 0
		for _, w := range s.registry.Workers() {
			if w.Record.Status == worker.Ready {
				ready++
			}
		}
		return s.ready.Load() && ready == 4
	})
	return &mate{s, reg, stop}
}

// ask has a replica choose for a key.
func (m *team) ask(t *testing.T, s *mate, key string) wire.Pick {
	t.Helper()
	m.plan++
	k := worker.HashKey(key)
	pick, err := s.Select(&wire.Select{
		Lease: worker.LeaseID{Incarnation: 1, Plan: m.plan}, Model: "m", Keys: worker.Keys{Header: k, Conversation: k, Pinned: k},
	})
	if err != nil {
		t.Fatal(err)
	}
	return pick
}

// want has a replica choose for a key that is pinned already.
func (m *team) want(t *testing.T, s *mate, key string, id worker.ID) {
	t.Helper()
	if got := m.ask(t, s, key); got.Worker.ID != id || got.Branch != "occupied_hit" {
		t.Errorf("%s went to %s by %s, want its own worker by occupied_hit", key, got.Worker.URL, got.Branch)
	}
}

// pins is how many keys a replica remembers.
func (s *mate) pins(t *testing.T) int {
	t.Helper()
	families, err := s.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "smg_manual_policy_cache_entries" {
			return int(f.GetMetric()[0].GetGauge().GetValue())
		}
	}
	return -1
}

func (s *mate) awaitPins(t *testing.T, n int) {
	t.Helper()
	bustest.Await(t, fmt.Sprintf("%d pins", n), func() bool { return s.pins(t) == n })
}

const pinBucket = "smg_v1_test_pins"

func jetStream(t *testing.T, server bus.Dialer) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect("", nats.InProcessServer(server))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// awaitStored waits until n pins are stored, in a bucket.
func awaitStored(t *testing.T, server bus.Dialer, n int) {
	t.Helper()
	js, got := jetStream(t, server), -1
	bustest.Await(t, fmt.Sprintf("%d stored pins", n), func() bool {
		got = storedPins(t, js)
		return got == n
	})
}

// storedPins is how many pins are stored, -1 without a bucket.
func storedPins(t *testing.T, js jetstream.JetStream) int {
	t.Helper()
	kv, err := js.KeyValue(t.Context(), pinBucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return -1
	}
	if err != nil {
		t.Fatal(err)
	}
	keys, err := kv.Keys(t.Context())
	if err != nil && !errors.Is(err, jetstream.ErrNoKeysFound) {
		t.Fatal(err)
	}
	return len(keys)
}

// names are keys.
func names(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprint("key-", i)
	}
	return all
}

// TestPinsOfReplicas: what one replica pins, all know: those that run and those that
// come when it is gone.
func TestPinsOfReplicas(t *testing.T) {
	for name, change := range map[string]func(*policy.Config){
		"manual": nil,
		"sticky": func(c *policy.Config) {
			c.Policy = policy.Random
			c.Sticky = policy.StickyConfig{On: true, Assignment: policy.AssignDelegate}
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := bustest.Server(t)
			m := newTeam(t, server, change)
			a, b := m.join(t, server), m.join(t, server)
			went := map[string]worker.ID{}
			for _, key := range names(20) {
				went[key] = m.ask(t, a, key).Worker.ID
			}
			b.awaitPins(t, 20)
			for key, id := range went {
				m.want(t, b, key, id)
			}
			a.stop()
			b.stop()
			c := m.join(t, server)
			for key, id := range went {
				m.want(t, c, key, id)
			}
		})
	}
}

// TestPinConflict: two replicas that cannot hear each other pin one key; when they
// can, the pin that was stored first holds.
func TestPinConflict(t *testing.T) {
	server := bustest.Server(t)
	m := newTeam(t, server, nil)
	link := bustest.NewLink(server)
	a, b := m.join(t, server), m.join(t, link)
	link.Cut()
	bustest.Await(t, "the loss to be noticed", func() bool { return !b.bus.Connected() })
	went := map[string]worker.ID{}
	for _, key := range names(20) {
		m.ask(t, b, key)
		went[key] = m.ask(t, a, key).Worker.ID
	}
	m.ask(t, b, "b alone")
	awaitStored(t, server, 20)
	link.Mend(server)
	awaitStored(t, server, 21)
	a.awaitPins(t, 21)
	for key, id := range went {
		bustest.Await(t, "the stored pin to hold", func() bool { return m.ask(t, b, key).Worker.ID == id })
		m.want(t, a, key, id)
	}
}

// TestPinsExpire: a pin that nobody uses is gone everywhere, one that is used stays.
func TestPinsExpire(t *testing.T) {
	server := bustest.Server(t)
	m := newTeam(t, server, func(c *policy.Config) {
		c.Pins.MaxIdle, c.Pins.EvictionInterval = time.Second, 250*time.Millisecond
	})
	a, b := m.join(t, server), m.join(t, server)
	js, id := jetStream(t, server), m.ask(t, a, "used").Worker.ID
	m.ask(t, a, "idle")
	b.awaitPins(t, 2)
	for _, s := range []*mate{a, b} {
		bustest.Await(t, "the idle pin to go", func() bool {
			m.want(t, a, "used", id)
			return storedPins(t, js) == 1 && s.pins(t) == 1
		})
	}
	m.want(t, b, "used", id)
}

// TestPinsOfALostBucket: a bucket that is gone, with its server or alone, is filled
// again by those who answer for the keys.
func TestPinsOfALostBucket(t *testing.T) {
	t.Run("with its server", func(t *testing.T) {
		first, second := bustest.Server(t), bustest.Server(t)
		links := []*bustest.Link{bustest.NewLink(first), bustest.NewLink(first), bustest.NewLink(first)}
		m := newTeam(t, links[0], nil)
		a, b := m.join(t, links[1]), m.join(t, links[2])
		went := map[string]worker.ID{}
		for _, key := range names(300) {
			went[key] = m.ask(t, a, key).Worker.ID
		}
		b.awaitPins(t, 300)
		for _, l := range links {
			l.Cut()
		}
		bustest.Await(t, "the loss to be noticed", func() bool { return !a.bus.Connected() && !b.bus.Connected() })
		went["pinned meanwhile"] = m.ask(t, a, "pinned meanwhile").Worker.ID
		for key, id := range went { // the copy serves
			m.want(t, a, key, id)
		}
		for _, l := range links {
			l.Mend(second)
		}
		awaitStored(t, second, 301)
		b.awaitPins(t, 301)
		for key, id := range went {
			m.want(t, b, key, id)
		}
	})
	t.Run("alone", func(t *testing.T) {
		server := bustest.Server(t)
		m := newTeam(t, server, nil)
		a, b := m.join(t, server), m.join(t, server)
		for _, key := range names(20) {
			m.ask(t, a, key)
		}
		b.awaitPins(t, 20)
		if err := jetStream(t, server).DeleteKeyValue(t.Context(), pinBucket); err != nil {
			t.Fatal(err)
		}
		m.ask(t, a, "the next one")
		awaitStored(t, server, 21)
		b.awaitPins(t, 21)
	})
}

// TestPinsOfCallsThatNeverGotThere leave the bucket too.
func TestPinsOfCallsThatNeverGotThere(t *testing.T) {
	server := bustest.Server(t)
	m := newTeam(t, server, nil)
	a, b := m.join(t, server), m.join(t, server)
	m.ask(t, a, "kept")
	m.ask(t, a, "lost")
	b.awaitPins(t, 2)
	batch := &worker.Batch{Ingress: "i", Incarnation: 1, Leg: worker.Regular, Seq: 1, Entries: []worker.Entry{
		{Kind: worker.EntryEnd, Lease: worker.Lease{ID: worker.LeaseID{Incarnation: 1, Plan: m.plan}}, Unreached: true},
	}}
	if err := bus.Publish(a.bus, m.cluster.Leases(worker.Regular), batch); err != nil {
		t.Fatal(err)
	}
	a.awaitPins(t, 1)
	awaitStored(t, server, 1)
	b.awaitPins(t, 1)
}

// TestNoPinsNoBucket: a leg that pins nothing has no bucket, until the label of a
// worker has its model pin keys.
func TestNoPinsNoBucket(t *testing.T) {
	server := bustest.Server(t)
	m := newTeam(t, server, func(c *policy.Config) { c.Policy = policy.RoundRobin })
	a := m.join(t, server)
	m.ask(t, a, "key")
	if n := storedPins(t, jetStream(t, server)); n >= 0 {
		t.Fatalf("there is a bucket of %d pins", n)
	}
	s := spec(9, "sticky")
	s.Labels = map[string]string{"policy": policy.Manual}
	if err := m.workers.Put(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	awaitStored(t, server, 0)
}

// away is a store that answers as the test says.
type away struct {
	PinStore // nil: nothing else is asked

	mu      sync.Mutex
	err     error
	written int
}

func (s *away) Write(context.Context, *worker.Pin, uint64) (bus.Stored[worker.Pin], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return bus.Stored[worker.Pin]{}, s.err
	}
	s.written++
	return bus.Stored[worker.Pin]{Revision: uint64(s.written)}, nil
}

func (s *away) Watch(ctx context.Context, ev bus.VersionedEvents[worker.PinKey, worker.Pin]) error {
	ev.Begin()
	ev.Synced()
	<-ctx.Done()
	return nil
}

func (s *away) set(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// TestPinsThatCannotBeStored: selection does not notice, the log does, once, and what
// waited is stored afterwards.
func TestPinsThatCannotBeStored(t *testing.T) {
	var log lines
	store := &away{err: errors.New("full")}
	b := start(t, func(c *Config) { c.Policy.Policy = policy.Manual }, func(d *Deps) { d.Pins, d.Log = store, slog.New(slog.NewTextHandler(&log, nil)) })
	b.put(t, spec(1, "m"))
	b.ready(t, 1)
	for i, key := range names(5) {
		b.askKeyed(t, uint64(i+1), key)
	}
	bustest.Await(t, "a line", func() bool { return log.count("cannot be stored") > 0 })
	store.set(nil)
	bustest.Await(t, "the writes", func() bool {
		store.mu.Lock()
		defer store.mu.Unlock()
		return store.written == 5
	})
	bustest.Await(t, "a line", func() bool { return log.count("stored again") > 0 })
	if n := log.count("cannot be stored"); n != 1 {
		t.Errorf("%d lines say so", n)
	}
}

// lines is what was logged.
type lines struct {
	mu  sync.Mutex
	all strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *lines) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.all.String(), part)
}
