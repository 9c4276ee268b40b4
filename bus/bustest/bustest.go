// Package bustest gives tests a real NATS: an embedded server, connections to it,
// and a link that can be cut. Everything ends with the test. It
// knows nothing of messages.
package bustest

import (
	"errors"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"smg/bus"
	"smg/bus/natsd"
)

// Start is a connection to a server of its own.
func Start(t testing.TB) *bus.Conn {
	t.Helper()
	return Connect(t, Server(t))
}

// Server is an embedded server.
func Server(t testing.TB) *natsd.Server {
	t.Helper()
	return ServerWith(t, natsd.DefaultConfig())
}

// ServerWith is a server as [natsd.Start] makes it, in a directory of the test's.
func ServerWith(t testing.TB, cfg natsd.Config) *natsd.Server {
	t.Helper()
	cfg.TempDir = t.TempDir()
	s, err := natsd.Start(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Connect is a connection to server, with a metrics registry of its own.
func Connect(t testing.TB, server bus.Dialer) *bus.Conn {
	t.Helper()
	cfg := bus.DefaultConfig()
	cfg.Name = t.Name()
	cfg.Server = server
	return ConnectWith(t, cfg, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
}

// ConnectURL is a connection to a server that listens, with a metrics registry of
// its own.
func ConnectURL(t testing.TB, url string) *bus.Conn {
	t.Helper()
	cfg := bus.DefaultConfig()
	cfg.Name = t.Name()
	cfg.URL = url
	return ConnectWith(t, cfg, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
}

// ConnectWith is a connection as [bus.Connect] makes it.
func ConnectWith(t testing.TB, cfg bus.Config, reg prometheus.Registerer, log *slog.Logger) *bus.Conn {
	t.Helper()
	c, err := bus.Connect(cfg, reg, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// Await returns when ok does, and fails the test if that takes 10 s.
func Await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited 10 s for: %s", what)
		}
	}
}

// Link is a way to a server that can be cut, and lead to another one later. It is
// safe for concurrent use.
type Link struct {
	mu     sync.Mutex
	server bus.Dialer // nil while cut
	conns  []net.Conn
}

var _ bus.Dialer = (*Link)(nil)

// NewLink is a link to server.
func NewLink(server bus.Dialer) *Link { return &Link{server: server} }

// InProcessConn is a connection over the link. It fails while the link is cut.
func (l *Link) InProcessConn() (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.server == nil {
		return nil, errors.New("the link is cut")
	}
	c, err := l.server.InProcessConn()
	if err == nil {
		l.conns = append(l.conns, c)
	}
	return c, err
}

// Cut breaks all connections over the link and lets nobody connect until [Link.Mend].
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.server = nil
	for _, c := range l.conns {
		c.Close() // its error says that it was closed already
	}
	l.conns = nil
}

// Mend has the link lead to server.
func (l *Link) Mend(server bus.Dialer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.server = server
}
