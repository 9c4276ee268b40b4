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

	"smg/bootstrap"
	"smg/ingress/body"
	"smg/ingress/front"
	"smg/wire"
	"smg/worker"
)

// Deps is what a Server works with.
type Deps struct {
	Selector   Selector
	Dispatcher Dispatcher
	Fleet      Fleet
	Registrar  Registrar
	Selection  Selection
	// Reads is what a leg's policies read of a request now. What no policy reads is
	// not looked for, and a leg is sent only what it reads. It is called for each
	// request.
	Reads func(worker.Leg) wire.Reads
	// MooncakeEngines asks a bootstrap server of vLLM's Mooncake for the engine ids of its
	// ranks. With nil those hold that are registered.
	MooncakeEngines func(ctx context.Context, url string) (map[int]string, error)
	// Loads is what engines report, each worker once; nil where nobody knows. It may take
	// a moment, until ctx ends.
	Loads func(ctx context.Context) []worker.Loads
	Keys  Keys // nil: no worker has a key of its own

	Tracer     Tracer // nil: nothing is traced
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
	registrar  Registrar
	selection  Selection
	ring       Keys
	log        *slog.Logger
	now        func() time.Time
	tracer     Tracer
	metrics    *metrics
	rooms      *bootstrap.Rooms
	engineIDs  engineIDs
	complaints complaints
	encodeless atomic.Bool     // media go to prefill workers, see fallback
	remote     sync.Once       // it was told that decode cannot compute prompts
	crowded    sync.Once       // it was told that requests wait for decode workers
	trailing   sync.WaitGroup  // calls that outlive their requests for a moment
	life       context.Context //nolint:containedctx // of trailing calls: it ends with Run
	end        context.CancelFunc
	warned     sync.Map // worker.ID → epoch of the process that the log has told of
	deaf       sync.Map // worker.ID → epoch of a prefill process that cannot be told to let go
	routes     map[string]*route
	keyHeaders []string
	idHeaders  []string
	foreign    []body.Edit // see foreignFields
	reads      func(worker.Leg) wire.Reads
	inputRooms sync.Pool // of *room
	watcher    *watcher
	paused     func(time.Duration) time.Duration // nil: waits before another attempt are as long as they are; tests shorten them
	buffers    buffers
	permits    *permits   // nil: any number of requests may run
	targeting  sync.Mutex // held while a target is made, so that each URL has one
	targets    sync.Map   // URL → *engine.Target
	forgetter  Forgetter  // of targets, nil where there is nothing to let go of
	active     atomic.Int64
	draining   atomic.Bool
	ranks      *minRanks     // nil: the ranks that were picked
	hurry      chan struct{} // closed once: the rest of a drain is skipped
	hurryOnce  sync.Once
	scrapes    chan struct{}                        // holds the pages of engines' metrics that are being made
	reported   func(context.Context) []worker.Loads // nil: nobody knows
	modelPage  atomic.Pointer[modelPage]            // as it was shown last
}

// New is a server that does nothing yet. See [Server.Run].
func New(cfg Config, d Deps) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	rooms := bootstrap.NewRooms(nil)
	s := &Server{
		cfg: cfg, selector: d.Selector, dispatcher: d.Dispatcher, fleet: d.Fleet, registrar: d.Registrar, selection: d.Selection, ring: d.Keys,
		log: d.Log, now: d.Now, tracer: d.Tracer, reads: d.Reads, rooms: rooms, inputRooms: sync.Pool{New: func() any { return new(room) }},
		watcher: newWatcher(cfg, d.Now), hurry: make(chan struct{}), engineIDs: engineIDs{ask: d.MooncakeEngines, now: d.Now},
		reported: d.Loads,
	}
	var err error
	if s.metrics, err = newMetrics(&s.cfg, d.Registerer, rooms, &s.active); err != nil {
		return nil, fmt.Errorf("registering the metrics of the API: %w", err)
	}
	if err = s.metrics.resends(d.Registerer, d.Dispatcher); err != nil {
		return nil, fmt.Errorf("registering the metrics of the API: %w", err)
	}
	s.watcher.aged = s.metrics.http.aged
	for _, h := range cfg.RoutingKeyHeaders {
		if h = http.CanonicalHeaderKey(h); !slices.Contains(s.keyHeaders, h) {
			s.keyHeaders = append(s.keyHeaders, h)
		}
	}
	for _, h := range cfg.Access.RequestIDHeaders {
		s.idHeaders = append(s.idHeaders, http.CanonicalHeaderKey(h))
	}
	s.forgetter, _ = d.Dispatcher.(Forgetter)
	s.life, s.end = context.WithCancel(context.Background())
	if cfg.PD.MinTokens && (cfg.Mode != Regular || cfg.Multi) {
		s.ranks = newMinRanks()
	}
	s.buffers.left.Store(cfg.MaxBufferedBytes)
	s.scrapes = make(chan struct{}, maxScrapes)
	s.permits = newPermits(cfg.Permits, s.metrics.http, d.Now)
	s.routes = s.routeTable()
	s.foreign = foreignFields()
	return s, nil
}

// connKey finds a request's connection in its context.
type connKey struct{}

// clientConn is an HTTP/1 request's connection, if the server's listener made it:
// nil on HTTP/2, where one connection carries many requests.
func clientConn(r *http.Request) *front.Conn {
	if r.ProtoMajor != 1 {
		return nil
	}
	c, _ := r.Context().Value(connKey{}).(*front.Conn)
	return c
}

const (
	// maxStreams is how many requests one HTTP/2 connection may have in flight.
	maxStreams = 10_000
	// idleTimeout closes connections without requests: later than load balancers
	// do, so that they never send on one that is being closed here.
	idleTimeout = 15 * time.Minute
)

// Run serves connections of l until ctx ends. Then it drains: readiness turns 503
// at once, new requests are served for a settling time of at most 5 s, those in
// flight get the rest of the grace. What is left after it is cut. Run returns nil
// after a drain, also after one that had to cut.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	defer s.trailing.Wait()
	defer s.end()
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
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    s.cfg.MaxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return base },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c)
		},
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cut()
	wg.Go(func() { s.watcher.run(base) })
	wg.Go(func() { s.forgetting(base) })
	checked := front.NewListener(l, front.Config{
		MaxHeadBytes: s.cfg.MaxHeaderBytes, WriteStall: s.cfg.WriteStall, TLS: s.cfg.TLS,
		Insecure: func(client net.Addr, err error) {
			s.log.Debug("no secure connection to a client", slog.String("client", client.String()), slog.Any("reason", err))
		},
	})
	wg.Go(func() {
		if err := checked.Run(base); err != nil {
			s.log.Error("clients that leave are noticed late from now on", slog.Any("error", err))
		}
	})
	served := make(chan error, 1) // one: Serve's result, sent once
	wg.Go(func() { served <- srv.Serve(checked) })
	select {
	case err := <-served:
		cut()
		return errors.Join(fmt.Errorf("serving the API: %w", err), s.close(srv))
	case <-ctx.Done():
	}
	err := s.drain(base, srv, cut)
	s.log.Info("the API has stopped")
	return err
}

// Hurry skips the rest of a drain: what is in flight is cut.
func (s *Server) Hurry() { s.hurryOnce.Do(func() { close(s.hurry) }) }

const (
	// maxSettle is how long a draining server goes on to accept, so that those who
	// still send here learn of it.
	maxSettle = 5 * time.Second
	// cutWait is how long cut requests may take to let go.
	cutWait = 2 * time.Second
)

func (s *Server) drain(ctx context.Context, srv *http.Server, cut context.CancelFunc) error {
	s.draining.Store(true)
	settle := min(s.cfg.Grace/2, maxSettle)
	s.log.Info("draining", slog.Int64("in_flight", s.active.Load()), slog.Duration("settle", settle), slog.Duration("grace", s.cfg.Grace))
	s.pause(settle)
	if s.shutdown(ctx, srv, s.cfg.Grace-settle) {
		s.log.Info("all requests have ended")
		return nil
	}
	if left := s.active.Load(); left > 0 {
		s.log.Warn("cutting requests that have not ended in time", slog.Int64("requests", left), slog.Duration("grace", s.cfg.Grace))
	}
	cut()
	return s.close(srv)
}

// shutdown lets srv end by itself, for d or until Hurry. It says whether all
// connections are done.
func (s *Server) shutdown(ctx context.Context, srv *http.Server, d time.Duration) bool {
	ctx, stop := context.WithTimeout(ctx, d)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	wg.Go(func() {
		select {
		case <-s.hurry:
			stop()
		case <-ctx.Done():
		}
	})
	return srv.Shutdown(ctx) == nil
}

// close closes all connections of srv. Handlers, whose contexts have been cut,
// get a moment to return.
func (s *Server) close(srv *http.Server) error {
	err := srv.Close()
	const look = 2 * time.Millisecond
	for waited := time.Duration(0); s.active.Load() > 0 && waited < cutWait; waited += look {
		time.Sleep(look)
	}
	if left := s.active.Load(); left > 0 {
		s.log.Error("cut requests have not let go", slog.Int64("requests", left))
	}
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("closing the API's connections: %w", err)
	}
	return nil
}

// pause waits for d or until Hurry.
func (s *Server) pause(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.hurry:
	}
}
