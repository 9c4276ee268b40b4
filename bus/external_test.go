package bus_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"smg/bus"
	"smg/bus/bustest"
	"smg/bus/natsd"
)

// listening is an embedded server that other processes could connect to.
func listening(t testing.TB, address string) *natsd.Server {
	t.Helper()
	cfg := natsd.DefaultConfig()
	cfg.Listen = address
	return bustest.ServerWith(t, cfg)
}

// external is a NATS server that is no part of any program of ours. It ends with
// the test, or when stop is called.
func external(t *testing.T, change func(*server.Options)) (ns *server.Server, stop func()) {
	t.Helper()
	opts := &server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT,
		Username: "user", Password: "secret",
		JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
	}
	if change != nil {
		change(opts)
	}
	ns, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	stop = func() {
		ns.Shutdown()
		ns.WaitForShutdown()
	}
	t.Cleanup(stop)
	if !ns.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server does not come up")
	}
	return ns, stop
}

// address is where ns is, with the credentials of [external].
func address(ns *server.Server) string { return "nats://user:secret@" + ns.Addr().String() }

// freePort is one that nobody listens on, for a server that is to come.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// dial connects by URL and keeps the log.
func dial(t *testing.T, url string, reg prometheus.Registerer) (*bus.Conn, *logLines) {
	t.Helper()
	var log logLines
	cfg := bus.DefaultConfig()
	cfg.URL = url
	c := bustest.ConnectWith(t, cfg, reg, slog.New(slog.NewTextHandler(&log, nil)))
	t.Cleanup(func() {
		if strings.Contains(log.String(), "secret") {
			t.Errorf("the password is in the log:\n%s", log.String())
		}
	})
	return c, &log
}

func (l *logLines) count(what string) int { return strings.Count(l.String(), what) }

func (l *logLines) await(t *testing.T, what string) {
	t.Helper()
	bustest.Await(t, fmt.Sprintf("the log to say %q", what), func() bool { return l.count(what) > 0 })
}

// What is published within a process and over the network is one.
func TestEmbeddedServerOverTheNetwork(t *testing.T) {
	server := listening(t, "127.0.0.1:0")
	near, far := bustest.Connect(t, server), bustest.ConnectURL(t, server.ClientURL())
	var got inbox[string]
	subscribe(t, near, text("a"), got.add)
	subscribe(t, far, text("a"), got.add)
	for _, c := range []*bus.Conn{near, far} {
		word := "x"
		publish(t, c, text("a"), &word)
	}
	got.await(t, 4)
	a, _ := follow(t, near, "near")
	b, _ := follow(t, far, "far") // made over the network
	a.put(t, "x", "1")
	b.put(t, "x", "1")
	for _, bucket := range []string{"near", "far"} {
		if got := storage(t, server.ClientURL(), bucket); got.Storage != jetstream.MemoryStorage || got.Replicas != 1 {
			t.Errorf("%s is kept in %s, %d times", bucket, got.Storage, got.Replicas)
		}
	}
}

// storage is how a bucket is kept.
func storage(t *testing.T, url, bucket string) jetstream.StreamConfig {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.Stream(t.Context(), "KV_"+bucket)
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo().Config
}

// A server that is not there yet is waited for: with one line in the log for each
// thing that is found out, and everything that was begun going on by itself.
func TestExternalServerComesLate(t *testing.T) {
	port := freePort(t)
	reg := prometheus.NewRegistry()
	c, log := dial(t, fmt.Sprintf("nats://user:secret@127.0.0.1:%d", port), reg)
	arrived := make(chan struct{}, 1)
	defer c.OnReconnect(func() { arrived <- struct{}{} })()
	if c.Connected() {
		t.Fatal("connected to nobody")
	}
	word := "x"
	if err := bus.Publish(c, text("a"), &word); !errors.Is(err, bus.ErrDisconnected) {
		t.Errorf("publishing: got %v, want %v", err, bus.ErrDisconnected)
	}
	var got inbox[string]
	sub := subscribe(t, c, text("a"), got.add)
	w, _ := follow(t, c, "b")
	if err := w.bucket.Put(t.Context(), &pair{"x", "1"}); !errors.Is(err, bus.ErrDisconnected) {
		t.Errorf("putting: got %v, want %v", err, bus.ErrDisconnected)
	}

	at := func(change func(*server.Options)) (stop func()) {
		_, stop = external(t, func(o *server.Options) {
			o.Port = port
			if change != nil {
				change(o)
			}
		})
		return stop
	}
	stop := at(func(o *server.Options) { o.Password = "another" })
	log.await(t, "refuses the credentials")
	stop()
	stop = at(func(o *server.Options) { o.JetStream = false })
	<-arrived
	log.await(t, "start nats-server with -js")
	publish(t, c, text("a"), &word)
	got.await(t, 1) // which needs no JetStream
	stop()
	stop = at(nil)
	<-arrived
	w.awaitSync(t, 1)
	w.put(t, "x", "1")
	w.await(t, map[string]string{"x": "1"})
	stop()
	bustest.Await(t, "the loss to be noticed", func() bool { return !c.Connected() })
	at(nil) // an empty one: the store is another
	<-arrived
	w.awaitSync(t, 2)
	w.put(t, "y", "2")
	w.await(t, map[string]string{"x": "1", "y": "2"})
	publish(t, c, text("a"), &word)
	got.await(t, 2)
	if err := sub.Stop(); err != nil {
		t.Error(err)
	}

	for what, want := range map[string]int{
		"cannot be reached":       1,
		"refuses the":             1,
		`"connected to NATS"`:     1,
		"connected to NATS agai":  2,
		"connection to NATS lost": 2,
	} {
		if n := log.count(what); n != want {
			t.Errorf("said %q %d times, want %d:\n%s", what, n, want, log.String())
		}
	}
	want := `
# HELP smg_bus_reconnects_total Returns of a lost connection to NATS.
# TYPE smg_bus_reconnects_total counter
smg_bus_reconnects_total 2
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "smg_bus_reconnects_total"); err != nil {
		t.Error(err)
	}
}

// A connection that never was ends as any other.
func TestCloseBeforeTheServer(t *testing.T) {
	c, _ := dial(t, fmt.Sprintf("127.0.0.1:%d", freePort(t)), prometheus.NewRegistry())
	var got inbox[string]
	subscribe(t, c, text("a"), got.add)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if c.Connected() {
		t.Error("connected")
	}
}

// What is wrong with rights is said, once.
func TestPermissionIsMissing(t *testing.T) {
	ns, _ := external(t, func(o *server.Options) {
		o.Username, o.Password = "", ""
		o.Users = []*server.User{{Username: "user", Password: "secret", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Deny: []string{"a"}},
		}}}
	})
	c, log := dial(t, address(ns), prometheus.NewRegistry())
	for range 3 {
		word := "x"
		publish(t, c, text("a"), &word)
	}
	log.await(t, "does not let us")
	w, _ := follow(t, c, "b")
	w.awaitSync(t, 1) // after all three
	if n := log.count("does not let us"); n != 1 {
		t.Errorf("said %d times:\n%s", n, log.String())
	}
}

// Buckets are kept on disk by a server of its own, on as many servers as are asked
// for or as there are.
func TestBucketsOfExternalServers(t *testing.T) {
	alone, _ := external(t, nil)
	three := clusterOf(t, 3)
	for _, tt := range []struct {
		name     string
		url      string
		replicas int
		want     int
		err      string
	}{
		{"one alone", address(alone), 0, 1, ""},
		{"too many for one", address(alone), 3, 0, "--nats-replicas 3"},
		{"three", address(three[0]), 0, 3, ""},
		{"one of three", address(three[1]), 1, 1, ""},
		{"too many for three", address(three[2]), 5, 0, "--nats-replicas 5"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := bus.DefaultConfig()
			cfg.URL, cfg.Replicas = tt.url, tt.replicas
			c := bustest.ConnectWith(t, cfg, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
			bucket := strings.ReplaceAll(tt.name, " ", "-")
			err := bus.NewBucket(c, pairs(bucket)).Put(t.Context(), &pair{"x", "1"})
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("got %v, want ... %s ...", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := storage(t, tt.url, bucket); got.Storage != jetstream.FileStorage || got.Replicas != tt.want {
				t.Errorf("kept in %s, %d times, want a file, %d times", got.Storage, got.Replicas, tt.want)
			}
		})
	}
}

// clusterOf is a cluster of servers that has a leader.
func clusterOf(t *testing.T, n int) []*server.Server {
	t.Helper()
	var routes []*url.URL
	ports := make([]int, n)
	for i := range ports {
		ports[i] = freePort(t)
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", ports[i])})
	}
	servers := make([]*server.Server, n)
	for i := range servers {
		servers[i], _ = external(t, func(o *server.Options) {
			o.ServerName = fmt.Sprintf("s%d", i)
			o.Cluster = server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: ports[i]}
			o.Routes = routes
		})
	}
	bustest.Await(t, "the cluster to have a leader that knows all", func() bool {
		for _, s := range servers {
			if s.JetStreamIsLeader() {
				return len(s.JetStreamClusterPeers()) == n
			}
		}
		return false
	})
	return servers
}
