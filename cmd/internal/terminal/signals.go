package terminal

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"smg/cmd/internal/service"
)

// sameSignal is how long after a signal others still belong to it. Supervisors send one to
// a process and then to its group, or SIGINT and SIGTERM together; nobody has asked twice
// by that. A person who presses Ctrl-C again takes longer, or presses it once more.
const sameSignal = 500 * time.Millisecond

// Signals is how Ctrl-C, SIGTERM and the end of the terminal reach a command: the first
// ends its context, the second hurries it, the third ends the process at once. Those that
// come within half a second of the one that counted last do not count.
type Signals struct {
	ctx    context.Context
	cancel context.CancelFunc
	ch     chan os.Signal
	done   chan struct{} // closed by Stop
	log    *slog.Logger
	now    func() time.Time
	same   time.Duration // how long after one that counts others do not
	exit   func(code int)

	mu     sync.Mutex
	first  os.Signal
	second []func()
	third  []func()
}

// WatchSignals takes the signals over until the process ends. A terminal that ends is
// nothing to a process that was started with nohup. That nobody reads standard error any
// more ends nothing either: whoever read it may have gone along with the terminal.
func WatchSignals(log *slog.Logger) *Signals {
	s := newSignals(log)
	if service.IsChild() {
		s.same = 0 // the parent has counted, and says at once all that it has to say
	}
	all := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		all = append(all, syscall.SIGHUP)
	}
	signal.Notify(s.ch, all...)
	if !service.IsChild() { // a child's output ends with its parent
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // nobody hears it, so that it does not end the process
	}
	go s.handle()
	return s
}

func newSignals(log *slog.Logger) *Signals {
	ctx, cancel := context.WithCancel(context.Background())
	return &Signals{
		ctx: ctx, cancel: cancel, ch: make(chan os.Signal, 4), done: make(chan struct{}), log: log, // 4: no signal is lost while one is handled
		now: time.Now, same: sameSignal, exit: os.Exit,
	}
}

// Context ends with the first signal, or with Stop.
func (s *Signals) Context() context.Context { return s.ctx }

// OnSecond has f called on the second signal.
func (s *Signals) OnSecond(f func()) { s.mu.Lock(); s.second = append(s.second, f); s.mu.Unlock() }

// OnThird has f called on the third signal, before the process ends.
func (s *Signals) OnThird(f func()) { s.mu.Lock(); s.third = append(s.third, f); s.mu.Unlock() }

// Code is the exit code that tells of the first signal, 0 if there was none.
func (s *Signals) Code() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n, ok := s.first.(syscall.Signal); ok {
		return 128 + int(n)
	}
	return 0
}

// Stop ends the handling of signals, at the end of a command. The log says so, if one has
// ended it. One that comes later still does nothing: it must not take the exit code from
// a command that has ended well.
func (s *Signals) Stop() {
	close(s.done)
	s.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first != nil {
		s.log.Info("exit", slog.String("signal", s.first.String()))
	}
}

func (s *Signals) handle() {
	var last time.Time // of the one that counted last
	for n := 0; ; {
		var sig os.Signal
		select {
		case <-s.done:
			return
		case sig = <-s.ch:
		}
		now := s.now()
		if n > 0 && now.Sub(last) < s.same {
			continue
		}
		n, last = n+1, now
		s.mu.Lock()
		var calls []func()
		switch n {
		case 1:
			s.first = sig
			s.log.Info("stopping", slog.String("signal", sig.String()), slog.String("hint", "once more to stop without waiting"))
			s.cancel()
		case 2:
			s.log.Warn("stopping without waiting for requests", slog.String("signal", sig.String()), slog.String("hint", "once more to end engines at once too"))
			calls = s.second
		default:
			s.log.Warn("ending at once", slog.String("signal", sig.String()))
			calls = s.third
		}
		s.mu.Unlock()
		for _, f := range calls {
			f()
		}
		if n >= 3 {
			s.exit(128 + int(sig.(syscall.Signal)))
		}
	}
}
