package launcher

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"smg/worker"
)

// Process is one engine that was started. Its methods are safe for concurrent use.
type Process struct {
	place   Place
	index   int // in the order of the start, over all roles
	name    string
	url     string
	argv    []string
	log     *slog.Logger
	started time.Time
	logFile string

	cmd    *exec.Cmd
	tail   tail
	output *os.File // read end of the output pipe, nil in raw mode

	exited  chan struct{} // closed when the engine itself has ended; state is set
	gone    chan struct{} // closed when its group is empty too, or given up
	drained chan struct{} // closed when its output has ended
	state   string

	mu     sync.Mutex
	empty  bool // nothing of the group is left: its number may belong to others
	termed bool // the group had its SIGTERM; some engines take a second for an abort
}

// Name is how progress lines and reports call the engine: "engine 0", "prefill 1".
func (p *Process) Name() string { return p.name }

// Role is [worker.Regular] for an engine that does everything.
func (p *Process) Role() worker.Leg { return p.place.Role }

// Rank is the engine's number within its role, from 0.
func (p *Process) Rank() int { return p.place.Rank }

// Port is the port that the engine was told to listen on.
func (p *Process) Port() int { return p.place.Port }

// PID is the engine's process id, which is its process group's as well.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// URL is where the engine is reached, such as "http://127.0.0.1:31000".
func (p *Process) URL() string { return p.url }

// Argv is a copy of the engine's command line.
func (p *Process) Argv() []string { return append([]string(nil), p.argv...) }

// Exited is closed when the engine has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Tail returns up to n of the last lines that the engine wrote, oldest first; none
// in raw mode.
func (p *Process) Tail(n int) []string { return p.tail.last(n) }

func (p *Process) endpoint() Endpoint {
	return Endpoint{
		Role: p.place.Role, Rank: p.place.Rank,
		URL: p.url, PID: p.PID(), Port: p.place.Port, BootstrapPort: p.place.BootstrapPort,
	}
}

// prepare builds the process of one place, the index-th of all, without starting it.
func (g *Group) prepare(index int, place Place) (*Process, error) {
	argv, err := g.cfg.CommandLine(g.program, place)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.SysProcAttr = sessionAttr()
	cmd.Env = append(inherited(g.cfg.Environ), g.cfg.additions(place)...)
	log := g.log.With("engine", place.Rank)
	if place.Role != worker.Regular {
		log = g.log.With("role", place.Role.String(), "engine", place.Rank)
	}
	return &Process{
		place:   place,
		index:   index,
		name:    place.Name(),
		url:     g.cfg.url(place.Port),
		argv:    argv,
		log:     log,
		cmd:     cmd,
		exited:  make(chan struct{}),
		gone:    make(chan struct{}),
		drained: make(chan struct{}),
	}, nil
}

// start runs p and begins the goroutines that follow it.
func (g *Group) start(p *Process) error {
	if file := g.console.file(); g.cfg.Log == LogRaw && file != nil {
		p.cmd.Stdout, p.cmd.Stderr = file, file
		if err := g.spawner.start(p.cmd); err != nil {
			return fmt.Errorf("starting %s: %w", p.name, err)
		}
		close(p.drained)
	} else if err := g.startPiped(p); err != nil {
		return err
	}
	p.started = time.Now()
	g.dog.add(p.PID())
	g.wg.Go(func() { g.follow(p) })
	return nil
}

// startPiped starts p with its output in a pipe of ours. exec's own pipes would do,
// but tie the wait for the engine to every helper that holds the other end.
func (g *Group) startPiped(p *Process) error {
	var file *os.File
	if g.cfg.Log == LogFile {
		p.logFile = filepath.Join(g.cfg.LogDir, p.place.stem()+".log")
		f, err := os.OpenFile(p.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return fmt.Errorf("opening the log of %s: %w", p.name, err)
		}
		file = f
	}
	r, w, err := os.Pipe()
	if err != nil {
		return errors.Join(fmt.Errorf("making the output pipe of %s: %w", p.name, err), closeFile(file))
	}
	p.cmd.Stdout, p.cmd.Stderr = w, w
	err = g.spawner.start(p.cmd)
	_ = w.Close() // the engine has its own copy
	if err != nil {
		return errors.Join(fmt.Errorf("starting %s: %w", p.name, err), r.Close(), closeFile(file))
	}
	p.output = r
	hide := hiding(p.argv)
	emit := g.cfg.lineWriter(p, g.console, file)
	g.wg.Go(func() {
		defer close(p.drained)
		err := pump(r, func(line string) {
			line = hide(line)
			p.tail.add(line)
			emit(line)
		})
		if err := errors.Join(err, closeFile(file)); err != nil {
			p.log.Warn("engine output lost", "error", err)
		}
	})
	return nil
}

func closeFile(f *os.File) error {
	if f == nil {
		return nil
	}
	return f.Close()
}

// follow waits for the end of p, then for the end of its helpers.
func (g *Group) follow(p *Process) {
	defer close(p.gone)
	awaitExit(p.cmd)

	p.mu.Lock()
	// Helpers outlive a crashed leader and keep ports and memory. Now, with the
	// leader not reaped, the group's number still is what it was.
	g.signalLocked(p, syscall.SIGTERM)
	_ = p.cmd.Wait() // how it ended is in ProcessState
	p.state = describe(p.cmd.ProcessState)
	p.empty = !groupAlive(p.PID())
	p.mu.Unlock()
	close(p.exited)

	g.followHelpers(p)
}

// followHelpers waits until the group of an engine that has ended is empty. A group
// number is not given to anybody else while the group has members, so as long as
// every look finds some, a signal reaches the right ones.
func (g *Group) followHelpers(p *Process) {
	const seldom = 200 * time.Millisecond
	pause := 10 * time.Millisecond // mostly they go along with their engine
	killAt := time.Now().Add(g.cfg.StopTimeout)
	giveUpAt := killAt.Add(g.cfg.ReapTimeout)
	killed := false
	for {
		p.mu.Lock()
		p.empty = p.empty || !groupAlive(p.PID())
		empty := p.empty
		p.mu.Unlock()
		now := time.Now()
		switch {
		case empty:
			g.dog.remove(p.PID())
			return
		case now.After(giveUpAt):
			p.log.Error("helpers of an engine would not die", "pgid", p.PID())
			p.mu.Lock()
			p.empty = true // nobody looks any more, so the number may become somebody else's
			p.mu.Unlock()
			g.dog.remove(p.PID())
			return
		case !killed && now.After(killAt):
			killed = true
			g.signal(p, syscall.SIGKILL)
		}
		time.Sleep(pause)
		pause = min(2*pause, seldom)
	}
}

// signal sends sig to the group of p unless nothing of it is left. SIGTERM is sent
// once at most.
func (g *Group) signal(p *Process, sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	g.signalLocked(p, sig)
}

// signalLocked is signal with p.mu held.
func (g *Group) signalLocked(p *Process, sig syscall.Signal) {
	if p.empty || (sig == syscall.SIGTERM && p.termed) {
		return
	}
	p.termed = true
	// A group that is already gone is what was wanted.
	if err := signalGroup(p.PID(), sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		p.log.Warn("signalling an engine failed", "pgid", p.PID(), "error", err)
	}
}

// describe says in words how a process ended.
func describe(s *os.ProcessState) string {
	if s == nil {
		return "unknown state"
	}
	if ws, ok := s.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return fmt.Sprintf("signal %d (%s)", int(ws.Signal()), ws.Signal())
	}
	return fmt.Sprintf("exit code %d", s.ExitCode())
}
