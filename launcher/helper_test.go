//go:build linux

package launcher

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// patience is how long a test waits for what must happen; it only catches hangs.
const patience = 20 * time.Second

// nextBase hands every launch of this test process ports of its own.
var nextBase atomic.Int32

func discardLog() *slog.Logger { return slog.New(slog.DiscardHandler) }

// testConfig starts this test binary as an engine that behaves as told.
func testConfig(replicas int, behaviour string) Config {
	cfg := DefaultConfig()
	cfg.Backend = BackendLlamaCPP
	cfg.EngineBin = os.Args[0]
	cfg.Model = os.Args[0] // any file that exists
	cfg.Replicas = replicas
	cfg.BasePort = 18000 + os.Getpid()%100*20 + int(nextBase.Add(1))*20
	cfg.Environ = append(os.Environ(), fakeEnv+"="+behaviour)
	cfg.ProbeInterval = 20 * time.Millisecond
	cfg.StartupTimeout = patience
	cfg.StopTimeout = patience
	return cfg
}

// launch makes and starts a group that is stopped with the test.
func launch(t *testing.T, cfg Config, out io.Writer, log *slog.Logger) *Group {
	t.Helper()
	g, err := New(cfg, out, log)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		g.Kill()
		if err := g.Stop(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// eventually polls until cond holds.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", patience, what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// running says whether a process exists and is no zombie.
func running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	state, _, ok := parseStat(stat)
	return ok && state != 'Z' && state != 'X'
}

var helperLine = regexp.MustCompile(`helper (\d+)`)

// helpers waits until the engines have named n helper processes.
func helpers(t *testing.T, out *buffer, n int) []int {
	t.Helper()
	var pids []int
	eventually(t, "helpers are started", func() bool {
		pids = nil
		for _, m := range helperLine.FindAllStringSubmatch(out.String(), -1) {
			pid, err := strconv.Atoi(m[1])
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
		return len(pids) == n
	})
	return pids
}

// waitFor waits until out holds words n times.
func waitFor(t *testing.T, out *buffer, words string, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d times %q in the output", n, words), func() bool {
		return strings.Count(out.String(), words) >= n
	})
}

// report is an error as a person sees it.
func report(err error) string {
	le, ok := errors.AsType[*LaunchError](err)
	if !ok {
		return fmt.Sprint(err)
	}
	return strings.Join(append([]string{le.Error()}, append(le.Detail(), "hint: "+le.Hint())...), "\n")
}
