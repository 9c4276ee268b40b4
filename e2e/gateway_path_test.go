package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"smg/sim/simctl"
	"smg/sim/simtest"
)

func TestGatewayPath(t *testing.T) {
	topologies(t, map[string]func(t *testing.T, topology ...string){
		"41_requests_wait_for_their_turn": permits,
		"34_a_breaker_opens_and_closes":   breakerLife,
		"35_no_breaker":                   noBreaker,
		"31_attempts":                     attemptsOfFlags,
		"45_unread_bodies_find_their_way": unreadBodies,
	})
}

// holding is an engine that keeps its requests waiting.
func holding(t *testing.T) *simtest.Engine {
	t.Helper()
	e := simtest.StartN(t, 1, simtest.Config())[0]
	if err := e.SetFaults(t.Context(), simctl.Faults{Record: true, Rules: []simctl.Rule{{Match: simctl.Match{Path: chatPath}, Hold: true}}}); err != nil {
		t.Fatal(err)
	}
	return e
}

func permits(t *testing.T, topology ...string) {
	e := holding(t)
	g := launched(t, []string{e.URL}, append(topology, "--policy", "round_robin", "--max-concurrent-requests", "1", "--queue-size", "1",
		"--queue-timeout-secs", "1", "--shutdown-grace-period-secs", "0")...)
	first, leave := context.WithCancel(t.Context())
	defer leave()
	go func() {
		req, err := http.NewRequestWithContext(first, http.MethodPost, g.url+chatPath, strings.NewReader(chatWith("")))
		if err != nil {
			return
		}
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
		}
	}()
	inflight := func() float64 { return gauges(t, g.metrics, "smg_admission_inflight")[""] }
	await(t, "the first request", func() bool { return inflight() == 1 })
	second := make(chan answer, 1)
	go func() { second <- do(t, http.MethodPost, g.url+chatPath, chatWith("")) }()
	await(t, "the second one's wait", func() bool { return gauges(t, g.metrics, "smg_admission_queue_depth")[""] == 1 })
	third := do(t, http.MethodPost, g.url+chatPath, chatWith(""))
	third.fails(t, http.StatusTooManyRequests, "admission_queue_full")
	late := <-second
	late.fails(t, http.StatusServiceUnavailable, "admission_queue_timeout")
	for _, a := range []answer{third, late} {
		if got := a.header.Get("Retry-After"); got != "2" {
			t.Errorf("Retry-After %q", got)
		}
	}
	if err := e.SetFaults(t.Context(), simctl.Faults{}); err != nil { // the first one's answer comes
		t.Fatal(err)
	}
	await(t, "the first one's end", func() bool { return inflight() == 0 })
	if a := do(t, http.MethodPost, g.url+chatPath, chatWith("")); a.status != http.StatusOK {
		t.Errorf("%d %s", a.status, a.body)
	}
	g.stop(0)
}

func breakerLife(t *testing.T, topology ...string) {
	engines := simtest.StartN(t, 2, simtest.Config())
	bad := engines[0]
	fails := func(status int) {
		t.Helper()
		f := simctl.Faults{Record: true}
		if status > 0 {
			f.Rules = []simctl.Rule{{Match: simctl.Match{Path: chatPath}, Status: status}}
		}
		if err := bad.SetFaults(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	g := launched(t, []string{bad.URL, engines[1].URL}, append(topology, "--policy", "round_robin", "--disable-retries",
		"--cb-failure-threshold", "3", "--cb-success-threshold", "3", "--cb-timeout-duration-secs", "2", "--shutdown-grace-period-secs", "0")...)
	label := fmt.Sprintf(`{worker=%q}`, bad.URL)
	state := func() float64 { return gauges(t, g.metrics, "smg_worker_cb_state")[label] }
	ask := func() int { return do(t, http.MethodPost, g.url+chatPath, chatWith("")).status }
	seen := func() int {
		records, err := bad.Records(t.Context(), chatPath)
		if err != nil {
			t.Fatal(err)
		}
		return len(records)
	}
	// opens has requests fail until the breaker is open.
	opens := func() {
		t.Helper()
		await(t, "the breaker to open", func() bool { ask(); return state() == 1 })
	}
	fails(http.StatusInternalServerError)
	outcomes := func(outcome string) float64 {
		return gauges(t, g.metrics, "smg_worker_cb_outcomes_total")[fmt.Sprintf(`{outcome=%q,worker=%q}`, outcome, bad.URL)]
	}
	for seen() < 2 {
		ask()
	}
	await(t, "two failures to be counted", func() bool { return outcomes("failure") == 2 })
	if got := state(); got != 0 {
		t.Errorf("two failures have put the breaker into state %v, want three", got)
	}
	opens()
	before := seen()
	if n := outcomes("failure"); before < 3 || n < 3 {
		t.Errorf("open after %d requests and %v failures, want 3", before, n)
	}
	for range 4 {
		if got := ask(); got != http.StatusOK {
			t.Errorf("the other one's answer: %d", got)
		}
	}
	if n := seen() - before; n > 1 { // one may be the probe of a half-open breaker on a busy machine
		t.Errorf("an open breaker let %d of 4 requests through", n)
	}
	if a := do(t, http.MethodGet, g.url+"/workers", ""); !strings.Contains(a.body, `"circuit_breaker":"open"`) && !strings.Contains(a.body, `"circuit_breaker":"half_open"`) {
		t.Errorf("workers do not show the breaker: %s", a.body)
	}
	await(t, "another failure to open it again", func() bool { ask(); return seen() > before && state() == 1 })
	await(t, "time to half open it", func() bool { return state() == 2 })
	fails(0)
	good := outcomes("success")
	await(t, "good requests to close it", func() bool { ask(); return state() == 0 })
	await(t, "what closed it to be counted", func() bool { return outcomes("success")-good >= 3 })
	for _, status := range []int{http.StatusTooManyRequests, http.StatusNotFound} {
		fails(status)
		for range 8 {
			ask()
		}
		if got := state(); got != 0 {
			t.Errorf("answers of %d have put the breaker into state %v", status, got)
		}
	}
	g.stop(0)
}

// attemptsOfFlags has a worker that always refuses be asked as often as the flags say.
func attemptsOfFlags(t *testing.T, topology ...string) {
	for _, c := range []struct {
		flags []string
		want  int
	}{{[]string{"--retry-max-retries", "3", "--retry-initial-backoff-ms", "1"}, 3}, {[]string{"--disable-retries"}, 1}} {
		e := simtest.Start(t, simtest.Config())
		rule := simctl.Rule{Match: simctl.Match{Path: chatPath}, Status: http.StatusServiceUnavailable, Body: no}
		if err := e.SetFaults(t.Context(), simctl.Faults{Record: true, Rules: []simctl.Rule{rule}}); err != nil {
			t.Fatal(err)
		}
		g := launched(t, []string{e.URL}, slices.Concat(topology, c.flags, []string{"--shutdown-grace-period-secs", "0"})...)
		a := do(t, http.MethodPost, g.url+chatPath, chatWith(""))
		if a.status != http.StatusServiceUnavailable || a.header.Get("X-Smg-Error-Code") != "" || strings.TrimSpace(a.body) != string(no) {
			t.Errorf("%v: %d %s, want the worker's own answer", c.flags, a.status, a.body)
		}
		if n := got(t, e, chatPath); n != c.want {
			t.Errorf("%v: %d requests, want %d", c.flags, n, c.want)
		}
		for name, want := range map[string]float64{"smg_worker_retries_total": float64(c.want - 1), "smg_worker_retries_exhausted_total": 1} {
			await(t, name, func() bool { return total(t, g.metrics, name) == want })
		}
		g.stop(0)
	}
}

// noBreaker has a worker that always fails keep its turn.
func noBreaker(t *testing.T, topology ...string) {
	const requests = 12
	engines := simtest.StartN(t, 2, simtest.Config())
	bad := engines[0]
	if err := bad.SetRules(t.Context(), simctl.Rule{Match: simctl.Match{Path: chatPath}, Status: http.StatusInternalServerError}); err != nil {
		t.Fatal(err)
	}
	g := launched(t, urls(engines), append(topology, "--policy", "round_robin", "--disable-retries", "--disable-circuit-breaker", "--cb-failure-threshold", "1",
		"--plan-timeout-ms", "60000", "--shutdown-grace-period-secs", "0")...)
	failed := 0
	for range requests {
		if a := do(t, http.MethodPost, g.url+chatPath, chat); a.status != http.StatusOK {
			failed++
		}
	}
	if n := got(t, bad, chatPath); n != requests/2 || failed != n {
		t.Errorf("%d requests failed, and %d came to the worker that fails, want %d", failed, n, requests/2)
	}
	await(t, "its failures to be counted", func() bool {
		return gauges(t, g.metrics, "smg_worker_cb_outcomes_total")[fmt.Sprintf(`{outcome="failure",worker=%q}`, bad.URL)] == requests/2
	})
	if state := gauges(t, g.metrics, "smg_worker_cb_state")[fmt.Sprintf("{worker=%q}", bad.URL)]; state != 0 {
		t.Errorf("its breaker is in state %v", state)
	}
	g.stop(0)
}

func unreadBodies(t *testing.T, topology ...string) {
	engines := simtest.StartN(t, 2, simtest.Config())
	for _, e := range engines {
		if err := e.SetFaults(t.Context(), simctl.Faults{Record: true}); err != nil {
			t.Fatal(err)
		}
	}
	g := launched(t, []string{engines[0].URL, engines[1].URL}, append(topology, "--policy", "prefix_hash", "--max-buffered-request-bytes", "10",
		"--shutdown-grace-period-secs", "0")...)
	branches := func(name string) float64 {
		return gauges(t, g.metrics, "smg_prefix_hash_policy_branch_total")[fmt.Sprintf(`{branch=%q}`, name)]
	}
	body := chatWith("")
	if a := do(t, http.MethodPost, g.url+chatPath, body); a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	await(t, "a request without a key to be counted", func() bool { return branches("no_routing_key") == 1 })
	worker := map[string]bool{}
	for range 3 {
		a := do(t, http.MethodPost, g.url+chatPath, body, "X-SMG-Routing-Key", "a-conversation")
		if a.status != http.StatusOK {
			t.Fatalf("%d %s", a.status, a.body)
		}
		worker[a.header.Get("X-Smg-Routed-Worker-Id")] = true
	}
	await(t, "those with a key to be counted", func() bool { return branches("ring_hit") == 3 })
	if len(worker) != 1 {
		t.Errorf("one key went to %v", worker)
	}
	for _, e := range engines {
		records, err := e.Records(t.Context(), chatPath)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			if string(r.Body) != body || r.Header.Get("Content-Length") != "" || r.Header.Get("Content-Type") != "application/json" {
				t.Errorf("the engine got %q with %v", r.Body, r.Header)
			}
		}
	}
	if got := gauges(t, g.metrics, "smg_router_request_body_path_total")[`{path="streamed",reason="retry_forfeited"}`]; got != 4 {
		t.Errorf("%v bodies were passed on", got)
	}
	t.Run("47_a_client_leaves", func(t *testing.T) { leaves(t, g, engines) })
	if a := do(t, http.MethodPost, g.url+chatPath, "{"); a.status/100 != 4 { // the engine's own word
		t.Errorf("%d %s", a.status, a.body)
	}
	g.stop(0)
}

// leaves has a client leave before its answer, and in the midst of it.
func leaves(t *testing.T, g *gateway, engines []*simtest.Engine) {
	running := func() (n float64) {
		for _, v := range gauges(t, g.metrics, "smg_worker_requests_active") {
			n += v
		}
		return n
	}
	for name, rule := range map[string]simctl.Rule{
		"before its answer": {Hold: true},
		"in the midst":      {Stream: &simctl.StreamFault{Gap: simctl.Duration(time.Minute)}},
	} {
		rule.Match.Path = chatPath
		for _, e := range engines {
			if err := e.Reset(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := e.SetFaults(t.Context(), simctl.Faults{Record: true, Rules: []simctl.Rule{rule}}); err != nil {
				t.Fatal(err)
			}
		}
		ctx, leave := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url+chatPath, strings.NewReader(chatWith(`,"stream":true`)))
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if resp, err := http.DefaultClient.Do(req); err == nil {
				_, _ = io.ReadAll(resp.Body)
				resp.Body.Close()
			}
		}()
		await(t, "the request to run", func() bool { return running() == 1 })
		var of *simtest.Engine
		await(t, "an engine to have it", func() bool {
			for _, e := range engines {
				records, err := e.Records(t.Context(), chatPath)
				if err != nil {
					t.Fatal(err)
				}
				if len(records) == 1 {
					of = e
				}
			}
			return of != nil
		})
		left := time.Now()
		leave()
		<-ended
		await(t, "its count to fall", func() bool { return running() == 0 })
		var at time.Time
		await(t, "the engine to be left", func() bool {
			records, err := of.Records(t.Context(), chatPath)
			if err == nil && len(records) == 1 {
				at = records[0].CallerClosed
			}
			return !at.IsZero()
		})
		if took := at.Sub(left); took > time.Second {
			t.Errorf("%s: the engine was left after %v", name, took)
		}
	}
	for _, e := range engines {
		if err := e.SetFaults(t.Context(), simctl.Faults{}); err != nil {
			t.Fatal(err)
		}
	}
}
