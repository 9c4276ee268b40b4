package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"smg/sim/simctl"
	"smg/sim/simhttp"
	"smg/sim/simtest"
)

// kinds are the engines that share requests, each as a test beside the other.
func kinds(t *testing.T, run func(t *testing.T, kind simhttp.Kind)) {
	for _, kind := range []simhttp.Kind{simhttp.SGLang, simhttp.VLLM} {
		t.Run(string(kind), func(t *testing.T) {
			parallel(t)
			run(t, kind)
		})
	}
}

// no is the answer of an engine that refuses.
var no = json.RawMessage(`{"error":{"message":"no, thanks"}}`)

// failsStream wants a decode worker's error as a stream of one event and its end.
func (f *legFleet) failsStream(t *testing.T, a answer, status int, code string, words ...string) {
	t.Helper()
	event, end, ok := strings.Cut(a.body, "\n\n")
	if a.status != status || a.header.Get("X-Smg-Error-Code") != code || a.header.Get("Content-Type") != "text/event-stream" ||
		!ok || end != "data: [DONE]\n\n" || !strings.HasPrefix(event, `data: {"error":{"message":`) || !strings.Contains(event, fmt.Sprintf(`"status":%d`, status)) {
		t.Errorf("status %d, type %q, code %q, want an event of %d, %q and its end: %s", a.status, a.header.Get("Content-Type"), a.header.Get("X-Smg-Error-Code"), status, code, a.body)
	}
	for _, w := range words {
		if !strings.Contains(event, w) {
			t.Errorf("%s does not say %q", event, w)
		}
	}
}

// got is how many chats have reached a leg.
func (f *legFleet) got(t *testing.T, leg string) int {
	t.Helper()
	return len(f.seen(t, leg, chatPath))
}

// TestDisaggLegFails is what a client is told of a leg that fails, and who is charged
// for it. Each request is tried once.
func TestDisaggLegFails(t *testing.T) {
	kinds(t, func(t *testing.T, kind simhttp.Kind) {
		fleet := legs{kind: kind, roles: roles{prefill: 1, decode: 1}, args: once, charging: true}
		fleet.rows(t,
			row{"F7_prefill_500_after_decodes_head", prefillAfterHead},
			row{"F8_decode_500", func(t *testing.T, f *legFleet) {
				f.refuses(t, "decode", chatPath, http.StatusInternalServerError)
				f.fails(t, f.asks(t, ""), http.StatusInternalServerError, "decode_internal_error", "no, thanks", "decode worker "+f.pd.Decode[0].URL)
				f.left(t, "prefill")
				f.charges(t, "decode 0")
			}},
			row{"F8_decode_400", func(t *testing.T, f *legFleet) {
				f.refuses(t, "decode", chatPath, http.StatusBadRequest)
				f.fails(t, f.asks(t, ""), http.StatusBadRequest, "decode_bad_request", "no, thanks")
				f.left(t, "prefill")
				f.charges(t)
			}},
			row{"F9_a_leg_keeps_its_status", func(t *testing.T, f *legFleet) {
				for _, leg := range []string{"prefill", "decode"} {
					for _, status := range []int{429, 422, 413, 401} {
						f.refuses(t, leg, chatPath, status)
						f.fails(t, f.asks(t, ""), status, leg+"_upstream_error", "no, thanks")
					}
					f.faults(t, leg, simctl.Faults{})
				}
				f.charges(t)
			}},
			row{"F10_decode_500_of_a_stream", func(t *testing.T, f *legFleet) {
				f.refuses(t, "decode", chatPath, http.StatusInternalServerError)
				f.failsStream(t, f.asks(t, `,"stream":true`), http.StatusInternalServerError, "decode_internal_error", "no, thanks")
				f.left(t, "prefill")
				f.charges(t, "decode 0")
			}},
			row{"F14_the_client_leaves_a_stream", func(t *testing.T, f *legFleet) {
				f.abandons(t, `,"stream":true`)
				f.charges(t)
			}},
			row{"12.3_headers_on_both_legs", headersOnLegs},
			row{"12.4_first_bad_head", firstBadHead},
			row{"12.8_each_leg_is_charged_for_itself", func(t *testing.T, f *legFleet) {
				for _, leg := range []string{"prefill", "decode"} {
					f.refuses(t, leg, chatPath, http.StatusBadGateway)
					f.fails(t, f.asks(t, ""), http.StatusBadGateway, leg+"_bad_gateway")
					f.charges(t, leg+" 0")
					f.quiet(t)
					f.fresh(t)
				}
			}},
		)
	})
}

// left wants a leg that works beside the other to be left at once when that one fails.
func (f *legFleet) left(t *testing.T, leg string) {
	t.Helper()
	if f.kind == simhttp.SGLang {
		f.closedWithin(t, leg, chatPath, time.Second)
	}
}

// prefillAfterHead has a decode worker that answers before it has the KV. No real one
// does, so it is one without a role.
func prefillAfterHead(t *testing.T, f *legFleet) {
	if f.kind != simhttp.SGLang {
		t.Skip("vLLM's legs work one after the other")
	}
	cfg := simtest.Config()
	cfg.Kind = f.kind
	early := simtest.Start(t, cfg)
	f.without(t, "decode")
	f.join("decode", early)
	await(t, "the decode worker", func() bool {
		return gauges(t, f.metrics, "smg_worker_health")[fmt.Sprintf(`{worker=%q}`, early.URL)] == 1
	})
	pause := simctl.StreamFault{Gap: simctl.Duration(time.Second)}
	if err := early.SetFaults(t.Context(), simctl.Faults{Record: true, Rules: []simctl.Rule{{Match: simctl.Match{Path: chatPath}, Stream: &pause}}}); err != nil {
		t.Fatal(err)
	}
	f.refuses(t, "prefill", chatPath, http.StatusInternalServerError)
	f.fails(t, f.asks(t, `,"stream":true`), http.StatusInternalServerError, "prefill_internal_error", "no, thanks")
	await(t, "decode to be left", func() bool {
		records, err := early.Records(t.Context(), chatPath)
		return err == nil && len(records) == 1 && records[0].Status == http.StatusOK && !records[0].CallerClosed.IsZero()
	})
	f.charges(t, "prefill 0")
	f.remove(early.URL)
}

// abandons asks for a long answer and leaves while it is made: the engine that makes
// it is left within a second.
func (f *legFleet) abandons(t *testing.T, fields string) {
	t.Helper()
	tokens := 500
	f.faults(t, "decode", simctl.Faults{Rules: []simctl.Rule{{
		Match: simctl.Match{Path: chatPath}, Stream: &simctl.StreamFault{Tokens: &tokens, Gap: simctl.Duration(50 * time.Millisecond)},
	}}})
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url+chatPath, strings.NewReader(chatWith(fields+`,"ignore_eos":true`)))
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := resp.Body.Read(make([]byte, 1)); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d: %v", resp.StatusCode, err)
	}
	gone := time.Now()
	leave()
	await(t, "decode to be left", func() bool {
		r := f.seen(t, "decode", chatPath)
		return len(r) > 0 && !r[len(r)-1].CallerClosed.IsZero()
	})
	r := f.seen(t, "decode", chatPath)
	if took := r[len(r)-1].CallerClosed.Sub(gone); took > time.Second {
		t.Errorf("decode was left %v after the client had gone", took)
	}
}

// headersOnLegs looks at what the engines see of a client's headers.
func headersOnLegs(t *testing.T, f *legFleet) {
	passed := map[string]string{
		"Authorization": "Bearer k", "X-Correlation-Id": "c", "Traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		"Tracestate": "a=b", "X-Smg-Routing-Key": "r", "X-Request-Id-Extra": "e",
	}
	var header []string
	for name, value := range passed {
		header = append(header, name, value)
	}
	header = append(header, "X-Request-Id", "req-1", "Cookie", "secret", "X-Secret", "secret", "Forwarded", "for=secret", "Referer", "http://secret")
	if a := do(t, http.MethodPost, f.url+chatPath, chatWith(""), header...); a.status != http.StatusOK {
		t.Fatalf("status %d: %s", a.status, a.body)
	}
	var ids []string
	for _, leg := range []string{"prefill", "decode"} {
		r := f.seen(t, leg, chatPath)
		if len(r) != 1 {
			t.Fatalf("%d requests at %s", len(r), leg)
		}
		for name, want := range passed {
			if got := r[0].Header.Values(name); !slices.Equal(got, []string{want}) {
				t.Errorf("%s has %s %q, want %q", leg, name, got, want)
			}
		}
		for name, values := range r[0].Header {
			if strings.Contains(strings.Join(values, " "), "secret") {
				t.Errorf("%s has %s %q", leg, name, values)
			}
		}
		if got := r[0].Header.Values("Content-Type"); !slices.Equal(got, []string{"application/json"}) {
			t.Errorf("%s has the type %q", leg, got)
		}
		ids = append(ids, strings.Join(r[0].Header.Values("X-Request-Id"), ","))
	}
	if ids[0] != ids[1] || !strings.HasPrefix(ids[0], "req-1") {
		t.Errorf("the legs have the request ids %q", ids)
	}
}

// firstBadHead has one leg refuse while the other would wait for minutes. The client
// is answered, and the other left, within 100 ms. Of some tries the fastest counts,
// since the machine has other work.
func firstBadHead(t *testing.T, f *legFleet) {
	for _, c := range []struct{ bad, waits string }{{"prefill", "decode"}, {"decode", "prefill"}} {
		if f.kind == simhttp.VLLM && c.bad == "decode" {
			continue // prefill has answered by then
		}
		answered, left := time.Hour, time.Hour
		for range 8 {
			f.faults(t, c.waits, simctl.Faults{})
			f.refuses(t, c.bad, chatPath, http.StatusBadRequest)
			f.each(func(_, _ string, e *simtest.Engine) {
				if err := e.Reset(t.Context()); err != nil {
					t.Fatal(err)
				}
			})
			f.faults(t, c.waits, simctl.Faults{})
			f.refuses(t, c.bad, chatPath, http.StatusBadRequest)
			a := f.asks(t, "")
			now := time.Now()
			f.fails(t, a, http.StatusBadRequest, c.bad+"_bad_request", "no, thanks")
			head := f.seen(t, c.bad, chatPath)[0].Ended
			answered = min(answered, now.Sub(head))
			if f.kind == simhttp.VLLM {
				left = 0
				if n := f.got(t, c.waits); n != 0 {
					t.Errorf("%d requests at %s, which has nothing to do yet", n, c.waits)
				}
				continue
			}
			f.left(t, c.waits)
			for _, r := range f.seen(t, c.waits, chatPath) {
				left = min(left, r.CallerClosed.Sub(head))
			}
		}
		if limit := 100 * time.Millisecond; answered > limit || left > limit {
			t.Errorf("%s refused: the client heard of it after %v, and %s was left after %v, want %v", c.bad, answered, c.waits, left, limit)
		}
	}
}

// TestDisaggTriedAgain is what comes of requests that are tried several times within
// one deadline. Answers that charge nobody are what fails them.
func TestDisaggTriedAgain(t *testing.T) {
	const attempts, deadline = 3, 3 * time.Second
	kinds(t, func(t *testing.T, kind simhttp.Kind) {
		fleet := legs{kind: kind, roles: roles{prefill: 1, decode: 1}, charging: true, args: []string{
			"--retry-max-retries", strconv.Itoa(attempts), "--retry-initial-backoff-ms", "10", "--request-timeout-secs", strconv.Itoa(int(deadline.Seconds())),
		}}
		// The limits of time on the far side are for hangs alone.
		timesOut := func(t *testing.T, f *legFleet, attempts int) {
			t.Helper()
			began := time.Now()
			f.fails(t, f.asks(t, ""), http.StatusGatewayTimeout, "request_timeout")
			if took := time.Since(began); took < deadline-100*time.Millisecond || took > deadline+2*time.Second {
				t.Errorf("it took %v, want %v", took, deadline)
			}
			if n := f.got(t, "prefill"); n != attempts {
				t.Errorf("%d requests at prefill, want %d", n, attempts)
			}
		}
		fleet.rows(t,
			row{"F9_decode_429_is_tried_again", func(t *testing.T, f *legFleet) {
				f.faults(t, "decode", simctl.Faults{Rules: []simctl.Rule{{Match: simctl.Match{Path: chatPath, First: 1}, Status: 429, Body: no}}})
				if a := f.asks(t, ""); a.status != http.StatusOK || a.header.Get("X-Smg-Attempts") != "" {
					t.Errorf("status %d, attempts %q: %s", a.status, a.header.Get("X-Smg-Attempts"), a.body)
				}
				if n := f.got(t, "decode"); n != 2 {
					t.Errorf("%d requests at decode, want 2", n)
				}
				f.charges(t)
			}},
			row{"F12_no_head_in_time", func(t *testing.T, f *legFleet) {
				f.faults(t, "decode", simctl.Faults{Rules: []simctl.Rule{{Match: simctl.Match{Path: chatPath}, Hold: true}}})
				timesOut(t, f, 1)
				if kind == simhttp.SGLang {
					f.charges(t, "prefill 0", "decode 0") // prefill has not answered either
				} else {
					f.charges(t, "decode 0")
				}
			}},
			row{"F12_the_deadline_is_that_of_all_attempts", func(t *testing.T, f *legFleet) {
				f.faults(t, "prefill", simctl.Faults{Rules: []simctl.Rule{{
					Match: simctl.Match{Path: chatPath}, Delay: simctl.Duration(deadline * 2 / 3), Status: 503, Body: no,
				}}})
				timesOut(t, f, 2)
			}},
			row{"F28_all_attempts_are_used", func(t *testing.T, f *legFleet) {
				for _, c := range []struct {
					leg    string
					status int
					code   string
				}{{"prefill", 503, "prefill_unavailable"}, {"decode", 429, "decode_upstream_error"}} {
					before := f.got(t, c.leg)
					f.refuses(t, c.leg, chatPath, c.status)
					a := f.asks(t, "")
					f.fails(t, a, c.status, c.code, "no, thanks")
					if n, told := f.got(t, c.leg)-before, a.header.Get("X-Smg-Attempts"); n != attempts || told != strconv.Itoa(attempts) {
						t.Errorf("%d requests at %s, and %q attempts told, want %d", n, c.leg, told, attempts)
					}
					f.faults(t, c.leg, simctl.Faults{})
				}
				f.without(t, "prefill")
				a := f.asks(t, "")
				f.fails(t, a, http.StatusServiceUnavailable, "no_available_workers")
				if told := a.header.Get("X-Smg-Attempts"); told != strconv.Itoa(attempts) {
					t.Errorf("%q attempts told, want %d", told, attempts)
				}
			}},
			row{"F28_one_attempt_is_not_told", func(t *testing.T, f *legFleet) {
				f.refuses(t, "prefill", chatPath, http.StatusBadRequest)
				a := f.asks(t, "")
				f.fails(t, a, http.StatusBadRequest, "prefill_bad_request")
				if told := a.header.Get("X-Smg-Attempts"); told != "" || f.got(t, "prefill") != 1 {
					t.Errorf("%q attempts told, %d made", told, f.got(t, "prefill"))
				}
			}},
		)
	})
}

// atOnce calls every function, some at a time.
func atOnce(calls []func()) {
	limit := make(chan struct{}, 8)
	var all sync.WaitGroup
	for _, call := range calls {
		limit <- struct{}{}
		all.Go(func() {
			defer func() { <-limit }()
			call()
		})
	}
	all.Wait()
}
