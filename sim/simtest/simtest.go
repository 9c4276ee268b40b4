// Package simtest starts simulated engines for tests, as httptest starts
// servers. An engine listens on 127.0.0.1:0 and is stopped, with everything it
// runs, when the test ends. It belongs to tests; it must not know who they
// test.
package simtest

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"testing"
	"time"

	"smg/sim/simctl"
	"smg/sim/simgrpc"
	"smg/sim/simhttp"
)

// Engine is a running simulated engine.
type Engine struct {
	// URL is where it answers, Addr the same without the scheme.
	URL  string
	Addr string
	// Client is the control client. It uses an address of its own and works
	// also while the engine refuses connections.
	*simctl.Client
	// Server is the engine behind the URL.
	Server *simhttp.Server
	// PeerHost and PeerPort are where other engines find it: its bootstrap or
	// side channel port. They are empty if it has none.
	PeerHost string
	PeerPort int
}

// Config is simhttp.DefaultConfig with a TimeScale of 0, no waiting, and free
// ports for other engines.
func Config() simhttp.Config {
	cfg := simhttp.DefaultConfig()
	cfg.TimeScale = 0
	cfg.Disagg.BootstrapPort, cfg.Disagg.SideChannelPort = 0, 0
	return cfg
}

// GRPC is cfg for an engine that speaks gRPC.
func GRPC(cfg simhttp.Config) simhttp.Config {
	cfg.Front = simgrpc.New
	return cfg
}

// Start runs an engine until the test ends.
func Start(t testing.TB, cfg simhttp.Config) *Engine {
	t.Helper()
	return StartN(t, 1, cfg)[0]
}

// StartN runs n engines like cfg in one fleet.
func StartN(t testing.TB, n int, cfg simhttp.Config) []*Engine {
	t.Helper()
	listeners := make([]net.Listener, n)
	for i := range listeners {
		listeners[i] = listen(t)
	}
	control := listen(t)
	fleet, err := simhttp.NewFleet(cfg, listeners, control, time.Now, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatalf("start simulated engines: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- fleet.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("simulated engines: %v", err)
		}
	})
	// A transport of its own, so that no connection outlives the test.
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	client := simctl.NewClient("http://"+control.Addr().String(), &http.Client{Transport: transport})
	engines := make([]*Engine, n)
	for i := range engines {
		addr, scheme := listeners[i].Addr().String(), "http://"
		if cfg.Front != nil {
			scheme = "grpc://"
		}
		engines[i] = &Engine{URL: scheme + addr, Addr: addr, Client: client.Engine(i), Server: fleet.Servers()[i]}
		if peer := engines[i].Server.PeerAddr(); peer != "" {
			engines[i].PeerHost, engines[i].PeerPort = splitAddr(t, peer)
		}
	}
	return engines
}

func splitAddr(t testing.TB, addr string) (host string, port int) {
	t.Helper()
	host, text, err := net.SplitHostPort(addr)
	if err == nil {
		port, err = strconv.Atoi(text)
	}
	if err != nil {
		t.Fatalf("address of a simulated engine: %v", err)
	}
	return host, port
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("start simulated engines: %v", err)
	}
	return l
}
