package e2e

import (
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"smg/sim/simctl"
	"smg/sim/simtest"
)

// cases runs numbered cases of the specification, two at a time.
func cases(t *testing.T, all map[string]func(t *testing.T)) {
	t.Helper()
	for name, run := range all {
		t.Run(name, func(t *testing.T) {
			parallel(t)
			run(t)
		})
	}
}

// urls are the addresses of simulated engines.
func urls(engines []*simtest.Engine) (all []string) {
	for _, e := range engines {
		all = append(all, e.URL)
	}
	return all
}

// oneEngine is a gateway in front of an engine.
func oneEngine(t *testing.T, args ...string) *gateway {
	t.Helper()
	return launched(t, urls(simtest.StartN(t, 1, simtest.Config())), args...)
}

func TestCLILaunch(t *testing.T) {
	cases(t, map[string]func(t *testing.T){
		"40_free_metrics_port":               freeMetricsPort,
		"41_api_port_taken":                  apiPortTaken,
		"42_idle_stop":                       idleStop,
		"42_no_grace":                        noGrace,
		"43_streams_finish_while_it_drains":  streamsFinish,
		"44_endless_stream_is_cut":           endlessStream,
		"45_second_signal":                   secondSignal,
		"47_host_ipv6":                       func(t *testing.T) { listensOn(t, "::1", "http://[::1]:") },
		"47_host_name":                       func(t *testing.T) { listensOn(t, "localhost", "http://localhost:") },
		"stop_while_workers_are_waited_for":  stopWhileWaiting,
		"stop_during_a_worker_that_is_stuck": stopWhileStuck,
	})
}

// freeMetricsPort has the metrics where the log says that they are.
func freeMetricsPort(t *testing.T) {
	g := oneEngine(t, "--shutdown-grace-period-secs", "0")
	if _, port, err := net.SplitHostPort(strings.TrimSuffix(strings.TrimPrefix(g.metrics, "http://"), "/metrics")); err != nil || port == "0" {
		t.Errorf("the log names %q (%v)", g.metrics, err)
	}
	if a := do(t, http.MethodGet, g.metrics, ""); a.status != http.StatusOK || !strings.Contains(a.body, "smg_") {
		t.Errorf("%s: %d", g.metrics, a.status)
	}
}

func apiPortTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, taken, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, "smg", "launch", "--host", "127.0.0.1", "--port", taken, "--prometheus-host", "127.0.0.1", "--prometheus-port", "0")
	p.ends(1)
	p.says("^error: port " + taken + " of 127.0.0.1 is in use")
	p.says("^  --port " + taken + "$")
	if n := len(p.said()); n != 3 {
		t.Errorf("%d lines, want an error of three:\n%s", n, p.stderr())
	}
	if p.out.Len() > 0 {
		t.Errorf("standard output has %q", p.out.String())
	}
}

// idleStop would take three minutes if an idle gateway waited for the whole grace.
func idleStop(t *testing.T) {
	g := oneEngine(t, "--shutdown-grace-period-secs", "180")
	if s := status(t, g.url+"/readiness"); s != http.StatusOK {
		t.Fatalf("readiness %d before the signal", s)
	}
	g.signal(syscall.SIGTERM)
	g.says("draining")
	if a := do(t, http.MethodGet, g.url+"/readiness", ""); a.status != http.StatusServiceUnavailable || !strings.Contains(a.body, "draining") {
		t.Errorf("readiness %d %s", a.status, a.body)
	}
	for _, probe := range []string{"/health", "/liveness"} {
		if s := status(t, g.url+probe); s != http.StatusOK {
			t.Errorf("%s %d while draining", probe, s)
		}
	}
	g.ends(0)
	g.says("all requests have ended")
}

func noGrace(t *testing.T) {
	g := oneEngine(t, "--shutdown-grace-period-secs", "0")
	g.signal(syscall.SIGINT)
	g.ends(0)
	g.says("draining.*settle=0s")
	g.silent("level=(WARN|ERROR)")
}

// streamsFinish freezes an engine in mid-stream, so that the stream outlives the
// settle window whatever the machine's speed.
func streamsFinish(t *testing.T) {
	const tokens = 100
	engines := simtest.StartN(t, 2, simtest.Config())
	// In turn, so that the next request goes to the engine that is not frozen.
	g := launched(t, urls(engines), "--shutdown-grace-period-secs", "30", "--policy", "round_robin")
	rule := simctl.Rule{Match: simctl.Match{Contains: `"stream":true`}, Stream: &simctl.StreamFault{Gap: simctl.Duration(5e6)}}
	for _, e := range engines {
		if err := e.SetFaults(t.Context(), simctl.Faults{Rules: []simctl.Rule{rule}}); err != nil {
			t.Fatal(err)
		}
	}
	s := openStream(t, g.url, tokens)
	busy := engines[0]
	if s.resp.Header.Get("X-Smg-Routed-Worker-Id") == engines[1].URL {
		busy = engines[1]
	}
	if err := busy.SetFaults(t.Context(), simctl.Faults{Freeze: true}); err != nil {
		t.Fatal(err)
	}
	g.signal(syscall.SIGTERM)
	g.signal(syscall.SIGINT) // at once, as supervisors do: it is the same
	g.says("draining in_flight=1 settle=5s")
	if by := askChat(t, g.url); by == busy.URL {
		t.Errorf("the next request went to %s as well", by)
	}
	await(t, "new connections to be refused", func() bool { return refused(t, g.url+"/health") })
	if err := busy.SetFaults(t.Context(), simctl.Faults{}); err != nil {
		t.Fatal(err)
	}
	if pieces, whole := s.rest(); !whole || pieces < tokens/2 {
		t.Errorf("%d pieces, whole: %v", pieces, whole)
	}
	g.ends(0)
	g.silent("level=(WARN|ERROR)")
}

// endless lets an engine never finish its streams.
func endless(t *testing.T, args ...string) (*gateway, *events) {
	t.Helper()
	engines := simtest.StartN(t, 1, simtest.Config())
	stall := 3
	if err := engines[0].SetRules(t.Context(), simctl.Rule{Match: simctl.Match{Contains: `"stream":true`}, Stream: &simctl.StreamFault{StallAfter: &stall}}); err != nil {
		t.Fatal(err)
	}
	g := launched(t, urls(engines), args...)
	return g, openStream(t, g.url, 50)
}

func endlessStream(t *testing.T) {
	g, s := endless(t, "--shutdown-grace-period-secs", "2")
	g.signal(syscall.SIGTERM)
	g.says("draining in_flight=1 settle=1s")
	if pieces, whole := s.rest(); whole || pieces > 3 {
		t.Errorf("%d pieces, whole: %v", pieces, whole)
	}
	g.ends(0)
	g.says("level=WARN .*cutting.* requests=1")
	g.silent("level=ERROR")
}

// secondSignal would take three minutes if the signal changed nothing.
func secondSignal(t *testing.T) {
	g, _ := endless(t, "--shutdown-grace-period-secs", "180")
	g.signal(syscall.SIGTERM)
	g.says("draining")
	g.again(syscall.SIGINT)
	g.ends(0)
	g.says("level=WARN .*cutting.* requests=1")
	g.silent("level=ERROR")
}

func listensOn(t *testing.T, host, prefix string) {
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Skipf("this machine has no %s: %v", host, err)
	}
	l.Close()
	args := append([]string{"launch", "--host", host}, gatewayArgs(t, "")...)
	p := start(t, "smg", append(args, "--shutdown-grace-period-secs", "0")...)
	url := p.says(`^api +(http://\S+)`)[1]
	if !strings.HasPrefix(url, prefix) {
		t.Errorf("the API is said to be at %s", url)
	}
	if s := status(t, url+"/health"); s != http.StatusOK {
		t.Errorf("health %d", s)
	}
	p.signal(syscall.SIGTERM)
	p.ends(0)
}

func stopWhileWaiting(t *testing.T) {
	g := launch(t, []string{"http://127.0.0.1:1"}, "--shutdown-grace-period-secs", "0")
	g.says("worker is not answering")
	g.signal(syscall.SIGINT)
	g.ends(0)
	g.silent("level=ERROR")
}

// stopWhileStuck stops with a probe in flight that nobody answers.
func stopWhileStuck(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	g := launch(t, []string{"http://" + l.Addr().String()}, "--shutdown-grace-period-secs", "0", "--health-check-timeout-secs", "3600")
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	g.signal(syscall.SIGTERM)
	g.ends(0)
	g.silent("level=ERROR")
}
