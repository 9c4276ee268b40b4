package ingress

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"smg/sim/simhttp"
	"smg/sim/simtest"
	"smg/worker"
)

// sheds are the refusals that are counted, by stage.
func (g *gateway) sheds() map[string]int {
	all := map[string]int{}
	for _, stage := range []string{stageSelection, stageDispatch, stageAdmission} {
		all[stage] = int(testutil.ToFloat64(g.metrics.sheds.WithLabelValues(stage)))
	}
	return all
}

// shed checks a refusal for overload, and that nothing else of it was tried.
func (g *gateway) shed(t *testing.T, r reply, stage string, says ...string) {
	t.Helper()
	r.fails(t, http.StatusServiceUnavailable, codeShed)
	for _, words := range says {
		if !strings.Contains(r.body, words) {
			t.Errorf("%s does not say %q", r.body, words)
		}
	}
	if got := r.header.Get("Retry-After"); got != "10" {
		t.Errorf("Retry-After %q, want 10", got)
	}
	want := map[string]int{stageSelection: 0, stageDispatch: 0, stageAdmission: 0}
	want[stage]++
	if diff := cmp.Diff(want, g.sheds()); diff != "" {
		t.Errorf("sheds (-want +got):\n%s", diff)
	}
}

func withRetries(c *Config, _ *Deps) {
	c.Retry = Retry{Attempts: 5, Initial: time.Millisecond, Max: time.Millisecond, Multiplier: 1}
}

func TestGatewaySheds(t *testing.T) {
	t.Run("39_all_overloaded", func(t *testing.T) {
		e, url := answers(t, jsonOK)
		g := start(t, []string{url}, withRetries)
		g.selector.err = worker.ErrOverloaded
		r := g.do(chat(chatBody))
		g.shed(t, r, stageSelection, "m is overloaded")
		if n := len(g.selector.asks); n != 1 || e.requests() != 0 {
			t.Errorf("%d selects and %d requests, want one select", n, e.requests())
		}
	})
	t.Run("39_mixed_reasons", func(t *testing.T) {
		g := start(t, nil)
		g.selector.err = worker.ErrUnavailable
		r := g.do(chat(chatBody))
		r.fails(t, http.StatusServiceUnavailable, "no_available_workers")
		if got := r.header.Get("Retry-After"); got != "" {
			t.Errorf("Retry-After %q", got)
		}
		if diff := cmp.Diff(map[string]int{stageSelection: 0, stageDispatch: 0, stageAdmission: 0}, g.sheds()); diff != "" {
			t.Errorf("sheds (-want +got):\n%s", diff)
		}
	})
	t.Run("39_overloaded_since_it_was_picked", func(t *testing.T) {
		e, url := answers(t, jsonOK)
		other, otherURL := answers(t, jsonOK)
		g := start(t, []string{url, otherURL}, withRetries)
		g.fleet.vetoed.Store(worker.IDOf(url), true)
		r := g.do(chat(chatBody))
		g.shed(t, r, stageDispatch, url, "regular worker", "for m ")
		if got := g.selector.last(t); got != (ending{worker.Neutral, true}) {
			t.Errorf("lease: %+v, want one that never got there and blames nobody", got)
		}
		if n := e.requests() + other.requests(); n != 0 {
			t.Errorf("%d requests were sent", n)
		}
		g.fleet.vetoed.Clear()
		if r := g.do(chat(chatBody)); r.status != http.StatusOK {
			t.Errorf("once it is not: %d", r.status)
		}
	})
	for _, kind := range []simhttp.Kind{simhttp.SGLang, simhttp.VLLM} {
		t.Run("39_either_leg_"+string(kind), func(t *testing.T) {
			for _, leg := range []string{"prefill", "decode"} {
				legSheds(t, kind, leg)
			}
		})
	}
}

// TestDisaggSheds is the row of the failure matrix of a worker that has become overloaded
// between the choice and the dispatch.
func TestDisaggSheds(t *testing.T) {
	for _, kind := range []simhttp.Kind{simhttp.SGLang, simhttp.VLLM} {
		for _, leg := range []string{"prefill", "decode"} {
			t.Run("F3_"+string(kind)+"_"+leg, func(t *testing.T) { legSheds(t, kind, leg) })
		}
	}
}

// legSheds has all workers of a leg become overloaded once one of them is chosen.
func legSheds(t *testing.T, kind simhttp.Kind, leg string) {
	t.Helper()
	d := startPD(t, kind, withRetries)
	engines := map[string][]*simtest.Engine{"prefill": d.pd.Prefill, "decode": d.pd.Decode}[leg]
	for _, e := range engines {
		d.fleet.vetoed.Store(worker.IDOf(e.URL), true)
	}
	for _, e := range d.pd.All() {
		if err := e.SetRules(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	r := d.do(chat(chatBody))
	d.shed(t, r, stageDispatch, leg+" worker")
	d.quiet(t)
	for _, e := range d.pd.All() {
		if got, err := e.Records(t.Context(), ""); err != nil || len(got) != 0 {
			t.Errorf("%s was sent %d requests, %v", e.URL, len(got), err)
		}
	}
}

func TestPoliciesSheds(t *testing.T) {
	t.Run("LR-12_Retry-After_is_the_interval", func(t *testing.T) {
		tests := []struct {
			name     string
			interval time.Duration
			want     string
		}{
			{"10 s", 10 * time.Second, "10"},
			{"under a second", 200 * time.Millisecond, "1"},
			{"not whole", 2500 * time.Millisecond, "3"},
		}
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				g := start(t, nil, withConfig(func(c *Config) { c.LoadInterval = tt.interval }))
				g.selector.err = worker.ErrOverloaded
				r := g.do(chat(chatBody))
				r.fails(t, http.StatusServiceUnavailable, codeShed)
				if got := r.header.Get("Retry-After"); got != tt.want {
					t.Errorf("Retry-After %q, want %s", got, tt.want)
				}
			})
		}
		cfg := DefaultConfig()
		cfg.LoadInterval = 0
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "--load-monitor-interval") {
			t.Errorf("an interval of 0: %v", err)
		}
	})
}
