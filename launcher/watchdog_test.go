//go:build linux

package launcher

import (
	"bufio"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// testLauncherKilled kills a launcher process hard and looks for what it leaves behind:
// engines, helpers that nobody but their group knows, and the watchdog.
func testLauncherKilled(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, behaviour string
		processes       int
	}{
		{"engines", "serve hang", 4},
		{"engines with helpers", "child=hang serve hang", 6},
		{"deaf engines with deaf helpers", "child=ignore,hang ignore serve hang", 6},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var said buffer
			mark := fmt.Sprintf("LAUNCHER_MARK=%d-%s", os.Getpid(), strings.ReplaceAll(tt.name, " ", "-"))
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), launcherEnv+"="+tt.behaviour, mark, fmt.Sprintf("%s=%d", launcherPortEnv, testConfig(2, "").BasePort))
			cmd.Stderr = &said
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(stdout)
			for up := false; !up && lines.Scan(); {
				up = lines.Text() == "up"
			}
			if n := len(marked(t, mark)); n != tt.processes {
				t.Errorf("%d processes before the end, want %d:\n%s", n, tt.processes, said.String())
			}
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // killed
			eventually(t, "everything is gone", func() bool { return len(marked(t, mark)) == 0 })
		})
	}
}

// marked are the processes whose environment has that entry. Those that nobody has
// reaped have none.
func marked(t *testing.T, entry string) (pids []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range all {
		env, err := os.ReadFile(name)
		if err == nil && slices.Contains(strings.Split(string(env), "\x00"), entry) {
			pids = append(pids, filepath.Base(filepath.Dir(name)))
		}
	}
	return pids
}

// watched is a launch with a watchdog.
func watched(t *testing.T, behaviour string, logs *buffer) *Group {
	t.Helper()
	cfg := testConfig(1, behaviour)
	cfg.Watchdog = []string{os.Args[0], watchArg}
	g := launch(t, cfg, &buffer{}, slog.New(slog.NewTextHandler(logs, nil)))
	if err := g.WaitReady(t.Context()); err != nil {
		t.Fatal(report(err))
	}
	return g
}

func (w *watchdog) pid() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cmd.Process.Pid
}

// TestWatchdogLeaves: an orderly stop ends the watchdog, and it does nothing.
func TestWatchdogLeaves(t *testing.T) {
	t.Parallel()
	var logs buffer
	g := watched(t, "serve hang", &logs)
	pid := g.dog.pid()
	if group, err := syscall.Getpgid(pid); err != nil || group != pid {
		t.Errorf("the watchdog is in group %d (%v), which a signal may be meant for", group, err)
	}
	if err := g.Stop(); err != nil {
		t.Error(err)
	}
	if running(pid) {
		t.Error("the watchdog is still there")
	}
	if logs.String() != "" {
		t.Errorf("logs: %s", logs.String())
	}
}

// TestWatchdogIsKilled: another takes its place, once, and the engines run on.
func TestWatchdogIsKilled(t *testing.T) {
	t.Parallel()
	var logs buffer
	g := watched(t, "serve hang", &logs)
	first := g.dog.pid()
	kill := func(pid int) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	kill(first)
	waitFor(t, &logs, "the watchdog of the engines has ended", 1)
	eventually(t, "another watchdog", func() bool { return g.dog.pid() != first })
	kill(g.dog.pid())
	waitFor(t, &logs, "another=false", 1)
	if err := syscall.Kill(g.Endpoints()[0].PID, 0); err != nil {
		t.Errorf("the engine: %v", err)
	}
	if err := g.Stop(); err != nil {
		t.Error(err)
	}
	if n := strings.Count(logs.String(), "level=WARN"); n != 2 {
		t.Errorf("%d warnings, want 2: %s", n, logs.String())
	}
}

// TestWatchdogMissing: engines start without one, and the log tells.
func TestWatchdogMissing(t *testing.T) {
	t.Parallel()
	var logs buffer
	cfg := testConfig(1, "serve hang")
	cfg.Watchdog = []string{filepath.Join(t.TempDir(), "none")}
	g := launch(t, cfg, &buffer{}, slog.New(slog.NewTextHandler(&logs, nil)))
	if err := g.WaitReady(t.Context()); err != nil {
		t.Fatal(report(err))
	}
	if !strings.Contains(logs.String(), "there is no watchdog") {
		t.Errorf("logs: %s", logs.String())
	}
	if err := g.Stop(); err != nil {
		t.Error(err)
	}
}

// TestWatchdogForgets: a group that is empty is not signalled, since its number may
// belong to others.
func TestWatchdogForgets(t *testing.T) {
	t.Parallel()
	var logs buffer
	g := watched(t, "serve hang", &logs)
	if err := syscall.Kill(g.Endpoints()[0].PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the group is forgotten", func() bool {
		g.dog.mu.Lock()
		defer g.dog.mu.Unlock()
		return len(g.dog.groups) == 0
	})
}

func TestOrphaned(t *testing.T) {
	tests := []struct {
		name, said string
		want       []int
	}{
		{"nothing", "", nil},
		{"killed", "+12\n+13\n", []int{12, 13}},
		{"one has ended", "+12\n+13\n-12\n", []int{13}},
		{"told twice", "+12\n+12\n", []int{12}},
		{"farewell", "+12\n.\n", nil},
		{"cut", "+12\n+1", []int{12}},
		{"cut farewell", "+12\n.", []int{12}},
		{"everybody", "+1\n-1\n+0\n0\n+12\n", []int{12}},
		{"no numbers", "\n+\n-\n+x\n+99999999999999999999\n+12\n", []int{12}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, orphaned(strings.NewReader(tt.said)), cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// FuzzOrphaned: whatever comes, no number means more than one group.
func FuzzOrphaned(f *testing.F) {
	for _, seed := range []string{"", "+12\n-12\n.\n", "+1\n", "-1\n+00012\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, said string) {
		for _, g := range orphaned(strings.NewReader(said)) {
			if g <= 1 {
				t.Errorf("%q leaves group %d", said, g)
			}
		}
	})
}

// TestEndGroups: a group that goes by itself is waited for, one that does not is killed.
func TestEndGroups(t *testing.T) {
	t.Parallel()
	begin := func(behaviour string) (group int, ended <-chan error) {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), fakeEnv+"="+behaviour)
		cmd.SysProcAttr = detachedAttr()
		out := &buffer{}
		cmd.Stdout = out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1) // holds the end
		go func() { done <- cmd.Wait() }()
		waitFor(t, out, "\n", 1)
		return cmd.Process.Pid, done
	}
	willing, first := begin("say=up hang")
	deaf, second := begin("ignore hang")
	start := time.Now()
	const limit = 300 * time.Millisecond
	endGroups([]int{willing, deaf, 1 << 22}, limit, patience) // the last is no process's number
	if took := time.Since(start); took < limit {
		t.Errorf("it took %s: the deaf one was not given its time", took)
	}
	for want, done := range map[string]<-chan error{"signal: terminated": first, "signal: killed": second} {
		if err := <-done; fmt.Sprint(err) != want {
			t.Errorf("ended with %v, want %s", err, want)
		}
	}
}
