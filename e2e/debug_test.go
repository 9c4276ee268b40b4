package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"smg/sim/simtest"
)

// shownDecision is a decision as the page shows it.
type shownDecision struct {
	Leg, Model, Policy, Branch, Error string
	Plan                              uint64
	Candidates                        int
	Worker                            *struct {
		URL   string
		Score *float64
	}
}

// decidedLately is what the page of a gateway shows.
func (g *gateway) decidedLately(t *testing.T, query string) (all []shownDecision, missing []string) {
	t.Helper()
	a := do(t, http.MethodGet, strings.TrimSuffix(g.metrics, "/metrics")+"/debug/decisions"+query, "")
	if a.status != http.StatusOK || a.header.Get("Content-Type") != "application/json" {
		t.Fatalf("status %d, type %q: %s", a.status, a.header.Get("Content-Type"), a.body)
	}
	if strings.Contains(a.body, "Hello") || strings.Contains(a.body, "key-of-a-user") {
		t.Errorf("the page shows what it must not: %s", a.body)
	}
	var page struct {
		Decisions []shownDecision
		Missing   []string
	}
	if err := json.Unmarshal([]byte(a.body), &page); err != nil {
		t.Fatal(err)
	}
	return page.Decisions, page.Missing
}

// TestDebugDecisions asks the page who got the requests, with all services in one process
// and in one each.
func TestDebugDecisions(t *testing.T) {
	engines := urls(simtest.StartN(t, 3, simtest.Config()))
	for _, topology := range []string{"single", "split"} {
		t.Run(topology, func(t *testing.T) {
			g := launched(t, engines, "--topology", topology, "--policy", "least_load", "--shutdown-grace-period-secs", "0")
			var want []string
			for range 5 {
				want = append(want, askChat(t, g.url, "X-SMG-Routing-Key", "key-of-a-user"))
			}
			slices.Reverse(want) // the newest first
			all, _ := g.decidedLately(t, "")
			var got []string
			for _, d := range all {
				if d.Leg != "regular" || d.Policy != "least_load" || d.Model != "sim" || d.Candidates != 3 || d.Worker == nil || d.Worker.Score == nil {
					t.Fatalf("decision %+v", d)
				}
				got = append(got, d.Worker.URL)
			}
			if !slices.Equal(got, want) {
				t.Errorf("decisions for %v, answers of %v", got, want)
			}
			of := func(engine string) int {
				return len(slices.DeleteFunc(slices.Clone(want), func(w string) bool { return w != engine }))
			}
			for _, engine := range engines {
				if byWorker, _ := g.decidedLately(t, "?worker="+url.QueryEscape(engine)); len(byWorker) != of(engine) {
					t.Errorf("%d decisions for %s, want %d", len(byWorker), engine, of(engine))
				}
			}
			if last, _ := g.decidedLately(t, "?limit=2&model=sim"); len(last) != 2 || last[0].Plan != all[0].Plan {
				t.Errorf("the last two are %+v", last)
			}
			if none, _ := g.decidedLately(t, "?model=other"); len(none) != 0 {
				t.Errorf("decisions for another model: %+v", none)
			}
			g.signal(syscall.SIGTERM)
			g.ends(0)
		})
	}
}

var timingForm = regexp.MustCompile(`^select;dur=\d+(\.\d{1,3})?(, (encode|prefill);dur=\d+(\.\d{1,3})?)*, decode;dur=\d+(\.\d{1,3})?$`)

// TestLegsTellWhatTheyDid holds the page and Server-Timing of disaggregated fleets
// to who answered and which legs there are.
func TestLegsTellWhatTheyDid(t *testing.T) {
	for _, topology := range []string{"single", "split"} {
		for _, kind := range []string{"sglang", "vllm"} {
			t.Run(topology+"/"+kind, func(t *testing.T) {
				g := serveRoles(t, roles{prefill: 2, decode: 2}, "--router-topology", topology, "--", "--time-scale", "0", "--engine", kind)
				answers := 0
				steps := func(body string) string {
					answers++
					a := do(t, http.MethodPost, g.url+"/v1/chat/completions", body)
					timing := a.header.Get("Server-Timing")
					if a.status != http.StatusOK || !timingForm.MatchString(timing) {
						t.Fatalf("status %d, Server-Timing %q", a.status, timing)
					}
					all, _ := g.decidedLately(t, "?limit=2")
					legs := map[string]string{}
					for _, d := range all {
						legs[d.Leg] = d.Worker.URL
					}
					if by := a.header.Get("X-Smg-Routed-Worker-Id"); legs["decode"] != by || legs["prefill"] == "" || all[0].Plan != all[1].Plan {
						t.Errorf("the last decisions are %+v, %s answered", all, by)
					}
					return timing
				}
				for name, body := range map[string]string{"whole": chat, "streamed": chatStream(5)} {
					if kind == "vllm" { // prefill ends before decode begins
						if timing := steps(body); !strings.Contains(timing, "prefill;") {
							t.Errorf("%s: Server-Timing %q", name, timing)
						}
						continue
					}
					await(t, "an answer that tells of prefill", func() bool { return strings.Contains(steps(body), "prefill;") })
				}
				if all, _ := g.decidedLately(t, fmt.Sprintf("?limit=%d", 10*answers)); len(all) != min(2*answers, 2048) {
					t.Errorf("%d decisions for %d answers", len(all), answers)
				}
				g.stop(143)
			})
		}
	}
}

// TestDebugDecisionsWithoutASelector: the page names those that do not tell.
func TestDebugDecisionsWithoutASelector(t *testing.T) {
	g := serveRoles(t, roles{prefill: 1, decode: 1}, append(split, "--", "--time-scale", "0")...)
	askChat(t, g.url)
	g.kill("selector prefill", syscall.SIGSTOP)
	all, missing := g.decidedLately(t, "")
	if !slices.Equal(missing, []string{"selector prefill"}) || len(all) != 1 || all[0].Leg != "decode" {
		t.Errorf("missing %v, decisions %+v", missing, all)
	}
	g.kill("selector prefill", syscall.SIGCONT)
	await(t, "the selector to tell again", func() bool {
		_, missing := g.decidedLately(t, "")
		return len(missing) == 0
	})
	g.stop(143)
}
