package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"smg/sim/simctl"
	"smg/sim/simhttp"
	"smg/sim/simtest"
)

func TestGatewayFleet(t *testing.T) {
	topologies(t, map[string]func(t *testing.T, topology ...string){
		"9_a_worker_drains":          workerDrains,
		"8_workers_are_changed":      workersAreChanged,
		"37_failed_workers_are_gone": failedWorkersAreGone,
		"37_probes_decide":           probesDecide,
		"38_no_probes":               noProbes,
		"8_http_pool":                ownPool,
		"8_resilience":               ownBreaker,
	})
}

// workerDrains removes a worker of the command line, which in split topology another
// process has registered, while a stream runs on it.
func workerDrains(t *testing.T, topology ...string) {
	const tokens = 400
	engines := urls(simtest.StartN(t, 2, slow(10*time.Millisecond)))
	g := launched(t, engines, append(topology, "--policy", "round_robin", "--drain-settle-secs", "2", "--shutdown-grace-period-secs", "0")...)
	s := openStream(t, g.url, tokens)
	leaving := s.resp.Header.Get("X-Smg-Routed-Worker-Id")
	began := time.Now()
	g.remove(leaving)
	w, code := g.worker(leaving)
	for code == http.StatusOK && w.Status != "draining" && time.Since(began) < time.Second { // its news are under way
		w, code = g.worker(leaving)
	}
	if w.Status != "draining" || w.Healthy || w.Job == nil || w.Job.Status != "processing" || w.Load != 1 {
		t.Errorf("it is shown as %d %+v", code, w)
	}
	do(t, http.MethodPost, g.url+"/workers", fmt.Sprintf(`{"url":%q}`, leaving)).fails(t, http.StatusConflict, "WORKER_ALREADY_EXISTS")
	await(t, "nothing to come to it", func() bool { return g.routed(4)[leaving] == 0 })
	if by := g.routed(6); by[leaving] != 0 {
		t.Errorf("it was chosen while it drains: %v", by)
	}
	await(t, "the worker to be gone", func() bool {
		_, code := g.worker(leaving)
		return code == http.StatusNotFound
	})
	if took := time.Since(began); took < 2*time.Second-50*time.Millisecond {
		t.Errorf("it was gone after %v, before it had its time", took)
	}
	if pieces, whole := s.rest(); !whole || pieces < tokens/2 {
		t.Errorf("its stream: %d pieces, whole: %v", pieces, whole)
	}
	g.added(leaving, "")
	g.silent("level=(WARN|ERROR)")
	g.stop(0)
}

// workersAreChanged changes workers that this ingress has, and has not, registered.
func workersAreChanged(t *testing.T, topology ...string) {
	engines := urls(simtest.StartN(t, 2, simtest.Config()))
	g := launched(t, engines[:1], append(topology, "--policy", "round_robin", "--shutdown-grace-period-secs", "0", "--model-alias", "nick=sim", "--model-alias", "other=nobody")...)
	g.added(engines[1], `,"labels":{"zone":"a","rack":"1"}`)
	before := g.order()
	if a := do(t, http.MethodPost, g.url+"/v1/chat/completions", strings.Replace(chat, `"sim"`, `"nick"`, 1)); a.status != http.StatusOK || strings.Contains(a.body, "nick") {
		t.Errorf("by another name of the command line: %d %s", a.status, a.body)
	}
	wantProblem(t, do(t, http.MethodPost, g.url+"/v1/chat/completions", strings.Replace(chat, `"sim"`, `"other"`, 1)), http.StatusNotFound, "model_not_found")
	for _, engine := range engines {
		path := g.url + "/workers/" + engine
		if a := do(t, http.MethodPatch, path, `{"labels":{"zone":"b","new":"n"},"priority":7,"health":{"timeout_secs":3}}`); a.status != http.StatusAccepted {
			t.Fatalf("PATCH: %d %s", a.status, a.body)
		}
		await(t, "the labels", func() bool {
			w, _ := g.worker(engine)
			return w.Labels["zone"] == "b" && w.Labels["new"] == "n" && w.Healthy && w.Job == nil
		})
		if a := do(t, http.MethodPut, path, `{"url":"http://127.0.0.1:1"}`); a.status != http.StatusBadRequest {
			t.Errorf("another URL: %d %s", a.status, a.body)
		}
	}
	if w, _ := g.worker(engines[1]); w.Labels["rack"] != "1" {
		t.Errorf("labels that were not named are gone: %v", w.Labels)
	}
	for _, engine := range engines {
		if a := do(t, http.MethodPut, g.url+"/workers/"+engine, fmt.Sprintf(`{"url":%q,"labels":{"made":"anew"}}`, engine)); a.status != http.StatusAccepted {
			t.Fatalf("PUT: %d %s", a.status, a.body)
		}
		await(t, "the worker anew", func() bool {
			w, _ := g.worker(engine)
			return w.Labels["made"] == "anew" && w.Labels["zone"] == "" && w.Healthy && w.Job == nil
		})
	}
	if after := g.order(); strings.Join(after, " ") != strings.Join(before, " ") {
		t.Errorf("the order was %v and is %v", before, after)
	}
	await(t, "answers of both", func() bool { return len(g.routed(4)) == 2 })
	g.stop(0)
}

// order is the URLs of the workers, as they are listed.
func (g *gateway) order() (all []string) {
	g.t.Helper()
	var list struct{ Workers []shown }
	if err := json.Unmarshal([]byte(get(g.t, g.url+"/workers")), &list); err != nil {
		g.t.Fatal(err)
	}
	for _, w := range list.Workers {
		all = append(all, w.URL)
	}
	return all
}

// failedWorkersAreGone has a worker of the command line, and one that was added, fail
// their probes for good.
func failedWorkersAreGone(t *testing.T, topology ...string) {
	engines := simtest.StartN(t, 3, simtest.Config())
	g := launched(t, urls(engines[:2]), append(topology, "--policy", "round_robin", "--shutdown-grace-period-secs", "0", "--remove-unhealthy-workers",
		"--health-check-interval-secs", "1", "--health-failure-threshold", "1", "--health-success-threshold", "2")...)
	g.added(engines[2].URL, "")
	bad := simctl.Rule{Match: simctl.Match{Path: "/health"}, Status: http.StatusServiceUnavailable}
	for _, e := range engines[1:] {
		if err := e.SetRules(t.Context(), bad); err != nil {
			t.Fatal(err)
		}
	}
	await(t, "a worker that is not ready", func() bool {
		w, _ := g.worker(engines[1].URL)
		return w.Status == "not_ready"
	})
	if by := g.routed(4); by[engines[1].URL] != 0 {
		t.Errorf("it gets traffic: %v", by)
	}
	for _, e := range engines[1:] {
		await(t, "the worker to be gone", func() bool {
			_, code := g.worker(e.URL)
			return code == http.StatusNotFound
		})
	}
	if by := g.routed(4); by[engines[0].URL] != 4 {
		t.Errorf("the one that is left: %v", by)
	}
	g.stop(0)
}

// ownPool has a worker whose requests may take a second, until it is replaced by one
// whose requests may take as long as any.
func ownPool(t *testing.T, topology ...string) {
	e := simtest.Start(t, simtest.Config())
	g := inFront(t, append(topology, "--disable-retries")...)
	a := do(t, http.MethodPost, g.url+"/workers", fmt.Sprintf(`{"url":%q,"http_pool":{"timeout_secs":1,"pool_max_idle_per_host":0,"http2":true}}`, e.URL))
	if a.status != http.StatusAccepted || !strings.Contains(a.body, "not applied yet: http_pool.http2") {
		t.Errorf("%d %s, want it to say what is not applied", a.status, a.body)
	}
	await(t, "the worker", func() bool { w, _ := g.worker(e.URL); return w.Healthy })
	await(t, "an answer of it", func() bool { return g.answersWithin(e.URL, 3) })
	conns := func() int {
		records, err := e.Records(t.Context(), chatPath)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[int]bool{}
		for _, r := range records {
			seen[r.Conn] = true
		}
		return len(seen)
	}
	serves := func(rules ...simctl.Rule) {
		if err := errors.Join(e.Reset(t.Context()), e.SetFaults(t.Context(), simctl.Faults{Record: true, Rules: rules})); err != nil {
			t.Fatal(err)
		}
	}
	serves()
	for range 4 {
		askChat(t, g.url)
	}
	if n := conns(); n != 4 {
		t.Errorf("%d connections for four requests, want one each", n)
	}
	slow := simctl.Rule{Match: simctl.Match{Path: chatPath}, Delay: simctl.Duration(2 * time.Second)}
	serves(slow)
	late := do(t, http.MethodPost, g.url+chatPath, chat)
	late.fails(t, http.StatusInternalServerError, "call_upstream_request_error")
	if !strings.Contains(late.body, "within 1s") {
		t.Errorf("%s does not say what was too long", late.body)
	}
	if a := do(t, http.MethodPut, g.url+"/workers/"+e.URL, fmt.Sprintf(`{"url":%q,"labels":{"made":"anew"}}`, e.URL)); a.status != http.StatusAccepted {
		t.Fatalf("PUT: %d %s", a.status, a.body)
	}
	await(t, "the worker anew", func() bool { w, _ := g.worker(e.URL); return w.Labels["made"] == "anew" && w.Job == nil })
	serves(slow)
	await(t, "an answer that takes 2 s", func() bool { return do(t, http.MethodPost, g.url+chatPath, chat).status == http.StatusOK })
	serves()
	for range 4 {
		askChat(t, g.url)
	}
	if n := conns(); n != 1 {
		t.Errorf("%d connections for four requests, want one that is kept", n)
	}
	g.stop(0)
}

// ownBreaker has a worker whose own rules say what counts as a failure.
func ownBreaker(t *testing.T, topology ...string) {
	e := simtest.Start(t, simtest.Config())
	g := inFront(t, append(topology, "--disable-retries")...)
	g.added(e.URL, `,"resilience":{"cb_failure_threshold":2,"cb_timeout_secs":600,"retryable_status_codes":[422]}`)
	state := func() float64 { return gauges(t, g.metrics, "smg_worker_cb_state")[fmt.Sprintf("{worker=%q}", e.URL)] }
	failures := func() float64 {
		return gauges(t, g.metrics, "smg_worker_cb_outcomes_total")[fmt.Sprintf(`{outcome="failure",worker=%q}`, e.URL)]
	}
	answers := func(status int) {
		t.Helper()
		if err := e.SetRules(t.Context(), simctl.Rule{Match: simctl.Match{Path: chatPath}, Status: status}); err != nil {
			t.Fatal(err)
		}
		if a := do(t, http.MethodPost, g.url+chatPath, chat); a.status != status {
			t.Errorf("%d %s, want %d", a.status, a.body, status)
		}
	}
	for range 3 {
		answers(http.StatusInternalServerError) // which is none by its rules
	}
	answers(http.StatusUnprocessableEntity)
	await(t, "a failure to be counted", func() bool { return failures() == 1 })
	if got := state(); got != 0 {
		t.Errorf("one failure of two has put its breaker into state %v", got)
	}
	answers(http.StatusUnprocessableEntity)
	await(t, "its breaker to open", func() bool { return state() == 1 })
	g.stop(0)
}

// noProbes has workers that answer no probe get traffic, where nobody probes: all of
// them by the flag, or the one whose record says so.
func noProbes(t *testing.T, topology ...string) {
	engines := simtest.StartN(t, 2, simtest.Config())
	for _, e := range engines {
		rule := simctl.Rule{Match: simctl.Match{Path: "/health"}, Status: http.StatusNotFound}
		if err := e.SetFaults(t.Context(), simctl.Faults{Record: true, Rules: []simctl.Rule{rule}}); err != nil {
			t.Fatal(err)
		}
	}
	all := append(topology, "--policy", "round_robin", "--health-check-interval-secs", "1", "--health-failure-threshold", "1")
	g := launched(t, urls(engines), append(all, "--disable-health-check", "--shutdown-grace-period-secs", "0")...)
	if by := g.routed(4); by[engines[0].URL] != 2 || by[engines[1].URL] != 2 {
		t.Errorf("without probes: %v", by)
	}
	if n := got(t, engines[0], "/health") + got(t, engines[1], "/health"); n != 0 {
		t.Errorf("%d probes", n)
	}
	g.stop(0)

	g = inFront(t, all...)
	g.add(engines[0].URL, `,"health":{"disable_health_check":true}`)
	g.add(engines[1].URL, "")
	await(t, "the worker that nobody probes", func() bool { w, _ := g.worker(engines[0].URL); return w.Healthy })
	await(t, "a probe of the other", func() bool { return got(t, engines[1], "/health") > 0 })
	if by := g.routed(4); by[engines[0].URL] != 4 {
		t.Errorf("with probes of the other: %v", by)
	}
	if n := got(t, engines[0], "/health"); n != 0 {
		t.Errorf("%d probes of a worker that is to have none", n)
	}
	g.stop(0)
}

// probesDecide counts the probes that it takes to lose a worker, and to have it back.
func probesDecide(t *testing.T, topology ...string) {
	const bad, good = 3, 2
	engines := simtest.StartN(t, 2, simtest.Config())
	g := launched(t, urls(engines), append(topology, "--policy", "round_robin", "--shutdown-grace-period-secs", "0", "--health-check-interval-secs", "1",
		"--health-failure-threshold", strconv.Itoa(bad), "--health-success-threshold", strconv.Itoa(good))...)
	e := engines[0]
	becomes := func(ready bool, least int, rules ...simctl.Rule) {
		t.Helper()
		before := got(t, e, "/health")
		if err := e.SetRules(t.Context(), rules...); err != nil {
			t.Fatal(err)
		}
		await(t, fmt.Sprintf("the worker's readiness to be %v", ready), func() bool {
			w, _ := g.worker(e.URL)
			return w.Healthy == ready && (ready || w.Status == "not_ready")
		})
		if n := got(t, e, "/health") - before; n < least {
			t.Errorf("%d probes were enough for its readiness to be %v, want %d", n, ready, least)
		}
	}
	becomes(false, bad, simctl.Rule{Match: simctl.Match{Path: "/health"}, Status: http.StatusServiceUnavailable})
	await(t, "nothing to come to it", func() bool { return g.routed(4)[e.URL] == 0 })
	if by := g.routed(6); by[e.URL] != 0 {
		t.Errorf("it gets traffic: %v", by)
	}
	becomes(true, good)
	await(t, "an answer of it", func() bool { return g.answersWithin(e.URL, 10) })
	g.stop(0)
}

func TestGatewayReadiness(t *testing.T) {
	all := map[string]func(t *testing.T, topology ...string){}
	for name, r := range map[string]struct {
		mode string
		legs []string // in the order in which they come; the last one makes the fleet ready
	}{
		"2_pd":  {"--pd-disaggregation", []string{"prefill", "decode"}},
		"2_epd": {"--epd-disaggregation", []string{"prefill", "decode", "encode"}},
		"2_igw": {"--enable-igw", []string{"prefill"}},
	} {
		all[name] = func(t *testing.T, topology ...string) {
			g := inFront(t, append(topology, r.mode)...)
			pd := simtest.StartEPD(t, 1, 1, 1, simtest.Config())
			engines := map[string]string{"prefill": pd.Prefill[0].URL, "decode": pd.Decode[0].URL, "encode": pd.Encode[0].URL}
			for i, leg := range r.legs {
				a := do(t, http.MethodGet, g.url+"/readiness", "")
				if a.status != http.StatusServiceUnavailable || !strings.Contains(a.body, "insufficient healthy workers") {
					t.Errorf("before the %s worker: %d %s", leg, a.status, a.body)
				}
				g.add(engines[leg], fmt.Sprintf(`,"worker_type":%q`, leg))
				await(t, "the worker to be ready", func() bool {
					w, _ := g.worker(engines[leg])
					return w.Healthy
				})
				if i == len(r.legs)-1 {
					await(t, "readiness", func() bool { return status(t, g.url+"/readiness") == http.StatusOK })
				}
			}
			// The prefill worker is asked, of which vLLM's have no such route.
			wantProblem(t, do(t, http.MethodGet, g.url+"/get_model_info", ""), http.StatusNotFound, "server_not_found")
			g.stop(0)
		}
	}
	topologies(t, all)
}

func TestFieldMixedFleet(t *testing.T) {
	topologies(t, map[string]func(t *testing.T, topology ...string){"PD-16_a_pair_among_regular_workers": pairAmongRegular})
}

// pairAmongRegular has the first prefill and decode workers come to a fleet of regular
// ones, and the regular ones leave.
func pairAmongRegular(t *testing.T, topology ...string) {
	regular := urls(simtest.StartN(t, 4, simtest.Config()))
	g := launched(t, regular, append(topology, "--enable-igw", "--policy", "round_robin", "--shutdown-grace-period-secs", "0")...)
	cfg := simtest.Config()
	cfg.Kind = simhttp.SGLang
	pd := simtest.StartPD(t, 1, 1, cfg)
	join := func(leg, url, fields string) {
		g.add(url, fmt.Sprintf(`,"worker_type":%q%s`, leg, fields))
		await(t, "the worker to be ready", func() bool {
			w, _ := g.worker(url)
			return w.Healthy
		})
	}
	prefill, decode := pd.Prefill[0], pd.Decode[0]
	join("prefill", prefill.URL, fmt.Sprintf(`,"bootstrap_port":%d`, prefill.PeerPort))
	if by := g.routed(12); len(by) != 4 { // a set of legs that is not whole weighs nothing
		t.Errorf("with a prefill worker alone: %v", by)
	}
	join("decode", decode.URL, "")
	await(t, "an answer of the pair", func() bool { return g.answersWithin(decode.URL, 20) })
	const n = 120 // of which the pair gets a third: 40, with a deviation of 5
	by := g.routed(n)
	if got := by[decode.URL]; got < 15 || got > 75 {
		t.Errorf("the pair has %d of %d: %v", got, n, by)
	}
	for _, url := range regular {
		if by[url] == 0 {
			t.Errorf("%s has none: %v", url, by)
		}
	}
	wantProblem(t, do(t, http.MethodPost, g.url+"/generate", `{"text":"hi"}`), http.StatusBadRequest, "missing_model")
	wantProblem(t, do(t, http.MethodPost, g.url+"/v1/chat/completions", strings.Replace(chat, `"sim"`, `"other"`, 1)), http.StatusNotFound, "model_not_found")
	if a := do(t, http.MethodPost, g.url+"/v1/embeddings", `{"model":"sim","input":"hi"}`); a.status != http.StatusOK {
		t.Errorf("embeddings, which regular workers have: %d %s", a.status, a.body)
	}
	for _, url := range regular {
		g.remove(url)
	}
	await(t, "the pair to have all", func() bool { return g.routed(4)[decode.URL] == 4 })
	wantProblem(t, do(t, http.MethodPost, g.url+"/v1/embeddings", `{"model":"sim","input":"hi"}`), http.StatusNotImplemented, "pd_not_supported")
	g.remove(decode.URL)
	await(t, "the leg that lacks to be named", func() bool {
		a := do(t, http.MethodPost, g.url+"/v1/chat/completions", chat)
		return a.status == http.StatusServiceUnavailable && strings.Contains(a.body, "decode")
	})
	g.stop(0)
}
