package simctl

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestDuration(t *testing.T) {
	var r Rule
	if err := json.Unmarshal([]byte(`{"delay":"1.5s"}`), &r); err != nil || r.Delay != Duration(1500*time.Millisecond) {
		t.Errorf("%v %v", r.Delay, err)
	}
	raw, err := json.Marshal(r)
	if err != nil || string(raw) != `{"delay":"1.5s"}` {
		t.Errorf("%s %v", raw, err)
	}
	if err := json.Unmarshal([]byte(`{"delay":"soon"}`), &r); err == nil {
		t.Error("nonsense is a duration")
	}
}

func TestBody(t *testing.T) {
	for _, tc := range []struct {
		name string
		body Body
		want string
	}{
		{"text", Body(`{"a":"é"}`), `"{\"a\":\"é\"}"`},
		{"binary", Body{0xff, 0}, `{"base64":"/wA="}`},
		{"empty", Body{}, `""`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			raw, err := json.Marshal(tc.body)
			if err != nil || string(raw) != tc.want {
				t.Fatalf("%s %v, want %s", raw, err, tc.want)
			}
			var back Body
			if err := json.Unmarshal(raw, &back); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.body, back); diff != "" {
				t.Error(diff)
			}
		})
	}
	var b Body
	if err := json.Unmarshal([]byte(`7`), &b); err == nil {
		t.Error("a number is a body")
	}
}

func TestValidate(t *testing.T) {
	minus := -1
	tests := []struct {
		name   string
		faults Faults
		want   string // a part of the error, "" if there is none
	}{
		{"healthy", Faults{}, ""},
		{"window", Faults{Window: &minus}, "window"},
		{"keep-alive", Faults{KeepAlive: -1}, "keep_alive"},
		{"reset", Faults{Reset: -1}, "reset"},
		{"status", Faults{Rules: []Rule{{}, {Status: 600}}}, "rules[1]: status"},
		{"informational status", Faults{Rules: []Rule{{Status: 100}}}, "status"},
		{"body alone", Faults{Rules: []Rule{{Body: json.RawMessage(`1`)}}}, "body needs a status"},
		{"delay", Faults{Rules: []Rule{{Delay: -1}}}, "delay"},
		{"first", Faults{Rules: []Rule{{Match: Match{First: -1}}}}, "first"},
		{"path", Faults{Rules: []Rule{{Match: Match{Path: "health"}}}}, "slash"},
		{"cut body", Faults{Rules: []Rule{{CutBody: &minus}}}, "cut_body"},
		{"transfer delay", Faults{Transfer: &TransferFault{Delay: -1}}, "transfer.delay"},
		{"transfer params", Faults{Transfer: &TransferFault{Params: json.RawMessage(`[]`)}}, "transfer.params"},
		{"early alone", Faults{Rules: []Rule{{Early: true}}}, "early"},
		{"stream", Faults{Rules: []Rule{{Stream: &StreamFault{CutAfter: &minus}}}}, "stream"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			err := tc.faults.Validate()
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestClientReportsFaults(t *testing.T) {
	answers := map[string]string{"/_sim/ledger": `{`, "/_sim/engines/3/ledger": `{"in_flight":2}`}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := answers[r.URL.Path]
		if !ok {
			http.Error(w, "no such thing", http.StatusTeapot)
			return
		}
		_, _ = w.Write([]byte(text))
	}))
	defer srv.Close()
	c := NewClient(srv.URL+"/", srv.Client())
	if err := c.Reset(t.Context()); err == nil || !strings.Contains(err.Error(), "no such thing") {
		t.Errorf("status: %v", err)
	}
	if _, err := c.Ledger(t.Context()); err == nil || !strings.Contains(err.Error(), "decode") {
		t.Errorf("bad JSON: %v", err)
	}
	if l, err := c.Engine(3).Ledger(t.Context()); err != nil || l.InFlight != 2 || l.Idle() {
		t.Errorf("one engine of many: %+v %v", l, err)
	}
	srv.Close()
	if _, err := c.Ledger(t.Context()); err == nil {
		t.Error("a dead engine answers")
	}
}
