package launcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// ServiceConfig is a program that is to run for as long as its parent does.
type ServiceConfig struct {
	// Name is how lines and reports call it, such as "selector prefill".
	Name string
	Argv []string
	// Env is its whole environment.
	Env []string
	// Files are inherited, the first as descriptor 3. They stay the caller's.
	Files []*os.File
	// Alive asks whether the program does its work, as often as it is called. Nil is
	// for one that need not be asked.
	Alive func(ctx context.Context) error
	// Stopping is called once the program is to be stopped, before it is told. It may
	// be nil.
	Stopping func()

	// RestartDelay is the wait before a program that has ended is started again. It
	// doubles up to MaxRestartDelay, and starts over after a life of SteadyAfter.
	RestartDelay    time.Duration
	MaxRestartDelay time.Duration
	SteadyAfter     time.Duration
	// SilenceLimit is how long Alive may fail before the program counts as stuck;
	// before it has succeeded once, it may for StartLimit.
	SilenceLimit time.Duration
	StartLimit   time.Duration
	// StopTimeout is how long it may take to end after SIGTERM, KillTimeout after
	// SIGKILL.
	StopTimeout time.Duration
	KillTimeout time.Duration

	Color bool
	JSON  bool
}

// DefaultServiceConfig has all but what to run: restarts after 100 ms, doubling to
// 5 s and reset after 10 s; 5 s of silence, or a minute at the start; 30 s to stop.
func DefaultServiceConfig() ServiceConfig {
	return ServiceConfig{
		RestartDelay: 100 * time.Millisecond, MaxRestartDelay: 5 * time.Second, SteadyAfter: 10 * time.Second,
		SilenceLimit: 5 * time.Second, StartLimit: time.Minute, StopTimeout: 30 * time.Second, KillTimeout: 5 * time.Second,
	}
}

// Service is a child process that is started again whenever it ends or does not
// answer. Its methods are safe for concurrent use.
type Service struct {
	cfg     ServiceConfig
	index   int
	console *Console
	log     *slog.Logger

	mu       sync.Mutex
	pid      int // of the running process, 0 for none
	reaped   bool
	restarts int
	alive    bool
	stopping bool // SIGTERM was sent
	hurried  bool
	killed   bool
}

// ErrUsage says that a program refused its command line, so that another start
// would not help.
var ErrUsage = errors.New("it does not understand its command line")

// exitUsage is the exit code of our programs for that.
const exitUsage = 2

// NewService is a service that does nothing yet. See [Service.Run]. index chooses
// the colour of its lines.
func NewService(cfg ServiceConfig, index int, out *Console, log *slog.Logger) *Service {
	return &Service{cfg: cfg, index: index, console: out, log: log.With(slog.String("service", cfg.Name))}
}

// Name is the service's name.
func (s *Service) Name() string { return s.cfg.Name }

// Alive says whether the service answered when it was last asked.
func (s *Service) Alive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.alive
}

// Restarts is how often the service was started again.
func (s *Service) Restarts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.restarts
}

// Hurry tells a service that is being stopped, or will be, not to wait for anything.
func (s *Service) Hurry() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hurried = true
	if s.stopping {
		s.signalLocked(syscall.SIGINT)
	}
}

// Kill ends the process at once, and has none started again.
func (s *Service) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.killed = true
	s.signalLocked(syscall.SIGKILL)
}

// Run keeps the program running until ctx ends, then stops it: SIGTERM, and SIGKILL
// if it takes too long. It returns when the process is gone and every goroutine has
// ended. An error says that the program cannot be started or that it would not die.
func (s *Service) Run(ctx context.Context) error {
	spawn := newSpawner()
	defer spawn.close()
	delay := s.cfg.RestartDelay
	for first := true; ; first = false {
		l, err := s.start(spawn)
		switch {
		case err != nil && first:
			return err
		case err != nil:
			s.log.Error("service could not be started again", slog.Any("error", err), slog.Duration("next_start", delay))
		default:
			stopped, err := s.watch(ctx, l)
			if stopped || err != nil {
				return err
			}
			if first && !l.answered && l.state.ExitCode() == exitUsage {
				return s.usageError(l)
			}
			if time.Since(l.started) >= s.cfg.SteadyAfter {
				delay = s.cfg.RestartDelay
			}
			s.log.Error("service ended", slog.Int("pid", l.pid), slog.String("state", describe(l.state)),
				slog.Duration("next_start", delay), slog.Any("last_output", l.tail.last(reportLines)))
		}
		if !pause(ctx, delay) {
			s.prepareStop()
			return nil
		}
		if s.over() {
			return nil
		}
		delay = min(2*delay, s.cfg.MaxRestartDelay)
	}
}

// usageError reports a program that does not take what it is given.
func (s *Service) usageError(l *life) error {
	detail := commandDetail(s.cfg.Argv)
	for _, line := range l.tail.last(reportLines) {
		detail = append(detail, "  "+line)
	}
	return &LaunchError{
		what: fmt.Sprintf("%s ended: %s", s.cfg.Name, describe(l.state)), detail: detail,
		hint: "the programs of smg must be of one version", cause: ErrUsage,
	}
}

// over counts another start, unless the service was killed.
func (s *Service) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.killed {
		s.restarts++
	}
	return s.killed
}

// life is one process of a service.
type life struct {
	cmd      *exec.Cmd
	pid      int
	started  time.Time
	tail     tail
	exited   chan struct{} // closed when it has ended and its output is read
	answered bool          // it did, at least once
	state    *os.ProcessState
}

func (s *Service) start(spawn *spawner) (*life, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("making the output pipe of %s: %w", s.cfg.Name, err)
	}
	l := &life{cmd: exec.Command(s.cfg.Argv[0], s.cfg.Argv[1:]...), exited: make(chan struct{})} //nolint:gosec // it is what is to be run
	l.cmd.Env, l.cmd.ExtraFiles = s.cfg.Env, s.cfg.Files
	l.cmd.Stdout, l.cmd.Stderr = w, w
	l.cmd.SysProcAttr = serviceAttr()
	err = spawn.start(l.cmd)
	_ = w.Close() // the child has its own copy
	if err != nil {
		return nil, errors.Join(&LaunchError{
			what: fmt.Sprintf("starting %s: %s", s.cfg.Name, err), detail: commandDetail(s.cfg.Argv), hint: hintFor(nil, err), cause: err,
		}, r.Close())
	}
	l.pid, l.started = l.cmd.Process.Pid, time.Now()
	s.mu.Lock()
	s.pid, s.reaped = l.pid, false
	if s.killed {
		s.signalLocked(syscall.SIGKILL)
	}
	s.mu.Unlock()
	if s.cfg.JSON {
		s.log.Info("service started", slog.Int("pid", l.pid))
	} else {
		_, _ = fmt.Fprintf(s.console, "%s  pid %d\n", s.cfg.Name, l.pid) // nobody is left to tell
	}
	go s.follow(l, r)
	return l, nil
}

// follow passes the output on and waits for the end.
func (s *Service) follow(l *life, r *os.File) {
	defer close(l.exited)
	pumped := make(chan error, 1) // holds the result
	go func() {
		pumped <- pump(r, func(line string) {
			l.tail.add(line)
			s.emit(line)
		})
	}()
	awaitExit(l.cmd)
	s.mu.Lock()
	// A service has no helpers; whatever it may have left goes along with it, while
	// the group's number is still its own.
	_ = signalGroup(l.pid, syscall.SIGKILL) // gone is what was wanted
	_ = l.cmd.Wait()                        // how it ended is in ProcessState
	l.state = l.cmd.ProcessState
	s.reaped, s.alive = true, false
	s.mu.Unlock()
	if err := errors.Join(<-pumped, r.Close()); err != nil {
		s.log.Warn("output lost", slog.Any("error", err))
	}
}

// emit passes a line on. A line of JSON says itself whose it is.
func (s *Service) emit(line string) {
	source := strings.ReplaceAll(s.cfg.Name, " ", "-")
	prefix := "[" + s.cfg.Name + "] "
	switch {
	case s.cfg.JSON && strings.HasPrefix(line, "{"):
		prefix = ""
	case s.cfg.JSON:
		_, _ = s.console.Write(jsonLine(source, line)) // nobody is left to tell
		return
	case s.cfg.Color:
		prefix = colorOf(s.index) + prefix + colorReset
	}
	_, _ = io.WriteString(s.console, prefix+line+"\n") // nobody is left to tell
}

// watch returns when the process is gone: stopped because ctx has ended, or by
// itself. A process that is stuck is ended.
func (s *Service) watch(ctx context.Context, l *life) (stopped bool, err error) {
	asking, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	if s.cfg.Alive != nil {
		wg.Go(func() { s.ask(asking, l) })
	}
	select {
	case <-l.exited:
		s.mu.Lock()
		defer s.mu.Unlock()
		return ctx.Err() != nil || s.killed, nil
	case <-ctx.Done():
	}
	s.prepareStop()
	s.mu.Lock()
	s.stopping = true
	s.signalLocked(syscall.SIGTERM)
	if s.hurried {
		// Another signal, since two of one kind that are pending at once are one.
		s.signalLocked(syscall.SIGINT)
	}
	s.signalLocked(syscall.SIGCONT) // one that was stopped hears nothing
	s.mu.Unlock()
	if s.gone(l, s.cfg.StopTimeout) {
		return true, nil
	}
	s.log.Warn("service does not end", slog.Int("pid", l.pid), slog.Duration("after", s.cfg.StopTimeout))
	s.Kill()
	if !s.gone(l, s.cfg.KillTimeout) {
		return true, fmt.Errorf("%s (process %d) would not die", s.cfg.Name, l.pid)
	}
	return true, nil
}

func (s *Service) prepareStop() {
	if s.cfg.Stopping != nil {
		s.cfg.Stopping()
	}
}

// gone waits for the end of a process, at most for limit.
func (s *Service) gone(l *life, limit time.Duration) bool {
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-l.exited:
		return true
	case <-t.C:
		return false
	}
}

// askEvery is the period of the question whether a service is alive.
const askEvery = 500 * time.Millisecond

// ask ends a process that does not answer for too long. Time in which this process
// itself did not run says nothing about the other.
func (s *Service) ask(ctx context.Context, l *life) {
	heard := time.Now()
	for last := heard; ; {
		limited, cancel := context.WithTimeout(ctx, s.cfg.SilenceLimit/2)
		err := s.cfg.Alive(limited)
		cancel()
		now := time.Now()
		if err == nil || now.Sub(last) > s.cfg.SilenceLimit/2+time.Second {
			heard = now
		}
		last = now
		s.mu.Lock()
		l.answered = l.answered || err == nil
		s.alive = err == nil && !s.reaped
		limit := s.cfg.SilenceLimit
		if !l.answered {
			limit = max(limit, s.cfg.StartLimit)
		}
		stuck := now.Sub(heard) > limit && ctx.Err() == nil
		if stuck {
			s.signalLocked(syscall.SIGKILL)
		}
		s.mu.Unlock()
		if stuck {
			s.log.Error("service does not answer", slog.Int("pid", l.pid), slog.Duration("silent_for", now.Sub(heard).Round(time.Millisecond)),
				slog.Any("error", err))
			return
		}
		select {
		case <-l.exited:
			return
		default:
		}
		if !pause(ctx, askEvery) {
			return
		}
	}
}

// signalLocked reaches the process if it still is ours. s.mu is held.
func (s *Service) signalLocked(sig syscall.Signal) {
	if s.pid == 0 || s.reaped {
		return
	}
	if err := signalGroup(s.pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		s.log.Warn("signalling a service failed", slog.Int("pid", s.pid), slog.Any("error", err))
	}
}

// pause waits for d and says whether ctx is still alive.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
