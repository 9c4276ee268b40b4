package e2e

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"smg/sim/simctl"
	"smg/sim/simhttp"
	"smg/sim/simtest"
)

// churn is how long workers come and go under load.
var churn = flag.Duration("churn", 6*time.Second, "how long workers of two models come and go")

// watchful are the arguments of a gateway that sees soon how its workers are.
var watchful = []string{"--health-check-interval-secs", "1", "--health-failure-threshold", "1", "--health-success-threshold", "1"}

// TestDisaggPairs is who may be picked for a leg, and that nobody is called unless
// somebody is picked for each of them.
func TestDisaggPairs(t *testing.T) {
	for _, kind := range []simhttp.Kind{simhttp.SGLang, simhttp.VLLM} {
		t.Run(string(kind), func(t *testing.T) {
			parallel(t)
			legs{kind: kind, roles: roles{prefill: 1, decode: 1}, args: append(watchful, once...), charging: true}.rows(t,
				row{"F1_prefill_is_not_ready", func(t *testing.T, f *legFleet) { f.refusesUnwell(t, "prefill") }},
				row{"F1_decode_is_not_ready", func(t *testing.T, f *legFleet) { f.refusesUnwell(t, "decode") }},
				row{"F1_breaker_of_prefill_is_open", func(t *testing.T, f *legFleet) { f.refusesOpen(t, "prefill") }},
				row{"F1_breaker_of_decode_is_open", func(t *testing.T, f *legFleet) { f.refusesOpen(t, "decode") }},
				row{"F1_another_model", func(t *testing.T, f *legFleet) {
					f.without(t, "decode")
					f.add(f.pd.Decode[0].URL, `,"worker_type":"decode","model_id":"other"`)
					f.usable(t)
					f.fails(t, f.asks(t, ""), http.StatusServiceUnavailable, "no_available_workers", "no decode worker for sim")
					f.fails(t, do(t, http.MethodPost, f.url+chatPath, strings.Replace(chatWith(""), `"sim"`, `"other"`, 1)),
						http.StatusServiceUnavailable, "no_available_workers", "no prefill worker for other")
					f.untouched(t)
				}},
				row{"F24_runtime_that_shares_nothing", func(t *testing.T, f *legFleet) {
					f.without(t, "decode")
					url := f.pd.Decode[0].URL
					f.add(url, `,"worker_type":"decode","runtime_type":"trtllm"`)
					await(t, "the worker to be turned down", func() bool {
						w, _ := f.worker(url)
						return strings.HasPrefix(w.Conflict, "runtime_pd_not_supported: a decode worker of runtime trtllm")
					})
					f.fails(t, f.asks(t, ""), http.StatusServiceUnavailable, "no_available_workers", "no decode worker")
					f.untouched(t)
				}},
			)
		})
	}
	t.Run("capped", func(t *testing.T) {
		parallel(t)
		args := []string{
			"--decode-policy", "least_load", "--least-load-max-waiting-requests", "1", "--load-monitor-interval", "1",
			"--retry-max-retries", "2", "--retry-initial-backoff-ms", "1",
		}
		legs{kind: simhttp.SGLang, roles: roles{prefill: 1, decode: 2}, args: args}.rows(t, row{"F4_everybody_is_at_the_cap", func(t *testing.T, f *legFleet) {
			waiting := 5
			f.faults(t, "decode", simctl.Faults{Loads: &simctl.LoadsOverride{Waiting: &waiting}})
			var a answer
			await(t, "the cap to be seen", func() bool { a = f.asks(t, ""); return a.status != http.StatusOK })
			before, sent := total(t, f.metrics, "smg_worker_retries_total"), len(f.seen(t, "prefill", chatPath))
			f.fails(t, f.asks(t, ""), http.StatusServiceUnavailable, "no_available_workers", "no decode worker for sim could be chosen")
			if after := total(t, f.metrics, "smg_worker_retries_total"); after <= before {
				t.Error("it was not tried again")
			}
			if n := len(f.seen(t, "prefill", chatPath)); n != sent {
				t.Errorf("%d requests at prefill since, want none", n-sent)
			}
		}})
	})
}

// untouched wants no request at any engine.
func (f *legFleet) untouched(t *testing.T) {
	t.Helper()
	for _, leg := range []string{"prefill", "decode"} {
		if n := len(f.seen(t, leg, chatPath)); n != 0 {
			t.Errorf("%d requests at %s, want none", n, leg)
		}
	}
}

// refusesUnwell has a leg's worker fail its health probes.
func (f *legFleet) refusesUnwell(t *testing.T, leg string) {
	t.Helper()
	f.faults(t, leg, simctl.Faults{Rules: []simctl.Rule{{Match: simctl.Match{Path: "/health"}, Status: http.StatusServiceUnavailable}}})
	await(t, leg+" to be found unwell", func() bool {
		w, _ := f.worker(f.engines(leg)[0].URL)
		return !w.Healthy && gauges(t, f.metrics, "smg_worker_health")[fmt.Sprintf(`{worker=%q}`, f.engines(leg)[0].URL)] == 0
	})
	f.fails(t, f.asks(t, ""), http.StatusServiceUnavailable, "no_available_workers", "no "+leg+" worker")
	f.untouched(t)
}

// refusesOpen has the breaker of a leg's worker open. The gateway must be one that
// charges.
func (f *legFleet) refusesOpen(t *testing.T, leg string) {
	t.Helper()
	f.refuses(t, leg, chatPath, http.StatusInternalServerError)
	if a := f.asks(t, ""); a.status != http.StatusInternalServerError {
		t.Errorf("status %d: %s", a.status, a.body)
	}
	f.charges(t, leg+" 0")
	seen := func() int { return len(f.seen(t, "prefill", chatPath)) + len(f.seen(t, "decode", chatPath)) }
	before := seen()
	f.fails(t, f.asks(t, ""), http.StatusServiceUnavailable, "no_available_workers", "no "+leg+" worker")
	if after := seen(); after != before {
		t.Errorf("%d requests were sent, want none", after-before)
	}
}

// TestFieldPairs are reports of others about who is picked for a leg.
func TestFieldPairs(t *testing.T) {
	for _, kind := range []simhttp.Kind{simhttp.SGLang, simhttp.VLLM} {
		t.Run(string(kind), func(t *testing.T) {
			parallel(t)
			legs{kind: kind, roles: roles{prefill: 1, decode: 1}, args: append(watchful, once...)}.rows(t,
				row{"PD-08_no_prefill_worker", func(t *testing.T, f *legFleet) {
					f.without(t, "prefill")
					f.fails(t, f.asks(t, ""), http.StatusServiceUnavailable, "no_available_workers", "no prefill worker")
					f.untouched(t)
				}},
				row{"PD-08_prefill_is_unwell", func(t *testing.T, f *legFleet) { f.refusesUnwell(t, "prefill") }},
				row{"PD-14_workers_come_and_go_in_any_order", comeAndGo},
			)
		})
	}
	t.Run("leg_policies", func(t *testing.T) {
		parallel(t)
		own := []string{"--decode-policy", "power_of_two"} // beside the others' round_robin
		want := map[string]string{"prefill": "round_robin", "decode": "power_of_two"}
		legs{kind: simhttp.SGLang, roles: roles{prefill: 1, decode: 2}, args: append([]string{"--enable-igw"}, own...)}.rows(t,
			row{"PD-12_workers_that_are_added", func(t *testing.T, f *legFleet) {
				if a := f.asks(t, ""); a.status != http.StatusOK {
					t.Fatalf("status %d: %s", a.status, a.body)
				}
				every := map[string]string{"regular": "round_robin", "encode": "consistent_hashing"} // any worker may come
				maps.Copy(every, want)
				f.legPolicies(t, every)
			}})
		pd := simtest.StartPD(t, 1, 2, simtest.Config())
		args := append([]string{"--pd-disaggregation", "--policy", "round_robin", "--prefill", pd.Prefill[0].URL, strconv.Itoa(pd.Prefill[0].PeerPort)}, own...)
		for _, e := range pd.Decode {
			args = append(args, "--decode", e.URL)
		}
		for _, topology := range []string{"single", "split"} {
			t.Run(topology+"/PD-12_workers_that_are_named", func(t *testing.T) {
				g := inFront(t, append(args, "--topology", topology)...)
				await(t, "an answer", func() bool { return do(t, http.MethodPost, g.url+chatPath, chatWith("")).status == http.StatusOK })
				g.legPolicies(t, want)
				g.stop(0)
			})
		}
	})
	t.Run("pins", func(t *testing.T) {
		parallel(t)
		legs{kind: simhttp.SGLang, roles: roles{prefill: 1, decode: 2}, args: append([]string{"--decode-policy", "consistent_hashing"}, once...)}.rows(t,
			row{"PD-13_a_pin_of_decode_leaves_prefill_alone", func(t *testing.T, f *legFleet) {
				pinned := map[string]bool{}
				for _, index := range []string{"0", "1"} {
					first := f.pinned(t, index)
					for range 3 {
						a := f.pinned(t, index)
						if a.status != http.StatusOK || routedTo(a) != routedTo(first) {
							t.Errorf("index %s: status %d, %s, want %s: %s", index, a.status, routedTo(a), routedTo(first), a.body)
						}
					}
					pinned[routedTo(first)] = true
				}
				if len(pinned) != 2 {
					t.Errorf("two indices are %d workers", len(pinned))
				}
				sent := len(f.seen(t, "prefill", chatPath))
				f.fails(t, f.pinned(t, "2"), http.StatusServiceUnavailable, "no_available_workers", "no decode worker")
				if n := len(f.seen(t, "prefill", chatPath)); n != sent {
					t.Errorf("%d requests at prefill for a pin that nobody has", n-sent)
				}
			}})
	})
	t.Run("pins_of_both", func(t *testing.T) {
		parallel(t)
		args := append([]string{"--prefill-policy", "consistent_hashing", "--decode-policy", "consistent_hashing"}, once...)
		legs{kind: simhttp.SGLang, roles: roles{prefill: 1, decode: 2}, args: args}.rows(t,
			row{"PD-13_an_index_is_each_legs_own", func(t *testing.T, f *legFleet) {
				if a := f.pinned(t, "0"); a.status != http.StatusOK {
					t.Errorf("status %d: %s", a.status, a.body)
				}
				f.fails(t, f.pinned(t, "1"), http.StatusServiceUnavailable, "no_available_workers", "no prefill worker")
			}})
	})
	for _, topology := range []string{"single", "split"} {
		t.Run("churn_"+topology, func(t *testing.T) {
			parallel(t)
			t.Run("PD-15_two_models_stay_apart", func(t *testing.T) { twoModels(t, topology) })
		})
	}
}

// pinned asks for the worker at an index.
func (f *legFleet) pinned(t *testing.T, index string) answer {
	t.Helper()
	return do(t, http.MethodPost, f.url+chatPath, chatWith(""), "X-SMG-Target-Worker", index)
}

func routedTo(a answer) string { return a.header.Get("X-Smg-Routed-Worker-Id") }

// legPolicies wants each leg's policy where people look for it: in the status, in the
// first lines, and at what was counted.
func (g *gateway) legPolicies(t *testing.T, want map[string]string) {
	t.Helper()
	var card struct {
		Legs []struct{ Leg, Policy string }
	}
	if err := json.Unmarshal([]byte(get(t, g.url+"/status")), &card); err != nil {
		t.Fatal(err)
	}
	if len(card.Legs) != len(want) {
		t.Errorf("legs %+v, want %v", card.Legs, want)
	}
	for _, l := range card.Legs {
		if l.Policy != want[l.Leg] {
			t.Errorf("leg %s has policy %s, want %s", l.Leg, l.Policy, want[l.Leg])
		}
	}
	for leg, policy := range want {
		if g.count(`^`+leg+` .*policy `+policy) == 0 {
			t.Errorf("the first lines do not say that %s has policy %s", leg, policy)
		}
		others := 0.0
		chosen := 0.0
		for labels, n := range gauges(t, g.metrics, "smg_worker_selection_total") {
			switch {
			case label(labels, "worker_type") != leg:
			case label(labels, "policy") == policy:
				chosen += n
			default:
				others += n
			}
		}
		if served := leg == "prefill" || leg == "decode"; (chosen > 0) != served || others != 0 {
			t.Errorf("%v selections of %s by %s, %v by others", chosen, leg, policy, others)
		}
	}
}

// comeAndGo adds and removes the only worker of each leg in every order.
func comeAndGo(t *testing.T, f *legFleet) {
	prefill, decode := f.pd.Prefill[0], f.pd.Decode[0]
	here := map[string]bool{"prefill": true, "decode": true}
	add := func(leg string, e *simtest.Engine) func() {
		return func() {
			if !here[leg] {
				f.join(leg, e)
			}
			here[leg] = true
			await(t, leg, func() bool {
				w, _ := f.worker(e.URL)
				return w.Healthy && gauges(t, f.metrics, "smg_worker_health")[fmt.Sprintf(`{worker=%q}`, e.URL)] == 1
			})
		}
	}
	remove := func(leg string) func() {
		return func() {
			if here[leg] {
				f.without(t, leg)
			}
			here[leg] = false
		}
	}
	steps := []func(){add("prefill", prefill), add("decode", decode), remove("decode"), add("decode", decode)}
	names := []string{"add P", "add D", "remove D", "re-add D"}
	orders := 0
	permute(len(steps), func(order []int) {
		orders++
		remove("prefill")()
		remove("decode")()
		var done []string
		for _, i := range order {
			steps[i]()
			done = append(done, names[i])
			want := http.StatusServiceUnavailable
			switch {
			case here["prefill"] && here["decode"]:
				want = http.StatusOK
			case !here["prefill"] && !here["decode"]:
				want = http.StatusNotFound
			}
			if a := f.asks(t, ""); a.status != want {
				t.Errorf("after %s: status %d, want %d: %s", strings.Join(done, ", "), a.status, want, a.body)
			}
		}
	})
	if orders != 24 {
		t.Errorf("%d orders, want 24", orders)
	}
	add("prefill", prefill)()
	add("decode", decode)()
}

// permute calls yield with every order of n things.
func permute(n int, yield func([]int)) {
	order := make([]int, 0, n)
	used := make([]bool, n)
	var next func()
	next = func() {
		if len(order) == n {
			yield(order)
			return
		}
		for i := range n {
			if used[i] {
				continue
			}
			used[i], order = true, append(order, i)
			next()
			used[i], order = false, order[:len(order)-1]
		}
	}
	next()
}

// herds is a gateway in front of several groups of engines, each of which has legs of
// its own.
type herds struct {
	*gateway
	pds []*simtest.PD
}

// startHerds adds the workers of each group, with more members for those of the i-th,
// and waits until all can be chosen.
func startHerds(t *testing.T, pds []*simtest.PD, fields func(i int) string, args ...string) *herds {
	t.Helper()
	h := &herds{gateway: inFront(t, append([]string{"--pd-disaggregation"}, args...)...), pds: pds}
	for i, pd := range pds {
		for _, e := range pd.Prefill {
			h.add(e.URL, h.prefillFields(e)+fields(i))
		}
		for _, e := range pd.Decode {
			h.add(e.URL, `,"worker_type":"decode"`+fields(i))
		}
	}
	for _, pd := range pds {
		for _, e := range pd.All() {
			h.usable(e)
			if err := e.SetFaults(t.Context(), simctl.Faults{Record: true}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return h
}

func (h *herds) prefillFields(e *simtest.Engine) string {
	fields := `,"worker_type":"prefill"`
	if e.PeerPort != 0 {
		fields += fmt.Sprintf(`,"bootstrap_port":%d`, e.PeerPort)
	}
	return fields
}

func (h *herds) usable(e *simtest.Engine) {
	h.t.Helper()
	await(h.t, "worker "+e.URL, func() bool {
		w, status := h.worker(e.URL)
		return status == http.StatusOK && w.Healthy && gauges(h.t, h.metrics, "smg_worker_health")[fmt.Sprintf(`{worker=%q}`, e.URL)] == 1
	})
}

// sends sends n requests of a model, some at a time, and tells of those that fail.
func (h *herds) sends(n int, model string, failed func(status int, body string)) {
	c := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}, Timeout: patience}
	defer c.CloseIdleConnections()
	var left atomic.Int64
	left.Store(int64(n))
	var senders sync.WaitGroup
	for range 4 {
		senders.Go(func() {
			for i := left.Add(-1); i >= 0; i = left.Add(-1) {
				body := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"Number %d"}],"max_tokens":2}`, model, i)
				resp, err := c.Post(h.url+chatPath, "application/json", strings.NewReader(body))
				if err != nil {
					failed(0, err.Error())
					continue
				}
				b, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if resp.StatusCode != http.StatusOK || err != nil {
					failed(resp.StatusCode, string(b))
				}
			}
		})
	}
	senders.Wait()
}

// partners is how often a decode engine of one group was to fetch what a prefill engine
// of a group holds, as decode>prefill. Other groups are -1.
func (h *herds) partners(t *testing.T) map[string]int {
	t.Helper()
	ports := map[int]int{}
	for i, pd := range h.pds {
		for _, e := range pd.Prefill {
			ports[e.PeerPort] = i
		}
	}
	met := map[string]int{}
	for i, pd := range h.pds {
		for _, e := range pd.Decode {
			records, err := e.Records(t.Context(), chatPath)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range records {
				var b struct {
					Port int `json:"bootstrap_port"`
					KV   struct {
						Port int `json:"remote_port"`
					} `json:"kv_transfer_params"`
				}
				if err := json.Unmarshal(r.Body, &b); err != nil {
					t.Fatal(err)
				}
				of, known := ports[max(b.Port, b.KV.Port)]
				if !known {
					of = -1
				}
				met[fmt.Sprintf("%d>%d", i, of)]++
			}
		}
	}
	return met
}

// TestMixedFleets: workers that cannot hand over to each other never have to, and no
// request pays for it.
func TestMixedFleets(t *testing.T) {
	const requests = 1000
	sims := func(kind simhttp.Kind, n int) *simtest.PD {
		cfg := simtest.Config()
		cfg.Kind = kind
		return simtest.StartPD(t, n, n, cfg)
	}
	check := func(t *testing.T, h *herds) {
		h.sends(requests, "sim", func(status int, body string) { t.Errorf("status %d: %s", status, body) })
		met := h.partners(t)
		sum := 0
		for i := range h.pds {
			own := met[fmt.Sprintf("%d>%d", i, i)]
			sum += own
			if own < requests/10 {
				t.Errorf("%d of %d requests to group %d", own, requests, i)
			}
		}
		if sum != requests {
			t.Errorf("%d of %d requests stayed within their group: %v", sum, requests, met)
		}
		h.stop(0)
	}
	for _, topology := range []string{"single", "split"} {
		args := append([]string{"--topology", topology, "--policy", "round_robin"}, once...)
		t.Run("two_engines_"+topology, func(t *testing.T) {
			parallel(t)
			check(t, startHerds(t, []*simtest.PD{sims(simhttp.SGLang, 1), sims(simhttp.VLLM, 1)}, func(int) string { return "" }, args...))
		})
		t.Run("routes_of_one_engine_"+topology, func(t *testing.T) {
			parallel(t)
			routesOfOne(t, startHerds(t, []*simtest.PD{sims(simhttp.SGLang, 1), sims(simhttp.VLLM, 1)}, func(int) string { return "" }, args...))
		})
		for _, kind := range []simhttp.Kind{simhttp.SGLang, simhttp.VLLM} {
			t.Run("groups_of_"+string(kind)+"_"+topology, func(t *testing.T) {
				parallel(t)
				check(t, startHerds(t, []*simtest.PD{sims(kind, 1), sims(kind, 1), sims(kind, 1)}, func(i int) string {
					if i == 2 {
						return "" // a group of its own
					}
					return fmt.Sprintf(`,"labels":{"pair_group":"g%d"}`, i)
				}, args...))
			})
		}
	}
}

// routesOfOne has every request for a route that vLLM has not reach the other engine.
func routesOfOne(t *testing.T, h *herds) {
	for _, p := range paths {
		if !p.sglang || p.vllm {
			continue
		}
		for range 20 {
			if a := do(t, http.MethodPost, h.url+p.path, fmt.Sprintf(p.body, "")); a.status != http.StatusOK {
				t.Errorf("%s: status %d: %s", p.path, a.status, a.body)
			}
		}
		for _, e := range h.pds[1].All() {
			if records, err := e.Records(t.Context(), cmp.Or(p.engine, p.path)); err != nil || len(records) > 0 {
				t.Errorf("%d requests for %s at vLLM, %v", len(records), p.path, err)
			}
		}
	}
	h.stop(0)
}

// twoModels lets workers of two models come and go while both are asked for.
func twoModels(t *testing.T, topology string) {
	models := []string{"first", "second"}
	var pds []*simtest.PD
	for _, m := range models {
		cfg := simtest.Config()
		cfg.Kind, cfg.Model = simhttp.SGLang, m
		pds = append(pds, simtest.StartPD(t, 2, 2, cfg))
	}
	h := startHerds(t, pds, func(int) string { return "" }, "--topology", topology, "--policy", "round_robin")
	end := time.Now().Add(*churn)
	var asking sync.WaitGroup
	var sent atomic.Int64
	for _, m := range models {
		asking.Go(func() {
			for time.Now().Before(end) {
				h.sends(20, m, func(status int, body string) { t.Errorf("%s: status %d: %s", m, status, body) })
				sent.Add(20)
			}
		})
	}
	turns := 0
	for ; time.Now().Before(end); turns++ {
		pd := pds[turns%2]
		e, fields := pd.Decode[turns/2%2], `,"worker_type":"decode"`
		if turns/4%2 == 1 {
			e = pd.Prefill[turns/2%2]
			fields = h.prefillFields(e)
		}
		h.remove(e.URL)
		await(t, "the worker's end", func() bool {
			_, status := h.worker(e.URL)
			return status == http.StatusNotFound
		})
		h.add(e.URL, fields)
		h.usable(e)
	}
	asking.Wait()
	t.Logf("%d requests, %d workers replaced", sent.Load(), turns)
	if turns < 4 {
		t.Errorf("%d workers came and went, want more", turns)
	}
	for i, pd := range pds {
		for _, e := range pd.All() {
			records, err := e.Records(t.Context(), chatPath)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range records {
				if !strings.Contains(string(r.Body), fmt.Sprintf(`"model":%q`, models[i])) {
					t.Errorf("a worker of model %s got %s", models[i], r.Body)
				}
			}
		}
	}
	if n := total(t, h.metrics, "smg_pick_mismatch_total"); n != 0 {
		t.Errorf("%v picks did not serve their requests", n)
	}
	h.stop(0)
}
