package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"smg/sim/simctl"
)

// TestGatewayEveryLeg is what depends on no policy of a leg. In one process each policy is
// that of one leg, and in several that of the other one. Only prefill can have bucket,
// and no leg passthrough.
func TestGatewayEveryLeg(t *testing.T) {
	for i, pair := range [][2]string{
		{"cache_aware", "power_of_two"}, {"consistent_hashing", "prefix_hash"}, {"least_load", "random"}, {"manual", "round_robin"}, {"bucket", ""},
	} {
		for _, p := range []struct{ topology, prefill, decode string }{{"single", pair[0], pair[1]}, {"split", pair[1], pair[0]}} {
			switch {
			case p.prefill == "":
				continue
			case p.decode == "":
				p.decode = "random"
			}
			t.Run(p.topology+"_"+p.prefill+"_"+p.decode, func(t *testing.T) {
				parallel(t)
				// The streams are slow enough to be looked at.
				w := startWatched(t, prefillDecode(t, 2, 2, slow(10*time.Millisecond)), nil, "--topology", p.topology, "--prefill-policy", p.prefill, "--decode-policy", p.decode,
					"--routing-key-override", "--worker-overload-waiting-requests", "5", "--load-monitor-interval", "1")
				w.says(`^ready +4 of `)
				for _, leg := range w.legs() {
					w.report(t, leg, calm)
				}
				run := func(name string, run func(t *testing.T, w *watched)) {
					t.Run(name, func(t *testing.T) {
						w.t = t
						run(t, w)
					})
				}
				if i == 0 {
					run("23_decode_answers", decodeAnswers)
					run("47_a_client_leaves_both", leavesBoth)
				}
				run("48_legs_are_counted", legsAreCounted)
				run("39_either_leg_is_overloaded", eitherLegIsOverloaded)
				w.t = t
				w.stop(0)
			})
		}
	}
}

// report is what all workers of a leg say of their load from now on, or one of them.
func (w *watched) report(t *testing.T, leg string, loads simctl.LoadsOverride, only ...string) {
	t.Helper()
	for _, e := range w.workers[leg] {
		if len(only) == 0 || slices.Contains(only, e.URL) {
			reports(t, e, loads)
		}
	}
}

func decodeAnswers(t *testing.T, w *watched) {
	for _, c := range []struct{ id, fields string }{{"plain", ""}, {"streamed", `,"stream":true`}} {
		by, _ := w.asks(c.id, chatOf("Hello", c.fields))
		if at := w.reached("decode")[c.id]; by == "" || by != at {
			t.Errorf("%s: the answer names %q, and %q decoded it", c.id, by, at)
		}
	}
}

// leavesBoth has a client leave while prefill is at work, and in the midst of the answer.
func leavesBoth(t *testing.T, w *watched) {
	running := func() float64 { return total(t, w.metrics, "smg_worker_requests_active") }
	leaves := func(id string, legs ...string) {
		t.Helper()
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _, _ = w.post(ctx, id, request{path: chatPath, body: chatStream(500)})
		}()
		await(t, "the request to run", func() bool {
			return running() == float64(len(legs)) && w.reached("prefill")[id] != "" && w.reached("decode")[id] != ""
		})
		left := time.Now()
		leave()
		<-ended
		await(t, "its count to fall", func() bool { return running() == 0 })
		for _, leg := range legs {
			await(t, "the engine to be left by "+leg, func() bool {
				for _, e := range w.workers[leg] {
					records, err := e.Records(t.Context(), chatPath)
					if err != nil {
						t.Fatal(err)
					}
					for _, r := range records {
						if r.Header.Get("X-Request-Id") == id {
							// Of two that wait for one another, the one that is left first ends the other's work.
							return !r.CallerClosed.IsZero() || len(legs) > 1 && !r.Ended.IsZero()
						}
					}
				}
				return false
			})
		}
		if took := time.Since(left); took > 5*time.Second { // a second, and what a busy machine adds
			t.Errorf("%s: the engines were left after %v", id, took)
		}
	}
	holds := func(hold bool) {
		t.Helper()
		for _, e := range w.workers["prefill"] {
			f := simctl.Faults{Record: true, Loads: &calm}
			if hold {
				f.Transfer = &simctl.TransferFault{Hold: true}
			}
			if err := e.SetFaults(t.Context(), f); err != nil {
				t.Fatal(err)
			}
		}
	}
	holds(true)
	leaves("during-prefill", "decode", "prefill")
	holds(false)
	leaves("in-the-midst", "decode")
	w.quiet()
}

// legsAreCounted has a request whose prefill is held, and then one whose stream is.
func legsAreCounted(t *testing.T, w *watched) {
	w.quiet()
	counts := func(when string, ofPrefill, ofDecode int) {
		t.Helper()
		for _, gauge := range countsOfCalls {
			awaitSame(t, gauge+" "+when, map[string]int{"prefill": ofPrefill, "decode": ofDecode}, func() map[string]int {
				by := map[string]int{}
				for _, leg := range w.legs() {
					by[leg] = 0
					for _, n := range w.active(leg, gauge) {
						by[leg] += n
					}
				}
				return by
			})
		}
	}
	faults := func(leg string, f simctl.Faults) {
		t.Helper()
		f.Record, f.Loads = true, &calm
		for _, e := range w.workers[leg] {
			if err := e.SetFaults(t.Context(), f); err != nil {
				t.Fatal(err)
			}
		}
	}
	faults("prefill", simctl.Faults{Transfer: &simctl.TransferFault{Hold: true}})
	answers, failed := make(chan *http.Response, 1), make(chan error, 1)
	go func() {
		resp, err := open(t, http.MethodPost, w.url+chatPath, chatStream(60))
		if err != nil {
			failed <- err
			return
		}
		answers <- resp
	}()
	counts("while prefill is held", 1, 1)
	faults("prefill", simctl.Faults{})
	select {
	case resp := <-answers:
		s := eventsOf(t, resp)
		faults("decode", simctl.Faults{Freeze: true})
		counts("while the stream stands still", 0, 1)
		faults("decode", simctl.Faults{})
		if pieces, whole := s.rest(); !whole || pieces < 30 {
			t.Errorf("%d pieces, whole: %v", pieces, whole)
		}
	case err := <-failed:
		t.Fatal(err)
	}
	counts("after the stream", 0, 0)
}

// eitherLegIsOverloaded has the workers of a key, one of each leg, report too much, and
// then all of a leg.
func eitherLegIsOverloaded(t *testing.T, w *watched) {
	asked := 0
	ask := func(keyed bool) (id string, a answer) {
		t.Helper()
		asked++
		id = fmt.Sprintf("overload-%d", asked)
		header := []string{"X-Request-Id", id}
		if keyed {
			header = append(header, "X-SMG-Routing-Key", "of-a-conversation")
		}
		return id, do(t, http.MethodPost, w.url+chatPath, strings.Replace(chat, `"max_tokens":5`, `"max_tokens":1`, 1), header...)
	}
	at := func(id string) map[string]string {
		t.Helper()
		return map[string]string{"prefill": w.reached("prefill")[id], "decode": w.reached("decode")[id]}
	}
	vetoed := func(n float64) {
		t.Helper()
		await(t, fmt.Sprintf("%v workers to be overloaded", n), func() bool { return total(t, w.metrics, "smg_workers_overloaded") == n })
	}
	w.quiet()
	id, _ := ask(true)
	home := at(id)
	w.quiet()
	id, _ = ask(true)
	other := map[string]string{}
	for leg, by := range at(id) {
		if by == "" || by != home[leg] {
			t.Errorf("the key went to %s worker %q, then to %q", leg, home[leg], by)
		}
		for _, e := range w.workers[leg] {
			if e.URL != home[leg] {
				other[leg] = e.URL
			}
		}
	}
	w.report(t, "prefill", swamped, home["prefill"])
	w.report(t, "decode", swamped, home["decode"])
	vetoed(2)
	for _, keyed := range []bool{false, false, false, true} {
		id, a := ask(keyed)
		if a.status != http.StatusOK {
			t.Errorf("keyed %v: %d %s", keyed, a.status, a.body)
		}
		for leg, by := range at(id) {
			if by != other[leg] {
				t.Errorf("keyed %v: %s worker %q has it, want %s", keyed, leg, by, other[leg])
			}
		}
	}
	selection := func() float64 { return gauges(t, w.metrics, "smg_worker_overload_shed_total")[`{stage="selection"}`] }
	sheds := func(leg string) {
		t.Helper()
		before := selection()
		for _, keyed := range []bool{false, true} {
			id, a := ask(keyed)
			a.fails(t, http.StatusServiceUnavailable, "worker_overload_protection_shed")
			if after := a.header.Get("Retry-After"); after != "1" || !strings.Contains(a.body, leg+" worker") { // the interval of loads
				t.Errorf("Retry-After %q, %s", after, a.body)
			}
			for _, by := range at(id) {
				if by != "" {
					t.Errorf("it came to %s", by)
				}
			}
		}
		await(t, "two more sheds", func() bool { return selection() == before+2 })
	}
	w.report(t, "prefill", swamped)
	vetoed(3)
	sheds("prefill")
	w.report(t, "prefill", calm)
	w.report(t, "decode", swamped)
	await(t, "the other leg to be told", func() bool {
		_, a := ask(false)
		return strings.Contains(a.body, "decode worker")
	})
	sheds("decode")
	w.report(t, "decode", calm)
	await(t, "an answer once nobody is overloaded", func() bool {
		_, a := ask(false)
		return a.status == http.StatusOK
	})
	w.quiet()
}
