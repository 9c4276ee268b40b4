package e2e

import (
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestCLIServe(t *testing.T) {
	cases(t, map[string]func(t *testing.T){
		"49_one_engine":              oneReplica,
		"50_policy_is_overridden":    overriddenPolicy,
		"51_two_engines":             twoReplicas,
		"51_dp_is_the_engines":       dpIsTheEngines,
		"54_base_port_busy":          basePortBusy,
		"54_no_ports_left":           noPortsLeft,
		"72_gateway_port_busy":       gatewayPortBusy,
		"the_line_to_try_works":      lineToTry,
		"engine_flags_behind_dashes": flagsBehindDashes,
		"a_simulated_engine_alone":   simulatedAlone,
	})
}

func oneReplica(t *testing.T) {
	base := block(t, 4)
	args := append([]string{"serve", "--backend", "sim", "--model", "m", "--worker-base-port", strconv.Itoa(base)}, gatewayArgs(t, "router-")...)
	p := start(t, "smg", append(args, "--", "--time-scale", "0")...)
	p.says(`^smg \S+.* - starting 1 sim engine \(http\) for m$`)
	p.says("one worker: retries and circuit breaker are off")
	m := p.says(`^api +(http://127\.0\.0\.1:\d+) +policy passthrough \(one worker; --router-policy, retries and circuit breaker do not apply\)`)
	if _, port := p.engine(0); port != base {
		t.Errorf("the engine is on port %d, want %d", port, base)
	}
	a := do(t, http.MethodPost, m[1]+"/v1/chat/completions", strings.Replace(chat, `"sim"`, `"m"`, 1))
	if a.status != http.StatusOK {
		t.Errorf("status %d: %s", a.status, a.body)
	}
	metrics := p.says(`^metrics +(http://\S+)`)[1]
	want := `{connection_mode="http",model="m",policy="passthrough",worker_type="regular"}`
	if n := gauges(t, metrics, "smg_worker_selection_total")[want]; n != 1 {
		t.Errorf("%s is %v, want 1:\n%s", want, n, get(t, metrics))
	}
	p.stop(143)
}

func overriddenPolicy(t *testing.T) {
	g := serve(t, 1, "--router-policy", "round_robin", "--", "--time-scale", "0")
	g.says("policy passthrough, --router-policy round_robin does not apply")
	askChat(t, g.url)
	for labels := range gauges(t, g.metrics, "smg_worker_selection_total") {
		if !strings.Contains(labels, `policy="passthrough"`) {
			t.Errorf("selections of %s", labels)
		}
	}
	g.stop(143)

	p := start(t, "smg", serveArgs(t, 1, "--router-policy", "cache_aware")...)
	p.says("policy passthrough, --router-policy cache_aware does not apply")
	p.says("^ready ")
	p.stop(143)
}

func twoReplicas(t *testing.T) {
	args := append([]string{"serve", "--backend", "sim", "--dp-size", "2", "--worker-base-port", strconv.Itoa(block(t, 20))}, gatewayArgs(t, "router-")...)
	p := start(t, "smg", append(args, "--router-policy", "round_robin", "--", "--time-scale", "0")...)
	url := p.says(`^api +(http://\S+) +policy round_robin$`)[1]
	p.says(`^ready +2 of 2 workers`)
	p.silent("one worker")
	var by []string
	for range 6 {
		by = append(by, askChat(t, url))
	}
	if by[0] == by[1] || !slices.Equal(by[:2], by[2:4]) || !slices.Equal(by[:2], by[4:]) {
		t.Errorf("the requests went to %v", by)
	}
	p.stop(143)
}

func dpIsTheEngines(t *testing.T) {
	p := start(t, "smg", append(serveArgs(t, 1), "--dp", "2")...)
	p.ends(1)
	p.says("did you mean --dp-size")
	p.says("^error: engine 0 ended during start-up: exit code 2$")
	p.says("command: .*smg-sim .*--dp 2$")
	p.says("unknown flag --dp")
	p.says("hint: the engine does not know one of the flags")
}

func basePortBusy(t *testing.T) {
	base := block(t, 10)
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", base))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	g := serve(t, 2, "--worker-base-port", strconv.Itoa(base))
	want := []string{fmt.Sprintf("http://127.0.0.1:%d", base+1), fmt.Sprintf("http://127.0.0.1:%d", base+4)}
	if !slices.Equal(g.engines, want) {
		t.Errorf("engines at %v, want %v", g.engines, want)
	}
	g.stop(143)
}

func noPortsLeft(t *testing.T) {
	p := start(t, "smg", serveArgs(t, 10, "--worker-base-port", "65530")...)
	p.ends(1)
	p.says("^error: could not find 10 .*ports")
	p.says("--worker-base-port")
	p.silent("^engine 0")
}

func gatewayPortBusy(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	p := start(t, "smg", serveArgs(t, 2, "--port", taken)...)
	p.ends(1)
	p.says("^error: port " + taken + " of 127.0.0.1 is in use")
	p.silent("engine")
}

// lineToTry types what smg serve says to type.
func lineToTry(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("this machine has no curl")
	}
	g := serve(t, 2, "--model", "it's a model", "--", "--time-scale", "0")
	line := g.says("^try: +(curl .*)$")[1]
	out, err := exec.CommandContext(t.Context(), "sh", "-c", line).Output()
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	if text, err := textOf(out); err != nil || text == "" {
		t.Errorf("%s answered %q (%v)", line, out, err)
	}
	g.stop(143)
}

func flagsBehindDashes(t *testing.T) {
	p := start(t, "smg", serveArgs(t, 1, "--", "--no-such-flag", "2")...)
	p.ends(1)
	p.says("command: .*smg-sim .*--no-such-flag 2$")
	p.says(`^smg .* - starting 1 sim engine`)
}

func simulatedAlone(t *testing.T) {
	at := strconv.Itoa(port(t))
	p := start(t, "smg", "sim", "--port", at, "--time-scale", "0")
	p.says("^listening on http://127.0.0.1:" + at)
	if a := do(t, http.MethodPost, "http://127.0.0.1:"+at+"/v1/chat/completions", chat); a.status != http.StatusOK {
		t.Errorf("status %d: %s", a.status, a.body)
	}
	p.signal(syscall.SIGTERM)
	p.ends(0)
}
