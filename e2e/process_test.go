package e2e

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long the tests wait for what must come; it only catches hangs.
const patience = 60 * time.Second

// process is a program under test.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	code int
	out  bytes.Buffer // standard output, to be read when it has ended

	mu    sync.Mutex
	lines []string // of standard error
}

// start starts a program. It is killed at the test's end if it still runs then.
func start(t *testing.T, name string, args ...string) *process {
	t.Helper()
	return startWith(t, []string{"NO_COLOR=1"}, name, args...)
}

// startWith is start with more variables than those of a plain environment.
func startWith(t *testing.T, env []string, name string, args ...string) *process {
	t.Helper()
	return startCommand(t, env, exec.Command(program(name), args...))
}

// startCommand is startWith for a command line that is not a program's alone.
func startCommand(t *testing.T, env []string, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, done: make(chan struct{})}
	// The race detector would let each process wait for a second when it ends.
	p.cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "SMG_") || strings.HasPrefix(v, "NO_COLOR=")
	}), append(env, "GORACE=atexit_sleep_ms=0")...)
	if len(cmd.Args) > 1 && cmd.Args[1] == "launch" {
		p.cmd.Env = append(p.cmd.Env, "SMG_FLAG_DRAIN_SETTLE_SECS=0") // for tests that remove workers and do not say how
	}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stdout = &p.out
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		sc := bufio.NewScanner(stderr)
		sc.Buffer(nil, 1<<20)
		for sc.Scan() {
			p.mu.Lock()
			p.lines = append(p.lines, sc.Text())
			p.mu.Unlock()
		}
		p.code = exitCode(p.cmd.Wait())
	}()
	t.Cleanup(func() {
		select {
		case <-p.done:
		default:
			p.signal(syscall.SIGKILL)
			<-p.done
		}
		if t.Failed() {
			t.Logf("%s said:\n%s", strings.Join(cmd.Args, " "), p.stderr())
		}
		if strings.Contains(p.stderr(), "DATA RACE") || strings.Contains(p.stderr(), "panic:") {
			t.Errorf("%s has a race or a panic:\n%s", cmd.Path, p.stderr())
		}
	})
	return p
}

// exitCode is a shell's: of a process that a signal has ended, too.
func exitCode(err error) int {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return 0
	}
	if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return exit.ExitCode()
}

// said are the lines of standard error until now.
func (p *process) said() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.lines)
}

func (p *process) stderr() string { return strings.Join(p.said(), "\n") }

func (p *process) signal(s syscall.Signal) {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Error(err)
	}
}

// again sends another signal to a program that has been seen to act on the one before: one
// that comes at once would not count.
func (p *process) again(s syscall.Signal) {
	select {
	case <-p.done:
	case <-time.After(550 * time.Millisecond):
		p.signal(s)
	}
}

// find returns the submatches of the first line that matches, or nil.
func (p *process) find(re *regexp.Regexp) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.lines {
		if m := re.FindStringSubmatch(l); m != nil {
			return m
		}
	}
	return nil
}

// says waits for a line that matches and returns its submatches.
func (p *process) says(pattern string) []string {
	p.t.Helper()
	re := regexp.MustCompile(pattern)
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		ended := false
		select {
		case <-p.done:
			ended = true
		default:
		}
		if m := p.find(re); m != nil {
			return m
		}
		if ended {
			p.t.Fatalf("it ended with %d and never said %q", p.code, pattern)
		}
		if time.Now().After(end) {
			p.t.Fatalf("it never said %q", pattern)
		}
	}
}

// silent fails the test if a line matches.
func (p *process) silent(pattern string) {
	p.t.Helper()
	if m := p.find(regexp.MustCompile(pattern)); m != nil {
		p.t.Errorf("it said %q", m[0])
	}
}

// ends waits for the program's end and wants that exit code.
func (p *process) ends(want int) {
	p.t.Helper()
	select {
	case <-p.done:
		if p.code != want {
			p.t.Errorf("exit code %d, want %d", p.code, want)
		}
	case <-time.After(patience):
		p.t.Fatal("it does not end")
	}
}

// stop ends the program as a user would, who does not wait: two signals.
func (p *process) stop(want int) {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	p.says("draining")
	p.again(syscall.SIGTERM)
	p.ends(want)
}
