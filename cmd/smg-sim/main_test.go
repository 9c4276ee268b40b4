package main

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
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"smg/sim/simctl"
)

// patience bounds every wait; it only catches hangs.
const patience = 30 * time.Second

// build makes the real binary once per test that needs it.
func build(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "smg-sim")
	if out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return bin
}

// process is a running smg-sim.
type process struct {
	cmd    *exec.Cmd
	stdout bytes.Buffer
	stderr *bufio.Reader
	ready  string // the line
}

func launch(t *testing.T, bin string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(bin, args...)}
	p.cmd.Stdout = &p.stdout
	pipe, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stderr = bufio.NewReader(pipe)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// Fails if the test has waited for it already.
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	timer := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() })
	defer timer.Stop()
	if p.ready, err = p.stderr.ReadString('\n'); err != nil {
		t.Fatalf("no ready line: %q, %v", p.ready, err)
	}
	return p
}

// end sends sig and returns the error of the process.
func (p *process) end(t *testing.T, sig os.Signal) error {
	t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() })
	defer timer.Stop()
	rest, _ := io.ReadAll(p.stderr)
	if len(rest) > 0 {
		t.Errorf("standard error: %s", rest)
	}
	return p.cmd.Wait()
}

func addresses(ready string) []string {
	var out []string
	for _, m := range regexp.MustCompile(`http://(\S+:\d+)`).FindAllStringSubmatch(ready, -1) {
		out = append(out, m[1])
	}
	return out
}

func get(t *testing.T, url string) (int, string) {
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
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}

func TestStartAndStop(t *testing.T) {
	bin := build(t)
	for _, sig := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		t.Run(sig.String(), func(t *testing.T) {
			p := launch(t, bin, "--port", "0", "--engines", "3", "--control-port", "0", "--engine", "vllm", "--model", "m")
			addrs := addresses(p.ready)
			if !strings.HasPrefix(p.ready, "listening on ") || len(addrs) != 3 {
				t.Fatalf("ready line %q", p.ready)
			}
			if status, body := get(t, "http://"+addrs[0]+"/v1/models"); status != 200 || !strings.Contains(body, `"id":"m"`) {
				t.Errorf("%d %s", status, body)
			}
			ctl := simctl.NewClient("http://"+addrs[2], nil)
			engines, err := ctl.Engines(t.Context())
			if err != nil || len(engines) != 3 || engines[0].Addr != addrs[0] || engines[2].Addr != addrs[1] {
				t.Errorf("engines %+v, %v", engines, err)
			}
			// A request that would take very long does not delay the stop.
			if err := ctl.Engine(0).SetFaults(t.Context(), simctl.Faults{Window: new(int)}); err != nil {
				t.Fatal(err)
			}
			answered := make(chan error, 1)
			go func() {
				resp, err := http.Post("http://"+addrs[0]+"/v1/completions", "application/json", strings.NewReader(`{"prompt":"x"}`))
				if err == nil {
					resp.Body.Close()
				}
				answered <- err
			}()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if _, err := ctl.Engine(0).WaitLedger(ctx, func(l simctl.Ledger) bool { return l.Waiting == 1 }); err != nil {
				t.Fatal(err)
			}
			if err := p.end(t, sig); err != nil {
				t.Errorf("exit: %v", err)
			}
			if err := <-answered; err == nil {
				t.Error("the waiting request was answered")
			}
			if p.stdout.Len() > 0 {
				t.Errorf("standard output: %s", &p.stdout)
			}
		})
	}
}

// TestPrefillAndDecode runs the commands of the manual.
func TestPrefillAndDecode(t *testing.T) {
	bin := build(t)
	p := launch(t, bin, "--port", "0", "--disaggregation-mode", "prefill", "--disaggregation-bootstrap-port", "0")
	d := launch(t, bin, "--port", "0", "--disaggregation-mode", "decode")
	_, where, ok := strings.Cut(strings.TrimSpace(p.ready), ", for other engines on ")
	host, port, err := net.SplitHostPort(where)
	if !ok || err != nil || strings.Contains(d.ready, "other engines") {
		t.Fatalf("ready lines %q, %q: %v", p.ready, d.ready, err)
	}
	body := fmt.Sprintf(`{"messages":[{"role":"user","content":"Hello"}],"bootstrap_host":%q,"bootstrap_port":%s,"bootstrap_room":42}`, host, port)
	statuses := make(chan string, 2)
	for _, leg := range []*process{p, d} {
		go func() {
			resp, err := http.Post("http://"+addresses(leg.ready)[0]+"/v1/chat/completions", "application/json", strings.NewReader(body))
			if err != nil {
				statuses <- err.Error()
				return
			}
			resp.Body.Close()
			statuses <- resp.Status
		}()
	}
	for range 2 {
		if got := <-statuses; got != "200 OK" {
			t.Error(got)
		}
	}
	for _, leg := range []*process{p, d} {
		if err := leg.end(t, syscall.SIGTERM); err != nil {
			t.Errorf("exit: %v", err)
		}
	}
}

func TestInstant(t *testing.T) {
	p := launch(t, build(t), "--instant", "--listen", "127.0.0.1:0,127.0.0.2:0", "--listen", "127.0.0.3:0")
	addrs := addresses(p.ready)
	if len(addrs) != 2 || !strings.Contains(p.ready, "and 2 more") || !strings.HasPrefix(addrs[1], "127.0.0.3:") {
		t.Fatalf("ready line %q", p.ready)
	}
	resp, err := http.Post("http://"+addrs[1]+"/generate", "application/json", strings.NewReader(`{"text":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Errorf("status %d", resp.StatusCode)
	}
	if err := p.end(t, syscall.SIGTERM); err != nil {
		t.Errorf("exit: %v", err)
	}
}

func TestRefusals(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	port := fmt.Sprint(busy.Addr().(*net.TCPAddr).Port)
	tests := []struct {
		name  string
		args  []string
		code  int
		wants []string
	}{
		{"unknown flag", []string{"--prot", "1"}, 2, []string{"unknown flag --prot"}},
		{"not a number", []string{"--port", "http"}, 2, []string{"--port", "http"}},
		{"no value", []string{"--model"}, 2, []string{"--model needs a value"}},
		{"several bad values", []string{"--engine", "trt", "--kv-blocks", "0", "--time-scale", "-1"}, 2, []string{"--engine", "--kv-blocks", "--time-scale"}},
		{"stray argument", []string{"serve"}, 2, []string{"serve"}},
		{"port too high", []string{"--port", "65535", "--engines", "2"}, 2, []string{"--port", "--engines"}},
		{"listen and port", []string{"--listen", "127.0.0.1:1", "--port", "5"}, 2, []string{"--listen", "--port"}},
		{"instant values", []string{"--instant", "--instant-tokens", "0", "--control-port", "0"}, 2, []string{"--instant-tokens", "--control-port"}},
		{"log level", []string{"--log-level", "loud"}, 2, []string{"--log-level", "loud"}},
		{"busy port", []string{"--port", port}, 1, []string{"127.0.0.1:" + port, "already in use"}},
		{"busy bootstrap port", []string{"--port", "0", "--disaggregation-mode", "prefill", "--disaggregation-bootstrap-port", port}, 1, []string{"already in use", "--disaggregation-bootstrap-port"}},
		{"busy control port", []string{"--port", "0", "--control-port", port}, 1, []string{"already in use", "--control-port"}},
	}
	bin := build(t)
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			cmd := exec.CommandContext(ctx, bin, tc.args...)
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			err := cmd.Run()
			exit, ok := errors.AsType[*exec.ExitError](err)
			if !ok || exit.ExitCode() != tc.code {
				t.Errorf("exit %v, want %d", err, tc.code)
			}
			for _, want := range tc.wants {
				if !strings.Contains(stderr.String(), want) {
					t.Errorf("standard error %q does not mention %q", &stderr, want)
				}
			}
			if stdout.Len() > 0 || strings.Contains(stderr.String(), "USAGE") {
				t.Errorf("more than an error: %q, %q", &stdout, &stderr)
			}
		})
	}
}

func TestHelp(t *testing.T) {
	out, err := exec.Command(build(t), "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"--time-scale", "--kv-blocks", "docs/sim.md"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("help does not mention %s", want)
		}
	}
}
