package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"smg/sim/simctl"
	"smg/sim/simtest"
)

// TestPolicies is the numbered cases of policies that only the programs can show.
func TestPolicies(t *testing.T) {
	topologies(t, map[string]func(t *testing.T, topology ...string){
		"IF-7_new_labels_while_requests_run": newLabels,
	})
	cases(t, map[string]func(t *testing.T){
		"IF-5_legs_are_counted_for_as_long_as_they_last": legsCounted,
		"LG-7_legs_take_turns":                           legsInTurn,
		"LG-8_labels_do_not_touch_legs":                  labelledLegs,
		"PT-5_nobody_asks_for_loads":                     noLoads,
		"ST-4_ST-5_ST-6_turns_stay_with_their_worker":    turnsStay,
	})
}

// legsCounted has a request whose prefill is held, and then one whose stream is.
func legsCounted(t *testing.T) {
	start := func(t *testing.T, topology ...string) *watched {
		return startWatched(t, prefillDecode(t, 1, 1, slow(20*time.Millisecond)), nil, append(topology, "--policy", "round_robin")...)
	}
	inBoth(t, start, func(t *testing.T, w *watched) {
		prefill, decode := w.workers["prefill"][0], w.workers["decode"][0]
		counts := func(when string, ofPrefill, ofDecode int) {
			t.Helper()
			want := map[string]int{prefill.URL: ofPrefill, decode.URL: ofDecode}
			for _, gauge := range countsOfCalls {
				awaitSame(t, gauge+" "+when, want, func() map[string]int {
					by := map[string]int{prefill.URL: 0, decode.URL: 0}
					for _, leg := range w.legs() {
						maps.Copy(by, w.active(leg, gauge))
					}
					return by
				})
			}
		}
		faults := func(e *simtest.Engine, f simctl.Faults) {
			t.Helper()
			if err := e.SetFaults(t.Context(), f); err != nil {
				t.Fatal(err)
			}
		}
		faults(prefill, simctl.Faults{Transfer: &simctl.TransferFault{Hold: true}})
		answer, failed := make(chan *http.Response, 1), make(chan error, 1)
		go func() {
			resp, err := open(t, http.MethodPost, w.url+"/v1/chat/completions", chatStream(40))
			if err != nil {
				failed <- err
				return
			}
			answer <- resp
		}()
		counts("while prefill is held", 1, 1)
		faults(prefill, simctl.Faults{})
		var s *events
		select {
		case resp := <-answer:
			s = eventsOf(t, resp)
		case err := <-failed:
			t.Fatal(err)
		}
		faults(decode, simctl.Faults{Freeze: true})
		counts("while the stream stands still", 0, 1)
		faults(decode, simctl.Faults{})
		if pieces, whole := s.rest(); !whole || pieces < 20 {
			t.Errorf("%d pieces, whole: %v", pieces, whole)
		}
		counts("after the stream", 0, 0)
	})
}

// legsInTurn holds 40 requests to ten for each worker of both legs.
func legsInTurn(t *testing.T) {
	tr := onLegs("round_robin", "round_robin", nil)
	tr.fleet = func(t *testing.T) fleet { return prefillDecode(t, 4, 4, simtest.Config()) }
	inBoth(t, tr.start, func(t *testing.T, w *watched) {
		for i := range 24 {
			w.asks(fmt.Sprintf("one-%d", i), mixed(i, false))
		}
		w.atOnce("more-", 16, w.clients(16), func(i int) request { return mixed(i, false) })()
		for _, leg := range w.legs() {
			want := map[string]int{}
			for _, e := range w.workers[leg] {
				want[e.URL] = 10
			}
			if diff := cmp.Diff(want, w.reachedBy(leg)); diff != "" {
				t.Errorf("requests by worker of leg %s (-want +got):\n%s", leg, diff)
			}
		}
		awaitSame(t, "selections", map[string]int{"prefill round_robin": 40, "decode round_robin": 40}, w.selections)
		w.quiet()
	})
}

// labelledLegs adds workers of both legs whose labels name another policy.
func labelledLegs(t *testing.T) {
	start := func(t *testing.T, topology ...string) *watched {
		return startWatched(t, fleet{}, nil, append(topology, "--policy", "round_robin", "--pd-disaggregation")...)
	}
	inBoth(t, start, func(t *testing.T, w *watched) {
		w.workers = prefillDecode(t, 2, 2, simtest.Config())
		w.rules(t)
		await(t, "the API", func() bool { return !refused(t, w.url+"/health") && status(t, w.url+"/health") == http.StatusOK })
		for _, leg := range w.legs() {
			for _, e := range w.workers[leg] {
				fields := fmt.Sprintf(`,"worker_type":%q,"labels":{"policy":"random"}`, leg)
				if leg == "prefill" {
					fields += fmt.Sprintf(`,"bootstrap_port":%d`, e.PeerPort)
				}
				w.add(e.URL, fields)
			}
		}
		asked := 0
		ask := func() bool {
			asked++
			_, _, err := w.post(t.Context(), fmt.Sprintf("one-%d", asked), chatOf("Hello", ""))
			return err == nil
		}
		await(t, "an answer of everybody", func() bool { return ask() && len(w.reachedBy("prefill")) == 2 && len(w.reachedBy("decode")) == 2 })
		before := map[string]map[string]int{"prefill": w.reachedBy("prefill"), "decode": w.reachedBy("decode")}
		const requests = 24
		for range requests {
			if !ask() {
				t.Error("a request failed")
			}
		}
		for _, leg := range w.legs() {
			for url, n := range w.reachedBy(leg) {
				if n -= before[leg][url]; n != requests/2 {
					t.Errorf("%s of leg %s got %d of %d requests, want half", url, leg, n, requests)
				}
			}
		}
		for by := range w.selections() {
			if !strings.HasSuffix(by, " round_robin") {
				t.Errorf("there are selections of %s", by)
			}
		}
	})
}

// noLoads holds a gateway that needs no loads to asking for none.
func noLoads(t *testing.T) {
	start := func(t *testing.T, topology ...string) *watched {
		return startWatched(t, regular(t, 1), nil, append(topology, "--policy", "passthrough", "--disable-load-monitoring", "--health-check-interval-secs", "1")...)
	}
	inBoth(t, start, func(t *testing.T, w *watched) {
		for i := range 4 {
			w.asks(fmt.Sprintf("one-%d", i), mixed(i, false))
		}
		e := w.workers["regular"][0]
		// Of the second the polls would come soon after.
		await(t, "three health probes", func() bool { return got(t, e, "/health") >= 3 })
		records, err := e.Records(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			if strings.Contains(r.Path, "load") || strings.HasPrefix(r.Path, "/metrics") {
				t.Errorf("it was asked for %s", r.Path)
			}
		}
	})
}

// turnsStay has conversations, known by the rid of their requests or by a header,
// stay with the worker of their first turn, which the policy chooses.
func turnsStay(t *testing.T) {
	tr := alone("cache_aware", 3, nil, "--routing-key-override")
	tr.sticky = true
	inBoth(t, tr.start, func(t *testing.T, w *watched) {
		tr.run(t, w)
		asked := 0
		turn := func(r request) decision {
			t.Helper()
			asked++
			by, _ := w.asks(fmt.Sprintf("turn-%d", asked), r)
			d := w.decided("regular", "sticky routing decision", 1)[0]
			// Releases travel in batches, and these turns are shorter than one: without
			// waiting, two that have ended would count against a key's limit of two.
			w.quiet()
			if d.worker != by {
				t.Errorf("turn %d was answered by %s, but the log says %s", asked, by, d.worker)
			}
			return d
		}
		stays := func(name string, turns func(text, id string) request) {
			t.Helper()
			first := turn(turns(document(name+" at first"), name+"_t1"))
			if first.branch != "vacant" {
				t.Errorf("the first turn of %s is %s", name, first.branch)
			}
			for i, id := range []string{name + "_t2", name + "_t3", name + "_t3_r1", name} {
				if d := turn(turns(document(fmt.Sprintf("%d for %s", i, name)), id)); d.worker != first.worker || d.branch != "occupied_hit" {
					t.Errorf("turn %s: %s chose %s, want %s", id, d.branch, d.worker, first.worker)
				}
			}
		}
		for c := range 5 {
			// ST-5: the header does not matter beside a rid.
			stays(fmt.Sprintf("conv%d", c), func(text, id string) request {
				return chatOf(text, fmt.Sprintf(`,"rid":%q`, id)).with("X-SMG-Routing-Key", fmt.Sprintf("other-%d", asked))
			})
			// ST-4
			stays(fmt.Sprintf("chat%d", c), func(text, id string) request { return chatOf(text, "").with("X-SMG-Routing-Key", id) })
		}
		// ST-6: the first turn goes where its text is, which somebody else has asked
		// about; the next one has another text.
		text := document("Cicero")
		home, _ := w.asks("first-of-all", chatOf(text, ""))
		w.quiet()
		for _, text := range []string{text, document("Donatus")} {
			if d := turn(chatOf(text, `,"rid":"conv_t1"`)); d.worker != home {
				t.Errorf("the conversation went to %s, want %s", d.worker, home)
			}
		}
		sources := map[string]int{}
		for labels, v := range gauges(t, w.metrics, "smg_routing_key_source_total") {
			sources[label(labels, "source")] = int(v)
		}
		if diff := cmp.Diff(map[string]int{"rid": 27, "header": 36 + 25}, sources); diff != "" {
			t.Errorf("sources of keys (-want +got):\n%s", diff)
		}
		w.quiet()
	})
}
