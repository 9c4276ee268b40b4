package launcher

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"smg/worker"
)

// ErrNoEngines is returned by [Group.Run] when the last engine has ended.
var ErrNoEngines = errors.New("no engine is left")

// ErrStopped is returned by a method that was overtaken by [Group.Stop].
var ErrStopped = errors.New("engines are being stopped")

// Endpoint is one running engine as others need to know it.
type Endpoint struct {
	// Role is [worker.Regular] for engines that do everything.
	Role worker.Leg
	// Rank counts the engines of the same role from 0.
	Rank int
	URL  string
	PID  int
	Port int
	// BootstrapPort is where a prefill engine meets decode engines, 0 for none.
	BootstrapPort int
}

// Group is the engines of one launch. Its methods are safe for concurrent use.
type Group struct {
	cfg     Config
	program string
	console *Console
	log     *slog.Logger
	spawner *spawner
	dog     *watchdog

	wg sync.WaitGroup // every goroutine that Start began, the spawner's apart

	terminated chan struct{} // closed once SIGTERM was sent
	killed     chan struct{} // closed once SIGKILL is due
	stopped    chan struct{} // closed when Stop is through
	stopErr    error

	// startMu is held by Start; Stop takes it to wait until Start has noticed.
	startMu sync.Mutex

	mu       sync.Mutex
	procs    []*Process
	started  bool
	stopping bool
}

// New checks cfg. out gets progress lines and engine output; to share it with a
// logger pass a [Console]. Nothing is started.
func New(cfg Config, out io.Writer, log *slog.Logger) (*Group, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	console, ok := out.(*Console)
	if !ok {
		console = NewConsole(out, false)
	}
	return &Group{
		cfg:        cfg,
		console:    console,
		log:        log,
		terminated: make(chan struct{}),
		killed:     make(chan struct{}),
		stopped:    make(chan struct{}),
	}, nil
}

// Start finds the program and the ports, then starts the engines one after another
// without waiting between them. It returns what was started, in that order: encode,
// prefill, decode, each in rank order. When it fails, the engines that it had started are
// stopped again. It begins goroutines, and the watchdog, that live until [Group.Stop]. It
// may be called once.
func (g *Group) Start() ([]Endpoint, error) {
	endpoints, err := g.startAll()
	if err != nil {
		if stopErr := g.Stop(); stopErr != nil {
			err = errors.Join(err, stopErr)
		}
		return nil, err
	}
	return endpoints, nil
}

func (g *Group) startAll() ([]Endpoint, error) {
	g.startMu.Lock()
	defer g.startMu.Unlock()
	g.mu.Lock()
	started, stopping := g.started, g.stopping
	g.started = true
	g.mu.Unlock()
	switch {
	case stopping:
		return nil, ErrStopped
	case started:
		return nil, errors.New("engines were started before")
	}

	places, err := g.preflight()
	if err != nil {
		return nil, err
	}
	g.spawner = newSpawner()
	g.dog = newWatchdog(g.cfg.Watchdog, g.cfg.StopTimeout, g.log)
	endpoints := make([]Endpoint, 0, len(places))
	for i, place := range places {
		p, err := g.prepare(i, place)
		if err != nil {
			return nil, err
		}
		if err := g.start(p); err != nil {
			return nil, &LaunchError{what: err.Error(), detail: commandDetail(p.argv), hint: hintFor(nil, err)}
		}
		g.mu.Lock()
		g.procs = append(g.procs, p)
		stopping := g.stopping
		g.mu.Unlock()
		g.reportStart(p)
		if stopping {
			return nil, ErrStopped
		}
		endpoints = append(endpoints, p.endpoint())
	}
	return endpoints, nil
}

// Endpoints returns the engines that were started, in the order of Start.
func (g *Group) Endpoints() []Endpoint {
	var out []Endpoint
	for _, p := range g.Processes() {
		out = append(out, p.endpoint())
	}
	return out
}

// Processes returns the engines that were started, in the order of Start.
func (g *Group) Processes() []*Process {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]*Process(nil), g.procs...)
}

func (g *Group) isStopping() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.stopping
}

// Run watches the engines after start-up until ctx ends, which is no error: it logs
// each engine that ends by itself with the last it wrote, and returns an error that
// wraps [ErrNoEngines] when none is left. It stops nothing.
func (g *Group) Run(ctx context.Context) error {
	procs := g.Processes()
	exits := make(chan *Process, len(procs)) // one for each, so that no watcher waits
	ctx, cancel := context.WithCancel(ctx)
	var watchers sync.WaitGroup
	defer watchers.Wait()
	defer cancel()
	for _, p := range procs {
		watchers.Go(func() {
			select {
			case <-p.exited:
				exits <- p
			case <-ctx.Done():
			}
		})
	}
	var last *Process
	for range procs {
		select {
		case <-ctx.Done():
			return nil
		case last = <-exits:
		}
		if g.isStopping() {
			continue
		}
		p := last
		awaitOutput(p)
		p.log.Error("engine ended", "pid", p.PID(), "state", p.state, "url", p.url, "last_output", p.Tail(reportLines))
	}
	if g.isStopping() || last == nil {
		return nil
	}
	return g.exitError(last, "was the last engine to end", ErrNoEngines)
}

// awaitOutput gives the output of an engine that has ended a moment to arrive. Its
// helpers may hold the pipe open for longer than anybody wants to wait.
func awaitOutput(p *Process) {
	select {
	case <-p.drained:
	case <-time.After(300 * time.Millisecond):
	}
}
