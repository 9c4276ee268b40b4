package ingress

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"smg/sim/simhttp"
	"smg/worker"
)

// TestLocalPrefill: who is asked for and who is sent a prompt, by its length and what
// decode is known to hold of it.
func TestLocalPrefill(t *testing.T) {
	chat := func(chars int) string {
		return fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}],"max_tokens":2}`, strings.Repeat("x", chars))
	}
	tokens := func(n int) string {
		return fmt.Sprintf(`{"model":"m","prompt":[%s1],"max_tokens":2}`, strings.Repeat("1,", n-1))
	}
	const picture = `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA"}}]}],"max_tokens":2}`
	for _, tt := range []struct {
		name    string
		kind    simhttp.Kind
		mixed   bool // not every decode worker can serve by itself, but the one that is picked
		limit   int64
		path    string
		body    string
		matched int64
		asked   int // for prefill workers
		sent    int // to them
	}{
		{name: "off", kind: simhttp.VLLM, body: chat(1), asked: 1, sent: 1},
		{name: "off, all is known", kind: simhttp.VLLM, body: chat(40), matched: 10, asked: 1, sent: 1},
		{name: "at the limit", kind: simhttp.VLLM, limit: 10, body: chat(40)},
		{name: "beyond", kind: simhttp.VLLM, limit: 10, body: chat(41), asked: 1, sent: 1},
		{name: "beyond, and known", kind: simhttp.VLLM, limit: 10, body: chat(400), matched: 90, asked: 1},
		{name: "beyond, and nearly known", kind: simhttp.VLLM, limit: 10, body: chat(400), matched: 89, asked: 1, sent: 1},
		{name: "tokens", kind: simhttp.VLLM, limit: 10, path: "/v1/completions", body: tokens(10)},
		{name: "more tokens", kind: simhttp.VLLM, limit: 10, path: "/v1/completions", body: tokens(11), asked: 1, sent: 1},
		{name: "in a mixed fleet prefill is asked before that is known", kind: simhttp.VLLM, mixed: true, limit: 10, body: chat(40), asked: 1},
		{name: "a picture is no short prompt", kind: simhttp.VLLM, limit: 1000, body: picture, asked: 1, sent: 1},
		{name: "sglang", kind: simhttp.SGLang, mixed: true, limit: 10, body: chat(40), asked: 1, sent: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := startPD(t, tt.kind, withConfig(func(c *Config) { c.PD.LocalPrefill = tt.limit }))
			d.fleet.alone, d.selector.matched = !tt.mixed, tt.matched
			if tt.path == "" {
				tt.path = "/v1/chat/completions"
			}
			status, _, answer := d.asks(t, tt.path, tt.body)
			if status != http.StatusOK && !strings.Contains(tt.body, "image_url") { // which the engine may refuse
				t.Errorf("status %d: %s", status, answer)
			}
			legs, fits := d.asked()
			if legs[worker.Prefill] != tt.asked || legs[worker.Decode] != 1 {
				t.Errorf("%v were asked, want prefill %d times, decode once: %q", legs, tt.asked, fits)
			}
			unsent := 0
			for id, ends := range d.selector.ends {
				if id.Leg == worker.Prefill && ends[0].Unreached {
					unsent++
				}
			}
			if unsent != tt.asked-tt.sent {
				t.Errorf("%d picks for prefill were given back, want %d", unsent, tt.asked-tt.sent)
			}
			want := 1 - tt.sent
			if n := testutil.ToFloat64(d.Server.metrics.pd.localPrefill); int(n) != want {
				t.Errorf("%v prompts counted as computed by decode, want %d", n, want)
			}
			d.quiet(t)
		})
	}
}

// TestAloneIsVLLM: one who was picked for a request without a prefill worker, and needs
// one, is not called.
func TestAloneIsVLLM(t *testing.T) {
	d := startPD(t, simhttp.SGLang, withConfig(func(c *Config) { c.PD.LocalPrefill = 100 }))
	d.fleet.alone = true // which is not so any more
	status, header, answer := d.asks(t, "/v1/chat/completions", pairedChat)
	if status != http.StatusServiceUnavailable || header.Get("X-Smg-Error-Code") != "no_available_workers" {
		t.Errorf("status %d: %s", status, answer)
	}
	d.quiet(t)
	d.selector.verify(t)
}
