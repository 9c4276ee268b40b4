package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"smg/sim/simctl"
	"smg/sim/simhttp"
	"smg/sim/simtest"
)

// waitingAt is how many requests wait for a decode worker.
func waitingAt(t *testing.T, page string) float64 {
	t.Helper()
	return total(t, page, "smg_selector_requests_waiting")
}

// inLine waits until so many requests wait.
func (f *legFleet) inLine(t *testing.T, n int) {
	t.Helper()
	await(t, fmt.Sprintf("%d requests in line", n), func() bool { return waitingAt(t, f.metrics) == float64(n) })
}

// fills has decode hold a request, and returns once it is there, with what is answered
// once it is let go.
func (f *legFleet) fills(t *testing.T, fields string) (got chan answer) {
	t.Helper()
	f.faults(t, "decode", held(chatPath))
	got = make(chan answer, 1)
	go func() { got <- f.asksFor(t, "holds", fields) }()
	f.arrived(t, "decode", 1)
	return got
}

// asksFor asks with words of its own.
func (f *legFleet) asksFor(t *testing.T, words, fields string) answer {
	t.Helper()
	return do(t, http.MethodPost, f.url+chatPath, strings.Replace(chatWith(fields), "Hello", words, 1))
}

// letsGo has an engine of decode go on.
func (f *legFleet) letsGo(t *testing.T) {
	t.Helper()
	f.faults(t, "decode", simctl.Faults{})
}

// overlap is how many requests an engine had at the same time. A busy machine notes late
// that one has ended.
func overlap(records []simctl.Record) (most int) {
	const late = 200 * time.Millisecond
	type edge struct {
		at time.Time
		by int
	}
	var edges []edge
	for _, r := range records {
		edges = append(edges, edge{r.Arrived, 1})
		if end := r.Ended.Add(-late); !r.Ended.IsZero() {
			if !end.After(r.Arrived) {
				end = r.Arrived.Add(1)
			}
			edges = append(edges, edge{end, -1})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int {
		if c := a.at.Compare(b.at); c != 0 {
			return c
		}
		return a.by - b.by
	})
	n := 0
	for _, e := range edges {
		n += e.by
		most = max(most, n)
	}
	return most
}

// TestDisaggAdmission is what becomes of requests that decode has no room for.
func TestDisaggAdmission(t *testing.T) {
	kinds(t, func(t *testing.T, kind simhttp.Kind) {
		t.Run("a_second", func(t *testing.T) {
			legs{
				kind: kind, roles: roles{prefill: 1, decode: 1},
				args: []string{"--pd-max-rooms-per-decode", "1", "--pd-admission-wait-secs", "1"},
			}.rows(t, row{"no_room_in_time", noRoom})
		})
		legs{
			kind: kind, roles: roles{prefill: 1, decode: 1},
			args: []string{"--pd-max-rooms-per-decode", "1", "--pd-admission-wait-secs", "60"},
			cfg:  func(c *simhttp.Config) { c.Disagg.Lease = time.Minute },
		}.rows(t,
			row{"first_come_first_served", servedInTurn},
			row{"the_client_leaves_while_it_waits", leavesLine},
			row{"a_batch_counts_as_many_as_it_has", batchWaits},
		)
	})
	t.Run("split_selector", func(t *testing.T) {
		parallel(t)
		t.Run("the_selector_is_killed_while_20_wait", selectorKilledInLine)
	})
	t.Run("two_ingresses", func(t *testing.T) {
		parallel(t)
		t.Run("share_one_bound", ingressesShare)
	})
}

func noRoom(t *testing.T, f *legFleet) {
	got := f.fills(t, "")
	shed := func() float64 {
		return gauges(t, f.metrics, "smg_worker_overload_shed_total")[`{stage="pd_admission"}`]
	}
	waits, sheds, staged := total(t, f.metrics, "smg_pd_admission_waits_total"), total(t, f.metrics, "smg_pd_admission_sheds_total"), shed()
	began := time.Now()
	a := f.asks(t, "")
	took := time.Since(began)
	f.fails(t, a, http.StatusServiceUnavailable, "pd_admission_timeout", "decode worker", "had room", "for 1s")
	if a.header.Get("Retry-After") == "" || a.header.Get("X-Smg-Attempts") != "" {
		t.Errorf("header %v, want when to come back, and no attempts", a.header)
	}
	if took < time.Second || took > 6*time.Second {
		t.Errorf("it took %v, want a second", took)
	}
	if w, s, n := total(t, f.metrics, "smg_pd_admission_waits_total")-waits, total(t, f.metrics, "smg_pd_admission_sheds_total")-sheds, shed()-staged; w != 1 || s != 1 || n != 1 {
		t.Errorf("%v waits, %v sheds, %v of them staged, want one", w, s, n)
	}
	f.oneEach(t, chatPath) // that which fills
	f.letsGo(t)
	if a := <-got; a.status != http.StatusOK {
		t.Errorf("status %d: %s", a.status, a.body)
	}
	f.answers(t, 1)
}

// servedInTurn has requests wait one after the other.
func servedInTurn(t *testing.T, f *legFleet) {
	const n = 6
	got := f.fills(t, "")
	rest := make(chan answer, n)
	for i := range n {
		go func() { rest <- f.asksFor(t, fmt.Sprintf("number %d", i), "") }()
		f.inLine(t, i+1)
	}
	f.waitsInStatus(t, n)
	f.letsGo(t)
	for range n {
		if a := <-rest; a.status != http.StatusOK {
			t.Errorf("status %d: %s", a.status, a.body)
		}
	}
	<-got
	for _, leg := range []string{"prefill", "decode"} {
		seen := f.seen(t, leg, chatPath)
		if len(seen) != n+1 {
			t.Fatalf("%d requests at %s, want %d", len(seen), leg, n+1)
		}
		for i, r := range seen[1:] {
			if !bytes.Contains(r.Body, fmt.Appendf(nil, "number %d", i)) {
				t.Errorf("%s got as its %d.: %s", leg, i+1, r.Body)
			}
		}
	}
	if most := overlap(f.seen(t, "decode", chatPath)); most != 1 {
		t.Errorf("decode had %d requests at a time, want 1", most)
	}
}

// waitsInStatus wants those who wait in the status, of the decode leg alone.
func (f *legFleet) waitsInStatus(t *testing.T, n int) {
	t.Helper()
	var card struct {
		Legs []struct {
			Leg     string `json:"leg"`
			Waiting int    `json:"waiting_requests"`
			Most    *int   `json:"max_rooms_per_worker"`
		} `json:"legs"`
	}
	if err := json.Unmarshal([]byte(get(t, f.url+"/status")), &card); err != nil {
		t.Fatal(err)
	}
	for _, l := range card.Legs {
		switch {
		case l.Leg != "decode" && (l.Waiting != 0 || l.Most != nil), l.Leg == "decode" && (l.Waiting != n || l.Most == nil || *l.Most != 1):
			t.Errorf("status of a leg: %+v, want %d at decode", l, n)
		}
	}
}

// leavesLine has a client leave: nobody is asked for anything for it, and those behind
// it move up.
func leavesLine(t *testing.T, f *legFleet) {
	got := f.fills(t, "")
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url+chatPath, strings.NewReader(chatWith("")))
		if err == nil {
			var resp *http.Response
			if resp, err = http.DefaultClient.Do(req); err == nil {
				resp.Body.Close()
			}
		}
		gone <- err
	}()
	f.inLine(t, 1)
	behind := make(chan answer, 1)
	go func() { behind <- f.asksFor(t, "behind", "") }()
	f.inLine(t, 2)
	leave()
	if err := <-gone; err == nil {
		t.Error("the one who left was answered")
	}
	f.inLine(t, 1)
	f.letsGo(t)
	<-got
	if a := <-behind; a.status != http.StatusOK {
		t.Errorf("status %d: %s", a.status, a.body)
	}
	if p, d := len(f.seen(t, "prefill", chatPath)), len(f.seen(t, "decode", chatPath)); p != 2 || d != 2 {
		t.Errorf("%d requests at prefill and %d at decode, want 2", p, d)
	}
}

// batchWaits: of a chat with two answers decode computes two sequences, which it gets
// alone.
func batchWaits(t *testing.T, f *legFleet) {
	got := f.fills(t, "")
	both := make(chan answer, 2)
	go func() { both <- f.asksFor(t, "two", `,"n":2`) }()
	f.inLine(t, 1)
	go func() { both <- f.asksFor(t, "one", "") }()
	f.inLine(t, 2)
	f.letsGo(t)
	<-got
	for range 2 {
		if a := <-both; a.status != http.StatusOK {
			t.Errorf("status %d: %s", a.status, a.body)
		}
	}
	seen := f.seen(t, "decode", chatPath)
	if len(seen) != 3 || !bytes.Contains(seen[1].Body, []byte("two")) || overlap(seen) != 1 {
		t.Errorf("decode had %d of %d requests at a time", overlap(seen), len(seen))
	}
}

// selectorKilledInLine has the only decode selector die: those who wait go on waiting at
// the next one, and nobody gets past the bound.
func selectorKilledInLine(t *testing.T) {
	const waiting = 20
	l := legs{
		kind: simhttp.SGLang, roles: roles{prefill: 1, decode: 1},
		args: []string{"--pd-max-rooms-per-decode", "2", "--pd-admission-wait-secs", "120", "--disable-retries"},
	}
	f := l.start(t, "split")
	f.fresh(t)
	f.fills(t, "")
	rest := make(chan answer, waiting+1)
	go func() { rest <- f.asksFor(t, "holds", "") }()
	f.arrived(t, "decode", 2)
	for i := range waiting {
		go func() { rest <- f.asksFor(t, fmt.Sprint("number ", i), "") }()
	}
	f.inLine(t, waiting)
	f.kill("selector decode", syscall.SIGKILL)
	await(t, "another selector", func() bool { return len(f.pidsOf("selector decode")) == 2 })
	f.inLine(t, waiting)
	f.letsGo(t)
	for range waiting + 1 {
		if a := <-rest; a.status != http.StatusOK || a.header.Get("X-Smg-Degraded") != "" {
			t.Errorf("status %d, header %v: %s", a.status, a.header, a.body)
		}
	}
	seen := f.seen(t, "decode", chatPath)
	if most := overlap(seen); most != 2 || len(seen) != waiting+2 {
		t.Errorf("decode had %d of %d requests at a time, want 2 of %d", most, len(seen), waiting+2)
	}
	f.quiet(t)
	f.inLine(t, 0)
	f.stop(0)
}

// ingressesShare has two ingresses send more than there is room for.
func ingressesShare(t *testing.T) {
	const each, most = 24, 3
	n := startNATS(t)
	cfg := simtest.Config()
	cfg.TimeScale, cfg.Core.DecodeStep = 1, 80*time.Millisecond
	pd := simtest.StartPD(t, 1, 1, cfg)
	if err := pd.Decode[0].SetFaults(t.Context(), simctl.Faults{Record: true}); err != nil {
		t.Fatal(err)
	}
	bound := []string{"--pd-max-rooms-per-decode", fmt.Sprint(most)}
	selectorOn(t, n.url(), "prefill", "--policy", "round_robin")
	_, page := selectorOn(t, n.url(), "decode", append(bound, "--policy", "round_robin")...)
	args := slices.Concat([]string{"--pd-disaggregation", "--prefill", pd.Prefill[0].URL, fmt.Sprint(pd.Prefill[0].PeerPort), "--decode", pd.Decode[0].URL}, bound)
	var sending sync.WaitGroup
	var gateways []*gateway
	for range 2 {
		g := ingressOn(t, n.url(), args...)
		g.says(`^ready +2 of 2 workers`)
		gateways = append(gateways, g)
	}
	for i, g := range gateways {
		for k := range each {
			sending.Go(func() {
				a := do(t, http.MethodPost, g.url+chatPath, strings.Replace(chatWith(""), "Hello", fmt.Sprintf("%d of %d", k, i), 1))
				if a.status != http.StatusOK || a.header.Get("X-Smg-Degraded") != "" {
					t.Errorf("status %d, header %v: %s", a.status, a.header, a.body)
				}
			})
		}
	}
	sending.Wait()
	records, err := pd.Decode[0].Records(t.Context(), chatPath)
	if err != nil {
		t.Fatal(err)
	}
	if got := overlap(records); got != most || len(records) != 2*each {
		t.Errorf("decode had %d of %d requests at a time, want %d of %d", got, len(records), most, 2*each)
	}
	for _, g := range gateways {
		if total(t, g.metrics, "smg_pd_admission_waits_total") == 0 {
			t.Error("nobody has waited at one of the ingresses")
		}
	}
	await(t, "nothing to be left", func() bool {
		return waitingAt(t, page) == 0 && total(t, page, "smg_selector_rooms_active") == 0
	})
}

// TestDisaggOverload is the rows of the failure matrix of a leg that overload protection
// closes. That a worker is closed between the choice and the dispatch (F3) is a test of
// package ingress: no selector picks one of whom an ingress has heard so.
func TestDisaggOverload(t *testing.T) {
	kinds(t, func(t *testing.T, kind simhttp.Kind) {
		rows := []row{}
		for _, leg := range []string{"prefill", "decode"} {
			rows = append(rows, row{"F2_all_of_" + leg + "_are_overloaded", func(t *testing.T, f *legFleet) {
				f.answers(t, 1)
				f.faults(t, leg, simctl.Faults{Loads: &simctl.LoadsOverride{TokenUsage: new(0.95)}})
				var a answer
				await(t, "a refusal", func() bool {
					a = f.asks(t, "")
					return a.status != http.StatusOK
				})
				f.fails(t, a, http.StatusServiceUnavailable, "worker_overload_protection_shed", leg+" worker")
				if a.header.Get("Retry-After") != "1" {
					t.Errorf("header %v, want when to come back", a.header)
				}
				sent := len(f.seen(t, "prefill", chatPath)) + len(f.seen(t, "decode", chatPath))
				f.fails(t, f.asks(t, ""), http.StatusServiceUnavailable, "worker_overload_protection_shed", leg+" worker")
				if n := len(f.seen(t, "prefill", chatPath)) + len(f.seen(t, "decode", chatPath)); n != sent {
					t.Errorf("%d requests were sent", n-sent)
				}
			}})
		}
		legs{
			kind: kind, roles: roles{prefill: 2, decode: 2},
			args: []string{"--worker-overload-protection", "--load-monitor-interval", "1"},
		}.rows(t, rows...)
	})
}

// TestFieldAdmission is reports of others about decode engines that are full.
func TestFieldAdmission(t *testing.T) {
	const limit = 3 * time.Second // of the wait here, and of prefill's patience
	for _, kind := range []simhttp.Kind{simhttp.SGLang, simhttp.VLLM} {
		t.Run(string(kind), func(t *testing.T) {
			parallel(t)
			args := []string{"--disable-retries", "--load-monitor-interval", "1", "--pd-admission-wait-secs", fmt.Sprint(limit.Seconds())}
			if kind == simhttp.VLLM { // which does not report how much it runs at a time
				args = append(args, "--pd-max-rooms-per-decode", "4")
			}
			legs{
				kind: kind, roles: roles{prefill: 1, decode: 1}, args: args,
				cfg: func(c *simhttp.Config) {
					c.TimeScale, c.Core.DecodeStep = 1, 20*time.Millisecond
					c.Disagg.BootstrapTimeout, c.Disagg.Lease = limit, limit
				},
			}.rows(t,
				row{"PD-10_a_burst_wider_than_the_decode_window", func(t *testing.T, f *legFleet) { wideBurst(t, f, limit) }})
		})
	}
	t.Run("vllm_full", func(t *testing.T) {
		parallel(t)
		legs{
			kind: simhttp.VLLM, roles: roles{prefill: 1, decode: 1}, args: []string{"--disable-retries", "--pd-max-rooms-per-decode", "1"},
			cfg: func(c *simhttp.Config) { c.Disagg.Lease = time.Second },
		}.rows(t,
			row{"KV-04_decode_has_no_room_for_longer_than_KV_is_kept", func(t *testing.T, f *legFleet) {
				got := f.fills(t, `,"n":2`)
				late := make(chan answer, 1)
				go func() { late <- f.asksFor(t, "late", "") }()
				f.inLine(t, 1)
				outlive(t)
				if n := len(f.seen(t, "prefill", chatPath)); n != 0 {
					t.Errorf("%d prompts were computed while decode had no room", n)
				}
				f.letsGo(t)
				f.freshKV(t, got, late)
			}})
	})
	t.Run("vllm_gone", func(t *testing.T) {
		parallel(t)
		legs{
			kind: simhttp.VLLM, roles: roles{prefill: 1, decode: 2}, args: []string{"--pd-max-rooms-per-decode", "1", "--disable-circuit-breaker"},
			cfg: func(c *simhttp.Config) { c.Disagg.Lease = time.Second },
		}.rows(t,
			row{"KV-04_the_other_decode_worker_has_no_room", func(t *testing.T, f *legFleet) {
				got := f.fills(t, `,"n":2`)
				full, free := 0, 1
				if r, err := f.pd.Decode[0].Records(t.Context(), chatPath); err != nil || len(r) == 0 {
					full, free = 1, 0
				}
				if err := f.pd.Decode[free].SetFaults(t.Context(), simctl.Faults{Refuse: true, Record: true}); err != nil {
					t.Fatal(err)
				}
				late := make(chan answer, 1)
				go func() { late <- f.asksFor(t, "late", "") }()
				f.inLine(t, 1)
				outlive(t)
				if n := len(f.seen(t, "prefill", chatPath)); n != 1 {
					t.Errorf("%d prompts were computed before decode had room, want that for the worker that is gone", n)
				}
				if err := f.pd.Decode[full].SetFaults(t.Context(), simctl.Faults{Record: true}); err != nil {
					t.Fatal(err)
				}
				f.freshKV(t, got, late)
				f.letsGo(t)
			}})
	})
}

// outlive waits for longer than KV is kept.
func outlive(t *testing.T) {
	t.Helper()
	began := time.Now()
	await(t, "KV to grow old", func() bool { return time.Since(began) > 2*time.Second })
}

// freshKV wants the one who was late to have KV that decode could fetch. The first one
// has brought none.
func (f *legFleet) freshKV(t *testing.T, got, late chan answer) {
	t.Helper()
	for _, c := range []chan answer{got, late} {
		if a := <-c; a.status != http.StatusOK {
			t.Errorf("status %d: %s", a.status, a.body)
		}
	}
	if tr := f.transferred(t, "decode", simctl.Transfers{}); tr.Received != 1 || tr.Failed != 0 {
		t.Errorf("decode counts %+v, want the late one's KV received", tr)
	}
}

// wideBurst sends ten times as much as decode runs at a time.
func wideBurst(t *testing.T, f *legFleet, limit time.Duration) {
	const asked, window, service = 40, 4, 500 * time.Millisecond
	f.faults(t, "decode", simctl.Faults{Window: new(window)})
	if f.kind == simhttp.SGLang {
		await(t, "the window to be reported", func() bool { return len(f.seen(t, "decode", "/v1/loads")) >= 2 })
	}
	type result struct {
		answer
		took time.Duration
	}
	results := make(chan result, asked)
	for i := range asked {
		go func() {
			began := time.Now()
			a := do(t, http.MethodPost, f.url+chatPath, fmt.Sprintf(`{"model":"sim","messages":[{"role":"user","content":"Number %d"}],"max_tokens":25}`, i))
			results <- result{a, time.Since(began)}
		}()
	}
	served, refused := 0, 0
	for range asked {
		r := <-results
		switch r.status {
		case http.StatusOK:
			served++
		case http.StatusServiceUnavailable:
			refused++
			f.fails(t, r.answer, http.StatusServiceUnavailable, "pd_admission_timeout")
		default:
			t.Errorf("status %d: %s", r.status, r.body)
		}
		if r.took > limit+service+limit { // a busy machine is slow
			t.Errorf("a request took %v, want %v at most", r.took, limit+service)
		}
	}
	t.Logf("%d served, %d refused", served, refused)
	if served <= 2*window {
		t.Errorf("%d requests were served", served)
	}
	decode := f.seen(t, "decode", chatPath)
	if most := overlap(decode); most > window {
		t.Errorf("decode had %d requests at a time, want %d", most, window)
	}
	if p := len(f.seen(t, "prefill", chatPath)); p != served || len(decode) != served {
		t.Errorf("%d requests at prefill and %d at decode, want those that were served, %d", p, len(decode), served)
	}
	for _, e := range f.pd.All() {
		tr, err := e.Transfers(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if tr.BootstrapFailed+tr.Failed+tr.Expired+tr.Recomputed != 0 {
			t.Errorf("KV was lost: %+v", tr)
		}
	}
}
