package e2e

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
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

	mu    sync.Mutex
	lines []string // of standard error
	out   bytes.Buffer
}

// start starts a program. It is killed at the test's end if it still runs then.
func start(t *testing.T, name string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(program(name), args...), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), "SMG_BIN_DIR=", "NO_COLOR=1")
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
		err := p.cmd.Wait()
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			p.code = exit.ExitCode()
			if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
				p.code = 128 + int(ws.Signal())
			}
		}
	}()
	t.Cleanup(func() {
		select {
		case <-p.done:
		default:
			p.signal(syscall.SIGKILL)
			<-p.done
		}
		if t.Failed() {
			t.Logf("%s %s said:\n%s", name, strings.Join(args, " "), p.stderr())
		}
		if strings.Contains(p.stderr(), "DATA RACE") || strings.Contains(p.stderr(), "panic:") {
			t.Errorf("%s has a race or a panic:\n%s", name, p.stderr())
		}
	})
	return p
}

func (p *process) stderr() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines, "\n")
}

func (p *process) signal(s syscall.Signal) {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Error(err)
	}
}

// says waits for a line that matches and returns its submatches.
func (p *process) says(pattern string) []string {
	p.t.Helper()
	re := regexp.MustCompile(pattern)
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		p.mu.Lock()
		for _, l := range p.lines {
			if m := re.FindStringSubmatch(l); m != nil {
				p.mu.Unlock()
				return m
			}
		}
		p.mu.Unlock()
		select {
		case <-p.done:
			p.t.Fatalf("it ended with %d and never said %q:\n%s", p.code, pattern, p.stderr())
		default:
		}
		if time.Now().After(end) {
			p.t.Fatalf("it never said %q:\n%s", pattern, p.stderr())
		}
	}
}

// ends waits for the program's end and returns its exit code.
func (p *process) ends() int {
	p.t.Helper()
	select {
	case <-p.done:
		return p.code
	case <-time.After(patience):
		p.t.Fatalf("it does not end:\n%s", p.stderr())
		return 0
	}
}

// stop ends the program as a user would, who does not wait: two signals.
func (p *process) stop() int {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	p.says("draining|stopping")
	p.signal(syscall.SIGTERM)
	return p.ends()
}

// port is a free port, free until somebody else takes it.
func port(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// gateway is a running smg with its engines.
type gateway struct {
	*process
	url     string
	metrics string
	engines []string
}

// basePorts keeps the engines of tests apart; each gateway takes a block.
var basePorts = struct {
	sync.Mutex
	next int
}{next: 33000}

func basePort() int {
	basePorts.Lock()
	defer basePorts.Unlock()
	basePorts.next += 100
	return basePorts.next
}

// serve starts smg serve with simulated engines and waits until all are ready.
// args follow the flags that every test needs.
func serve(t *testing.T, engines int, args ...string) *gateway {
	t.Helper()
	all := append([]string{
		"serve", "--backend", "sim", "--data-parallel-size", strconv.Itoa(engines),
		"--port", strconv.Itoa(port(t)), "--worker-base-port", strconv.Itoa(basePort()),
		"--router-prometheus-host", "127.0.0.1", "--router-prometheus-port", "0",
	}, args...)
	g := &gateway{process: start(t, "smg", all...)}
	g.says("^try: ")
	g.url = g.says(`^api +(http://\S+)`)[1]
	g.metrics = g.says(`^metrics +(http://\S+)`)[1]
	for i := range engines {
		g.engines = append(g.engines, "http://127.0.0.1:"+g.says(fmt.Sprintf(`^engine %d +pid \d+ +port (\d+)`, i))[1])
	}
	return g
}

// get is the body of a page.
func get(t *testing.T, url string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// gauges are the values of a metric, by its labels.
func gauges(t *testing.T, metrics, name string) map[string]float64 {
	t.Helper()
	values := map[string]float64{}
	for line := range strings.Lines(get(t, metrics)) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), name)
		if !ok || rest == "" || (rest[0] != '{' && rest[0] != ' ') {
			continue
		}
		i := strings.LastIndexByte(rest, ' ')
		v, err := strconv.ParseFloat(rest[i+1:], 64)
		if err != nil {
			t.Fatal(err)
		}
		values[rest[:i]] = v
	}
	return values
}

// await polls until ok, and fails the test if that does not happen.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for: %s", what)
		}
	}
}
