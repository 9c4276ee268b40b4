package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"smg/sim/simhttp"
)

// TestDisaggLocal is when a prompt goes to no prefill worker: never unless the operator
// has said so, and only where decode can compute it.
func TestDisaggLocal(t *testing.T) {
	for _, kind := range []simhttp.Kind{simhttp.SGLang, simhttp.VLLM} {
		for _, limit := range []string{"0", "50"} {
			t.Run(string(kind)+"_"+limit, func(t *testing.T) {
				parallel(t)
				skips := kind == simhttp.VLLM && limit != "0"
				args := append([]string{"--decode-policy", "cache_aware", "--pd-local-prefill-max-tokens", limit}, once...)
				rows := []row{
					{"short", func(t *testing.T, f *legFleet) { f.prefills(t, "Hello", skips) }},
					{"long", func(t *testing.T, f *legFleet) { f.prefills(t, long("a"), false) }},
					{"long_and_known", func(t *testing.T, f *legFleet) {
						f.prefills(t, long("b"), false)
						f.prefills(t, long("b")+" And a little more.", skips)
						f.prefills(t, long("b")+long("c"), false)
					}},
				}
				if skips {
					rows = append(rows, row{"PD-08_a_short_prompt_needs_no_prefill_worker", func(t *testing.T, f *legFleet) {
						f.without(t, "prefill")
						f.prefills(t, "Hello", true)
						f.fails(t, do(t, http.MethodPost, f.url+chatPath, asking(long("d"))), http.StatusServiceUnavailable, "no_available_workers", "no prefill worker")
					}})
				}
				if kind == simhttp.VLLM {
					rows = append(rows, row{"F18_several_answers_need_no_prefill_worker", func(t *testing.T, f *legFleet) {
						f.without(t, "prefill")
						if a := f.asks(t, `,"n":2`); a.status != http.StatusOK {
							t.Errorf("status %d: %s", a.status, a.body)
						}
					}})
				}
				legs{kind: kind, roles: roles{prefill: 1, decode: 1}, args: args}.rows(t, rows...)
			})
		}
	}
}

// long is a prompt of some hundred tokens, which begins like no other.
func long(begin string) string {
	return begin + strings.Repeat(" and then something else has to be told about "+begin, 40)
}

// asking is a chat that says text.
func asking(text string) string {
	return fmt.Sprintf(`{"model":"sim","messages":[{"role":"user","content":%q}],"max_tokens":5}`, text)
}

// prefills sends a prompt and wants to see whether it goes to a prefill worker: one that
// does not is counted.
func (f *legFleet) prefills(t *testing.T, text string, skipped bool) {
	t.Helper()
	seen := func() int { return len(f.seen(t, "prefill", chatPath)) }
	const counter = "smg_pd_local_prefill_total"
	before, counted, want := seen(), total(t, f.metrics, counter), 1
	if skipped {
		want = 0
	}
	a := do(t, http.MethodPost, f.url+chatPath, asking(text))
	if a.status != http.StatusOK {
		t.Errorf("status %d: %s", a.status, a.body)
	}
	if n := seen() - before; n != want {
		t.Errorf("%d requests at prefill, want %d", n, want)
	}
	if n := total(t, f.metrics, counter) - counted; int(n) != 1-want {
		t.Errorf("%s rose by %v, want %d", counter, n, 1-want)
	}
	f.idle(t)
}
