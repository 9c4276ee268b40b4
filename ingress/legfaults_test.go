package ingress

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"smg/engine"
	"smg/sim/simctl"
	"smg/sim/simhttp"
	"smg/sim/simtest"
	"smg/worker"
)

const legBody = `{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":8%s}`

const legImage = `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"` + image + `"}}]}],"max_tokens":8}`

// stale is a Dispatcher whose first call of an engine finds a kept connection that
// has died unused. It keeps the request ids of all calls.
type stale struct {
	Dispatcher
	at string

	mu  sync.Mutex
	ids []string
}

func (s *stale) Send(ctx context.Context, t *engine.Target, q *engine.Request) (*engine.Response, error) {
	s.mu.Lock()
	for _, f := range q.Fields {
		if f.Name == requestIDHeader {
			s.ids = append(s.ids, f.Value)
		}
	}
	at := s.at
	if t.String() == at {
		s.at = ""
	}
	s.mu.Unlock()
	if t.String() == at {
		return nil, &engine.Error{Kind: engine.ErrNoAnswer, Target: at, Reused: true, Err: errors.New("connection reset")}
	}
	return s.Dispatcher.Send(ctx, t, q)
}

// TestReplanHasAnotherRequestID: the engines may still hold what the last plan's id
// stands for, whatever the reason for another plan.
func TestReplanHasAnotherRequestID(t *testing.T) {
	s := new(stale)
	d := startPD(t, simhttp.VLLM, withDeps(func(d *Deps) { s.Dispatcher, d.Dispatcher = d.Dispatcher, s }))
	d.selector.workers = slices.DeleteFunc(d.selector.workers, func(w *worker.Spec) bool { return w.URL == d.pd.Decode[1].URL })
	s.at = d.pd.Decode[0].URL
	if status, _, answer := d.asks(t, chatPath, fmt.Sprintf(legBody, "")); status != http.StatusOK {
		t.Fatalf("status %d: %s", status, answer)
	}
	if len(s.ids) != 4 || s.ids[0] != s.ids[1] || s.ids[2] != s.ids[3] || s.ids[1] == s.ids[2] {
		t.Errorf("request ids %q, want one for each of two plans of two legs", s.ids)
	}
	d.idle()
}

// TestRankFieldsNeverReachAnEngine: a client could steer its request to a rank that
// does not know the room.
func TestRankFieldsNeverReachAnEngine(t *testing.T) {
	fields := []string{"data_parallel_rank", "data_parallel_rank_decode", "routed_dp_rank", "disagg_prefill_dp_rank"}
	for _, kind := range []simhttp.Kind{simhttp.SGLang, simhttp.VLLM} {
		t.Run(string(kind), func(t *testing.T) {
			d := startPD(t, kind)
			for _, e := range d.pd.All() {
				if err := e.SetRules(t.Context(), simctl.Rule{Match: simctl.Match{Path: "/none"}}); err != nil { // records what comes
					t.Fatal(err)
				}
			}
			var more strings.Builder
			for _, f := range fields {
				fmt.Fprintf(&more, `,%q:7`, f)
			}
			if status, _, answer := d.asks(t, chatPath, fmt.Sprintf(legBody, more.String())); status != http.StatusOK {
				t.Fatalf("status %d: %s", status, answer)
			}
			n := 0
			for _, e := range d.pd.All() {
				records, err := e.Records(t.Context(), chatPath)
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range records {
					n++
					for _, f := range fields {
						if strings.Contains(string(r.Body), f) {
							t.Errorf("an engine got %s", r.Body)
						}
					}
				}
			}
			if n != 2 {
				t.Errorf("%d requests, want 2", n)
			}
			d.quiet(t)
		})
	}
}

// scripted is an engine that is a handler, which has read the request's body.
func scripted(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, body []byte)) *simtest.Engine {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("reading a request: %v", err)
		}
		w.Header().Set("Content-Type", "application/json")
		answer(w, r, b)
	}))
	t.Cleanup(srv.Close)
	return &simtest.Engine{URL: srv.URL, PeerHost: "127.0.0.1", PeerPort: 8998}
}

// inFrontOf is a gateway in front of two engines of SGLang.
func inFrontOf(t *testing.T, prefill, decode *simtest.Engine) *disaggregated {
	t.Helper()
	return inFront(t, &simtest.PD{Prefill: []*simtest.Engine{prefill}, Decode: []*simtest.Engine{decode}}, simhttp.SGLang, PD)
}

// TestParamsAreTakenByTheirExactKey: JSON's keys are not those that look like them.
func TestParamsAreTakenByTheirExactKey(t *testing.T) {
	for _, tt := range []struct{ name, answer, want string }{
		{"exact", `{"kv_transfer_params":{"a":1.00}}`, `{"a":1.00}`},
		{"another case", `{"KV_Transfer_Params":{"a":1}}`, ""},
		{"both", `{"kv_transfer_params":{"a":1},"KV_TRANSFER_PARAMS":{"a":2}}`, `{"a":1}`},
		{"null", `{"kv_transfer_params":null}`, ""},
		{"no object", `[]`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			prefill := scripted(t, func(w http.ResponseWriter, _ *http.Request, _ []byte) { _, _ = io.WriteString(w, tt.answer) })
			got := make(chan string, 1)
			decode := scripted(t, func(w http.ResponseWriter, _ *http.Request, body []byte) {
				var b map[string]json.RawMessage
				if err := json.Unmarshal(body, &b); err != nil {
					t.Error(err)
				}
				got <- string(b[fieldKV])
				_, _ = io.WriteString(w, `{"choices":[]}`)
			})
			d := inFront(t, &simtest.PD{Prefill: []*simtest.Engine{prefill}, Decode: []*simtest.Engine{decode}}, simhttp.VLLM, PD)
			if status, _, answer := d.asks(t, chatPath, fmt.Sprintf(legBody, "")); status != http.StatusOK {
				t.Fatalf("status %d: %s", status, answer)
			}
			if got := <-got; got != tt.want {
				t.Errorf("decode got %q, want %q", got, tt.want)
			}
			missing := 0.0
			if tt.want == "" {
				missing = 1
			}
			if n := testutil.ToFloat64(d.metrics.pd.kvFailures.WithLabelValues("pd", "m", "vllm")); n != missing {
				t.Errorf("%v failures of the transfer, want %v", n, missing)
			}
			d.idle()
		})
	}
}

// TestDeadlineIsChargedOnEveryLeg: a worker that lets the time pass while its answer
// is read is to blame like one that never begins.
func TestDeadlineIsChargedOnEveryLeg(t *testing.T) {
	half := func(t *testing.T) *simtest.Engine {
		return scripted(t, func(w http.ResponseWriter, r *http.Request, _ []byte) {
			_, _ = io.WriteString(w, `{"ch`)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		})
	}
	short := withConfig(func(c *Config) { c.RequestTimeout = 300 * time.Millisecond })
	for _, tt := range []struct {
		name  string
		kind  simhttp.Kind
		mode  Mode
		body  string
		blame []worker.Leg
	}{
		{"sglang", simhttp.SGLang, PD, fmt.Sprintf(legBody, ""), []worker.Leg{worker.Prefill, worker.Decode}},
		{"vllm prefill", simhttp.VLLM, PD, fmt.Sprintf(legBody, ""), []worker.Leg{worker.Prefill}},
		{"vllm encode", simhttp.VLLM, EPD, legImage, []worker.Leg{worker.Encode}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pd := &simtest.PD{Prefill: []*simtest.Engine{half(t)}, Decode: []*simtest.Engine{half(t)}}
			if tt.mode == EPD {
				pd.Encode = []*simtest.Engine{half(t)}
			}
			d := inFront(t, pd, tt.kind, tt.mode, short)
			status, _, _ := d.asksCut(t, tt.body)
			if status != http.StatusGatewayTimeout && status != http.StatusOK {
				t.Errorf("status %d", status)
			}
			d.idle()
			var blamed []worker.Leg
			for id, e := range d.selector.ends {
				if e[0].Outcome == worker.Failure {
					blamed = append(blamed, id.Leg)
				}
			}
			if slices.Sort(blamed); !slices.Equal(blamed, tt.blame) {
				t.Errorf("charged: %v, want %v", blamed, tt.blame)
			}
		})
	}
}

// asksCut is asks for an answer that may break off.
func (d *disaggregated) asksCut(t *testing.T, body string) (int, http.Header, error) {
	t.Helper()
	resp, err := http.Post(d.url+chatPath, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, resp.Header, err
}

// TestLegsThatAreOfNoUseAreNotMissed: what a request does not need need not be there.
func TestLegsThatAreOfNoUseAreNotMissed(t *testing.T) {
	without := func(d *disaggregated, leg worker.Leg) {
		d.selector.workers = slices.DeleteFunc(d.selector.workers, func(w *worker.Spec) bool { return w.Leg == leg })
	}
	t.Run("SGLang prefill calls the encoders itself", func(t *testing.T) {
		d := startPD(t, simhttp.SGLang, withConfig(func(c *Config) { c.Mode = EPD }))
		if status, _, answer := d.asks(t, chatPath, legImage); status != http.StatusOK {
			t.Errorf("status %d: %s", status, answer)
		}
		d.quiet(t)
	})
	t.Run("several answers of vLLM need no prefill", func(t *testing.T) {
		d := startPD(t, simhttp.VLLM)
		without(d, worker.Prefill)
		if status, _, answer := d.asks(t, chatPath, fmt.Sprintf(legBody, `,"n":2`)); status != http.StatusOK {
			t.Errorf("status %d: %s", status, answer)
		}
		if status, header, answer := d.asks(t, chatPath, fmt.Sprintf(legBody, "")); status != http.StatusServiceUnavailable || header.Get("X-Smg-Error-Code") != "no_available_workers" {
			t.Errorf("one answer: status %d: %s", status, answer)
		}
		d.quiet(t)
	})
	t.Run("a decode worker is always needed", func(t *testing.T) {
		d := startPD(t, simhttp.VLLM)
		without(d, worker.Decode)
		if status, header, answer := d.asks(t, chatPath, fmt.Sprintf(legBody, `,"n":2`)); status != http.StatusServiceUnavailable || header.Get("X-Smg-Error-Code") != "no_available_workers" {
			t.Errorf("status %d: %s", status, answer)
		}
		d.quiet(t)
	})
}
