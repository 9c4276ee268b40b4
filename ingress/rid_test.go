package ingress

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"

	"smg/ingress/body"
	"smg/sim/simctl"
	"smg/sim/simhttp"
	"smg/worker"
)

func TestRenamed(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		plan       int
		want       string
	}{
		{"the first plan", `{"rid":"a"}`, 0, `{"rid":"a"}`},
		{"one", `{"rid":"a\"","text":"x"}`, 2, `{"rid":"a\"-2","text":"x"}`},
		{"several", `{"rid":["a","b"]}`, 1, `{"rid":["a-1","b-1"]}`},
		{"none", `{"text":"x"}`, 1, `{"text":"x"}`},
		{"an empty one", `{"rid":""}`, 1, `{"rid":""}`},
		{"null", `{"rid":null}`, 1, `{"rid":null}`},
		{"what is no id", `{"rid":[1]}`, 1, `{"rid":[1]}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, err := body.Parse([]byte(tt.body), 9)
			if err != nil {
				t.Fatal(err)
			}
			if got := string(b.Edit(renamed(nil, &b, tt.plan)...)); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// TestRetriesHaveOtherIDs: SGLang refuses an id that is under way, which that of the
// attempt before may still be.
func TestRetriesHaveOtherIDs(t *testing.T) {
	for _, split := range []bool{false, true} {
		d := startPD(t, simhttp.SGLang, withConfig(func(c *Config) {
			c.Retry, c.PD.SplitAnswers = DefaultRetry(), split
			c.Retry.Initial = time.Millisecond
		}))
		d.selector.workers = []*worker.Spec{d.selector.workers[0], d.selector.workers[2]} // one of each leg
		p, dec := d.pd.Prefill[0], d.pd.Decode[0]
		if err := dec.SetRules(t.Context(), simctl.Rule{Match: simctl.Match{Path: chatPath, First: 1}, Delay: simctl.Duration(100 * time.Millisecond), Status: http.StatusServiceUnavailable}); err != nil {
			t.Fatal(err)
		}
		if err := p.SetFaults(t.Context(), simctl.Faults{Record: true}); err != nil {
			t.Fatal(err)
		}
		n, want := "", []string{"r", "r-1"}
		if split {
			n, want = `,"n":2`, []string{"r-1_0", "r-1_1", "r_0", "r_1"}
		}
		status, _, answer := d.asks(t, chatPath, `{"model":"m","rid":"r","messages":[{"role":"user","content":"hi"}],"max_tokens":3`+n+`}`)
		if status != http.StatusOK {
			t.Fatalf("status %d: %s", status, answer)
		}
		d.quiet(t)
		records, err := p.Records(t.Context(), chatPath)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, r := range records {
			var b struct{ RID string }
			if err := json.Unmarshal(r.Body, &b); err != nil {
				t.Fatal(err)
			}
			ids = append(ids, b.RID)
		}
		slices.Sort(ids)
		if !slices.Equal(ids, want) {
			t.Errorf("prefill knows %q, want %q", ids, want)
		}
	}
}
