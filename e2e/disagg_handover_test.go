package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"smg/sim/simctl"
	"smg/sim/simhttp"
)

// held keeps requests of a path until they are released.
func held(path string) simctl.Faults {
	return simctl.Faults{Rules: []simctl.Rule{{Match: simctl.Match{Path: path}, Hold: true}}}
}

// begin sends a chat whose client leaves when the returned function is called.
func (f *legFleet) begin(t *testing.T, fields string) (leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url+chatPath, strings.NewReader(chatWith(fields)))
		if err != nil {
			t.Error(err)
			return
		}
		req.Header.Set("Content-Type", "application/json")
		req.Close = true
		if resp, err := http.DefaultClient.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	}()
	leave = func() { cancel(); <-done }
	t.Cleanup(leave)
	return leave
}

// arrived waits until a leg has that many chats.
func (f *legFleet) arrived(t *testing.T, leg string, n int) {
	t.Helper()
	await(t, leg+" to have its requests", func() bool { return len(f.seen(t, leg, chatPath)) >= n })
}

// transferred adds up what a leg's engines have seen of KV since before, which may be
// the zero value.
func (f *legFleet) transferred(t *testing.T, leg string, before simctl.Transfers) (sum simctl.Transfers) {
	t.Helper()
	for _, e := range f.engines(leg) {
		tr, err := e.Transfers(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		sum.Sent, sum.Received, sum.Recomputed, sum.Failed, sum.Expired = sum.Sent+tr.Sent, sum.Received+tr.Received, sum.Recomputed+tr.Recomputed, sum.Failed+tr.Failed, sum.Expired+tr.Expired
	}
	sum.Sent, sum.Received, sum.Recomputed, sum.Failed, sum.Expired = sum.Sent-before.Sent, sum.Received-before.Received, sum.Recomputed-before.Recomputed, sum.Failed-before.Failed, sum.Expired-before.Expired
	return sum
}

// members are those of a recorded body.
func members(t *testing.T, body []byte) (m map[string]json.RawMessage) {
	t.Helper()
	if err := json.Unmarshal(body, &m); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return m
}

// lacks wants none of these members in a body.
func lacks(t *testing.T, who string, body []byte, names ...string) {
	t.Helper()
	m := members(t, body)
	for _, name := range names {
		if v, ok := m[name]; ok {
			t.Errorf("%s got %s: %s", who, name, v)
		}
	}
}

// oneEach wants one request for a path on either leg, and returns them.
func (f *legFleet) oneEach(t *testing.T, path string) (prefill, decode simctl.Record) {
	t.Helper()
	p, d := f.seen(t, "prefill", path), f.seen(t, "decode", path)
	if len(p) != 1 || len(d) != 1 {
		t.Fatalf("%d requests at prefill and %d at decode, want one each", len(p), len(d))
	}
	return p[0], d[0]
}

// relabel registers a leg's workers anew, with labels.
func (f *legFleet) relabel(t *testing.T, leg, labels string) {
	t.Helper()
	f.without(t, leg)
	for _, e := range f.engines(leg) {
		f.add(e.URL, fmt.Sprintf(`,"worker_type":%q,"labels":%s`, leg, labels))
	}
	f.usable(t)
}

// TestDisaggHandOver is how KV gets from vLLM's prefill to decode, and what becomes of
// it when something goes wrong.
func TestDisaggHandOver(t *testing.T) {
	t.Run("sglang", func(t *testing.T) {
		parallel(t)
		legs{kind: simhttp.SGLang, roles: roles{prefill: 1, decode: 1}, args: once, charging: true}.rows(t,
			row{"F13_client_leaves_before_the_heads", func(t *testing.T, f *legFleet) {
				f.faults(t, "prefill", held(chatPath))
				f.faults(t, "decode", held(chatPath))
				leave := f.begin(t, "")
				f.arrived(t, "prefill", 1)
				f.arrived(t, "decode", 1)
				left := time.Now()
				leave()
				f.idle(t)
				for _, leg := range []string{"prefill", "decode"} {
					f.closedWithin(t, leg, chatPath, time.Since(f.seen(t, leg, chatPath)[0].Arrived))
					if took := f.seen(t, leg, chatPath)[0].CallerClosed.Sub(left); took > time.Second {
						t.Errorf("%s was left %v after the client", leg, took)
					}
				}
				f.charges(t)
			}},
		)
	})
	t.Run("vllm", func(t *testing.T) {
		parallel(t)
		legs{kind: simhttp.VLLM, roles: roles{prefill: 1, decode: 1}, args: once, charging: true}.rows(t,
			row{"F13_client_leaves_before_prefills_head", func(t *testing.T, f *legFleet) {
				f.faults(t, "prefill", held(chatPath))
				leave := f.begin(t, "")
				f.arrived(t, "prefill", 1)
				leave()
				f.idle(t)
				f.closedWithin(t, "prefill", chatPath, 5*time.Second)
				if n := len(f.seen(t, "decode", chatPath)); n != 0 {
					t.Errorf("%d requests at decode, want none", n)
				}
				f.charges(t)
			}},
			row{"F13_client_leaves_while_decode_fetches", func(t *testing.T, f *legFleet) { f.lingers(t, `,"stream":true`) }},
			row{"F13_the_same_of_a_whole_answer", func(t *testing.T, f *legFleet) { f.lingers(t, "") }},
			row{"F15_prefill_400", func(t *testing.T, f *legFleet) {
				f.refuses(t, "prefill", chatPath, http.StatusBadRequest)
				f.fails(t, f.asks(t, ""), http.StatusBadRequest, "prefill_bad_request", "no, thanks")
				f.prefillAlone(t)
			}},
			row{"F15_prefill_429", func(t *testing.T, f *legFleet) {
				f.refuses(t, "prefill", chatPath, http.StatusTooManyRequests)
				f.fails(t, f.asks(t, `,"stream":true`), http.StatusTooManyRequests, "prefill_upstream_error", "no, thanks")
				f.prefillAlone(t)
			}},
			row{"F15_prefill_500", func(t *testing.T, f *legFleet) {
				f.refuses(t, "prefill", chatPath, http.StatusInternalServerError)
				f.fails(t, f.asks(t, ""), http.StatusInternalServerError, "prefill_internal_error", "no, thanks")
				f.prefillAlone(t, "prefill 0")
			}},
			row{"F15_prefill_is_gone", func(t *testing.T, f *legFleet) {
				f.faults(t, "prefill", simctl.Faults{Refuse: true})
				f.fails(t, f.asks(t, ""), http.StatusBadGateway, "prefill_request_failed", "prefill worker "+f.pd.Prefill[0].URL)
				f.prefillAlone(t, "prefill 0")
			}},
			row{"F15_prefill_breaks_off", func(t *testing.T, f *legFleet) {
				cut := 20
				f.faults(t, "prefill", simctl.Faults{Rules: []simctl.Rule{{Match: simctl.Match{Path: chatPath}, CutBody: &cut}}})
				f.fails(t, f.asks(t, ""), http.StatusBadGateway, "prefill_read_failed", "broke off")
				f.prefillAlone(t, "prefill 0")
			}},
			row{"F16_prefill_does_not_say_where", func(t *testing.T, f *legFleet) {
				for body, why := range map[string]string{`{"id":"x","choices":[]}`: "no parameters", `{"KV_transfer_params":{"a":1}}`: "another key", `{"kv_transfer_params":null}`: "null", `"no JSON`: "no JSON"} {
					text, err := json.Marshal(body)
					if err != nil {
						t.Fatal(err)
					}
					f.faults(t, "prefill", simctl.Faults{Rules: []simctl.Rule{{Match: simctl.Match{Path: chatPath}, Status: 200, Body: text}}})
					before := gauges(t, f.metrics, "smg_pd_kv_transfer_failures_total")[`{backend_type="pd",model="sim",runtime="vllm"}`]
					f.faults(t, "decode", simctl.Faults{})
					seen := len(f.seen(t, "decode", chatPath))
					if a := f.asks(t, ""); a.status != http.StatusOK {
						t.Errorf("%s: status %d: %s", why, a.status, a.body)
					}
					if n := gauges(t, f.metrics, "smg_pd_kv_transfer_failures_total")[`{backend_type="pd",model="sim",runtime="vllm"}`] - before; n != 1 {
						t.Errorf("%s: %v failures were counted, want 1", why, n)
					}
					d := f.seen(t, "decode", chatPath)
					if len(d) != seen+1 {
						t.Fatalf("%s: %d requests at decode", why, len(d)-seen)
					}
					lacks(t, "decode", d[len(d)-1].Body, "kv_transfer_params")
				}
				f.charges(t)
			}},
			row{"F17_decode_is_gone_and_there_is_no_other", func(t *testing.T, f *legFleet) {
				abandoned := total(t, f.metrics, "smg_pd_kv_abandoned_total")
				f.faults(t, "decode", simctl.Faults{Refuse: true})
				f.fails(t, f.asks(t, ""), http.StatusBadGateway, "decode_request_failed", "decode worker "+f.pd.Decode[0].URL)
				// The engine is asked to let go, and has no such route.
				await(t, "the KV to be given up", func() bool { return total(t, f.metrics, "smg_pd_kv_abandoned_total") == abandoned+1 })
				f.charges(t, "decode 0")
			}},
			row{"F8_decode_that_refuses_lets_prefill_go", func(t *testing.T, f *legFleet) {
				// It tells prefill by itself; what it has fetched is nobody's any more.
				abandoned := total(t, f.metrics, "smg_pd_kv_abandoned_total")
				f.refuses(t, "decode", chatPath, http.StatusBadRequest)
				f.fails(t, f.asks(t, ""), http.StatusBadRequest, "decode_bad_request", "no, thanks")
				f.idle(t)
				if n := total(t, f.metrics, "smg_pd_kv_abandoned_total") - abandoned; n != 0 {
					t.Errorf("%v prompts count as abandoned, want none", n)
				}
				f.charges(t)
			}},
			row{"F5_decode_that_breaks_off_may_have_fetched", func(t *testing.T, f *legFleet) {
				abandoned := total(t, f.metrics, "smg_pd_kv_abandoned_total")
				f.faults(t, "decode", simctl.Faults{Rules: []simctl.Rule{{Match: simctl.Match{Path: chatPath}, Drop: true}}})
				f.fails(t, f.asks(t, ""), http.StatusBadGateway, "decode_request_failed", f.pd.Decode[0].URL)
				await(t, "prefill to be asked to let go", func() bool {
					r := f.seen(t, "prefill", "/abort_requests")
					return len(r) == 1 && !r[0].Ended.IsZero()
				})
				f.idle(t)
				if n := total(t, f.metrics, "smg_pd_kv_abandoned_total") - abandoned; n != 0 {
					t.Errorf("%v prompts count as abandoned, want none: decode may have fetched it", n)
				}
				f.charges(t, "decode 0")
			}},
			row{"F18_several_prompts_are_decodes_alone", func(t *testing.T, f *legFleet) {
				for _, prompt := range []string{`["one","two"]`, `[[1,2],[3]]`} {
					a := do(t, http.MethodPost, f.url+completionsPath, `{"model":"sim","max_tokens":2,"prompt":`+prompt+`}`)
					if a.status != http.StatusOK || strings.Count(a.body, `"finish_reason"`) != 2 {
						t.Errorf("status %d: %s", a.status, a.body)
					}
				}
				if n := len(f.seen(t, "prefill", "")); n > 0 {
					for _, r := range f.seen(t, "prefill", completionsPath) {
						t.Errorf("prefill got %s", r.Body)
					}
				}
				for _, r := range f.seen(t, "decode", completionsPath) {
					lacks(t, "decode", r.Body, "kv_transfer_params")
				}
				// The list form of one prompt, and a prompt of token ids, are handed over.
				before := f.transferred(t, "decode", simctl.Transfers{})
				for _, prompt := range []string{`["one"]`, `[1,2]`} {
					if a := do(t, http.MethodPost, f.url+completionsPath, `{"model":"sim","max_tokens":2,"prompt":`+prompt+`}`); a.status != http.StatusOK {
						t.Errorf("status %d: %s", a.status, a.body)
					}
				}
				if tr := f.transferred(t, "decode", before); tr.Received != 2 || tr.Recomputed != 0 {
					t.Errorf("decode counts %+v, want 2 received", tr)
				}
			}},
			row{"7_what_prefill_is_asked", func(t *testing.T, f *legFleet) {
				for _, c := range []struct{ path, body, limit string }{
					{chatPath, `{"model":"sim","messages":[{"role":"user","content":"Hello"}],"stream":true,"stream_options":{"include_usage":true},"min_tokens":2,"n":1,"max_tokens":7,"max_completion_tokens":5%s}`, "max_completion_tokens"},
					{completionsPath, `{"model":"sim","prompt":"Hello","stream":true,"stream_options":{"include_usage":true},"min_tokens":2,"n":1,"max_tokens":5%s}`, "max_tokens"},
				} {
					f.faults(t, "prefill", simctl.Faults{Strict: true})
					f.faults(t, "decode", simctl.Faults{Strict: true})
					if a := do(t, http.MethodPost, f.url+c.path, fmt.Sprintf(c.body, "")); a.status != http.StatusOK {
						t.Fatalf("status %d: %s", a.status, a.body)
					}
					p, d := f.oneEach(t, c.path)
					lacks(t, "prefill", p.Body, "stream_options", "min_tokens")
					got := members(t, p.Body)
					if string(got["stream"]) != "false" || string(got["n"]) != "1" || string(got[c.limit]) != "1" || string(got["kv_transfer_params"]) != `{"do_remote_decode":true,"do_remote_prefill":false}` {
						t.Errorf("prefill got %s", p.Body)
					}
					if c.limit != "max_tokens" {
						lacks(t, "prefill", p.Body, "max_tokens")
					}
					params := `,"kv_transfer_params":` + string(members(t, d.Body)["kv_transfer_params"])
					if want := fmt.Sprintf(c.body, params); string(d.Body) != want {
						t.Errorf("decode got %s, want %s", d.Body, want)
					}
				}
			}},
		)
	})
	t.Run("retries", func(t *testing.T) {
		parallel(t)
		legs{kind: simhttp.VLLM, roles: roles{prefill: 1, decode: 2}, charging: true}.rows(t,
			row{"F17_another_decode_fetches_the_same_KV", func(t *testing.T, f *legFleet) {
				if err := f.pd.Decode[0].SetFaults(t.Context(), simctl.Faults{Refuse: true, Record: true}); err != nil {
					t.Fatal(err)
				}
				before := f.transferred(t, "decode", simctl.Transfers{})
				const asked = 3 // round robin: one of them goes to the first
				for range asked {
					if a := f.asks(t, ""); a.status != http.StatusOK {
						t.Errorf("status %d: %s", a.status, a.body)
					}
				}
				if n := len(f.seen(t, "prefill", chatPath)); n != asked {
					t.Errorf("%d requests at prefill, want %d", n, asked)
				}
				if tr := f.transferred(t, "decode", before); tr.Received != asked || tr.Recomputed != 0 {
					t.Errorf("decode counts %+v, want %d received", tr, asked)
				}
				f.charges(t, "decode 0")
			}},
			row{"F17_both_are_gone", func(t *testing.T, f *legFleet) {
				f.faults(t, "decode", simctl.Faults{Refuse: true})
				a := f.asks(t, "")
				if a.status != http.StatusBadGateway && a.status != http.StatusServiceUnavailable {
					t.Errorf("status %d: %s", a.status, a.body)
				}
				// One prefill for two decode workers, and then there is nobody to plan with.
				if n := len(f.seen(t, "prefill", chatPath)); n != 1 {
					t.Errorf("%d requests at prefill, want 1", n)
				}
				f.charges(t, "decode 0", "decode 1")
			}},
			row{"F17_decode_that_answers_is_not_asked_again", func(t *testing.T, f *legFleet) {
				f.faults(t, "decode", simctl.Faults{Rules: []simctl.Rule{{Match: simctl.Match{Path: chatPath, First: 1}, Status: http.StatusServiceUnavailable}}})
				if a := f.asks(t, ""); a.status != http.StatusOK {
					t.Errorf("status %d: %s", a.status, a.body)
				}
				if p, d := len(f.seen(t, "prefill", chatPath)), len(f.seen(t, "decode", chatPath)); p != d || p < 2 {
					t.Errorf("%d requests at prefill, %d at decode: want every try to begin with prefill", p, d)
				}
			}},
		)
	})
}

// prefillAlone wants decode to have got nothing, and these workers charged.
func (f *legFleet) prefillAlone(t *testing.T, charged ...string) {
	t.Helper()
	if n := len(f.seen(t, "decode", chatPath)); n != 0 {
		t.Errorf("%d requests at decode, want none", n)
	}
	f.charges(t, charged...)
}

// lingers has a client leave while a decode engine that has its KV to fetch has not
// begun to answer: the engine is not to notice before it has.
func (f *legFleet) lingers(t *testing.T, fields string) {
	t.Helper()
	f.faults(t, "decode", held(chatPath))
	before := f.transferred(t, "decode", simctl.Transfers{})
	leave := f.begin(t, fields)
	f.arrived(t, "decode", 1)
	leave()
	f.idle(t) // nobody counts it any more
	time.Sleep(300 * time.Millisecond)
	if r := f.seen(t, "decode", chatPath)[0]; !r.CallerClosed.IsZero() {
		t.Errorf("decode was left before it had begun to answer")
	}
	if _, err := f.pd.Decode[0].Release(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	await(t, "decode to be done", func() bool { return !f.seen(t, "decode", chatPath)[0].Ended.IsZero() })
	if tr := f.transferred(t, "decode", before); tr.Received != 1 {
		t.Errorf("decode counts %+v, want the KV received", tr)
	}
	f.charges(t)
}

// TestFieldHandOver is reports from the field about KV that is handed over.
func TestFieldHandOver(t *testing.T) {
	t.Run("vllm", func(t *testing.T) {
		parallel(t)
		legs{kind: simhttp.VLLM, roles: roles{prefill: 1, decode: 1}, args: once}.rows(t,
			row{"PD-06_streaming_options_do_not_reach_prefill", func(t *testing.T, f *legFleet) {
				f.faults(t, "prefill", simctl.Faults{Strict: true})
				before := f.transferred(t, "decode", simctl.Transfers{})
				a := f.asks(t, `,"stream":true,"stream_options":{"include_usage":true},"min_tokens":2`)
				if a.status != http.StatusOK || !strings.Contains(a.body, `"usage"`) {
					t.Errorf("status %d: %s", a.status, a.body)
				}
				p, d := f.oneEach(t, chatPath)
				if p.Status != http.StatusOK {
					t.Errorf("prefill answered %d", p.Status)
				}
				lacks(t, "prefill", p.Body, "stream_options", "min_tokens")
				rest, _, _ := bytes.Cut(d.Body, []byte(`,"kv_transfer_params"`))
				if want := strings.TrimSuffix(chatWith(`,"stream":true,"stream_options":{"include_usage":true},"min_tokens":2`), "}"); string(rest) != want {
					t.Errorf("decode got %s, want %s and the parameters", d.Body, want)
				}
				if tr := f.transferred(t, "decode", before); tr.Received != 1 || tr.Recomputed != 0 {
					t.Errorf("decode counts %+v, want the KV received", tr)
				}
			}},
			row{"KV-05_parameters_are_relayed_as_they_are", func(t *testing.T, f *legFleet) { f.verbatim(t) }},
			row{"KV-05_with_a_connector_that_is_named", func(t *testing.T, f *legFleet) {
				f.relabel(t, "prefill", `{"kv_connector":"NixlConnector"}`)
				f.relabel(t, "decode", `{"kv_connector":"NixlConnector"}`)
				f.verbatim(t)
			}},
			row{"KV-05_with_a_connector_that_needs_no_tag", func(t *testing.T, f *legFleet) {
				f.relabel(t, "prefill", `{"kv_connector":"LMCacheConnectorV1"}`)
				f.relabel(t, "decode", `{"kv_connector":"LMCacheConnectorV1"}`)
				f.verbatim(t)
				lacks(t, "prefill", f.seen(t, "prefill", chatPath)[0].Body, "kv_transfer_params")
				if n := gauges(t, f.metrics, "smg_pd_kv_connector_mode_total")[`{mode="passthrough"}`]; n != 1 {
					t.Errorf("%v requests passed through, want 1", n)
				}
			}},
		)
	})
	t.Run("release", func(t *testing.T) {
		parallel(t)
		legs{
			kind: simhttp.VLLM, roles: roles{prefill: 1, decode: 1}, args: []string{"--retry-max-retries", "2"},
			cfg: func(c *simhttp.Config) { c.Disagg.TokensOnly, c.Disagg.Lease = true, 5*time.Minute },
		}.rows(t,
			row{"KV-02_no_decode_is_left_when_prefill_has_answered", func(t *testing.T, f *legFleet) {
				abandoned := total(t, f.metrics, "smg_pd_kv_abandoned_total")
				f.faults(t, "prefill", held(chatPath))
				got := make(chan answer, 1)
				go func() { got <- f.asks(t, "") }()
				f.arrived(t, "prefill", 1)
				f.faults(t, "decode", simctl.Faults{Refuse: true})
				f.without(t, "decode")
				if _, err := f.pd.Prefill[0].Release(t.Context(), 0); err != nil {
					t.Fatal(err)
				}
				f.fails(t, <-got, http.StatusServiceUnavailable, "no_available_workers", "no decode worker")
				f.frees(t, 2*time.Second)
				if n := total(t, f.metrics, "smg_pd_kv_abandoned_total") - abandoned; n != 0 {
					t.Errorf("%v were abandoned, want none", n)
				}
			}},
		)
	})
	t.Run("late", func(t *testing.T) {
		parallel(t)
		legs{
			kind: simhttp.VLLM, roles: roles{prefill: 4, decode: 1}, args: []string{"--request-timeout-secs", "1"},
		}.rows(t,
			row{"KV-03_prefill_takes_as_long_as_the_time_limit", func(t *testing.T, f *legFleet) {
				f.faults(t, "prefill", simctl.Faults{Rules: []simctl.Rule{{Match: simctl.Match{Path: chatPath}, Delay: simctl.Duration(1100 * time.Millisecond)}}})
				const asked = 20
				got := make(chan answer, asked)
				for range asked {
					go func() { got <- f.asks(t, "") }()
				}
				for range asked {
					f.fails(t, <-got, http.StatusGatewayTimeout, "request_timeout")
				}
				if n := len(f.seen(t, "prefill", chatPath)); n > 2*asked {
					t.Errorf("%d prefills of %d requests", n, asked)
				}
				f.quiet(t)
			}},
			row{"the_time_is_up_while_decode_fetches", func(t *testing.T, f *legFleet) {
				f.faults(t, "decode", held(chatPath))
				f.fails(t, f.asks(t, ""), http.StatusGatewayTimeout, "request_timeout")
				f.idle(t)
				if r := f.seen(t, "decode", chatPath); len(r) != 1 || !r[0].CallerClosed.IsZero() {
					t.Errorf("decode got %+v, want one request that is still open", r)
				}
				if _, err := f.pd.Decode[0].Release(t.Context(), 0); err != nil {
					t.Fatal(err)
				}
			}},
		)
	})
	t.Run("serial", func(t *testing.T) {
		parallel(t)
		legs{
			kind: simhttp.VLLM, roles: roles{prefill: 1, decode: 1}, args: once,
			cfg: func(c *simhttp.Config) {
				// A prompt of a word takes two seconds, one after another.
				c.TimeScale, c.Core.MaxRunning, c.Core.PrefillTokensPerSecond = 1, 1, 50
			},
		}.rows(t,
			row{"KV-01_abandoned_prompts_are_not_computed", func(t *testing.T, f *legFleet) {
				long := func(i int) string {
					return fmt.Sprintf(`{"model":"sim","stream":true,"max_tokens":3,"messages":[{"role":"user","content":"%d %s"}]}`, i, strings.Repeat("word ", 80))
				}
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				defer cancel()
				done := make(chan struct{})
				for i := range 10 {
					go func() {
						defer func() { done <- struct{}{} }()
						req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url+chatPath, strings.NewReader(long(i)))
						if err != nil {
							t.Error(err)
							return
						}
						req.Header.Set("Content-Type", "application/json")
						req.Close = true
						if resp, err := http.DefaultClient.Do(req); err == nil {
							resp.Body.Close()
							t.Errorf("status %d before the prompt can have been computed", resp.StatusCode)
						}
					}()
				}
				for range 10 {
					<-done
				}
				began := time.Now()
				a := do(t, http.MethodPost, f.url+chatPath, long(11))
				if took := time.Since(began); a.status != http.StatusOK || took > 6*time.Second {
					t.Errorf("status %d after %v: the queue is still full: %s", a.status, took, a.body)
				}
				for _, r := range f.seen(t, "prefill", chatPath) {
					if bytes.Contains(r.Body, []byte(`"11 `)) == r.CallerClosed.IsZero() {
						continue
					}
					t.Errorf("prefill was left at %v of a request that came at %v: %.100s", r.CallerClosed, r.Arrived, r.Body)
				}
			}},
		)
	})
}

// frees wants all KV at prefill given back in time, which is much less than its lease.
func (f *legFleet) frees(t *testing.T, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	for _, e := range f.pd.Prefill {
		if l, err := e.WaitIdle(ctx); err != nil {
			t.Errorf("prefill still holds %+v: %v", l, err)
		}
	}
}

// verbatim has prefill answer with parameters that no parser leaves as they are, which
// decode must get byte by byte, under the same request id.
func (f *legFleet) verbatim(t *testing.T) {
	t.Helper()
	const params = `{ "remote_block_ids" : [ 1,2 ],"unknown":{"b":1e2,"a":"\u00e9\/"},"big":12345678901234567890, "remote_request_id":"r" }`
	answer, err := json.Marshal(`{"id":"x","choices":[],"kv_transfer_params":` + params + `,"usage":{}}`)
	if err != nil {
		t.Fatal(err)
	}
	f.faults(t, "prefill", simctl.Faults{Rules: []simctl.Rule{{Match: simctl.Match{Path: chatPath}, Status: 200, Body: answer}}})
	f.faults(t, "decode", simctl.Faults{Rules: []simctl.Rule{{Match: simctl.Match{Path: chatPath}, Status: 200, Body: []byte(`{"choices":[]}`)}}})
	if a := f.asks(t, `,"kv_transfer_params":{"remote_host":"evil"}`); a.status != http.StatusOK {
		t.Fatalf("status %d: %s", a.status, a.body)
	}
	p, d := f.oneEach(t, chatPath)
	if got := string(members(t, d.Body)["kv_transfer_params"]); got != params {
		t.Errorf("decode got %s, want %s", got, params)
	}
	if bytes.Contains(d.Body, []byte("evil")) || bytes.Contains(p.Body, []byte("evil")) {
		t.Errorf("a client's own parameters got through: %s, %s", p.Body, d.Body)
	}
	const id = "X-Request-Id"
	if p.Header.Get(id) == "" || p.Header.Get(id) != d.Header.Get(id) {
		t.Errorf("request ids %q and %q, want the same", p.Header.Get(id), d.Header.Get(id))
	}
}
