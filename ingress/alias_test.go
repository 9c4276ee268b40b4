package ingress

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"smg/sim/simctl"
	"smg/sim/simhttp"
	"smg/sim/simtest"
)

// TestAliases: whatever a client calls a model, engines are told its own id. Those of vLLM
// refuse any other.
func TestAliases(t *testing.T) {
	one := func(t *testing.T, kind simhttp.Kind) *disaggregated {
		cfg := simtest.Config()
		cfg.Kind, cfg.Model = kind, "m"
		e := simtest.Start(t, cfg)
		return &disaggregated{gateway: start(t, []string{e.URL}), pd: &simtest.PD{Decode: []*simtest.Engine{e}}}
	}
	media := `"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"` + image + `"}}]}],"max_tokens":2}`
	plain := `"messages":[{"role":"user","content":"hi"}],"max_tokens":2`
	for _, tt := range []struct {
		name, path, body string
		d                *disaggregated
		want             string // what engines are told, "" for nothing
	}{
		{"regular", chatPath, `{"model":"short",` + plain + `}`, one(t, simhttp.VLLM), `"m"`},
		{"prefill and decode", chatPath, `{"model":"short",` + plain + `}`, startPD(t, simhttp.SGLang), `"m"`},
		{"several answers", chatPath, `{"n":2,"model":"short",` + plain + `}`, startPD(t, simhttp.VLLM), `"m"`},
		{"encoders", chatPath, `{"model":"short",` + media, startEPD(t), `"m"`},
		{"an escaped one", chatPath, `{"model":"sh\u006frt",` + plain + `}`, startPD(t, simhttp.VLLM), `"m"`},
		{"the last of several", chatPath, `{"model":"x",` + plain + `,"model":"short"}`, startPD(t, simhttp.VLLM), `"m"`},
		{"its own id", chatPath, `{"model": "m" ,` + plain + `}`, startPD(t, simhttp.VLLM), `"m"`},
		{"none", "/generate", `{"text":"hi"}`, startPD(t, simhttp.SGLang), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := tt.d
			d.fleet.aliases = map[string]string{"short": "m"}
			for _, e := range d.pd.All() {
				if err := e.SetFaults(t.Context(), simctl.Faults{Record: true}); err != nil {
					t.Fatal(err)
				}
			}
			status, _, answer := d.asks(t, tt.path, tt.body)
			if status != http.StatusOK {
				t.Fatalf("status %d: %s", status, answer)
			}
			if ask := d.selector.lastAsk(t); ask.Model != strings.Trim(tt.want, `"`) {
				t.Errorf("a selector was asked for %q", ask.Model)
			}
			told := 0
			for _, e := range d.pd.All() {
				records, err := e.Records(t.Context(), tt.path)
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range records {
					var b map[string]json.RawMessage
					if err := json.Unmarshal(r.Body, &b); err != nil {
						t.Fatal(err)
					}
					if told++; string(b["model"]) != tt.want || strings.Count(string(r.Body), `"model"`) > 1 {
						t.Errorf("an engine was told %s", r.Body)
					}
				}
			}
			if told == 0 {
				t.Error("nobody was told anything")
			}
			d.quiet(t)
		})
	}
}
