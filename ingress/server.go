package ingress

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"smg/ingress/front"
)

// Deps is what a Server works with.
type Deps struct {
	Selector   Selector
	Dispatcher Dispatcher
	Fleet      Fleet
	// ReadsKey says whether the fleet's policies read routing keys now. What no
	// policy reads is not looked for. It is called for each request.
	ReadsKey   func() bool
	Log        *slog.Logger
	Registerer prometheus.Registerer
	Now        func() time.Time
}

// Server is the HTTP API.
type Server struct {
	cfg        Config
	selector   Selector
	dispatcher Dispatcher
	fleet      Fleet
	log        *slog.Logger
	now        func() time.Time
	metrics    *metrics
	routes     map[string]*route
	keyHeaders []string
	readsKey   func() bool
	watcher    *watcher
	budget     budget
	targets    sync.Map // URL → *engine.Target
	active     atomic.Int64
	draining   atomic.Bool
	hurry      chan struct{} // closed once: the rest of a drain is skipped
	hurryOnce  sync.Once
}

// New is a server that does nothing yet. See [Server.Run].
func New(cfg Config, d Deps) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	m, err := newMetrics(d.Registerer)
	if err != nil {
		return nil, fmt.Errorf("registering the metrics of the API: %w", err)
	}
	s := &Server{
		cfg: cfg, selector: d.Selector, dispatcher: d.Dispatcher, fleet: d.Fleet,
		log: d.Log, now: d.Now, metrics: m, readsKey: d.ReadsKey,
		watcher: newWatcher(cfg.WriteStall), hurry: make(chan struct{}),
	}
	for _, h := range cfg.RoutingKeyHeaders {
		s.keyHeaders = append(s.keyHeaders, http.CanonicalHeaderKey(h))
	}
	s.keyHeaders = slices.Compact(s.keyHeaders)
	s.budget.left.Store(cfg.MaxBufferedBytes)
	s.routes = s.routeTable()
	return s, nil
}

// connKey finds a request's connection in its context.
type connKey struct{}

// peerGone is how to ask whether a request's client has left, where net/http
// might not notice: nil on HTTP/2, whose server reads all the time.
func peerGone(r *http.Request) func() bool {
	if r.ProtoMajor != 1 {
		return nil
	}
	if c, ok := r.Context().Value(connKey{}).(*front.Conn); ok {
		return c.PeerGone
	}
	return nil
}

// maxStreams is how many requests one HTTP/2 connection may have in flight.
const maxStreams = 10_000

// Run serves connections of l until ctx ends. Then it drains: readiness turns 503
// at once, new requests are served for a settling time of at most 5 s, those in
// flight get the rest of the grace. What is left after it is cut. Run returns nil
// after a drain, also after one that had to cut.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	base, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	srv := &http.Server{
		Handler:           s,
		Protocols:         protocols,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		ReadHeaderTimeout: s.cfg.ReadHeaderTimeout,
		MaxHeaderBytes:    s.cfg.MaxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return base },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c)
		},
	}
	var wg sync.WaitGroup
	wg.Go(func() { s.watcher.run(base) })
	served := make(chan error, 1) // one: Serve's result, sent once
	wg.Go(func() { served <- srv.Serve(front.NewListener(l, s.cfg.MaxHeaderBytes)) })
	defer wg.Wait()
	defer cut()
	select {
	case err := <-served:
		return fmt.Errorf("serving the API: %w", err)
	case <-ctx.Done():
	}
	return s.drain(base, srv, cut)
}

// Hurry skips the rest of a drain: what is in flight is cut.
func (s *Server) Hurry() { s.hurryOnce.Do(func() { close(s.hurry) }) }

// maxSettle is how long a draining server goes on to accept, so that those who
// still send here learn of it.
const maxSettle = 5 * time.Second

func (s *Server) drain(ctx context.Context, srv *http.Server, cut context.CancelFunc) error {
	s.draining.Store(true)
	settle := min(s.cfg.Grace/2, maxSettle)
	s.log.Info("draining", slog.Int64("in_flight", s.active.Load()), slog.Duration("settle", settle), slog.Duration("grace", s.cfg.Grace))
	s.pause(settle)
	ctx, stop := context.WithTimeout(ctx, s.cfg.Grace-settle)
	defer stop()
	go func() {
		select {
		case <-s.hurry:
			stop()
		case <-ctx.Done():
		}
	}()
	err := srv.Shutdown(ctx)
	if err == nil {
		s.log.Info("all requests have ended")
		return nil
	}
	if left := s.active.Load(); left > 0 {
		s.log.Warn("cutting requests that have not ended in time", slog.Int64("requests", left), slog.Duration("grace", s.cfg.Grace))
	}
	cut()
	// The handlers see their context end and return; Close would not wait for them.
	end, stopEnd := context.WithTimeout(context.WithoutCancel(ctx), cutWait)
	defer stopEnd()
	if err := srv.Shutdown(end); err == nil {
		return nil
	}
	if err := srv.Close(); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("closing the API's connections: %w", err)
	}
	return nil
}

// cutWait is how long cut requests may take to let go.
const cutWait = 2 * time.Second

// pause waits for d or until Hurry.
func (s *Server) pause(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.hurry:
	}
}
