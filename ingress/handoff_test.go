package ingress

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"smg/engine"
	"smg/sim/simctl"
	"smg/sim/simhttp"
	"smg/sim/simtest"
	"smg/worker"
)

// absent is a Dispatcher whose first call of a decode engine finds nobody, after a
// while. It keeps what decode and prefill engines are sent.
type absent struct {
	Dispatcher
	decode []string // URLs of decode engines
	after  func()

	mu        sync.Mutex
	missed    bool
	decoded   []string // bodies
	prefilled int
}

func (a *absent) Send(ctx context.Context, t *engine.Target, q *engine.Request) (*engine.Response, error) {
	if q.Path == abortPath {
		return nil, &engine.Error{Kind: engine.ErrConnect, Target: t.String(), Err: errors.New("not asked")}
	}
	isDecode := false
	for _, url := range a.decode {
		isDecode = isDecode || t.String() == url
	}
	a.mu.Lock()
	miss := isDecode && !a.missed
	switch {
	case miss:
		a.missed = true
	case isDecode:
		a.decoded = append(a.decoded, string(q.Body))
	default:
		a.prefilled++
	}
	a.mu.Unlock()
	if miss {
		a.after()
		return nil, &engine.Error{Kind: engine.ErrConnect, Target: t.String(), Err: errors.New("connection refused")}
	}
	return a.Dispatcher.Send(ctx, t, q)
}

// TestFieldKVIsYoung: parameters that are older than engines keep KV never reach a decode
// engine.
func TestFieldKVIsYoung(t *testing.T) {
	for _, c := range []struct {
		name     string
		gap      time.Duration
		prefills int
	}{
		{"KV-04_a_gap_of_35_seconds", 35 * time.Second, 2},
		{"KV-04_a_gap_of_a_second", time.Second, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := startPD(t, simhttp.VLLM, withConfig(func(c *Config) { c.Retry = DefaultRetry(); c.Retry.Initial = time.Millisecond }))
			var mu sync.Mutex
			var ahead time.Duration
			d.now = func() time.Time {
				mu.Lock()
				defer mu.Unlock()
				return time.Now().Add(ahead)
			}
			a := &absent{Dispatcher: d.dispatcher, after: func() {
				mu.Lock()
				defer mu.Unlock()
				ahead += c.gap
			}}
			for _, e := range d.pd.Decode {
				a.decode = append(a.decode, e.URL)
			}
			d.dispatcher = a
			status, _, answer := d.asks(t, "/v1/chat/completions", fmt.Sprintf(legBody, ""))
			if status != http.StatusOK {
				t.Fatalf("status %d: %s", status, answer)
			}
			a.mu.Lock()
			defer a.mu.Unlock()
			if a.prefilled != c.prefills || len(a.decoded) != 1 || !strings.Contains(a.decoded[0], "remote_request_id") {
				t.Errorf("%d prefills, want %d; decode got %q", a.prefilled, c.prefills, a.decoded)
			}
			d.idle()
		})
	}
}

// TestRequestIDsOfLegs: prefill and decode know a request by one id, each primer by one
// of its own, since an encoder may get several and some refuse an id that is running.
func TestRequestIDsOfLegs(t *testing.T) {
	d := startEPD(t)
	for _, e := range d.pd.All() {
		if err := e.SetRules(t.Context(), simctl.Rule{Match: simctl.Match{Path: "/none"}}); err != nil {
			t.Fatal(err)
		}
	}
	part := `{"type":"image_url","image_url":{"url":"` + image + `"}}`
	status, _, answer := d.asks(t, chatPath, `{"model":"m","messages":[{"role":"user","content":[`+part+`,`+part+`]}],"max_tokens":8}`)
	if status != http.StatusOK {
		t.Fatalf("status %d: %s", status, answer)
	}
	ids := func(engines []*simtest.Engine) (all []string) {
		for _, e := range engines {
			records, err := e.Records(t.Context(), chatPath)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range records {
				all = append(all, r.Header.Get(requestIDHeader))
			}
		}
		slices.Sort(all)
		return all
	}
	whole := ids(d.pd.Decode)
	if len(whole) != 1 || whole[0] == "" {
		t.Fatalf("decode got %q", whole)
	}
	if diff := cmp.Diff(whole, ids(d.pd.Prefill)); diff != "" {
		t.Error("prefill", diff)
	}
	if diff := cmp.Diff([]string{whole[0] + "-enc-0", whole[0] + "-enc-1"}, ids(d.pd.Encode)); diff != "" {
		t.Error("encoders", diff)
	}
	d.quiet(t)
}

func TestHandoff(t *testing.T) {
	mooncake := handoff{mode: modeMooncake, transfer: "xfer-1", engine: "e", addr: "http://[::1]:8998"}
	for _, c := range []struct {
		name, answer string
		h            handoff
		tag, params  string
	}{
		{"nixl", `{"id":"cmpl-1","kv_transfer_params":{ "a" : 1e2 }}`, handoff{mode: modeNixl}, string(remoteDecode), `{ "a" : 1e2 }`},
		{"nixl, an escaped key", `{"kv\u005ftransfer_params":{"a":1}}`, handoff{mode: modeNixl}, string(remoteDecode), `{"a":1}`},
		{"nixl, no params", `{"id":"cmpl-1"}`, handoff{mode: modeNixl}, string(remoteDecode), ""},
		{"nixl, a list", `[{"kv_transfer_params":{"a":1}}]`, handoff{mode: modeNixl}, string(remoteDecode), ""},
		{"nixl, nothing", ``, handoff{mode: modeNixl}, string(remoteDecode), ""},
		{"another connector", `{"kv_transfer_params":{"a":1}}`, handoff{mode: modePassthrough}, "", `{"a":1}`},
		{
			"mooncake", `{"kv_transfer_params":null}`, mooncake, `{"do_remote_decode":true,"do_remote_prefill":false,"transfer_id":"xfer-1"}`,
			`{"do_remote_decode":false,"do_remote_prefill":true,"transfer_id":"xfer-1","remote_engine_id":"e","remote_bootstrap_addr":"http://[::1]:8998"}`,
		},
		{"mooncake, an answer that has ended by itself", `{"choices":[{"finish_reason":"stop"}]}`, mooncake, `{"do_remote_decode":true,"do_remote_prefill":false,"transfer_id":"xfer-1"}`, ""},
		{"mooncake without an engine", `{"kv_transfer_params":{"a":1}}`, handoff{mode: modeMooncake}, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if d := cmp.Diff(c.tag, string(c.h.tag())); d != "" {
				t.Error("tag", d)
			}
			c.h.prefilled([]byte(c.answer), 0)
			if d := cmp.Diff(c.params, string(c.h.params)); d != "" {
				t.Error("params", d)
			}
		})
	}
}

func TestConnectorMode(t *testing.T) {
	for connector, want := range map[string]string{
		"": modeNixl, worker.NixlConnector: modeNixl, worker.MooncakeConnector: modeMooncake, worker.MooncakeFound: modeMooncake, "LMCacheConnectorV1": modePassthrough,
	} {
		if got := connectorMode(&worker.Spec{KVConnector: connector}); got != want {
			t.Errorf("%q: %s, want %s", connector, got, want)
		}
	}
	if got, want := bracketless("[::1]", 8998), "[::1]:8998"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestEndedByItself(t *testing.T) {
	for answer, want := range map[string]bool{
		`{"choices":[{"finish_reason":"length"}]}`:  false,
		`{"choices":[{"finish_reason":"stop"}]}`:    true,
		`{"choices":[{"finish_reason":null}]}`:      false,
		`{"choices":[]}`:                            false,
		`{"stop_reason":"max_tokens","content":[]}`: false,
		`{"stop_reason":"end_turn","content":[]}`:   true,
		`{"status":"incomplete","output":[]}`:       false,
		`{"status":"completed","output":[]}`:        true,
		`{}`:                                        false,
	} {
		var members map[string]json.RawMessage
		if err := json.Unmarshal([]byte(answer), &members); err != nil {
			t.Fatal(err)
		}
		if got := endedByItself(members); got != want {
			t.Errorf("%s: %v, want %v", answer, got, want)
		}
	}
}
