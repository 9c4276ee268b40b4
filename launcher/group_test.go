//go:build linux

package launcher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestCLI(t *testing.T) {
	t.Run("54_ports", testPorts)
	t.Run("57_owned_flags", testOwned)
	t.Run("58_behind_dashes", func(t *testing.T) {
		cfg := DefaultConfig()
		cfg.Backend, cfg.EngineArgs = BackendSim, []string{"--data-parallel-size", "2"}
		argv, err := cfg.CommandLine("smg-sim", Place{Port: 31000})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(argv, " "); !strings.HasSuffix(got, " --data-parallel-size 2") {
			t.Errorf("command line %s", got)
		}
	})
	t.Run("62_exit_during_start", testExitDuringStart)
	t.Run("63_second_dies_while_first_loads", testSecondDies)
	t.Run("64_startup_timeout", testStartupTimeout)
	t.Run("66_interrupted_start", testInterruptedStart)
	t.Run("67_ignores_sigterm", testIgnoresSigterm)
	t.Run("68_launcher_killed", testLauncherKilled)
	t.Run("69_engines_die_while_running", testEnginesDie)
	t.Run("70_not_installed_in_the_interpreter", testNotInstalled)
	t.Run("71_command_lines_of_roles", testRoleCommandLines)
	t.Run("71_ports_of_roles", testRolePorts)
	t.Run("71_roles_run", testRolesRun)
	t.Run("81_credentials_of_engines", testSecrets)
}

func TestField(t *testing.T) {
	t.Run("LS-03_startup_timeout", func(t *testing.T) {
		t.Run("timeout", testStartupTimeout)
		t.Run("exit", testExitDuringStart)
	})
	t.Run("LS-07_port_of_the_user", testOwned)
}

func TestStartReadyStop(t *testing.T) {
	t.Parallel()
	var out buffer
	cfg := testConfig(2, "env serve hang")
	cfg.EngineArgs = []string{"--ctx-size", "4096", "--port", "1", "-m=x"}
	var logs buffer
	g, err := New(cfg, &out, slog.New(slog.NewTextHandler(&logs, nil)))
	if err != nil {
		t.Fatal(err)
	}
	eps, err := g.Start()
	if err != nil {
		t.Fatal(err)
	}
	if err := g.WaitReady(t.Context()); err != nil {
		t.Fatal(report(err))
	}
	if diff := cmp.Diff(eps, g.Endpoints()); diff != "" || len(eps) != 2 {
		t.Errorf("%d endpoints, %s", len(eps), diff)
	}
	for rank, e := range eps {
		if e.Rank != rank || e.URL != "http://127.0.0.1:"+strconv.Itoa(e.Port) || !running(e.PID) {
			t.Errorf("endpoint %+v", e)
		}
		if pgid, err := syscall.Getpgid(e.PID); err != nil || pgid != e.PID {
			t.Errorf("engine %d is in group %d (%v), want its own", rank, pgid, err)
		}
		for _, want := range []string{
			fmt.Sprintf("[engine %d] SMG_WORKER_RANK=%d\n", rank, rank),
			fmt.Sprintf("[engine %d] SMG_WORKER_PORT=%d\n", rank, e.Port),
			fmt.Sprintf("[engine %d] PYTHONUNBUFFERED=1\n", rank),
			fmt.Sprintf("[engine %d] args --model %s --host 127.0.0.1 --port %d --metrics --ctx-size 4096\n", rank, os.Args[0], e.Port),
			fmt.Sprintf("engine %d  pid %d  port %d\n", rank, e.PID, e.Port),
			fmt.Sprintf("engine %d  ready after ", rank),
		} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("output lacks %q:\n%s", want, out.String())
			}
		}
	}
	if !strings.Contains(logs.String(), "--port -m") {
		t.Errorf("no warning about the dropped flags: %s", logs.String())
	}
	if strings.Count(logs.String(), "engine flags dropped") != 1 {
		t.Errorf("not one warning: %s", logs.String())
	}
	if _, err := g.Start(); err == nil {
		t.Error("started twice")
	}
}

func TestStopTwiceAndConcurrently(t *testing.T) {
	t.Parallel()
	g := launch(t, testConfig(3, "serve hang"), &buffer{}, discardLog())
	if err := g.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := g.Stop(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, e := range g.Endpoints() {
		if running(e.PID) {
			t.Errorf("engine %d is still running", e.Rank)
		}
	}
	if err := g.Run(t.Context()); err != nil {
		t.Errorf("watching after a stop: %v", err)
	}
}

func TestStopBeforeStart(t *testing.T) {
	t.Parallel()
	g, err := New(testConfig(1, "serve hang"), &buffer{}, discardLog())
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Stop(); err != nil {
		t.Error(err)
	}
	if _, err := g.Start(); !errors.Is(err, ErrStopped) {
		t.Errorf("started after the stop: %v", err)
	}
}

func testExitDuringStart(t *testing.T) {
	t.Parallel()
	var out buffer
	cfg := testConfig(2, "rank0:serve rank0:hang rank1:say=weights_are_here rank1:err=error:_unknown_argument:_--x rank1:exit=3")
	cfg.EngineArgs = []string{"--x", "a b"}
	g := launch(t, cfg, &out, discardLog())
	err := g.WaitReady(t.Context())
	if !errors.Is(err, ErrExited) {
		t.Fatalf("got %v, want ErrExited", err)
	}
	for _, want := range []string{
		"engine 1 ended during start-up: exit code 3", "command: " + os.Args[0] + " --model ", " --x 'a b'",
		"weights are here", "unknown argument: --x", "hint: the engine does not know one of the flags",
	} {
		if got := report(err); !strings.Contains(got, want) {
			t.Errorf("report lacks %q:\n%s", want, got)
		}
	}
	if err := g.Stop(); err != nil {
		t.Error(err)
	}
	for _, e := range g.Endpoints() {
		if running(e.PID) || groupAlive(e.PID) {
			t.Errorf("engine %d or a helper of it is still there", e.Rank)
		}
	}
}

func testSecondDies(t *testing.T) {
	t.Parallel()
	cfg := testConfig(2, "rank0:hang rank1:sleep=100ms rank1:abort")
	g := launch(t, cfg, &buffer{}, discardLog())
	err := g.WaitReady(t.Context())
	if !errors.Is(err, ErrExited) || !strings.Contains(err.Error(), "engine 1 ended during start-up: signal 9 (killed)") {
		t.Errorf("got %v", err)
	}
	if !strings.Contains(report(err), "it wrote nothing") {
		t.Error(report(err))
	}
}

// TestReadyEngineDies: an engine that was ready counts as well while others load.
func TestReadyEngineDies(t *testing.T) {
	t.Parallel()
	var out buffer
	g := launch(t, testConfig(2, "rank0:serve rank0:hang rank1:hang"), &out, discardLog())
	done := make(chan error, 1)
	go func() { done <- g.WaitReady(t.Context()) }()
	waitFor(t, &out, "engine 0  ready after", 1)
	if err := syscall.Kill(g.Endpoints()[0].PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, ErrExited) {
		t.Errorf("got %v, want ErrExited", err)
	}
}

func testStartupTimeout(t *testing.T) {
	t.Parallel()
	var out buffer
	cfg := testConfig(3, "rank0:serve say=loading_weights rank2:serve=503 hang")
	cfg.StartupTimeout = time.Second
	cfg.LoadingInterval = 200 * time.Millisecond
	g := launch(t, cfg, &out, discardLog())
	start := time.Now()
	err := g.WaitReady(t.Context())
	if took := time.Since(start); !errors.Is(err, ErrStartupTimeout) || took < cfg.StartupTimeout {
		t.Fatalf("got %v after %s", err, took)
	}
	for _, want := range []string{
		"engines 1, 2 not ready after 1 s", "--worker-startup-timeout 1", "was still alive",
		"connection refused", "GET /health answered 503", "loading weights", "raise --worker-startup-timeout",
	} {
		if got := report(err); !strings.Contains(got, want) {
			t.Errorf("report lacks %q:\n%s", want, got)
		}
	}
	if !strings.Contains(out.String(), `engine 1  loading… 0.`) || !strings.Contains(out.String(), `last: "loading weights"`) {
		t.Errorf("no progress line:\n%s", out.String())
	}
	if _, after, _ := strings.Cut(out.String(), "engine 0  ready"); strings.Contains(after, "engine 0  loading") {
		t.Errorf("a ready engine is reported as loading:\n%s", out.String())
	}
}

func testInterruptedStart(t *testing.T) {
	t.Parallel()
	var out buffer
	g := launch(t, testConfig(2, "say=up hang"), &out, discardLog())
	ctx, cancel := context.WithCancelCause(t.Context())
	interrupted := errors.New("interrupted")
	done := make(chan error, 1)
	go func() { done <- g.WaitReady(ctx) }()
	waitFor(t, &out, "up", 2)
	cancel(interrupted)
	if err := <-done; !errors.Is(err, interrupted) {
		t.Errorf("got %v, want the cause of the context", err)
	}
	if err := g.Stop(); err != nil {
		t.Error(err)
	}
	for _, p := range g.Processes() {
		if p.state != "signal 15 (terminated)" {
			t.Errorf("engine %d ended with %s", p.Rank(), p.state)
		}
	}
}

func testIgnoresSigterm(t *testing.T) {
	t.Parallel()
	var out buffer
	cfg := testConfig(3, "child=ignore,hang ignore serve hang")
	cfg.StopTimeout = 500 * time.Millisecond
	g := launch(t, cfg, &out, discardLog())
	if err := g.WaitReady(t.Context()); err != nil {
		t.Fatal(report(err))
	}
	pids := helpers(t, &out, 3)
	waitFor(t, &out, "ignoring", 6)
	for _, e := range g.Endpoints() {
		pids = append(pids, e.PID)
	}
	start := time.Now()
	if err := g.Stop(); err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took < cfg.StopTimeout {
		t.Errorf("killed after %s, before the limit of %s", took, cfg.StopTimeout)
	}
	for _, pid := range pids {
		if running(pid) {
			t.Errorf("process %d is still running", pid)
		}
	}
}

// TestThirdSignal: Kill cuts the wait of a Stop short.
func TestThirdSignal(t *testing.T) {
	t.Parallel()
	var out buffer
	g := launch(t, testConfig(2, "ignore hang"), &out, discardLog())
	waitFor(t, &out, "ignoring", 2)
	stopped := make(chan error, 1)
	g.Terminate()
	go func() { stopped <- g.Stop() }()
	select {
	case err := <-stopped:
		t.Fatalf("stopped engines that ignore SIGTERM: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	g.Kill()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// TestHelpersOfACrashedEngine: what an engine leaves behind is told to go, and
// killed when it does not.
func TestHelpersOfACrashedEngine(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, helper string }{
		{"goes on SIGTERM", "child=hang"},
		{"ignores SIGTERM", "child=ignore,hang"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var out buffer
			cfg := testConfig(1, tt.helper+" serve hang")
			cfg.StopTimeout = 300 * time.Millisecond
			g := launch(t, cfg, &out, discardLog())
			if err := g.WaitReady(t.Context()); err != nil {
				t.Fatal(report(err))
			}
			pids := helpers(t, &out, 1)
			if strings.Contains(tt.helper, "ignore") {
				waitFor(t, &out, "ignoring", 1)
			}
			if err := syscall.Kill(g.Endpoints()[0].PID, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the helper is gone without a stop", func() bool { return !running(pids[0]) })
		})
	}
}

func testEnginesDie(t *testing.T) {
	t.Parallel()
	var logs buffer
	g := launch(t, testConfig(2, "say=serving_happily serve hang"), &buffer{}, slog.New(slog.NewTextHandler(&logs, nil)))
	if err := g.WaitReady(t.Context()); err != nil {
		t.Fatal(report(err))
	}
	done := make(chan error, 1)
	go func() { done <- g.Run(t.Context()) }()
	kill := func(rank int) {
		if err := syscall.Kill(g.Endpoints()[rank].PID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	kill(1)
	waitFor(t, &logs, "engine ended", 1)
	for _, want := range []string{"level=ERROR", "engine=1", `state="signal 9 (killed)"`, "serving happily"} {
		if !strings.Contains(logs.String(), want) {
			t.Errorf("log lacks %s: %s", want, logs.String())
		}
	}
	select {
	case err := <-done:
		t.Fatalf("ended with an engine left: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	kill(0)
	err := <-done
	if !errors.Is(err, ErrNoEngines) || !strings.Contains(report(err), "engine 0 was the last engine to end: signal 9") {
		t.Errorf("got %s", report(err))
	}
}

func TestRunEndsWithContext(t *testing.T) {
	t.Parallel()
	g := launch(t, testConfig(1, "serve hang"), &buffer{}, discardLog())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.Run(ctx); err != nil {
		t.Error(err)
	}
	if !running(g.Endpoints()[0].PID) {
		t.Error("watching has stopped the engine")
	}
}
