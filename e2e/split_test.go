package e2e

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"smg/sim/simtest"
)

// split is what puts the services of serve into child processes.
var split = []string{"--router-topology", "split"}

// pidsOf are the processes that a service has had, in order.
func (p *process) pidsOf(service string) (all []int) {
	p.t.Helper()
	re := regexp.MustCompile(`^` + service + `  pid (\d+)$`)
	for _, line := range p.said() {
		if m := re.FindStringSubmatch(line); m != nil {
			pid, err := strconv.Atoi(m[1])
			if err != nil {
				p.t.Fatal(err)
			}
			all = append(all, pid)
		}
	}
	return all
}

// pidOf is the running process of a service.
func (p *process) pidOf(service string) int {
	p.t.Helper()
	all := p.pidsOf(service)
	if len(all) == 0 {
		p.t.Fatalf("there was no %s", service)
	}
	return all[len(all)-1]
}

// kill sends a signal to the running process of a service.
func (p *process) kill(service string, sig syscall.Signal) {
	p.t.Helper()
	if err := syscall.Kill(p.pidOf(service), sig); err != nil {
		p.t.Fatal(err)
	}
}

// services are all processes of services until now.
func (p *process) services() []int {
	var all []int
	for _, name := range []string{"ingress", "selector regular", "selector encode", "selector prefill", "selector decode"} {
		all = append(all, p.pidsOf(name)...)
	}
	return all
}

func TestCLISplit(t *testing.T) {
	cases(t, map[string]func(t *testing.T){
		"48_selector_child_is_killed":       selectorKilled,
		"48_smg_is_killed":                  splitKilled,
		"48_stop_while_a_request_runs":      splitDrains,
		"second_signal":                     splitSecondSignal,
		"ingress_child_is_killed":           ingressKilled,
		"one_page_of_metrics":               onePage,
		"children_in_json":                  childrenInJSON,
		"api_port_taken":                    splitPortTaken,
		"secrets_are_in_no_line_or_command": secretsStayInside,
	})
}

func selectorKilled(t *testing.T) {
	const planTimeout = 2 * time.Second
	g := serveRoles(t, roles{prefill: 2, decode: 2}, append(split, "--router-plan-timeout-ms", strconv.FormatInt(planTimeout.Milliseconds(), 10), "--", "--time-scale", "0")...)
	askChat(t, g.url)
	const clients = 4
	l := startLoad(t, g.url, clients, planTimeout*3/4)
	l.more(t, 20)
	g.kill("selector prefill", syscall.SIGKILL)
	g.says(`level=ERROR msg="service ended" service="selector prefill" pid=\d+ state="signal 9 \(killed\)" next_start=100ms`)
	await(t, "an answer chosen without a selector", func() bool { return l.degraded.Load() > 0 })
	await(t, "another selector", func() bool { return len(g.pidsOf("selector prefill")) == 2 })
	l.healthy(t)
	l.stop()
	if n := l.slow.Load(); n > clients+2 {
		t.Errorf("%d requests waited for the selector, want those in flight and 2 others at most", n)
	}
	g.says(`workers are chosen without a selector" leg=prefill`)
	g.says(`a selector chooses workers again" leg=prefill`)
	if n := total(t, g.metrics, `smg_service_restarts_total`); n != 1 {
		t.Errorf("%v restarts, want 1", n)
	}
	if n := total(t, g.metrics, `smg_selection_degraded_total`); n < float64(l.degraded.Load()) {
		t.Errorf("%v degraded selections, but %d answers said so", n, l.degraded.Load())
	}
	g.stop(143)
	awaitGone(t, g.services()...)
}

func splitKilled(t *testing.T) {
	g := serve(t, 1, append(split, "--", "--time-scale", "0")...)
	openStream(t, g.url, 5)
	g.signal(syscall.SIGKILL)
	g.ends(137)
	if n := len(g.services()); n != 2 {
		t.Errorf("%d children, want 2", n)
	}
	awaitGone(t, append(g.services(), g.pids...)...)
}

func splitDrains(t *testing.T) {
	const tokens = 150
	g := serve(t, 2, append(split, "--router-shutdown-grace-period-secs", "60", "--", "--decode-step-ms", "10")...)
	s := openStream(t, g.url, tokens)
	g.signal(syscall.SIGTERM)
	g.says(`^\[ingress\] .*draining in_flight=1`)
	if a := do(t, http.MethodGet, g.url+"/readiness", ""); a.status != http.StatusServiceUnavailable {
		t.Errorf("readiness %d while draining", a.status)
	}
	if pieces, whole := s.rest(); !whole || pieces < tokens/2 {
		t.Errorf("%d pieces, whole: %v", pieces, whole)
	}
	g.ends(143)
	g.silent("level=(WARN|ERROR)|^error:")
	awaitGone(t, append(g.services(), g.pids...)...)
}

// splitSecondSignal would take three minutes if the signal changed nothing.
func splitSecondSignal(t *testing.T) {
	g, _ := endless(t, "--topology", "split")
	g.signal(syscall.SIGTERM)
	g.says("draining in_flight=1")
	g.again(syscall.SIGTERM)
	g.ends(0)
	g.says("cutting.* requests=1")
	g.silent("level=ERROR|^error:")
	awaitGone(t, g.services()...)
}

// ingressKilled loses what is in flight, but refuses nobody who comes then.
func ingressKilled(t *testing.T) {
	g := launched(t, urls(simtest.StartN(t, 2, simtest.Config())), "--topology", "split")
	askChat(t, g.url)
	g.kill("ingress", syscall.SIGKILL)
	g.says(`msg="service ended" service=ingress`)
	askChat(t, g.url) // answered only by one that knows the fleet
	if s := status(t, g.url+"/health"); s != http.StatusOK {
		t.Errorf("health %d", s)
	}
	await(t, "the new ingress to be ready", func() bool { return status(t, g.url+"/readiness") == http.StatusOK })
	g.signal(syscall.SIGTERM)
	g.says("draining")
	await(t, "new connections to be refused", func() bool { return refused(t, g.url+"/health") })
	g.ends(0)
}

// onePage holds the page of the split topology to what one process shows.
func onePage(t *testing.T) {
	engines := urls(simtest.StartN(t, 2, simtest.Config()))
	names := map[string]map[string]bool{}
	for _, topology := range []string{"single", "split"} {
		g := launched(t, engines, "--topology", topology, "--shutdown-grace-period-secs", "0")
		askChat(t, g.url)
		seen := map[string]bool{}
		await(t, "the selection to be counted", func() bool { return total(t, g.metrics, "smg_worker_selection_total") == 1 })
		await(t, "the first polls of loads", func() bool { return len(gauges(t, g.metrics, "smg_engine_running_requests")) == len(engines) })
		for line := range strings.Lines(get(t, g.metrics)) {
			if f := strings.Fields(line); len(f) == 4 && f[1] == "TYPE" && !strings.HasPrefix(f[2], "smg_service_") {
				seen[f[2]+" "+f[3]] = true
			}
		}
		names[topology] = seen
		if topology == "split" {
			for _, service := range []string{"ingress", "selector regular"} {
				if gauges(t, g.metrics, "smg_service_up")[fmt.Sprintf(`{service=%q}`, service)] != 1 {
					t.Errorf("%s is not up", service)
				}
				if gauges(t, g.metrics, "go_goroutines")[fmt.Sprintf(`{service=%q}`, service)] == 0 {
					t.Errorf("%s has no metrics of its process", service)
				}
			}
			g.kill("selector regular", syscall.SIGSTOP)
			await(t, "the page to do without a selector", func() bool {
				return gauges(t, g.metrics, "smg_service_up")[`{service="selector regular"}`] == 0
			})
			g.kill("selector regular", syscall.SIGCONT)
		}
		g.signal(syscall.SIGTERM)
		g.ends(0)
	}
	for name := range names["single"] {
		if !names["split"][name] {
			t.Errorf("the page of the split topology has no %s", name)
		}
	}
	for name := range names["split"] {
		if !names["single"][name] {
			t.Errorf("the page of one process has no %s", name)
		}
	}
}

func childrenInJSON(t *testing.T) {
	g := start(t, "smg", append([]string{"launch", "--host", "127.0.0.1", "--topology", "split", "--log-json", "--shutdown-grace-period-secs", "0"}, gatewayArgs(t, "")...)...)
	g.says(`"message":"connected to NATS".*selector`)
	g.signal(syscall.SIGTERM)
	g.ends(0)
	for _, line := range g.said() {
		if !strings.HasPrefix(line, "{") {
			t.Errorf("%q is no JSON", line)
		}
	}
}

func splitPortTaken(t *testing.T) {
	taken := oneEngine(t, "--shutdown-grace-period-secs", "0")
	_, at, _ := strings.Cut(strings.TrimPrefix(taken.url, "http://"), ":")
	p := start(t, "smg", "launch", "--topology", "split", "--host", "127.0.0.1", "--port", at, "--prometheus-host", "127.0.0.1", "--prometheus-port", "0")
	p.ends(1)
	p.says("^error: port " + at + " of 127.0.0.1 is in use")
	p.silent("pid \\d+$")
}

// secretsStayInside looks for the password of the built-in NATS server, which is in
// the children's environment, where others may look.
func secretsStayInside(t *testing.T) {
	g := launched(t, urls(simtest.StartN(t, 1, simtest.Config())), "--topology", "split", "--shutdown-grace-period-secs", "0", "--log-level", "debug")
	pid := g.pidOf("ingress")
	var secret string
	for v := range strings.SplitSeq(read(t, fmt.Sprintf("/proc/%d/environ", pid)), "\x00") {
		if rest, ok := strings.CutPrefix(v, "SMG_NATS_URL=nats://"); ok {
			credentials, _, _ := strings.Cut(rest, "@")
			_, secret, _ = strings.Cut(credentials, ":")
		}
	}
	if len(secret) < 16 {
		t.Fatalf("the password is %q", secret)
	}
	askChat(t, g.url)
	g.kill("selector regular", syscall.SIGKILL)
	await(t, "another selector", func() bool { return len(g.pidsOf("selector regular")) == 2 })
	g.signal(syscall.SIGTERM)
	for _, pid := range g.services() {
		if alive(pid) && strings.Contains(read(t, fmt.Sprintf("/proc/%d/cmdline", pid)), secret) {
			t.Error("a command line has the password")
		}
	}
	g.ends(0)
	if strings.Contains(g.stderr(), secret) {
		t.Error("a line has the password")
	}
}

// TestSameTextInSplitTopology is TestSameTextThroughLegs with a process for each
// service.
func TestSameTextInSplitTopology(t *testing.T) {
	for _, kind := range []string{"sglang", "vllm"} {
		engine := []string{"--", "--time-scale", "0", "--engine", kind}
		args := append(split, engine...)
		one := serve(t, 1, engine...)
		fleets := []struct {
			name  string
			start func() *gateway
		}{
			{"one worker", func() *gateway { return serve(t, 1, args...) }},
			{"four workers", func() *gateway { return serve(t, 4, args...) }},
			{"prefill and decode", func() *gateway { return serveRoles(t, roles{prefill: 2, decode: 2}, args...) }},
			{"encode, prefill and decode", func() *gateway { return serveRoles(t, roles{encode: 2, prefill: 2, decode: 2}, args...) }},
		}
		if kind == "sglang" {
			fleets = fleets[:3] // encoders are vLLM's
		}
		for _, f := range fleets {
			t.Run(kind+"/"+f.name, func(t *testing.T) {
				g := f.start()
				for _, q := range questions {
					want, err := ask(t.Context(), one.engines[0]+q.path, fmt.Sprintf(q.body, ""))
					if err != nil {
						t.Fatal(err)
					}
					for _, stream := range []string{"", `,"stream":true`} {
						got, err := ask(t.Context(), g.url+q.path, fmt.Sprintf(q.body, stream))
						if err != nil {
							t.Fatal(err)
						}
						if got != want {
							t.Errorf("%s, stream %q: got %q, want %q", q.name, stream, got, want)
						}
					}
				}
				g.silent("chosen without a selector")
				g.stop(143)
			})
		}
		one.stop(143)
	}
}

// TestSelectorStops is what a selector that is stopped does to requests: none fails,
// those in flight and two others at most wait for it, and another takes its place.
func TestSelectorStops(t *testing.T) {
	const planTimeout = 2 * time.Second
	g := serveRoles(t, roles{prefill: 2, decode: 2}, append(split, "--router-plan-timeout-ms", strconv.FormatInt(planTimeout.Milliseconds(), 10), "--", "--time-scale", "0")...)
	const clients = 4
	l := startLoad(t, g.url, clients, planTimeout*3/4)
	l.more(t, 20)
	g.kill("selector decode", syscall.SIGSTOP)
	await(t, "an answer chosen without a selector", func() bool { return l.degraded.Load() > 0 })
	g.says(`level=ERROR msg="service does not answer" service="selector decode"`)
	g.says(`level=ERROR msg="service ended" service="selector decode".*killed`)
	await(t, "another selector", func() bool { return len(g.pidsOf("selector decode")) == 2 })
	l.healthy(t)
	l.stop()
	if n := l.slow.Load(); n > clients+2 {
		t.Errorf("%d requests waited for the selector, want those in flight and 2 others at most", n)
	}
	t.Logf("%d answers, %d of them degraded, %d slow", l.answered.Load(), l.degraded.Load(), l.slow.Load())
	g.stop(143)
}
