package simhttp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"smg/sim"
	"smg/sim/simctl"
	"smg/sim/simtext"
)

// Server is one simulated engine. It is an http.Handler for the engine's
// routes and, under /_sim/, for its control API. Inference is answered only
// while Run or Serve runs.
type Server struct {
	cfg     Config
	dialect dialect
	clock   func() time.Time
	log     *slog.Logger

	driver  *driver
	writer  *simtext.Writer
	faults  *faultBox
	records *recorder
	conns   *connTable
	stats   stats
	kv      *kvLog // nil: nobody is told of the cache
	front   Front  // nil: HTTP

	// What it shares with other engines.
	peers         *http.Client
	engineID      string
	started       time.Time
	rooms         *rooms
	fetching      claims
	leases        *leases
	embeds        *embedCache
	destinations  destinations
	receivers     receivers
	transfers     transferStats
	bootstrapping atomic.Int64 // sequences that wait for a decode engine

	mux     *http.ServeMux
	control *http.ServeMux

	ids      atomic.Uint64
	inFlight atomic.Int64
	handlers *visits

	mu       sync.Mutex
	door     *door         // nil while not served through Serve
	peerDoor *door         // nil without a port for other engines
	nextRank atomic.Uint64 // of requests that name no rank
	die      context.CancelCauseFunc
}

// New returns an engine. clock is asked for the time, log gets a debug line
// per request.
func New(cfg Config, clock func() time.Time, log *slog.Logger) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	engine, err := sim.New(cfg.Core)
	if err != nil {
		return nil, err
	}
	s := &Server{
		cfg:     cfg,
		dialect: dialectOf(cfg.Kind),
		clock:   clock,
		log:     log.With("engine", cfg.Name),
		driver:  newDriver(engine, cfg.TimeScale, clock),
		writer:  cfg.Tokens.NewWriter(cfg.Lengths),
		faults:  newFaultBox(),
		records: &recorder{clock: clock},
		mux:     http.NewServeMux(),
		control: http.NewServeMux(),

		peers:    newPeers(),
		engineID: cfg.Disagg.EngineID,
		started:  clock(),
		rooms:    newRooms(),
		handlers: newVisits(),
		embeds:   newEmbedCache(cfg.Disagg.ECDir),
	}
	if s.engineID == "" {
		// Like the real one it is another after a restart.
		s.engineID = simtext.HashID(cfg.Name, uint64(s.started.UnixNano()))
	}
	s.leases = newLeases(cfg.Disagg.Lease, s.expire)
	if cfg.KVEvents {
		s.kv = newKVLog(clock)
		engine.TellBlocks()
		s.driver.blocks = s.kv.note
	}
	if cfg.Front != nil {
		s.front = cfg.Front(s)
	}
	s.conns = newConnTable(clock, func() time.Duration { return time.Duration(s.faults.get().KeepAlive) })
	if cfg.Disagg.EncoderOnly {
		s.sgEncoderRoutes(s.mux)
	} else {
		s.routes()
		s.dialect.routes(s, s.mux)
	}
	s.controlRoutes()
	if cfg.Disagg.ECRole == ECProducer {
		s.encoderRoutes()
	}
	return s, nil
}

// expire frees the KV of a sequence that nobody has fetched in time.
func (s *Server) expire(id sim.ID) {
	s.driver.do(func(e *sim.Engine, now time.Duration) {
		if e.Abort(now, id) {
			s.transfers.expired.Add(1)
		}
	})
}

// Config returns what the engine was made from.
func (s *Server) Config() Config { return s.cfg }

// Run gives the engine its time until ctx ends. Serve does it by itself.
func (s *Server) Run(ctx context.Context) error {
	s.driver.run(ctx)
	return nil
}

// ErrCrashed is how Serve ends when the engine has died of a request.
var ErrCrashed = errors.New("the engine has crashed")

// crash ends Serve, and with it every request.
func (s *Server) crash(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.die != nil {
		s.die(fmt.Errorf("%w: %w", ErrCrashed, why))
	}
}

// Serve answers on l until ctx ends, then closes all connections, which aborts
// their requests, and returns when every handler has returned. It closes l, and
// the listener given to ListenForPeers, which it answers too. It is called once.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	d := newDoor(l)
	s.mu.Lock()
	s.door, s.die = d, cancel
	peerDoor := s.peerDoor
	s.mu.Unlock()
	defer s.peers.CloseIdleConnections()
	defer s.leases.close()

	hs := &http.Server{
		Handler:           s, // of HTTP engines
		ConnContext:       s.conns.context,
		ConnState:         s.conns.state,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		ReadHeaderTimeout: time.Minute,
	}
	var running sync.WaitGroup
	running.Go(func() { s.driver.run(ctx) })
	var peerErr error
	if peerDoor != nil {
		running.Go(func() {
			peerErr = s.servePeers(ctx, peerDoor)
			cancel(nil)
		})
	}
	closed := closeAfter(ctx, hs)
	var err error
	if s.front == nil {
		err = hs.Serve(d)
	} else {
		cut := make(chan struct{})
		context.AfterFunc(ctx, func() {
			defer close(cut)
			s.front.Close()
		})
		if err = s.front.Serve(d); ctx.Err() != nil {
			err = nil
		}
		cancel(nil)
		<-cut
	}
	cancel(nil)
	<-closed
	running.Wait()
	s.handlers.close()
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		err = nil
	}
	var crash error
	if cause := context.Cause(ctx); errors.Is(cause, ErrCrashed) {
		crash = cause
	}
	if err = errors.Join(err, peerErr, crash); err != nil {
		return fmt.Errorf("serve engine %s: %w", s.cfg.Name, err)
	}
	return nil
}

// servePeers answers other engines until ctx ends.
func (s *Server) servePeers(ctx context.Context, l net.Listener) error {
	hs := &http.Server{
		Handler:           s.peerRoutes(),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		ReadHeaderTimeout: time.Minute,
	}
	closed := closeAfter(ctx, hs)
	err := hs.Serve(l)
	if ctx.Err() == nil {
		return fmt.Errorf("serve other engines: %w", err)
	}
	<-closed
	return nil
}

// closeAfter closes hs with all its connections when ctx ends, and then closes
// the channel it returns.
func closeAfter(ctx context.Context, hs *http.Server) <-chan struct{} {
	closed := make(chan struct{})
	context.AfterFunc(ctx, func() {
		defer close(closed)
		// The listener may be closed already; there is nothing else to report.
		_ = hs.Close()
	})
	return closed
}

// SetFaults puts f in force.
func (s *Server) SetFaults(f simctl.Faults) error {
	if err := f.Validate(); err != nil {
		return err
	}
	s.faults.set(f)
	s.driver.pause(f.Freeze)
	s.driver.do(func(e *sim.Engine, now time.Duration) {
		window := -1
		if f.Window != nil {
			window = *f.Window
		}
		e.SetWindow(now, window)
	})
	s.conns.rearm()
	s.mu.Lock()
	d, peerDoor := s.door, s.peerDoor
	s.mu.Unlock()
	if d == nil {
		return nil
	}
	if peerDoor != nil {
		if err := peerDoor.set(s.faults.transfer().Refuse); err != nil {
			return fmt.Errorf("refuse other engines: %w", err)
		}
	}
	d.setResets(f.Reset)
	if !f.Refuse {
		return d.open()
	}
	err := d.shut()
	s.conns.closeIdle()
	if s.front != nil {
		s.front.CloseIdle()
	}
	if err != nil {
		return fmt.Errorf("refuse connections: %w", err)
	}
	return nil
}

// Ledger reports who holds what.
func (s *Server) Ledger() simctl.Ledger {
	l := simctl.Ledger{
		InFlight:    int(s.inFlight.Load()),
		Held:        s.faults.holding(),
		Connections: s.conns.count(),
		Rooms:       s.rooms.count(),
		Requests:    []simctl.Holding{},
	}
	s.driver.do(func(e *sim.Engine, now time.Duration) {
		core := e.Ledger(now)
		l.BlocksTotal, l.BlocksHeld, l.BlocksCached, l.BlocksFree = core.Total, core.Held, core.Cached, core.Free
		for _, h := range core.Holdings {
			switch h.State {
			case sim.Waiting:
				l.Waiting++
			case sim.Running:
				l.Running++
			default:
				l.Transferring++
			}
			l.Requests = append(l.Requests, simctl.Holding{
				ID: uint64(h.ID), RID: h.Label, State: h.State.String(), Blocks: h.Blocks, Tokens: h.Tokens,
			})
		}
	})
	return l
}

func (s *Server) freshID() string { return simtext.HashID(s.cfg.Name, s.ids.Add(1)) }

// routes registers what both engines answer.
func (s *Server) routes() {
	s.mux.HandleFunc("POST /v1/chat/completions", s.inference(s.chat))
	s.mux.HandleFunc("POST /v1/completions", s.inference(s.completions))
	s.mux.HandleFunc("POST /v1/messages", s.inference(s.messages))
	s.mux.HandleFunc("POST /v1/responses", s.inference(s.responses))
	s.mux.HandleFunc("POST /v1/embeddings", s.inference(s.embeddings))
	s.mux.HandleFunc("GET /v1/models", s.models)
	s.mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	s.mux.HandleFunc("GET /metrics", s.serveMetrics)
}

func (s *Server) models(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]any{
		"object": "list",
		"data": []map[string]any{{
			"id": s.cfg.Model, "object": "model", "created": s.clock().Unix(),
			"owned_by": s.dialect.ownedBy, "root": s.cfg.Model, "parent": nil,
			"max_model_len": s.cfg.Core.Context(),
		}},
	})
}

// knownPath reports whether some method is answered on the request's path.
func (s *Server) knownPath(r *http.Request) bool {
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		probe := &http.Request{Method: method, URL: r.URL, Host: r.Host}
		if _, pattern := s.mux.Handler(probe); strings.HasPrefix(pattern, method+" ") {
			return true
		}
	}
	return false
}
