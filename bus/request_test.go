package bus_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
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

// echo is a service of strings, which are answered in strings. It refuses the one
// that cannot be read.
func echo(subject string) wire.Service[string, string] {
	t := text(subject)
	t.Kind = "echo"
	return wire.Service[string, string]{
		Topic:        t,
		AppendAnswer: t.Append,
		Refuse: func(data []byte, err error) *string {
			s := fmt.Sprintf("refused %s: %v", data, err)
			return &s
		},
	}
}

func request(t *testing.T, c *bus.Conn, service wire.Service[string, string], v string, replies wire.Topic[string]) {
	t.Helper()
	if err := bus.Request(c, service, &v, replies); err != nil {
		t.Fatal(err)
	}
}

func TestRequestsAreAnswered(t *testing.T) {
	server := bustest.Server(t)
	reg := prometheus.NewRegistry()
	var log logLines
	cfg := bus.DefaultConfig()
	cfg.Server = server
	answering := bustest.ConnectWith(t, cfg, reg, slog.New(slog.NewTextHandler(&log, nil)))
	asking := bustest.Connect(t, server)
	service, inboxes := echo("ask"), []wire.Topic[string]{text("inbox.1"), text("inbox.2")}

	var subs bus.Subscriptions
	bus.Serve(&subs, answering, service, func(s *string) *string {
		if *s == "silence" {
			return nil
		}
		answer := *s
		if answer != "unsendable" {
			answer = "re " + answer
		}
		return &answer
	})
	var got [2]inbox[string]
	for i, topic := range inboxes {
		bus.JoinReplies(&subs, asking, topic, got[i].add, func(s string) { t.Errorf("nobody at %s", s) })
	}
	if err := subs.Err(); err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"a", "silence", "b"} {
		request(t, asking, service, s, inboxes[0])
	}
	bad := service // says what the other side cannot read
	bad.Append = func(buf []byte, _ *string) ([]byte, error) { return append(buf, "bad"...), nil }
	request(t, asking, bad, "", inboxes[1])
	unsendable := bad
	unsendable.Append = func(buf []byte, _ *string) ([]byte, error) { return append(buf, "unsendable"...), nil }
	request(t, asking, unsendable, "", inboxes[1])
	word := "to nowhere"
	if err := bus.Publish(asking, service.Topic, &word); err != nil {
		t.Fatal(err)
	}
	request(t, asking, service, "c", inboxes[1]) // in order: all before it are done

	if d := cmp.Diff([]string{"re a", "re b"}, got[0].await(t, 2)); d != "" {
		t.Errorf("inbox 1 (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"refused bad: malformed message", "re c"}, got[1].await(t, 2)); d != "" {
		t.Errorf("inbox 2 (-want +got):\n%s", d)
	}
	if err := subs.Stop(); err != nil {
		t.Fatal(err)
	}
	want := `
# HELP smg_bus_dropped_total Messages from NATS that were dropped, by topic and reason.
# TYPE smg_bus_dropped_total counter
smg_bus_dropped_total{reason="malformed",topic="echo"} 2
# HELP smg_bus_publish_errors_total Messages that were not handed to NATS, by topic.
# TYPE smg_bus_publish_errors_total counter
smg_bus_publish_errors_total{topic="echo"} 1
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "smg_bus_dropped_total", "smg_bus_publish_errors_total"); err != nil {
		t.Error(err)
	}
	if n := strings.Count(log.String(), "an answer could not be sent"); n != 1 {
		t.Errorf("said %d times that an answer was not sent:\n%s", n, log.String())
	}
}

// Who asks where nobody listens is told at once, by the server. A plain inbox does
// not take that for a message.
func TestNobodyAnswers(t *testing.T) {
	reg := prometheus.NewRegistry()
	cfg := bus.DefaultConfig()
	cfg.Server = bustest.Server(t)
	c := bustest.ConnectWith(t, cfg, reg, slog.New(slog.DiscardHandler))
	var absent, plain, other inbox[string]
	var subs bus.Subscriptions
	bus.JoinReplies(&subs, c, text("inbox"), other.add, func(s string) { absent.add(&s) })
	bus.Join(&subs, c, text("plain"), plain.add)
	if err := subs.Err(); err != nil {
		t.Fatal(err)
	}
	request(t, c, echo("void.1"), "a", text("inbox"))
	request(t, c, echo("void.2"), "a", text("plain"))
	word := "a"
	publish(t, c, text("plain"), &word)
	plain.await(t, 1)
	if d := cmp.Diff([]string{"void.1"}, absent.await(t, 1)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if n := len(other.all()); n > 0 {
		t.Errorf("%d answers", n)
	}
	if n, err := testutil.GatherAndCount(reg, "smg_bus_dropped_total"); err != nil || n > 0 {
		t.Errorf("something was dropped: %d, %v", n, err)
	}
	if err := subs.Stop(); err != nil {
		t.Fatal(err)
	}
}

// While either side is away nothing is kept; when it is back all goes on, also for
// what began meanwhile.
func TestRequestsOverACutLink(t *testing.T) {
	server := bustest.Server(t)
	links := []*bustest.Link{bustest.NewLink(server), bustest.NewLink(server)}
	asking, answering := bustest.Connect(t, links[0]), bustest.Connect(t, links[1])
	service, replies := echo("ask"), text("inbox")
	var got inbox[string]
	absent := make(chan string, 1)
	var subs bus.Subscriptions
	bus.JoinReplies(&subs, asking, replies, got.add, func(s string) { absent <- s })
	bus.Serve(&subs, answering, service, func(s *string) *string { return s })
	if err := subs.Err(); err != nil {
		t.Fatal(err)
	}
	request(t, asking, service, "1", replies)
	got.await(t, 1)

	links[1].Cut()
	bustest.Await(t, "the loss to be noticed", func() bool { return !answering.Connected() })
	request(t, asking, service, "lost", replies)
	if s := <-absent; s != service.Subject {
		t.Errorf("nobody at %q, want %q", s, service.Subject)
	}
	links[0].Cut()
	bustest.Await(t, "the loss to be noticed", func() bool { return !asking.Connected() })
	word := "never sent"
	if err := bus.Request(asking, service, &word, replies); !errors.Is(err, bus.ErrDisconnected) {
		t.Errorf("got %v, want %v", err, bus.ErrDisconnected)
	}
	for _, l := range links {
		l.Mend(server)
	}
	bustest.Await(t, "both to return", func() bool { return asking.Connected() && answering.Connected() })
	request(t, asking, service, "2", replies)
	if d := cmp.Diff([]string{"1", "2"}, got.await(t, 2)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if err := subs.Stop(); err != nil {
		t.Fatal(err)
	}
}

// mute takes connections and never says a word.
type mute struct{ taken chan net.Conn }

func (m mute) InProcessConn() (net.Conn, error) {
	client, server := net.Pipe()
	m.taken <- server
	return client, nil
}

// Nobody waits for an attempt to connect that hangs.
func TestSendingDoesNotWaitForTheServer(t *testing.T) {
	server := bustest.Server(t)
	link := bustest.NewLink(server)
	c := bustest.Connect(t, link)
	link.Cut()
	bustest.Await(t, "the loss to be noticed", func() bool { return !c.Connected() })
	hanging := mute{make(chan net.Conn, 100)}
	link.Mend(hanging)
	defer (<-hanging.taken).Close()
	word := "a"
	if err := bus.Request(c, echo("ask"), &word, text("inbox")); !errors.Is(err, bus.ErrDisconnected) {
		t.Errorf("asking: got %v, want %v", err, bus.ErrDisconnected)
	}
	if err := bus.Publish(c, text("a"), &word); !errors.Is(err, bus.ErrDisconnected) {
		t.Errorf("publishing: got %v, want %v", err, bus.ErrDisconnected)
	}
	if err := bus.NewBucket(c, pairs("b")).Put(t.Context(), &pair{"x", "1"}); !errors.Is(err, bus.ErrDisconnected) {
		t.Errorf("putting: got %v, want %v", err, bus.ErrDisconnected)
	}
	if n := len(hanging.taken); n > 0 {
		t.Errorf("the attempt was waited for: it has ended, and %d more", n)
	}
	link.Mend(server)
	bustest.Await(t, "the return", c.Connected)
}

// A select and its reply as an ingress and a selector exchange them.
func TestSelect(t *testing.T) {
	server := bustest.Server(t)
	selector, ingress := bustest.Connect(t, server), bustest.Connect(t, server)
	cluster := cluster(t, "default")
	const url = "http://127.0.0.1:8000"
	spec := &worker.Spec{ID: worker.IDOf(url), URL: url, Leg: worker.Prefill, BootstrapPort: 8998}
	service, replies := cluster.Select(worker.Prefill, 9), cluster.Replies(7)
	var subs bus.Subscriptions
	bus.Serve(&subs, selector, service, func(s *wire.Select) *wire.Reply {
		r := &wire.Reply{Lease: s.Lease, Replica: 9}
		if s.Model == "m" {
			r.Pick = wire.Pick{Worker: spec, Policy: "random"}
		} else {
			r.Err = wire.ErrorOf(worker.ErrNoWorkers)
		}
		return r
	})
	var got inbox[wire.Reply]
	bus.Join(&subs, ingress, replies, got.add)
	if err := subs.Err(); err != nil {
		t.Fatal(err)
	}
	lease := worker.LeaseID{Incarnation: 7, Plan: 1, Leg: worker.Prefill}
	for _, model := range []string{"m", "other"} {
		if err := bus.Request(ingress, service, &wire.Select{Lease: lease, Model: model}, replies); err != nil {
			t.Fatal(err)
		}
	}
	want := []wire.Reply{
		{Lease: lease, Replica: 9, Pick: wire.Pick{Worker: spec, Policy: "random"}},
		{Lease: lease, Replica: 9, Err: &wire.Error{Code: wire.CodeModelNotFound, Message: worker.ErrNoWorkers.Error()}},
	}
	if d := cmp.Diff(want, got.await(t, 2)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if err := subs.Stop(); err != nil {
		t.Fatal(err)
	}
}

// BenchmarkRoundTrip is a select and its reply between two connections, one at a
// time and 64 at a time, and nats.go's own request for comparison.
func BenchmarkRoundTrip(b *testing.B) {
	server := listening(b, "127.0.0.1:0")
	for _, way := range []struct {
		name    string
		connect func() *bus.Conn
	}{
		{"process", func() *bus.Conn { return bustest.Connect(b, server) }},
		{"tcp", func() *bus.Conn { return bustest.ConnectURL(b, server.ClientURL()) }},
	} {
		cluster := cluster(b, "bench")
		service, replies := cluster.Select(worker.Prefill, 9), cluster.Replies(7)
		const url = "http://127.0.0.1:8000"
		spec := &worker.Spec{ID: worker.IDOf(url), URL: url, Leg: worker.Prefill, BootstrapHost: "127.0.0.1", BootstrapPort: 8998}
		for _, window := range []int{1, 64} {
			b.Run(way.name+"/window="+strconv.Itoa(window), func(b *testing.B) {
				selector, ingress := way.connect(), way.connect()
				var subs bus.Subscriptions
				bus.Serve(&subs, selector, service, func(s *wire.Select) *wire.Reply {
					return &wire.Reply{Lease: s.Lease, Replica: 9, Pick: wire.Pick{Worker: spec, Policy: "random"}}
				})
				slots := make(chan struct{}, window)
				for range window {
					slots <- struct{}{}
				}
				bus.Join(&subs, ingress, replies, func(*wire.Reply) { slots <- struct{}{} })
				if err := subs.Err(); err != nil {
					b.Fatal(err)
				}
				ask := &wire.Select{Lease: worker.LeaseID{Incarnation: 7, Plan: 1, Leg: worker.Prefill}, Model: "m"}
				b.ReportAllocs()
				for b.Loop() {
					<-slots
					if err := bus.Request(ingress, service, ask, replies); err != nil {
						b.Fatal(err)
					}
				}
				for range window {
					<-slots
				}
				b.StopTimer()
				if err := subs.Stop(); err != nil {
					b.Fatal(err)
				}
			})
		}
	}
	b.Run("tcp/nats.go", func(b *testing.B) {
		nc, err := nats.Connect(server.ClientURL())
		if err != nil {
			b.Fatal(err)
		}
		defer nc.Close()
		if _, err := nc.Subscribe("plain", func(m *nats.Msg) {
			if err := m.Respond(m.Data); err != nil {
				b.Error(err)
			}
		}); err != nil {
			b.Fatal(err)
		}
		data := make([]byte, 100)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := nc.Request("plain", data, 5e9); err != nil {
				b.Fatal(err)
			}
		}
	})
}
