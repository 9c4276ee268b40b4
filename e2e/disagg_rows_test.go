package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"smg/sim/simctl"
	"smg/sim/simhttp"
)

// once are the arguments of a gateway that tries every request once.
var once = []string{"--disable-retries"}

// TestDisaggRows is the failure matrix on the programs: who is charged, and what the
// other leg sees.
func TestDisaggRows(t *testing.T) {
	fleets := func(kind simhttp.Kind) legs {
		return legs{kind: kind, roles: roles{prefill: 1, decode: 1}, args: once, charging: true}
	}
	t.Run("sglang", func(t *testing.T) {
		parallel(t)
		fleets(simhttp.SGLang).rows(t,
			row{"F1_no_decode_worker", func(t *testing.T, f *legFleet) { f.refusesWithout(t, "decode") }},
			row{"F1_no_prefill_worker", func(t *testing.T, f *legFleet) { f.refusesWithout(t, "prefill") }},
			row{"F5_decode_is_gone", func(t *testing.T, f *legFleet) {
				f.faults(t, "decode", simctl.Faults{Refuse: true})
				f.fails(t, f.asks(t, ""), http.StatusBadGateway, "decode_request_failed", "decode worker "+f.pd.Decode[0].URL)
				f.closedWithin(t, "prefill", chatPath, time.Second)
				f.charges(t, "decode 0")
			}},
			row{"F5_prefill_is_gone", func(t *testing.T, f *legFleet) {
				f.faults(t, "prefill", simctl.Faults{Refuse: true})
				f.fails(t, f.asks(t, ""), http.StatusBadGateway, "prefill_request_failed", "prefill worker "+f.pd.Prefill[0].URL)
				f.charges(t, "prefill 0")
			}},
			row{"F6_prefill_500_while_decode_waits", func(t *testing.T, f *legFleet) {
				f.refuses(t, "prefill", chatPath, http.StatusInternalServerError)
				f.fails(t, f.asks(t, ""), http.StatusInternalServerError, "prefill_internal_error", "no, thanks")
				if n := len(f.seen(t, "decode", chatPath)); n != 1 {
					t.Errorf("%d requests at decode, want 1", n)
				}
				f.closedWithin(t, "decode", chatPath, time.Second)
				f.charges(t, "prefill 0")
			}},
			row{"F6_prefill_400_of_a_stream", func(t *testing.T, f *legFleet) {
				f.refuses(t, "prefill", chatPath, http.StatusBadRequest)
				f.fails(t, f.asks(t, `,"stream":true`), http.StatusBadRequest, "prefill_bad_request", "no, thanks")
				if n := len(f.seen(t, "decode", chatPath)); n != 1 {
					t.Errorf("%d requests at decode, want 1", n)
				}
				f.closedWithin(t, "decode", chatPath, time.Second)
				f.charges(t)
			}},
		)
	})
	t.Run("vllm", func(t *testing.T) {
		parallel(t)
		fleets(simhttp.VLLM).rows(t,
			row{"F1_no_decode_worker", func(t *testing.T, f *legFleet) { f.refusesWithout(t, "decode") }},
			row{"F18_several_answers_are_decodes_alone", func(t *testing.T, f *legFleet) {
				a := f.asks(t, `,"n":2`)
				if a.status != http.StatusOK || strings.Count(a.body, `"index":`) != 2 {
					t.Errorf("status %d: %s", a.status, a.body)
				}
				if n := len(f.seen(t, "prefill", chatPath)); n != 0 {
					t.Errorf("%d requests at prefill, want none", n)
				}
				if r := f.seen(t, "decode", chatPath); len(r) != 1 || strings.Contains(string(r[0].Body), "kv_transfer_params") {
					t.Errorf("decode got %+v, want one request without KV", r)
				}
				f.charges(t)
			}},
		)
	})
}

// refusesWithout takes a leg out, which no request may survive, and nobody sees.
func (f *legFleet) refusesWithout(t *testing.T, leg string) {
	t.Helper()
	f.without(t, leg)
	f.fails(t, f.asks(t, ""), http.StatusServiceUnavailable, "no_available_workers", "no "+leg+" worker")
	f.fails(t, do(t, http.MethodPost, f.url+chatPath, strings.Replace(chatWith(""), `"sim"`, `"elsewhere"`, 1)), http.StatusNotFound, "model_not_found")
	for _, other := range []string{"prefill", "decode"} {
		if n := len(f.seen(t, other, chatPath)); n != 0 {
			t.Errorf("%d requests at %s, want none", n, other)
		}
	}
}
