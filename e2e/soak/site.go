package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"smg/sim/simctl"
)

// patience is how long a site may take to start, and to come to rest.
const patience = time.Minute

// site is a gateway and its engines.
type site struct {
	o            *options
	url, metrics string
	engines      []string
	gateway      *exec.Cmd
	all          []*exec.Cmd
	client       *http.Client

	mu     sync.Mutex
	output bytes.Buffer // of all programs
}

func newSite(o *options) *site {
	return &site{o: o, client: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}}
}

// Write adds to what the programs have said.
func (s *site) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.output.Len() > 1<<20 {
		s.output.Reset()
	}
	return s.output.Write(b)
}

func (s *site) said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.output.String()
}

// run starts a program.
func (s *site) run(name string, args ...string) (*exec.Cmd, error) {
	cmd := exec.Command(filepath.Join(s.o.bin, name), args...)
	cmd.Stdout, cmd.Stderr = s, s
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "SMG_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "NO_COLOR=1")
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w; make build makes the programs", name, err)
	}
	s.all = append(s.all, cmd)
	return cmd, nil
}

// freePort is a port that was free a moment ago.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("looking for a free port: %w", err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port), nil
}

// start starts everything and waits until requests are answered.
func (s *site) start(ctx context.Context) error {
	var ports [8]string
	for i := range ports {
		p, err := freePort()
		if err != nil {
			return err
		}
		ports[i] = p
	}
	s.url, s.metrics = "http://127.0.0.1:"+ports[0], "http://127.0.0.1:"+ports[1]+"/metrics"
	args := []string{
		"launch", "--host", "127.0.0.1", "--port", ports[0], "--prometheus-host", "127.0.0.1", "--prometheus-port", ports[1],
		"--topology", s.o.topology, "--policy", "round_robin", "--disable-retries", "--disable-circuit-breaker", "--shutdown-grace-period-secs", "0",
	}
	engine := func(at string, more ...string) error {
		s.engines = append(s.engines, "http://127.0.0.1:"+at)
		_, err := s.run("smg-sim", append([]string{"--port", at, "--time-scale", "0.05"}, more...)...)
		return err
	}
	var err error
	if s.o.mode == "legs" {
		err = errors.Join(
			engine(ports[2], "--disaggregation-mode", "prefill", "--disaggregation-bootstrap-port", ports[6]),
			engine(ports[3], "--disaggregation-mode", "decode"), engine(ports[4], "--disaggregation-mode", "decode"))
		args = append(args, "--pd-disaggregation", "--prefill", s.engines[0], ports[6], "--decode", s.engines[1], "--decode", s.engines[2])
	} else {
		err = errors.Join(engine(ports[2]), engine(ports[3]))
		args = append(append(args, "--worker-urls"), s.engines...)
	}
	if err != nil {
		return err
	}
	if s.gateway, err = s.run("smg", args...); err != nil {
		return err
	}
	if err := s.until(ctx, "the gateway to be ready", func() error { return s.ok(s.url + "/readiness") }); err != nil {
		return err
	}
	for _, e := range s.engines {
		if s.o.mode == "legs" && e == s.engines[0] {
			continue // prefill: it would be another outcome
		}
		if err := simctl.NewClient(e, s.client).SetFaults(ctx, simctl.Faults{Rules: rules()}); err != nil {
			return err
		}
	}
	return nil
}

// rules have an engine do what the words of faults say.
func rules() []simctl.Rule {
	two := 2
	when := func(word string) simctl.Match { return simctl.Match{Contains: word} }
	return []simctl.Rule{
		{Match: when("please-500"), Status: http.StatusInternalServerError},
		{Match: when("please-drop"), Drop: true},
		{Match: when("please-cut"), CutBody: &two, Stream: &simctl.StreamFault{CutAfter: &two}},
		{Match: when("please-fail"), CutBody: &two, Stream: &simctl.StreamFault{FailAfter: &two}},
	}
}

func (s *site) ok(url string) error {
	resp, err := s.client.Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: status %d", url, resp.StatusCode)
	}
	return nil
}

// until tries until there is no error.
func (s *site) until(ctx context.Context, what string, try func() error) error {
	for end := time.Now().Add(patience); ; {
		err := try()
		if err == nil {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("waited %v for %s: %w", patience, what, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// close ends all programs.
func (s *site) close() {
	for _, p := range slices.Backward(s.all) {
		_ = p.Process.Signal(syscall.SIGTERM)
		kill := time.AfterFunc(20*time.Second, func() { _ = p.Process.Kill() })
		_ = p.Wait()
		kill.Stop()
	}
}
