//go:build linux

package launcher

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// serviceRun is a service, its output and log, until the test ends.
type serviceRun struct {
	*Service
	out    *buffer
	log    *buffer
	ctx    context.Context
	cancel context.CancelFunc
	done   chan error
}

// runService runs this test binary as a service that does as told.
func runService(t *testing.T, behaviour string, change func(*ServiceConfig)) *serviceRun {
	t.Helper()
	cfg := DefaultServiceConfig()
	cfg.Name, cfg.Argv, cfg.Env = "selector prefill", []string{os.Args[0]}, append(os.Environ(), fakeEnv+"="+behaviour)
	cfg.RestartDelay, cfg.StopTimeout = 10*time.Millisecond, patience
	if change != nil {
		change(&cfg)
	}
	r := &serviceRun{out: &buffer{}, log: &buffer{}, done: make(chan error, 1)} // one: what Run returned
	r.Service = NewService(cfg, 0, NewConsole(r.out, false), slog.New(slog.NewTextHandler(r.log, nil)))
	r.ctx, r.cancel = context.WithCancel(t.Context())
	go func() { r.done <- r.Run(r.ctx) }()
	t.Cleanup(func() {
		r.Kill()
		r.cancel()
	})
	return r
}

// pids are those of all the processes that were started.
func (r *serviceRun) pids(t *testing.T) (all []int) {
	t.Helper()
	for line := range strings.Lines(r.out.String()) {
		if rest, ok := strings.CutPrefix(line, "selector prefill  pid "); ok {
			pid, err := strconv.Atoi(strings.TrimSpace(rest))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, pid)
		}
	}
	return all
}

// ended waits for the end of Run.
func (r *serviceRun) ended(t *testing.T) error {
	t.Helper()
	select {
	case err := <-r.done:
		for _, pid := range r.pids(t) {
			if running(pid) {
				t.Errorf("process %d still runs", pid)
			}
		}
		return err
	case <-time.After(patience):
		t.Fatal("Run does not return")
		return nil
	}
}

func TestServiceIsStartedAgain(t *testing.T) {
	r := runService(t, "say=hello exit=3", nil)
	waitFor(t, r.out, "[selector prefill] hello\n", 3)
	eventually(t, "three ends are told", func() bool { return strings.Count(r.log.String(), `msg="service ended"`) >= 3 })
	r.cancel()
	if err := r.ended(t); err != nil {
		t.Error(err)
	}
	if r.Restarts() < 2 {
		t.Errorf("%d restarts", r.Restarts())
	}
	first, _, _ := strings.Cut(r.log.String(), "\n")
	for _, w := range []string{"level=ERROR", `service="selector prefill"`, "pid=", `state="exit code 3"`, "next_start=10ms", "last_output=[hello]"} {
		if !strings.Contains(first, w) {
			t.Errorf("%q lacks %q", first, w)
		}
	}
	if !strings.Contains(r.log.String(), "next_start=20ms") || !strings.Contains(r.log.String(), "next_start=40ms") {
		t.Errorf("the waits do not grow:\n%s", r.log)
	}
}

func TestServiceThatIsKilled(t *testing.T) {
	r := runService(t, "say=up hang", nil)
	waitFor(t, r.out, "up\n", 1)
	if err := syscall.Kill(r.pids(t)[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitFor(t, r.out, "up\n", 2)
	waitFor(t, r.log, `state="signal 9 (killed)"`, 1)
	r.cancel()
	if err := r.ended(t); err != nil {
		t.Error(err)
	}
	if n := r.Restarts(); n != 1 {
		t.Errorf("%d restarts, want 1", n)
	}
}

func TestServiceRefusesItsCommandLine(t *testing.T) {
	r := runService(t, "err=error:_unknown_flag exit=2", nil)
	err := r.ended(t)
	if !errors.Is(err, ErrUsage) || !strings.Contains(report(err), "error: unknown flag") {
		t.Errorf("got %s", report(err))
	}
}

func TestServiceThatCannotBeStarted(t *testing.T) {
	r := runService(t, "hang", func(c *ServiceConfig) { c.Argv = []string{"/nowhere/smg-selector"} })
	if err := r.ended(t); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestServiceThatDoesNotEnd(t *testing.T) {
	r := runService(t, "ignore hang", func(c *ServiceConfig) { c.StopTimeout = 50 * time.Millisecond })
	waitFor(t, r.out, "ignoring\n", 1)
	r.cancel()
	if err := r.ended(t); err != nil {
		t.Error(err)
	}
	waitFor(t, r.log, "service does not end", 1)
}

func TestServiceIsHurriedByAnotherSignal(t *testing.T) {
	r := runService(t, "ignore hang", nil)
	waitFor(t, r.out, "ignoring\n", 1)
	r.Hurry() // before the stop, which it waits for
	if r.Restarts() != 0 || !running(r.pids(t)[0]) {
		t.Error("the hurry has ended it")
	}
	r.cancel()
	if err := r.ended(t); err != nil { // by SIGINT, which is not ignored
		t.Error(err)
	}
}

// TestServiceThatIsStuck stops a process, which is ended and started again.
func TestServiceThatIsStuck(t *testing.T) {
	var answers atomic.Bool
	answers.Store(true)
	r := runService(t, "say=up hang", func(c *ServiceConfig) {
		c.SilenceLimit = 100 * time.Millisecond
		c.Alive = func(context.Context) error {
			if !answers.Load() {
				return errors.New("no answer")
			}
			return nil
		}
	})
	waitFor(t, r.out, "up\n", 1)
	eventually(t, "it answers", r.Alive)
	answers.Store(false)
	if err := syscall.Kill(r.pids(t)[0], syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	waitFor(t, r.log, "service does not answer", 1)
	waitFor(t, r.log, "service ended", 1)
	answers.Store(true)
	waitFor(t, r.out, "up\n", 2)
	eventually(t, "it answers again", r.Alive)
	if err := syscall.Kill(r.pids(t)[1], syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	r.cancel() // one that is stopped ends, too
	if err := r.ended(t); err != nil {
		t.Error(err)
	}
}

// TestServiceInheritsAListener connects while there is no process, and is served by
// the next one.
func TestServiceInheritsAListener(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	file, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	var stopping atomic.Int32
	r := runService(t, "say=up inherit hang", func(c *ServiceConfig) {
		c.Files = []*os.File{file}
		c.Stopping = func() { stopping.Add(1) }
	})
	url := "http://" + l.Addr().String() + "/health"
	ask := func() error {
		resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}).Get(url)
		if err != nil {
			return err
		}
		return resp.Body.Close()
	}
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(r.pids(t)[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitFor(t, r.log, "service ended", 1)
	if err := ask(); err != nil {
		t.Errorf("between two lives: %v", err)
	}
	r.cancel()
	if err := r.ended(t); err != nil {
		t.Error(err)
	}
	if n := stopping.Load(); n != 1 {
		t.Errorf("Stopping was called %d times", n)
	}
}

func TestProgramOfOurs(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/smg-selector", []byte("#!/bin/sh\n"), 0o755); err != nil { //nolint:gosec // it is to be run
		t.Fatal(err)
	}
	for _, env := range []string{"SMG_BIN_DIR=" + dir, "PATH=" + dir} {
		if path, err := Program("smg-selector", []string{env}); err != nil || path != dir+"/smg-selector" {
			t.Errorf("%s: got %s (%v)", env, path, err)
		}
	}
	if _, err := Program("smg-selector", nil); !strings.Contains(report(err), "set SMG_BIN_DIR to the folder that holds smg-selector") {
		t.Errorf("got %s", report(err))
	}
}
