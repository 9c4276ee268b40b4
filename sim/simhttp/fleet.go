package simhttp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"smg/sim/simctl"
)

// Fleet is many engines in one process, each on its own listener.
type Fleet struct {
	servers   []*Server
	listeners []net.Listener
	control   net.Listener // may be nil
	log       *slog.Logger
	// peerListeners are those of the engines that have a port for others.
	peerListeners []net.Listener
}

// NewFleet makes one engine like cfg for each listener, named by its address,
// and opens the ports that they have for other engines.
// control may be nil. The fleet owns the listeners from here on, also if it
// fails.
func NewFleet(cfg Config, listeners []net.Listener, control net.Listener, clock func() time.Time, log *slog.Logger) (*Fleet, error) {
	f := &Fleet{listeners: listeners, control: control, log: log}
	for _, l := range listeners {
		each := cfg
		each.Name = l.Addr().String()
		s, err := New(each, clock, log)
		if err != nil {
			return nil, errors.Join(err, f.close())
		}
		if err := f.listenForPeers(s, l); err != nil {
			return nil, errors.Join(err, f.close())
		}
		f.servers = append(f.servers, s)
	}
	return f, nil
}

// listenForPeers opens the port for other engines, if s has one: on the host of
// its own listener, and for engine i the i-th port from the configured one.
func (f *Fleet) listenForPeers(s *Server, own net.Listener) error {
	port, flag, ok := s.cfg.Disagg.listens(s.cfg.Kind)
	if !ok {
		return nil
	}
	if port > 0 {
		port += len(f.servers)
	}
	host, _, err := net.SplitHostPort(own.Addr().String())
	if err != nil {
		return fmt.Errorf("listen for other engines: %w", err)
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return fmt.Errorf("listen for other engines (%s): %w", flag, err)
	}
	f.peerListeners = append(f.peerListeners, l)
	return s.ListenForPeers(l)
}

func (f *Fleet) close() error {
	var faults []error
	for _, l := range slices.Concat(f.listeners, f.peerListeners) {
		faults = append(faults, l.Close())
	}
	if f.control != nil {
		faults = append(faults, f.control.Close())
	}
	return errors.Join(faults...)
}

// Servers returns the engines, in the order of their listeners.
func (f *Fleet) Servers() []*Server { return f.servers }

// PeerAddrs returns the addresses of the ports for other engines, in the order
// of the engines that have one.
func (f *Fleet) PeerAddrs() []string {
	var list []string
	for _, l := range f.peerListeners {
		list = append(list, l.Addr().String())
	}
	return list
}

// Run serves all engines until ctx ends or one of them fails.
func (f *Fleet) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for i, s := range f.servers {
		g.Go(func() error { return s.Serve(ctx, f.listeners[i]) })
	}
	if f.control != nil {
		g.Go(func() error { return serveUntil(ctx, f.control, f.Control(), f.log) })
	}
	return g.Wait()
}

// Control returns the control API of all engines: /_sim/engines lists them,
// and /_sim/engines/{index}/… is the control API of one.
func (f *Fleet) Control() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /_sim/engines", func(w http.ResponseWriter, _ *http.Request) {
		list := make([]simctl.EngineInfo, len(f.servers))
		for i, s := range f.servers {
			list[i] = simctl.EngineInfo{
				Index: i, Addr: f.listeners[i].Addr().String(), Engine: string(s.cfg.Kind), Model: s.cfg.Model,
				Role: s.role(), PeerAddr: s.PeerAddr(),
			}
		}
		writeJSON(w, http.StatusOK, list)
	})
	mux.HandleFunc("/_sim/engines/{index}/{route}", func(w http.ResponseWriter, r *http.Request) {
		i, err := strconv.Atoi(r.PathValue("index"))
		if err != nil || i < 0 || i >= len(f.servers) {
			writeJSON(w, http.StatusNotFound, simctl.Error{
				Message: fmt.Sprintf("there is no engine %q; there are %d, from 0", r.PathValue("index"), len(f.servers)),
			})
			return
		}
		r.URL.Path = "/_sim/" + r.PathValue("route")
		f.servers[i].control.ServeHTTP(w, r)
	})
	return mux
}

// serveUntil serves h on l until ctx ends.
func serveUntil(ctx context.Context, l net.Listener, h http.Handler, log *slog.Logger) error {
	hs := &http.Server{
		Handler: h, ReadHeaderTimeout: time.Minute,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	closed := closeAfter(ctx, hs)
	err := hs.Serve(l)
	cancel()
	<-closed
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve the control API: %w", err)
}
