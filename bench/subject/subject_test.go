//go:build unix

package subject_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"smg/bench/subject"
)

// roleVariable makes this test binary play a subject.
const roleVariable = "SMG_BENCH_TEST_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(play(role, os.Args[len(os.Args)-1]))
	}
	goleak.VerifyTestMain(m)
}

// play is a subject that listens on addr.
func play(role, addr string) int {
	fmt.Println("playing " + role)
	switch role {
	case "broken":
		return 3
	case "deaf":
		signal.Ignore(syscall.SIGTERM)
	}
	begun := time.Now()
	err := http.ListenAndServe(addr, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if role == "never" || time.Since(begun) < 100*time.Millisecond {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	fmt.Println(err)
	return 1
}

func config(t *testing.T, role string) subject.Config {
	t.Helper()
	t.Setenv(roleVariable, role)
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return subject.Config{
		Name: role, Path: path, Ready: "/ready", Within: 20 * time.Second, Grace: 10 * time.Second,
		Args: func(addr netip.AddrPort) []string { return []string{addr.String()} },
	}
}

func lives(pid int) bool { return syscall.Kill(pid, 0) == nil }

func TestStartStop(t *testing.T) {
	for _, tt := range []struct {
		name  string
		role  string
		ready string
		grace time.Duration
	}{
		{name: "ready_path", role: "plain", ready: "/ready", grace: 10 * time.Second},
		{name: "ready_when_it_listens", role: "plain", grace: 10 * time.Second},
		{name: "ignores_the_request_to_end", role: "deaf", ready: "/ready", grace: 10 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := config(t, tt.role)
			cfg.Ready, cfg.Grace = tt.ready, tt.grace
			p, err := subject.Start(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			if !lives(p.PID()) {
				t.Error("the process does not live")
			}
			resp, err := http.Get("http://" + p.Addr().String() + "/ready")
			if err != nil {
				t.Error(err)
			} else {
				_ = resp.Body.Close()
				if tt.ready != "" && resp.StatusCode != http.StatusOK {
					t.Errorf("it is not ready: %d", resp.StatusCode)
				}
			}
			http.DefaultClient.CloseIdleConnections()
			for range 2 {
				if err := p.Stop(); err != nil {
					t.Error(err)
				}
			}
			<-p.Ended()
			if lives(p.PID()) {
				t.Error("the process lives after Stop")
			}
		})
	}
}

func TestStartFails(t *testing.T) {
	for _, tt := range []struct {
		name   string
		role   string
		within time.Duration
		want   []string
		ended  bool
	}{
		{name: "ends_at_once", role: "broken", within: 20 * time.Second, want: []string{"starting broken", "exit status 3", "playing broken"}, ended: true},
		{name: "does_not_get_ready", role: "never", within: 300 * time.Millisecond, want: []string{"starting never", "not ready within 300ms"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := config(t, tt.role)
			cfg.Within = tt.within
			p, err := subject.Start(t.Context(), cfg)
			if err == nil {
				t.Fatalf("Start succeeded: %v", p.Stop())
			}
			for _, part := range tt.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error %q lacks %q", err, part)
				}
			}
			if errors.Is(err, subject.ErrEnded) != tt.ended {
				t.Errorf("the error is ErrEnded: %v, want %v", !tt.ended, tt.ended)
			}
		})
	}
	t.Run("no_such_program", func(t *testing.T) {
		cfg := config(t, "plain")
		cfg.Path = "/nowhere/at/all"
		if _, err := subject.Start(t.Context(), cfg); err == nil {
			t.Error("Start succeeded, want an error")
		}
	})
	t.Run("canceled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := subject.Start(ctx, config(t, "never")); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want that of the context", err)
		}
	})
}
