package terminal

import (
	"log/slog"
	"os/signal"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"smg/cmd/internal/service"
)

// TestSignals: each of the signals that ask a program to end does, and is told.
func TestSignals(t *testing.T) {
	for _, tt := range []struct {
		name string
		sig  syscall.Signal
		code int
	}{
		{"interrupt", syscall.SIGINT, 130},
		{"terminate", syscall.SIGTERM, 143},
		{"terminal is closed", syscall.SIGHUP, 129},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if signal.Ignored(tt.sig) {
				t.Skip("the tests run where this signal means nothing")
			}
			t.Setenv(service.EnvMetrics, "3") // a child's count: its parent does not say things twice
			s := WatchSignals(slog.New(slog.DiscardHandler))
			defer s.Stop()
			hurried := make(chan struct{})
			s.OnSecond(func() { close(hurried) })
			if s.Code() != 0 {
				t.Errorf("code %d before any signal", s.Code())
			}
			for _, done := range []<-chan struct{}{s.Context().Done(), hurried} {
				if err := syscall.Kill(syscall.Getpid(), tt.sig); err != nil {
					t.Fatal(err)
				}
				<-done
			}
			if s.Code() != tt.code {
				t.Errorf("code %d, want %d", s.Code(), tt.code)
			}
		})
	}
}

// TestSignalsAtTheEnd: one that comes when the command has ended does not end the process,
// which would give it another exit code.
func TestSignalsAtTheEnd(t *testing.T) {
	s := WatchSignals(slog.New(slog.DiscardHandler))
	s.Stop()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} { // two: the handler may still take one
		if err := syscall.Kill(syscall.Getpid(), sig); err != nil {
			t.Fatal(err)
		}
	}
	<-s.ch
}

// TestSignalsAtOnce: what a supervisor sends to a process and to its group at once is one
// signal. It was two, and the second cut requests.
func TestSignalsAtOnce(t *testing.T) {
	const first, second, third = "first", "second", "third"
	at := func(ms ...int) []time.Duration {
		var all []time.Duration
		for _, n := range ms {
			all = append(all, time.Duration(n)*time.Millisecond)
		}
		return all
	}
	for _, tt := range []struct {
		name  string
		child bool
		at    []time.Duration
		want  []string
	}{
		{"one", false, at(0), []string{first}},
		{"to the process and its group", false, at(0, 1, 2), []string{first}},
		{"just within", false, at(0, 499), []string{first}},
		{"just after", false, at(0, 500), []string{first, second}},
		{"the second is doubled too", false, at(0, 1, 700, 701), []string{first, second}},
		{"and the third comes later", false, at(0, 700, 1199, 1200), []string{first, second, third}},
		{"many: the wait is from the one that counted", false, at(0, 200, 400, 600, 800, 1000), []string{first, second}},
		{"a child hears a parent that has counted", true, at(0, 0, 0), []string{first, second, third}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSignals(slog.New(slog.DiscardHandler))
				if tt.child {
					s.same = 0
				}
				var got []string
				s.OnSecond(func() { got = append(got, second) })
				s.OnThird(func() { got = append(got, third) })
				code := 0
				s.exit = func(c int) { code = c }
				go s.handle()
				start := time.Now()
				for _, d := range tt.at {
					time.Sleep(d - time.Since(start)) // of the bubble's clock
					s.ch <- syscall.SIGTERM
					synctest.Wait()
				}
				if s.Context().Err() != nil {
					got = append([]string{first}, got...)
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if ended := got[len(got)-1] == third; ended != (code == 143) {
					t.Errorf("exit code %d", code)
				}
				s.Stop()
			})
		})
	}
}
