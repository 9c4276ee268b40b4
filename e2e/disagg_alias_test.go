package e2e

import (
	"fmt"
	"net/http"
	"testing"

	"smg/sim/simctl"
	"smg/sim/simhttp"
)

// TestDisaggAliases has clients call a model by another name, which no engine of vLLM
// takes.
func TestDisaggAliases(t *testing.T) {
	parallel(t)
	legs{kind: simhttp.VLLM, roles: roles{encode: 1, prefill: 1, decode: 1}, args: once}.rows(t,
		row{"aliases_become_the_model", func(t *testing.T, f *legFleet) {
			for _, leg := range []string{"encode", "prefill", "decode"} {
				f.without(t, leg)
				for _, e := range f.engines(leg) {
					f.add(e.URL, fmt.Sprintf(`,"worker_type":%q,"models":[{"id":"sim","aliases":["short"]}]`, leg))
				}
			}
			f.usable(t)
			for _, leg := range []string{"encode", "prefill", "decode"} {
				f.faults(t, leg, simctl.Faults{Strict: true})
			}
			const body = `{"model":"short","messages":[{"role":"user","content":[{"type":"text","text":"What is it?"},{"type":"image_url","image_url":{"url":"` + picture + `"}}]}],"max_tokens":5}`
			if a := do(t, http.MethodPost, f.url+chatPath, body); a.status != http.StatusOK {
				t.Fatalf("status %d: %s", a.status, a.body)
			}
			for _, leg := range []string{"encode", "prefill", "decode"} {
				records := f.seen(t, leg, chatPath)
				if len(records) != 1 {
					t.Errorf("%d requests at %s, want 1", len(records), leg)
				}
				for _, r := range records {
					if got := string(members(t, r.Body)["model"]); got != `"sim"` {
						t.Errorf("%s was told of model %s", leg, got)
					}
				}
			}
		}},
	)
}
