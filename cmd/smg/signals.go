package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// signals is how Ctrl-C and SIGTERM reach a command: the first ends its context,
// the second hurries it, the third ends the process at once.
type signals struct {
	ctx    context.Context
	cancel context.CancelFunc
	ch     chan os.Signal
	log    *slog.Logger

	mu     sync.Mutex
	first  os.Signal
	second []func()
	third  []func()
}

// watchSignals takes the signals over until stop is called.
func watchSignals(log *slog.Logger) *signals {
	ctx, cancel := context.WithCancel(context.Background())
	s := &signals{ctx: ctx, cancel: cancel, ch: make(chan os.Signal, 4), log: log} // 4: no signal is lost while one is handled
	signal.Notify(s.ch, syscall.SIGINT, syscall.SIGTERM)
	go s.handle()
	return s
}

// onSecond has f called on the second signal, onThird on the third, before the
// process ends.
func (s *signals) onSecond(f func()) { s.mu.Lock(); s.second = append(s.second, f); s.mu.Unlock() }
func (s *signals) onThird(f func())  { s.mu.Lock(); s.third = append(s.third, f); s.mu.Unlock() }

// code is the exit code that tells of the first signal, 0 if there was none.
func (s *signals) code() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n, ok := s.first.(syscall.Signal); ok {
		return 128 + int(n)
	}
	return 0
}

func (s *signals) stop() {
	signal.Stop(s.ch)
	close(s.ch)
	s.cancel()
}

func (s *signals) handle() {
	n := 0
	for sig := range s.ch {
		s.mu.Lock()
		n++
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
			os.Exit(128 + int(sig.(syscall.Signal)))
		}
	}
}
