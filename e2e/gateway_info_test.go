package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"smg/sim/simctl"
	"smg/sim/simhttp"
	"smg/sim/simtest"
)

func TestGatewayInfo(t *testing.T) {
	topologies(t, map[string]func(t *testing.T, topology ...string){
		"13_loads":         loadsShown,
		"12_14_15_fan_out": fannedOut,
	})
}

func TestCLIHealthPort(t *testing.T) {
	topologies(t, map[string]func(t *testing.T, topology ...string){
		"46_health_check_port": healthPort,
	})
}

// healthPort: probes are answered on a port of their own, as long as the process is, and
// nothing else is.
func healthPort(t *testing.T, topology ...string) {
	at := port(t)
	url := fmt.Sprintf("http://127.0.0.1:%d", at)
	e := simtest.StartN(t, 1, simtest.Config())[0]
	g := launched(t, []string{e.URL}, append(topology, "--health-check-port", strconv.Itoa(at), "--cors-allowed-origins", "https://a.example", "--shutdown-grace-period-secs", "60")...)
	for path, want := range map[string]int{"/health": 200, "/liveness": 200, "/readiness": 200, "/v1/models": 404, "/metrics": 404, "/workers": 404} {
		if code := status(t, url+path); code != want {
			t.Errorf("%s: %d, want %d", path, code, want)
		}
	}
	// The other flag of this package has got as far as the API, too.
	if h := do(t, http.MethodGet, g.url+"/health", "", "Origin", "https://a.example").header; h.Get("Access-Control-Allow-Origin") != "https://a.example" {
		t.Errorf("headers %v", h)
	}
	g.signal(syscall.SIGTERM)
	await(t, "the drain to be told", func() bool {
		r := do(t, http.MethodGet, url+"/readiness", "")
		return r.status == http.StatusServiceUnavailable && strings.Contains(r.body, "draining")
	})
	if code := status(t, url+"/health"); code != http.StatusOK {
		t.Errorf("while it drains: %d", code)
	}
	g.again(syscall.SIGTERM)
	g.ends(0)
}

// shownLoads is GET /loads.
type shownLoads struct {
	Ranks int `json:"dp_rank_count"`
	Loads []struct {
		Worker  string  `json:"worker"`
		Running float64 `json:"num_running_reqs"`
	} `json:"loads"`
	Aggregate *struct {
		Running    float64 `json:"total_running_reqs"`
		Waiting    float64 `json:"total_waiting_reqs"`
		Usage      float64 `json:"avg_token_usage"`
		Throughput float64 `json:"avg_throughput"`
	} `json:"aggregate"`
}

func (g *gateway) loads() (l shownLoads) {
	g.t.Helper()
	if err := json.Unmarshal([]byte(get(g.t, g.url+"/loads")), &l); err != nil {
		g.t.Fatal(err)
	}
	return l
}

// loadsShown: nobody reports, both do, one does.
func loadsShown(t *testing.T, topology ...string) {
	silent := []simctl.Rule{{Match: simctl.Match{Path: "/v1/loads"}, Status: 500}, {Match: simctl.Match{Path: "/metrics"}, Status: 500}}
	first := simctl.LoadsOverride{Running: new(3), Waiting: new(7), TokenUsage: new(0.75), GenThroughput: new(100.0)}
	second := simctl.LoadsOverride{Running: new(2), Waiting: new(0), TokenUsage: new(0.25), GenThroughput: new(300.0)}
	a, b := recorded(t, simhttp.SGLang, first), recorded(t, simhttp.SGLang, second)
	reports(t, a, first, silent...)
	reports(t, b, second, silent...)
	g := launched(t, []string{a.URL, b.URL}, append(topology, "--load-monitor-interval", "1", "--policy", "round_robin")...)
	await(t, "polls that fail", func() bool { return got(t, a, loadsQuery) > 0 && got(t, b, loadsQuery) > 0 })
	if l := g.loads(); l.Loads == nil || len(l.Loads) != 0 || l.Aggregate != nil {
		t.Errorf("before the first report: %+v", l)
	}
	reports(t, a, first)
	reports(t, b, second)
	await(t, "both to be shown", func() bool { return len(g.loads().Loads) == 2 })
	l := g.loads()
	if l.Ranks != 2 || l.Loads[0].Worker != a.URL || l.Loads[0].Running != 3 || l.Loads[1].Worker != b.URL || l.Loads[1].Running != 2 {
		t.Errorf("both: %+v", l)
	}
	if s := l.Aggregate; s == nil || s.Running != 5 || s.Waiting != 7 || s.Usage != 0.5 || s.Throughput != 200 {
		t.Errorf("aggregate %+v", s)
	}
	reports(t, a, first, silent...)
	await(t, "one to be shown", func() bool {
		l := g.loads()
		return len(l.Loads) == 1 && l.Loads[0].Worker == b.URL
	})
	polls := got(t, b, loadsQuery)
	for range 5 {
		g.loads()
	}
	if more := got(t, b, loadsQuery) - polls; more > 2 {
		t.Errorf("%d polls for five looks", more)
	}
	if code := status(t, g.url+"/get_loads"); code != http.StatusOK {
		t.Errorf("GET /get_loads: %d", code)
	}
	g.stop(0)
}

// fannedOut: one question to all engines, one to the first, one page of all.
func fannedOut(t *testing.T, topology ...string) {
	a, b := recorded(t, simhttp.SGLang, simctl.LoadsOverride{}), recorded(t, simhttp.SGLang, simctl.LoadsOverride{})
	g := launched(t, []string{a.URL, b.URL}, append(topology, "--policy", "round_robin", "--disable-load-monitoring")...)
	if r := do(t, http.MethodPost, g.url+"/flush_cache", ""); r.status != http.StatusOK || !strings.Contains(r.body, `"workers_flushed":2`) {
		t.Errorf("flush: %d %s", r.status, r.body)
	}
	if r := do(t, http.MethodGet, g.url+"/get_model_info", ""); r.status != http.StatusOK || r.body != get(t, a.URL+"/get_model_info") || r.header.Get("X-Smg-Routed-Worker-Id") != a.URL {
		t.Errorf("model info: %d %s of %s", r.status, r.body, r.header.Get("X-Smg-Routed-Worker-Id"))
	}
	for _, e := range []string{a.URL, b.URL} {
		if page := get(t, g.url+"/engine_metrics"); !strings.Contains(page, `worker_addr="`+e+`"`) || !strings.Contains(page, "sglang:") {
			t.Errorf("no metrics of %s:\n%s", e, page)
		}
	}
	reports(t, b, simctl.LoadsOverride{}, simctl.Rule{Match: simctl.Match{Path: "/flush_cache"}, Status: 500})
	if r := do(t, http.MethodPost, g.url+"/flush_cache", ""); r.status != http.StatusPartialContent || !strings.Contains(r.body, `"successful":["`+a.URL+`"]`) ||
		!strings.Contains(r.body, `"failed":[{"worker":"`+b.URL+`","error":"`) || !strings.Contains(r.body, `"status":"partial_success"`) {
		t.Errorf("flush that fails: %d %s", r.status, r.body)
	}
	if code := status(t, g.url+"/health_generate"); code != http.StatusOK {
		t.Errorf("health_generate: %d", code)
	}
	g.stop(0)
}
