package e2e

import (
	"encoding/json"
	"net/http"
	"testing"

	"smg/sim/simctl"
	"smg/sim/simhttp"
)

func TestGatewayInfo(t *testing.T) {
	topologies(t, map[string]func(t *testing.T, topology ...string){
		"13_loads": loadsShown,
	})
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
