package bus_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"smg/bus"
	"smg/bus/bustest"
	"smg/wire"
	"smg/worker"
)

func cluster(t testing.TB, name string) wire.Cluster {
	t.Helper()
	c, err := wire.ParseCluster(name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func batch(leg worker.Leg, seq uint64) *worker.Batch {
	return &worker.Batch{Ingress: "i", Incarnation: 7, Leg: leg, Seq: seq}
}

// text is a topic of plain strings, of which "bad" cannot be read.
func text(subject string) wire.Topic[string] {
	return wire.Topic[string]{
		Kind:    "text",
		Subject: subject,
		Append: func(buf []byte, s *string) ([]byte, error) {
			if *s == "unsendable" {
				return buf, errors.New("cannot be sent")
			}
			return append(buf, *s...), nil
		},
		Decode: func(data []byte) (*string, error) {
			s := string(data)
			if s == "bad" {
				return nil, wire.ErrMalformed
			}
			return &s, nil
		},
	}
}

// inbox keeps what a handler was called with.
type inbox[T any] struct {
	mu  sync.Mutex
	got []T
}

func (b *inbox[T]) add(v *T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.got = append(b.got, *v)
}

func (b *inbox[T]) all() []T {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]T(nil), b.got...)
}

func (b *inbox[T]) await(t *testing.T, n int) []T {
	t.Helper()
	bustest.Await(t, fmt.Sprintf("%d messages", n), func() bool { return len(b.all()) >= n })
	return b.all()
}

func publish[T any](t *testing.T, c *bus.Conn, topic wire.Topic[T], v *T) {
	t.Helper()
	if err := bus.Publish(c, topic, v); err != nil {
		t.Fatal(err)
	}
}

func subscribe[T any](t *testing.T, c *bus.Conn, topic wire.Topic[T], f func(*T)) *bus.Subscription {
	t.Helper()
	s, err := bus.Subscribe(c, topic, f)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Everybody who subscribed, the sender too, hears a topic, in order, and nothing
// of other legs and other clusters.
func TestTopicReachesItsSubscribers(t *testing.T) {
	server := bustest.Server(t)
	a, b := bustest.Connect(t, server), bustest.Connect(t, server)
	east := cluster(t, "east")
	var own, other inbox[worker.Batch]
	subscribe(t, a, east.Leases(worker.Decode), own.add)
	subscribe(t, b, east.Leases(worker.Decode), other.add)

	const n = 500
	publish(t, a, cluster(t, "west").Leases(worker.Decode), batch(worker.Decode, 1))
	publish(t, a, east.Leases(worker.Prefill), batch(worker.Prefill, 1))
	var want []worker.Batch
	for i := range n {
		want = append(want, *batch(worker.Decode, uint64(i+1)))
		publish(t, a, east.Leases(worker.Decode), &want[i])
	}
	for name, got := range map[string][]worker.Batch{"own": own.await(t, n), "other": other.await(t, n)} {
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

func TestSubscriptionStops(t *testing.T) {
	c := bustest.Start(t)
	var got inbox[string]
	s := subscribe(t, c, text("a"), got.add)
	word := "x"
	publish(t, c, text("a"), &word)
	got.await(t, 1)
	for range 2 {
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	publish(t, c, text("a"), &word)
	var after inbox[string] // in order after the one that nobody is to hear
	subscribe(t, c, text("b"), after.add)
	publish(t, c, text("b"), &word)
	after.await(t, 1)
	if n := len(got.all()); n != 1 {
		t.Errorf("%d messages, want 1", n)
	}
}

func TestBadMessagesAreDropped(t *testing.T) {
	reg := prometheus.NewRegistry()
	var log logLines
	cfg := bus.DefaultConfig()
	cfg.Server = bustest.Server(t)
	c := bustest.ConnectWith(t, cfg, reg, slog.New(slog.NewTextHandler(&log, nil)))
	bustest.ConnectWith(t, cfg, reg, slog.New(slog.DiscardHandler)) // may share the metrics

	var got inbox[string]
	subscribe(t, c, text("a"), got.add)
	for _, s := range []string{"one", "bad", "bad", "two", "unsendable"} {
		err := bus.Publish(c, text("a"), &s)
		if (err != nil) != (s == "unsendable") {
			t.Errorf("publishing %q: %v", s, err)
		}
	}
	if d := cmp.Diff([]string{"one", "two"}, got.await(t, 2)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	want := `
# HELP smg_bus_dropped_total Messages from NATS that were dropped, by topic and reason.
# TYPE smg_bus_dropped_total counter
smg_bus_dropped_total{reason="malformed",topic="text"} 2
# HELP smg_bus_publish_errors_total Messages that were not handed to NATS, by topic.
# TYPE smg_bus_publish_errors_total counter
smg_bus_publish_errors_total{topic="text"} 1
# HELP smg_bus_reconnects_total Returns of a lost connection to NATS.
# TYPE smg_bus_reconnects_total counter
smg_bus_reconnects_total 0
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	if n := strings.Count(log.String(), "cannot be read"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, log.String())
	}
}

// slowHandler falls behind and loses messages, which is counted, and nothing else
// waits for it.
func slowHandler(t *testing.T) {
	reg := prometheus.NewRegistry()
	var log logLines
	cfg := bus.DefaultConfig()
	cfg.Server = bustest.Server(t)
	c := bustest.ConnectWith(t, cfg, reg, slog.New(slog.NewTextHandler(&log, nil)))
	release := make(chan struct{})
	var slow, quick inbox[string]
	subscribe(t, c, text("a"), func(s *string) {
		<-release
		slow.add(s)
	})
	subscribe(t, c, text("b"), quick.add)

	const sent = 1<<16 + 1000
	word := "x"
	for range sent {
		publish(t, c, text("a"), &word)
	}
	publish(t, c, text("b"), &word)
	quick.await(t, 1)
	bustest.Await(t, "the log line", func() bool { return strings.Contains(log.String(), "handler is slow") })
	close(release)
	dropped := func() int {
		n, err := testutil.GatherAndCount(reg, "smg_bus_dropped_total")
		if err != nil || n == 0 {
			return 0
		}
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == "smg_bus_dropped_total" {
				return int(f.GetMetric()[0].GetCounter().GetValue())
			}
		}
		return 0
	}
	bustest.Await(t, "all messages to be handled or counted", func() bool { return len(slow.all())+dropped() == sent })
	if dropped() == 0 {
		t.Error("nothing was dropped")
	}
	if n := strings.Count(log.String(), "handler is slow"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, log.String())
	}
}

// returning is a connection that is lost: nothing is sent, kept or waited for; when
// it is back, subscriptions work as before.
func returning(t *testing.T) {
	server := bustest.Server(t)
	link := bustest.NewLink(server)
	c := bustest.Connect(t, link)
	var got inbox[string]
	subscribe(t, c, text("a"), got.add)
	returns := make(chan struct{}, 1)
	remove := c.OnReconnect(func() { returns <- struct{}{} })
	defer remove()
	c.OnReconnect(func() { t.Error("a removed listener was called") })()

	if !c.Connected() {
		t.Fatal("not connected")
	}
	link.Cut()
	bustest.Await(t, "the loss to be noticed", func() bool { return !c.Connected() })
	stale := "stale"
	if err := bus.Publish(c, text("a"), &stale); !errors.Is(err, bus.ErrDisconnected) {
		t.Errorf("publishing: got %v, want %v", err, bus.ErrDisconnected)
	}
	var late inbox[string]
	subscribe(t, c, text("a"), late.add)

	link.Mend(server)
	<-returns
	fresh := "fresh"
	publish(t, c, text("a"), &fresh)
	for name, in := range map[string]*inbox[string]{"before": &got, "meanwhile": &late} {
		if d := cmp.Diff([]string{"fresh"}, in.await(t, 1)); d != "" {
			t.Errorf("subscribed %s (-want +got):\n%s", name, d)
		}
	}
}

func TestClose(t *testing.T) {
	server := bustest.Server(t)
	c, other := bustest.Connect(t, server), bustest.Connect(t, server)
	var got inbox[string]
	subscribe(t, other, text("a"), got.add)
	handled := 0 // not guarded: Close returns after the last call
	s := subscribe(t, c, text("a"), func(*string) { handled++ })
	const n = 200
	word := "x"
	for range n {
		publish(t, c, text("a"), &word)
	}
	for range 2 {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	got.await(t, n) // published before, so it is sent
	if handled == 0 {
		t.Error("closing dropped what had arrived")
	}
	if err := s.Stop(); err != nil {
		t.Errorf("stopping a subscription afterwards: %v", err)
	}
	if err := bus.Publish(c, text("a"), &word); !errors.Is(err, bus.ErrDisconnected) {
		t.Errorf("publishing afterwards: got %v, want %v", err, bus.ErrDisconnected)
	}
	if _, err := bus.Subscribe(c, text("a"), got.add); !errors.Is(err, bus.ErrDisconnected) {
		t.Errorf("subscribing afterwards: got %v, want %v", err, bus.ErrDisconnected)
	}
}

func TestCloseWithoutServer(t *testing.T) {
	link := bustest.NewLink(bustest.Server(t))
	c := bustest.Connect(t, link)
	var got inbox[string]
	subscribe(t, c, text("a"), got.add)
	link.Cut()
	bustest.Await(t, "the loss to be noticed", func() bool { return !c.Connected() })
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

// A handler that never returns is an error of Close, not a hang.
func TestCloseIsBounded(t *testing.T) {
	cfg := bus.DefaultConfig()
	cfg.Server = bustest.Server(t)
	cfg.DrainTimeout = cfg.DrainTimeout / 40
	c, err := bus.Connect(cfg, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	begun, release := make(chan struct{}), make(chan struct{})
	subscribe(t, c, text("a"), func(*string) {
		close(begun)
		<-release
	})
	word := "x"
	publish(t, c, text("a"), &word)
	<-begun
	if err := c.Close(); err == nil {
		t.Error("closed while a handler runs")
	}
	close(release)
	if err := c.Close(); err != nil {
		t.Errorf("closing again: %v", err)
	}
}

func TestConnectFails(t *testing.T) {
	cut := bustest.NewLink(nil)
	for _, tt := range []struct {
		name   string
		change func(*bus.Config)
		want   string
	}{
		{"no server named", func(c *bus.Config) { c.Server = nil }, "no server"},
		{"no time to drain", func(c *bus.Config) { c.DrainTimeout = 0 }, "drain within 0s"},
		{"server gone", func(*bus.Config) {}, "connecting to NATS"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := bus.DefaultConfig()
			cfg.Server = cut
			tt.change(&cfg)
			_, err := bus.Connect(cfg, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want ... %s ...", err, tt.want)
			}
		})
	}
}

// logLines is a writer for loggers of several goroutines.
type logLines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// What a message costs from Publish to its handler, in one process and all told:
// plain bytes through nats.go, and lease batches through this package. Up to 1,024
// messages are under way at a time.
func BenchmarkMessage(b *testing.B) {
	server := bustest.Server(b)
	b.Run("plain", func(b *testing.B) {
		nc, err := nats.Connect("", nats.InProcessServer(server))
		if err != nil {
			b.Fatal(err)
		}
		defer nc.Close()
		window := make(chan struct{}, 1024)
		if _, err := nc.Subscribe("plain", func(*nats.Msg) { <-window }); err != nil {
			b.Fatal(err)
		}
		data := make([]byte, 64)
		b.ReportAllocs()
		for b.Loop() {
			window <- struct{}{}
			if err := nc.Publish("plain", data); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, entries := range []int{1, 64} {
		b.Run(fmt.Sprintf("batch/n=%d", entries), func(b *testing.B) {
			c := bustest.Connect(b, server)
			topic := cluster(b, "bench").Leases(worker.Regular)
			v := batch(worker.Regular, 1)
			for i := range entries {
				id := worker.LeaseID{Incarnation: v.Incarnation, Plan: uint64(i + 1)}
				v.Entries = append(v.Entries, worker.Entry{Lease: worker.Lease{ID: id, Worker: worker.ID{1}, Tokens: 100}})
			}
			window := make(chan struct{}, 1024)
			if _, err := bus.Subscribe(c, topic, func(*worker.Batch) { <-window }); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				window <- struct{}{}
				if err := bus.Publish(c, topic, v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// silencing is a server that says nothing any more from some time on.
type silencing struct {
	server bus.Dialer
	silent atomic.Bool
}

func (m *silencing) InProcessConn() (net.Conn, error) {
	c, err := m.server.InProcessConn()
	return &silencedConn{Conn: c, from: m, closed: make(chan struct{})}, err
}

type silencedConn struct {
	net.Conn
	from   *silencing
	close  sync.Once
	closed chan struct{}
}

func (c *silencedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.from.silent.Load() {
		<-c.closed
		return 0, io.EOF
	}
	return n, err
}

func (c *silencedConn) Close() error {
	c.close.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// TestCloseOfASlowConnection: a server, or a machine, that is slow when a process ends
// is no reason for the process to fail. The log says that something may be lost.
func TestCloseOfASlowConnection(t *testing.T) {
	server := &silencing{server: bustest.Server(t)}
	cfg := bus.DefaultConfig()
	cfg.Server, cfg.DrainTimeout = server, cfg.DrainTimeout/40
	var log bytes.Buffer
	c, err := bus.Connect(cfg, prometheus.NewRegistry(), slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	server.silent.Store(true)
	if err := c.Close(); err != nil {
		t.Errorf("got %v, want no error", err)
	}
	if !strings.Contains(log.String(), "closed before everything had been sent") {
		t.Errorf("the log says nothing of it:\n%s", &log)
	}
}
