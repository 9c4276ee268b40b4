package terminal

import (
	"log/slog"
	"os/signal"
	"syscall"
	"testing"
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
