package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"smg/sim/simctl"
	"smg/sim/simhttp"
)

// transferOf reads the id of a transfer out of what a leg was told, and wants the rest
// to be this.
func transferOf(t *testing.T, body []byte, want map[string]any) (id string) {
	t.Helper()
	var told map[string]any
	if err := json.Unmarshal(members(t, body)["kv_transfer_params"], &told); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	id, _ = told["transfer_id"].(string)
	delete(told, "transfer_id")
	if d := cmp.Diff(want, told); d != "" {
		t.Errorf("an engine was told (-want +got):\n%s", d)
	}
	text, ok := strings.CutPrefix(id, "xfer-")
	if u, err := uuid.Parse(text); !ok || err != nil || u.Version() != 7 {
		t.Errorf("the transfer is %q, want xfer- and a UUID of version 7", id)
	}
	return id
}

// TestDisaggMooncake is the hand-over with vLLM's Mooncake, whose bootstrap server
// says by which id an engine is asked for KV.
func TestDisaggMooncake(t *testing.T) {
	parallel(t)
	const engineID = "7c7a3b0e-engine"
	legs{
		kind: simhttp.VLLM, roles: roles{prefill: 1, decode: 2}, charging: true,
		cfg: func(c *simhttp.Config) { c.Disagg.Connector, c.Disagg.EngineID = simhttp.MooncakeConnector, engineID },
	}.rows(t,
		row{"7_five_keys_and_no_more", func(t *testing.T, f *legFleet) { f.meets(t, engineID) }},
		row{"7_a_label_that_names_the_engine", func(t *testing.T, f *legFleet) {
			f.relabelMooncake(t, fmt.Sprintf(`,"bootstrap_port":%d`, f.pd.Prefill[0].PeerPort), fmt.Sprintf(`{"kv_connector":"MooncakeConnector","kv_engine_id":%q}`, engineID))
			f.meets(t, engineID)
		}},
		row{"7_a_dp_size_that_is_no_number", func(t *testing.T, f *legFleet) {
			lines := f.count("which of its ranks")
			f.relabelMooncake(t, fmt.Sprintf(`,"bootstrap_port":%d`, f.pd.Prefill[0].PeerPort), `{"kv_connector":"MooncakeConnector","dp_size":"two"}`)
			f.recomputes(t)
			if n := f.count("KV of a prefill worker may not be handed over.*which of its ranks") - lines; n != 1 {
				t.Errorf("%d lines warn of the worker, want 1", n)
			}
		}},
		row{"7_a_prompt_after_which_nothing_comes", func(t *testing.T, f *legFleet) {
			// Prefill keeps the KV of what has ended by its length only.
			first := do(t, http.MethodPost, f.pd.Decode[0].URL+chatPath, `{"model":"sim","messages":[{"role":"user","content":"Hello"}],"max_tokens":1}`)
			var said struct {
				Choices []struct{ Message struct{ Content string } }
			}
			if err := json.Unmarshal([]byte(first.body), &said); err != nil || len(said.Choices) != 1 || said.Choices[0].Message.Content == "" {
				t.Fatalf("%v: %s", err, first.body)
			}
			f.faults(t, "decode", simctl.Faults{Strict: true})
			before := f.transferred(t, "decode", simctl.Transfers{})
			a := f.asks(t, fmt.Sprintf(`,"stop":%q`, said.Choices[0].Message.Content))
			if a.status != http.StatusOK || !strings.Contains(a.body, `"finish_reason":"stop"`) {
				t.Errorf("status %d: %s", a.status, a.body)
			}
			if tr := f.transferred(t, "decode", before); tr.Failed != 0 || tr.Recomputed != 1 {
				t.Errorf("decode counts %+v, want a prompt that it computes", tr)
			}
			f.charges(t)
		}},
		row{"F25_no_bootstrap_port", func(t *testing.T, f *legFleet) {
			lines := f.count("8998 is taken")
			f.relabelMooncake(t, "", `{"kv_connector":"MooncakeConnector","kv_engine_id":"e"}`)
			if n := f.count("8998 is taken") - lines; n != 1 {
				t.Errorf("%d lines warn of the port, want 1", n)
			}
			f.faults(t, "decode", simctl.Faults{Rules: []simctl.Rule{{Match: simctl.Match{Path: chatPath}, Status: 200, Body: []byte(`{"choices":[]}`)}}})
			for range 2 {
				if a := f.asks(t, ""); a.status != http.StatusOK {
					t.Fatalf("status %d: %s", a.status, a.body)
				}
			}
			for _, d := range f.seen(t, "decode", chatPath) {
				transferOf(t, d.Body, map[string]any{
					"do_remote_decode": false, "do_remote_prefill": true, "remote_engine_id": "e", "remote_bootstrap_addr": "http://127.0.0.1:8998",
				})
			}
			if n := f.count("8998 is taken") - lines; n != 1 {
				t.Errorf("%d lines warn of the port after requests, want 1", n)
			}
		}},
		row{"F17_another_decode_is_told_of_the_same_transfer", func(t *testing.T, f *legFleet) {
			if err := f.pd.Decode[0].SetFaults(t.Context(), simctl.Faults{Refuse: true, Record: true}); err != nil {
				t.Fatal(err)
			}
			before := f.transferred(t, "decode", simctl.Transfers{})
			for range 3 {
				if a := f.asks(t, ""); a.status != http.StatusOK {
					t.Errorf("status %d: %s", a.status, a.body)
				}
			}
			if tr := f.transferred(t, "decode", before); tr.Received != 3 || tr.Recomputed != 0 || len(f.seen(t, "prefill", chatPath)) != 3 {
				t.Errorf("decode counts %+v after %d prefills, want 3 received after 3", tr, len(f.seen(t, "prefill", chatPath)))
			}
			f.charges(t, "decode 0")
		}},
	)
}

// relabelMooncake registers prefill anew with labels, and decode as one that can be
// paired with it.
func (f *legFleet) relabelMooncake(t *testing.T, fields, labels string) {
	t.Helper()
	f.without(t, "prefill")
	f.without(t, "decode")
	for _, e := range f.engines("decode") {
		f.add(e.URL, `,"worker_type":"decode","labels":{"kv_connector":"MooncakeConnector"}`)
	}
	for _, e := range f.engines("prefill") {
		f.add(e.URL, `,"worker_type":"prefill"`+fields+`,"labels":`+labels)
	}
	f.usable(t)
}

// meets wants KV handed over, twice, under different ids.
func (f *legFleet) meets(t *testing.T, engineID string) {
	t.Helper()
	for _, leg := range []string{"prefill", "decode"} {
		f.faults(t, leg, simctl.Faults{Strict: true})
	}
	before := f.transferred(t, "decode", simctl.Transfers{})
	mode := gauges(t, f.metrics, "smg_pd_kv_connector_mode_total")[`{mode="mooncake"}`]
	for range 2 {
		if a := f.asks(t, `,"kv_transfer_params":{"remote_bootstrap_addr":"http://evil"}`); a.status != http.StatusOK {
			t.Fatalf("status %d: %s", a.status, a.body)
		}
	}
	p, d := f.seen(t, "prefill", chatPath), f.seen(t, "decode", chatPath)
	if len(p) != 2 || len(d) != 2 {
		t.Fatalf("%d requests at prefill and %d at decode, want two each", len(p), len(d))
	}
	if d[0].Header.Get("X-Request-Id") != p[0].Header.Get("X-Request-Id") {
		d[0], d[1] = d[1], d[0] // of two engines, in either order
	}
	var ids []string
	for i := range p {
		kept := transferOf(t, p[i].Body, map[string]any{"do_remote_decode": true, "do_remote_prefill": false})
		fetched := transferOf(t, d[i].Body, map[string]any{
			"do_remote_decode": false, "do_remote_prefill": true, "remote_engine_id": engineID,
			"remote_bootstrap_addr": fmt.Sprintf("http://127.0.0.1:%d", f.pd.Prefill[0].PeerPort),
		})
		if kept != fetched || p[i].Header.Get("X-Request-Id") != d[i].Header.Get("X-Request-Id") {
			t.Errorf("prefill was told of %s, decode of %s", kept, fetched)
		}
		ids = append(ids, kept)
	}
	if ids[0] == ids[1] {
		t.Errorf("two requests have the transfer %s", ids[0])
	}
	if tr := f.transferred(t, "decode", before); tr.Received != 2 || tr.Recomputed != 0 {
		t.Errorf("decode counts %+v, want 2 received", tr)
	}
	if n := gauges(t, f.metrics, "smg_pd_kv_connector_mode_total")[`{mode="mooncake"}`] - mode; n != 2 {
		t.Errorf("%v requests went by Mooncake, want 2", n)
	}
}

// recomputes wants a request served without any of its KV handed over.
func (f *legFleet) recomputes(t *testing.T) {
	t.Helper()
	if a := f.asks(t, ""); a.status != http.StatusOK {
		t.Fatalf("status %d: %s", a.status, a.body)
	}
	p, d := f.oneEach(t, chatPath)
	lacks(t, "prefill", p.Body, "kv_transfer_params")
	lacks(t, "decode", d.Body, "kv_transfer_params")
}
