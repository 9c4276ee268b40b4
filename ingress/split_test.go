package ingress

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"smg/sim/simctl"
	"smg/sim/simhttp"
	"smg/sim/simtest"
)

// TestSplitAnswers compares several answers that are asked for one by one with what one
// engine says that is asked for them at once.
func TestSplitAnswers(t *testing.T) {
	d := startPD(t, simhttp.SGLang, withConfig(func(c *Config) { c.PD.SplitAnswers = true }))
	cfg := simtest.Config()
	cfg.Model = "m"
	one := simtest.Start(t, cfg)
	type usage struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Total      int `json:"total_tokens"`
	}
	type chunk struct {
		ID      string
		Choices []struct {
			Index          int
			Message, Delta struct{ Content string }
		}
		Usage *usage
	}
	read := func(t *testing.T, answer string, stream bool) (texts [3]string, u usage, ids []string) {
		t.Helper()
		events := []string{answer}
		if stream {
			events = splitEvents(answer)
			if events[len(events)-1] != "[DONE]" || strings.Count(answer, "[DONE]") != 1 {
				t.Fatalf("%q", answer)
			}
			events = events[:len(events)-1]
		}
		for _, e := range events {
			var c chunk
			if err := json.Unmarshal([]byte(e), &c); err != nil {
				t.Fatalf("%v in %q", err, e)
			}
			for _, ch := range c.Choices {
				texts[ch.Index] += ch.Message.Content + ch.Delta.Content
			}
			if c.Usage != nil {
				u = *c.Usage
			}
			if ids = append(ids, c.ID); c.ID == "" {
				t.Errorf("no id in %q", e)
			}
		}
		return texts, u, slices.Compact(ids)
	}
	for _, fields := range []string{"", `,"stream":true,"stream_options":{"include_usage":true}`} {
		// Simulated engines choose by the answer's index at any other temperature.
		body := `{"model":"m","messages":[{"role":"user","content":"hi"}],"n":3,"temperature":0,"seed":5,"rid":"r","max_tokens":6` + fields + `}`
		_, _, answer := postTo(t.Context(), t, one.URL+chatPath, body)
		want, wantUsage, _ := read(t, answer, fields != "")
		for _, e := range d.pd.All() {
			if err := e.Reset(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := e.SetFaults(t.Context(), simctl.Faults{Record: true}); err != nil {
				t.Fatal(err)
			}
		}
		status, header, answer := d.asks(t, chatPath, body)
		if status != http.StatusOK {
			t.Fatalf("status %d: %s", status, answer)
		}
		got, gotUsage, ids := read(t, answer, fields != "")
		if got != want || gotUsage != wantUsage || len(ids) != 1 || header.Get("X-Smg-Routed-Worker-Id") == "" {
			t.Errorf("%q %+v of %q, want %q %+v", got, gotUsage, ids, want, wantUsage)
		}
		d.quiet(t)
		var asked []string
		for _, e := range d.pd.All() {
			records, err := e.Records(t.Context(), chatPath)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range records {
				var b struct {
					N    *int
					Seed int
					RID  string
					Room int64 `json:"bootstrap_room"`
				}
				if err := json.Unmarshal(r.Body, &b); err != nil || b.N != nil {
					t.Errorf("%v: %s", err, r.Body)
				}
				asked = append(asked, fmt.Sprintf("%s %d", b.RID, b.Seed))
			}
		}
		slices.Sort(asked)
		if !slices.Equal(asked, []string{"r_0 5", "r_0 5", "r_1 6", "r_1 6", "r_2 7", "r_2 7"}) {
			t.Errorf("asked for %q", asked)
		}
	}
	for _, leg := range []string{"prefill", "decode"} {
		t.Run(leg+" refuses one", func(t *testing.T) {
			engines := d.pd.Prefill
			if leg == "decode" {
				engines = d.pd.Decode
			}
			for _, e := range engines {
				if err := e.SetRules(t.Context(), simctl.Rule{Match: simctl.Match{Path: chatPath, Contains: `"r_1"`}, Status: http.StatusTooManyRequests}); err != nil {
					t.Fatal(err)
				}
			}
			status, header, answer := d.asks(t, chatPath, `{"model":"m","messages":[{"role":"user","content":"hi"}],"n":3,"rid":"r","max_tokens":6}`)
			if status != http.StatusTooManyRequests || header.Get(errorCodeHeader) != leg+"_upstream_error" {
				t.Errorf("status %d: %s", status, answer)
			}
			for _, e := range engines {
				if err := e.SetFaults(t.Context(), simctl.Faults{}); err != nil {
					t.Fatal(err)
				}
			}
			d.quiet(t)
		})
	}
}

// TestSplitBound: no number in a body makes thousands of requests.
func TestSplitBound(t *testing.T) {
	d := startPD(t, simhttp.SGLang, withConfig(func(c *Config) { c.PD.SplitAnswers = true }))
	for n, want := range map[int]int{128: http.StatusOK, 129: http.StatusBadRequest, 1_000_000: http.StatusBadRequest} {
		body := fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"hi"}],"n":%d,"max_tokens":1}`, n)
		status, _, answer := d.asks(t, chatPath, body)
		if status != want || want != http.StatusOK && !strings.Contains(answer, "between 1 and 128") {
			t.Errorf("n %d: status %d: %.200s", n, status, answer)
		}
	}
	d.quiet(t)
}
