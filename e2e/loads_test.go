package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"smg/sim/simctl"
	"smg/sim/simhttp"
	"smg/sim/simtest"
)

const loadsQuery = "/v1/loads?include=core,disagg,queues,memory"

// recorded starts an engine that keeps the requests it gets and reports a load.
func recorded(t *testing.T, kind simhttp.Kind, loads simctl.LoadsOverride) *simtest.Engine {
	t.Helper()
	cfg := simtest.Config()
	cfg.Kind = kind
	e := simtest.Start(t, cfg)
	reports(t, e, loads)
	return e
}

// reports is what an engine says of its load from now on.
func reports(t *testing.T, e *simtest.Engine, loads simctl.LoadsOverride, rules ...simctl.Rule) {
	t.Helper()
	if err := e.SetFaults(t.Context(), simctl.Faults{Record: true, Loads: &loads, Rules: rules}); err != nil {
		t.Fatal(err)
	}
}

// got is how many requests for a path, as it was sent, an engine has got.
func got(t *testing.T, e *simtest.Engine, path string) int {
	t.Helper()
	all, err := e.Records(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, r := range all {
		if r.Path == path {
			n++
		}
	}
	return n
}

// engineGauges are the numbers of an engine's only rank, by the name of the metric.
func (g *gateway) engineGauges(e *simtest.Engine) map[string]float64 {
	g.t.Helper()
	all := map[string]float64{}
	for _, name := range []string{"running_requests", "waiting_requests", "token_usage", "gen_throughput", "cache_hit_rate"} {
		for labels, v := range gauges(g.t, g.metrics, "smg_engine_"+name) {
			if strings.Contains(labels, strconv.Quote(e.URL)) && strings.Contains(labels, `dp_rank="0"`) && strings.Contains(labels, `model="sim"`) {
				all[name] = v
			}
		}
	}
	return all
}

func TestGatewayLoads(t *testing.T) {
	topologies(t, map[string]func(t *testing.T, topology ...string){
		"51_52_57_engines_are_polled": enginesArePolled,
		"39_overload_sheds":           overloadSheds,
	})
	cases(t, map[string]func(t *testing.T){
		"55_nobody_needs_loads": nobodyNeedsLoads,
		"39_a_leg_sheds":        aLegSheds,
		"51_policies_see_loads": policiesSeeLoads,
	})
}

// policiesSeeLoads: what engines report decides, and what they do not report any more
// does not.
func policiesSeeLoads(t *testing.T) {
	deep, empty := simctl.LoadsOverride{Waiting: new(50)}, simctl.LoadsOverride{Waiting: new(0), WaitingUncachedTokens: new(0)}
	a, b := recorded(t, simhttp.SGLang, empty), recorded(t, simhttp.VLLM, deep)
	g := launched(t, []string{a.URL, b.URL}, "--policy", "least_load", "--disable-load-monitoring", "--load-monitor-interval", "1")
	only := func(e *simtest.Engine) func() bool {
		return func() bool {
			for range 8 {
				if askChat(t, g.url) != e.URL {
					return false
				}
			}
			return true
		}
	}
	await(t, "answers of the engine with the empty queue", only(a))
	endless := simctl.LoadsOverride{WaitingUncachedTokens: new(1 << 20)}
	reports(t, a, endless)
	reports(t, b, empty)
	await(t, "answers of the other one", only(b))
	// Without its report, the one with the long queue ties with the other.
	reports(t, a, endless, simctl.Rule{Match: simctl.Match{Path: "/v1/loads"}, Status: 500}, simctl.Rule{Match: simctl.Match{Path: "/metrics"}, Status: 500})
	await(t, "an answer of an engine that does not report", func() bool { return askChat(t, g.url) == a.URL })
	g.stop(0)
}

// enginesArePolled: each engine by the route that it has, and what it says is shown.
func enginesArePolled(t *testing.T, topology ...string) {
	load := simctl.LoadsOverride{
		Running: new(3), Waiting: new(7), WaitingUncachedTokens: new(900), TokenUsage: new(0.75), GenThroughput: new(123.5), CacheHitRate: new(0.25),
	}
	sglang, vllm := recorded(t, simhttp.SGLang, load), recorded(t, simhttp.VLLM, load)
	g := launched(t, []string{sglang.URL, vllm.URL}, append(topology, "--load-monitor-interval", "1", "--policy", "round_robin")...)
	await(t, "three polls of SGLang", func() bool { return got(t, sglang, loadsQuery) >= 3 })
	await(t, "three polls of vLLM", func() bool { return got(t, vllm, "/metrics") >= 3 })
	if n := got(t, vllm, loadsQuery); n != 1 {
		t.Errorf("vLLM was asked %d times for a route that it does not have, want once", n)
	}
	if n := got(t, sglang, "/metrics"); n != 0 {
		t.Errorf("SGLang was asked %d times for its metrics", n)
	}
	want := map[string]float64{"running_requests": 3, "waiting_requests": 7, "token_usage": 0.75, "gen_throughput": 123.5, "cache_hit_rate": 0.25}
	await(t, "SGLang's numbers", func() bool { return maps.Equal(g.engineGauges(sglang), want) })
	delete(want, "gen_throughput") // vLLM reports none
	await(t, "vLLM's numbers", func() bool { return maps.Equal(g.engineGauges(vllm), want) })

	g.remove(vllm.URL)
	removed := map[string]float64{"running_requests": -1, "waiting_requests": -1, "token_usage": -1, "cache_hit_rate": -1}
	await(t, "the numbers of an engine that is gone", func() bool { return maps.Equal(g.engineGauges(vllm), removed) })
	for _, name := range []string{"smg_worker_health", "smg_worker_cb_state"} {
		if v := gauges(t, g.metrics, name)[fmt.Sprintf("{worker=%q}", vllm.URL)]; v != -1 {
			t.Errorf("%s is %v, want -1", name, v)
		}
	}
	g.added(vllm.URL, "")
	await(t, "the other route to be tried again", func() bool { return got(t, vllm, loadsQuery) == 2 })
	await(t, "vLLM's numbers again", func() bool { return maps.Equal(g.engineGauges(vllm), want) })
	g.stop(0)
}

// overloadSheds: who reports too much gets nothing, by the fleet's limit or its own,
// until it reports less, or nothing.
func overloadSheds(t *testing.T, topology ...string) {
	idle, busy := simctl.LoadsOverride{Waiting: new(4)}, simctl.LoadsOverride{Waiting: new(5)}
	a, b := recorded(t, simhttp.SGLang, idle), recorded(t, simhttp.VLLM, idle)
	g := launched(t, []string{a.URL, b.URL}, append(topology, "--load-monitor-interval", "1", "--worker-overload-waiting-requests", "5",
		"--policy", "round_robin", "--disable-load-monitoring", "--disable-retries")...)
	only := func(e *simtest.Engine) {
		t.Helper()
		await(t, "answers of "+e.URL+" alone", func() bool {
			for range 4 {
				if a := do(t, http.MethodPost, g.url+"/v1/chat/completions", chat); a.header.Get("X-Smg-Routed-Worker-Id") != e.URL {
					return false
				}
			}
			return true
		})
	}
	vetoed := func() float64 { return gauges(t, g.metrics, "smg_workers_overloaded")[`{model="sim"}`] }
	reports(t, a, busy)
	only(b)
	if n := vetoed(); n != 1 {
		t.Errorf("%v workers are overloaded, want 1", n)
	}
	reports(t, b, busy)
	var refusal answer
	await(t, "a refusal", func() bool {
		refusal = do(t, http.MethodPost, g.url+"/v1/chat/completions", chat)
		return refusal.status != http.StatusOK
	})
	refusal.fails(t, http.StatusServiceUnavailable, "worker_overload_protection_shed")
	if after := refusal.header.Get("Retry-After"); after != "1" || !strings.Contains(refusal.body, "sim") {
		t.Errorf("Retry-After %q, %s", after, refusal.body)
	}
	if n := gauges(t, g.metrics, "smg_worker_overload_shed_total"); n[`{stage="selection"}`] != 1 || n[`{stage="dispatch"}`] != 0 {
		t.Errorf("%v sheds are counted, want 1 at the selection", n)
	}
	reports(t, a, idle)
	only(a)
	reports(t, a, busy)
	reports(t, b, busy, simctl.Rule{Match: simctl.Match{Path: "/metrics"}, Status: 500}) // fails open
	only(b)

	if err := a.SetFaults(t.Context(), simctl.Faults{Refuse: true}); err != nil {
		t.Fatal(err)
	}
	await(t, "the report of a dead engine to go", func() bool { return vetoed() == 0 })
	g.says("worker is overloaded and gets no requests")
	g.says("worker is not overloaded any more")
	g.stop(0)
}

// aLegSheds: in a disaggregated fleet the leg that is overloaded is named.
func aLegSheds(t *testing.T) {
	for _, leg := range []string{"prefill", "decode"} {
		pd := simtest.StartPD(t, 1, 1, simtest.Config())
		g := launchPD(t, pd, "--load-monitor-interval", "1", "--worker-overload-protection", "--disable-load-monitoring",
			"--prefill-policy", "round_robin", "--decode-policy", "round_robin")
		askChat(t, g.url)
		reports(t, map[string]*simtest.Engine{"prefill": pd.Prefill[0], "decode": pd.Decode[0]}[leg], simctl.LoadsOverride{TokenUsage: new(0.9)})
		var a answer
		await(t, "a refusal", func() bool {
			a = do(t, http.MethodPost, g.url+"/v1/chat/completions", chat)
			return a.status != http.StatusOK
		})
		a.fails(t, http.StatusServiceUnavailable, "worker_overload_protection_shed")
		if !strings.Contains(a.body, leg+" worker") {
			t.Errorf("%s does not name the %s leg", a.body, leg)
		}
		g.stop(0)
	}
}

// launchPD starts a gateway in front of engines with roles.
func launchPD(t *testing.T, pd *simtest.PD, args ...string) *gateway {
	t.Helper()
	all := slices.Concat([]string{"launch", "--host", "127.0.0.1", "--pd-disaggregation"}, gatewayArgs(t, ""), args)
	for _, e := range pd.Prefill {
		all = append(all, "--prefill", e.URL)
		if e.PeerPort != 0 {
			all = append(all, strconv.Itoa(e.PeerPort))
		}
	}
	for _, e := range pd.Decode {
		all = append(all, "--decode", e.URL)
	}
	g := &gateway{process: start(t, "smg", all...)}
	m := g.says(`^api +(http://\S+) +metrics +(http://\S+)`)
	g.url, g.metrics = m[1], m[2]
	g.says("^ready ")
	return g
}

// nobodyNeedsLoads: engines are left alone by a policy that reads no loads, unless
// something else does, or nobody has asked for it.
func nobodyNeedsLoads(t *testing.T) {
	const off = "--disable-load-monitoring"
	for _, c := range []struct {
		flags []string
		want  bool
	}{
		{[]string{"--policy", "round_robin", off}, false},
		{[]string{"--policy", "passthrough", off}, false},
		{[]string{"--policy", "passthrough"}, true},
		{[]string{"--policy", "least_load", off}, true},
		{[]string{"--policy", "round_robin", off, "--engine-metrics"}, true},
		{[]string{"--policy", "round_robin", off, "--worker-overload-waiting-requests", "5"}, true},
		{[]string{"--policy", "round_robin", off, "--worker-overload-protection"}, true},
	} {
		e := recorded(t, simhttp.SGLang, simctl.LoadsOverride{})
		g := launched(t, []string{e.URL}, append(c.flags, "--load-monitor-interval", "1", "--health-check-interval-secs", "1")...)
		await(t, "four health probes", func() bool { return got(t, e, "/health") >= 4 })
		if polled := got(t, e, loadsQuery)+got(t, e, "/metrics") > 0; polled != c.want {
			t.Errorf("%v: polled %v, want %v", c.flags, polled, c.want)
		}
		g.stop(0)
	}
}
