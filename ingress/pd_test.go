package ingress

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"smg/sim/simctl"
	"smg/sim/simhttp"
	"smg/sim/simtest"
	"smg/worker"
)

// disaggregated is a gateway in front of simulated engines with roles.
type disaggregated struct {
	*gateway
	pd *simtest.PD
}

func startPD(t *testing.T, kind simhttp.Kind, opts ...option) *disaggregated {
	t.Helper()
	cfg := simtest.Config()
	cfg.Kind, cfg.Model = kind, "m"
	cfg.Disagg.Lease = 3 * time.Second // what nobody fetches falls; a busy machine must not make the rest fall
	return inFront(t, simtest.StartPD(t, 2, 2, cfg), kind, PD, opts...)
}

func startEPD(t *testing.T, opts ...option) *disaggregated {
	t.Helper()
	cfg := simtest.Config()
	cfg.Model = "m"
	cfg.Disagg.Lease = 3 * time.Second // what nobody fetches falls; a busy machine must not make the rest fall
	return inFront(t, simtest.StartEPD(t, 2, 2, 2, cfg), simhttp.VLLM, EPD, opts...)
}

func inFront(t *testing.T, pd *simtest.PD, kind simhttp.Kind, mode Mode, opts ...option) *disaggregated {
	t.Helper()
	g := start(t, nil, append([]option{withConfig(func(c *Config) { c.Mode = mode })}, opts...)...)
	add := func(leg worker.Leg, engines []*simtest.Engine) {
		for _, e := range engines {
			g.selector.workers = append(g.selector.workers, &worker.Spec{
				ID: worker.IDOf(e.URL), URL: e.URL, Leg: leg, Runtime: worker.Runtime(string(kind)), Models: []worker.Model{{ID: "m"}},
				BootstrapHost: e.PeerHost, BootstrapPort: uint16(e.PeerPort),
			})
		}
	}
	add(worker.Encode, pd.Encode)
	add(worker.Prefill, pd.Prefill)
	add(worker.Decode, pd.Decode)
	return &disaggregated{gateway: g, pd: pd}
}

// quiet waits until no engine holds anything and no room is in flight.
func (d *disaggregated) quiet(t *testing.T) {
	t.Helper()
	d.idle()
	for _, e := range d.pd.All() {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		if l, err := e.WaitIdle(ctx); err != nil {
			t.Errorf("engine %s still holds %+v: %v", e.URL, l, err)
		}
		cancel()
	}
	// An answer has ended for its client a moment before its rooms are given back.
	within(t, patience, "no room to be in flight", func() bool { return d.Server.rooms.Len() == 0 })
}

// asks posts a body and returns status, headers and the whole answer.
func (d *disaggregated) asks(t *testing.T, path, body string) (int, http.Header, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return postTo(ctx, t, d.url+path, body)
}

func postTo(ctx context.Context, t *testing.T, url, body string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(b)
}

// said is the text of an answer, whole or streamed.
func said(t *testing.T, answer string) string {
	t.Helper()
	type choice struct {
		Text    string
		Message struct{ Content string }
		Delta   struct{ Content string }
	}
	var text strings.Builder
	for line := range strings.Lines(answer) {
		line = strings.TrimSpace(strings.TrimPrefix(line, "data: "))
		if line == "" || line == "[DONE]" {
			continue
		}
		var a struct {
			Text    *string
			Choices []choice
		}
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		if a.Text != nil {
			text.Reset()
			text.WriteString(*a.Text)
		}
		for _, c := range a.Choices {
			text.WriteString(c.Text + c.Message.Content + c.Delta.Content)
		}
	}
	return text.String()
}

// image is a small picture as chats carry it.
const image = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

func TestDisaggregatedTextIsThatOfOneEngine(t *testing.T) {
	bodies := []struct{ name, path, body string }{
		{"chat", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"Where is cheese made?"}],"temperature":0,"max_tokens":30%s}`},
		{"completions", "/v1/completions", `{"model":"m","prompt":"Once upon a time","temperature":0,"max_tokens":30%s}`},
		{"generate", "/generate", `{"text":"Once upon a time","sampling_params":{"temperature":0,"max_new_tokens":30}%s}`},
		{"image", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"What is it?"},{"type":"image_url","image_url":{"url":"` + image + `"}}]}],"temperature":0,"max_tokens":30%s}`},
	}
	fleets := []struct {
		name string
		d    *disaggregated
		kind simhttp.Kind
	}{
		{"sglang", startPD(t, simhttp.SGLang), simhttp.SGLang},
		{"vllm", startPD(t, simhttp.VLLM), simhttp.VLLM},
		{"vllm with encoders", startEPD(t), simhttp.VLLM},
	}
	for _, f := range fleets {
		cfg := simtest.Config()
		cfg.Kind, cfg.Model = f.kind, "m"
		one := simtest.Start(t, cfg)
		for _, b := range bodies {
			if b.name == "generate" && f.kind != simhttp.SGLang {
				continue // vLLM has no such route
			}
			t.Run(f.name+"/"+b.name, func(t *testing.T) {
				_, _, answer := postTo(t.Context(), t, one.URL+b.path, fmt.Sprintf(b.body, ""))
				want := said(t, answer)
				if len(want) < 10 {
					t.Fatalf("the engine says too little to compare: %s", answer)
				}
				for _, stream := range []string{"", `,"stream":true`} {
					status, header, answer := f.d.asks(t, b.path, fmt.Sprintf(b.body, stream))
					if status != http.StatusOK {
						t.Fatalf("status %d: %s", status, answer)
					}
					if got := said(t, answer); got != want {
						t.Errorf("stream %q: got %q, want %q", stream, got, want)
					}
					if by := header.Get("X-Smg-Routed-Worker-Id"); by != f.d.pd.Decode[0].URL && by != f.d.pd.Decode[1].URL {
						t.Errorf("answered by %q, want a decode worker", by)
					}
				}
				f.d.quiet(t)
			})
		}
	}
	t.Run("KV really went from prefill to decode", func(t *testing.T) {
		for _, f := range fleets {
			var sent, received uint64
			for _, e := range f.d.pd.All() {
				tr, err := e.Transfers(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				sent += tr.Sent
				received += tr.Received
			}
			if sent == 0 || received == 0 {
				t.Errorf("%s: %d sent, %d received", f.name, sent, received)
			}
		}
	})
}

// TestNothingIsLeftOfLegs aborts a third of many requests at random moments.
func TestNothingIsLeftOfLegs(t *testing.T) {
	for _, f := range []struct {
		name string
		d    *disaggregated
		body string
	}{
		{"sglang", startPD(t, simhttp.SGLang), `{"model":"m","messages":[{"role":"user","content":"question %d"}],"max_tokens":20,"ignore_eos":true,"stream":%v}`},
		{"epd", startEPD(t), `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"%d"},{"type":"image_url","image_url":{"url":"` + image + `"}}]}],"max_tokens":20,"ignore_eos":true,"stream":%v}`},
	} {
		t.Run(f.name, func(t *testing.T) {
			var wg sync.WaitGroup
			for c := range 8 {
				wg.Go(func() {
					for i := range 12 {
						ctx, cancel := context.WithTimeout(t.Context(), patience)
						if (c+i)%3 == 0 {
							time.AfterFunc(time.Duration((c*7+i*13)%9)*time.Millisecond, cancel)
						}
						req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.d.url+"/v1/chat/completions", strings.NewReader(fmt.Sprintf(f.body, i, i%2 == 0)))
						if err != nil {
							t.Error(err)
						} else if resp, err := http.DefaultClient.Do(req); err == nil {
							_, _ = io.Copy(io.Discard, resp.Body) // many are aborted
							resp.Body.Close()
						}
						cancel()
					}
				})
			}
			wg.Wait()
			f.d.quiet(t)
		})
	}
}

// TestDisagg holds rows of the failure matrix.
func TestDisagg(t *testing.T) {
	const chatBody = `{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":8%s}`
	fault := func(t *testing.T, engines []*simtest.Engine, rules ...simctl.Rule) {
		t.Helper()
		for _, e := range engines {
			if err := e.SetRules(t.Context(), rules...); err != nil {
				t.Fatal(err)
			}
		}
	}
	refuse := func(status int) simctl.Rule {
		return simctl.Rule{Match: simctl.Match{Path: "/v1/chat/completions"}, Status: status, Body: json.RawMessage(`{"error":{"message":"no, thanks"}}`)}
	}
	answered := func(t *testing.T, answer string, header http.Header, code string) {
		t.Helper()
		if !strings.Contains(answer, code) || !strings.Contains(answer, "no, thanks") || header.Get("X-Smg-Error-Code") != code {
			t.Errorf("answer %s, code %q; want code %s with the engine's words", answer, header.Get("X-Smg-Error-Code"), code)
		}
	}
	for number, kind := range map[string]simhttp.Kind{"F6": simhttp.SGLang, "F15": simhttp.VLLM} {
		t.Run(number+"_prefill_refuses_"+string(kind), func(t *testing.T) {
			d := startPD(t, kind)
			fault(t, d.pd.Prefill, refuse(http.StatusBadRequest))
			for _, stream := range []string{"", `,"stream":true`} {
				status, header, answer := d.asks(t, "/v1/chat/completions", fmt.Sprintf(chatBody, stream))
				if status != http.StatusBadRequest {
					t.Errorf("status %d, want 400", status)
				}
				answered(t, answer, header, "prefill_bad_request")
			}
			d.quiet(t)
		})
	}
	for _, kind := range []simhttp.Kind{simhttp.SGLang, simhttp.VLLM} {
		for _, c := range []struct {
			name   string
			status int
			code   string
		}{
			{"F8_decode_400_", http.StatusBadRequest, "decode_bad_request"},
			{"F9_decode_422_", http.StatusUnprocessableEntity, "decode_upstream_error"},
		} {
			t.Run(c.name+string(kind), func(t *testing.T) {
				d := startPD(t, kind)
				fault(t, d.pd.Decode, refuse(c.status))
				status, header, answer := d.asks(t, "/v1/chat/completions", fmt.Sprintf(chatBody, ""))
				if status != c.status {
					t.Errorf("status %d, want %d", status, c.status)
				}
				answered(t, answer, header, c.code)
				d.idle()
			})
		}
		name := "F5_decode_is_gone"
		if kind == simhttp.VLLM {
			name = "vllm_decode_is_gone" // without another decode worker to try
		}
		t.Run(name, func(t *testing.T) {
			d := startPD(t, kind)
			for _, w := range d.selector.workers {
				if w.Leg == worker.Decode {
					w.URL = "http://127.0.0.1:1"
				}
			}
			status, header, answer := d.asks(t, "/v1/chat/completions", fmt.Sprintf(chatBody, ""))
			if status != http.StatusBadGateway || header.Get("X-Smg-Error-Code") != "decode_request_failed" {
				t.Errorf("status %d, %s", status, answer)
			}
			d.idle()
		})
	}
	t.Run("F10_decode_refuses_a_stream", func(t *testing.T) {
		d := startPD(t, simhttp.SGLang)
		fault(t, d.pd.Decode, refuse(http.StatusInternalServerError))
		status, header, answer := d.asks(t, "/v1/chat/completions", fmt.Sprintf(chatBody, `,"stream":true`))
		if status != http.StatusInternalServerError || header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("status %d, type %q", status, header.Get("Content-Type"))
		}
		if !strings.HasPrefix(answer, `data: {"error":{"message":`) || !strings.HasSuffix(answer, "data: [DONE]\n\n") || !strings.Contains(answer, `"status":500`) {
			t.Errorf("answer %q", answer)
		}
		d.quiet(t)
	})
	t.Run("F1_a_leg_without_workers", func(t *testing.T) {
		d := startPD(t, simhttp.SGLang)
		d.selector.workers = d.selector.workers[:2] // the prefill workers
		status, header, answer := d.asks(t, "/v1/chat/completions", fmt.Sprintf(chatBody, ""))
		if status != http.StatusServiceUnavailable || header.Get("X-Smg-Error-Code") != "no_available_workers" || !strings.Contains(answer, "decode") {
			t.Errorf("status %d, %s", status, answer)
		}
		status, _, answer = d.asks(t, "/v1/chat/completions", strings.Replace(fmt.Sprintf(chatBody, ""), `"m"`, `"x"`, 1))
		if status != http.StatusNotFound || !strings.Contains(answer, "model_not_found") {
			t.Errorf("unknown model: status %d, %s", status, answer)
		}
		d.idle()
	})
	t.Run("F18_several_answers_skip_prefill", func(t *testing.T) {
		d := startPD(t, simhttp.VLLM)
		status, _, answer := d.asks(t, "/v1/chat/completions", fmt.Sprintf(chatBody, `,"n":2`))
		if status != http.StatusOK {
			t.Errorf("status %d, %s", status, answer)
		}
		for _, e := range d.pd.Prefill {
			if l, err := e.Ledger(t.Context()); err != nil || l.InFlight != 0 {
				t.Errorf("prefill: %+v, %v", l, err)
			}
		}
		d.idle()
	})
	// vLLM's prefill says where the KV of the first prompt is, and of no other: decode
	// dies of looking for all of them there (docs/engines.md).
	t.Run("F18_several_prompts_skip_prefill", func(t *testing.T) {
		d := startPD(t, simhttp.VLLM)
		no := refuse(http.StatusInternalServerError)
		no.Match.Path = "/v1/completions"
		fault(t, d.pd.Prefill, no)
		for name, prompt := range map[string]string{"texts": `["one","two"]`, "token ids": `[[1,2],[3]]`} {
			status, _, answer := d.asks(t, "/v1/completions", `{"model":"m","max_tokens":2,"prompt":`+prompt+`}`)
			if status != http.StatusOK || strings.Count(answer, `"finish_reason"`) != 2 {
				t.Errorf("%s: status %d, %s", name, status, answer)
			}
		}
		for name, prompt := range map[string]string{"a list of one": `["one"]`, "token ids": `[1,2]`} {
			status, _, answer := d.asks(t, "/v1/completions", `{"model":"m","max_tokens":2,"prompt":`+prompt+`}`)
			if status != http.StatusInternalServerError {
				t.Errorf("%s does not go through prefill: status %d, %s", name, status, answer)
			}
		}
		d.idle()
	})
	t.Run("F21_an_encoder_refuses", func(t *testing.T) {
		d := startEPD(t)
		fault(t, d.pd.Encode, refuse(http.StatusInternalServerError))
		body := `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"` + image + `"}}]}]}`
		status, header, answer := d.asks(t, "/v1/chat/completions", body)
		if status != http.StatusInternalServerError {
			t.Errorf("status %d, want 500", status)
		}
		answered(t, answer, header, "encode_upstream_error")
		d.quiet(t)
	})
	t.Run("F5_a_retry_has_new_rooms", func(t *testing.T) {
		d := startPD(t, simhttp.SGLang, withConfig(func(c *Config) { c.Retry = DefaultRetry(); c.Retry.Initial = time.Millisecond }))
		once := refuse(http.StatusServiceUnavailable)
		once.Match.First = 1
		fault(t, d.pd.Decode, once)
		fault(t, d.pd.Prefill, simctl.Rule{Match: simctl.Match{Path: "/none"}}) // records what comes
		status, _, answer := d.asks(t, "/v1/chat/completions", fmt.Sprintf(chatBody, ""))
		if status != http.StatusOK {
			t.Fatalf("status %d, %s", status, answer)
		}
		rooms := map[string]bool{}
		n := 0
		for _, e := range d.pd.Prefill {
			records, err := e.Records(t.Context(), "/v1/chat/completions")
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range records {
				var b struct {
					Room json.Number `json:"bootstrap_room"`
				}
				if err := json.Unmarshal(r.Body, &b); err != nil {
					t.Fatal(err)
				}
				n++
				rooms[b.Room.String()] = true
			}
		}
		if n < 2 || len(rooms) != n {
			t.Errorf("%d requests in %d rooms, want a room for each of several", n, len(rooms))
		}
		d.quiet(t)
	})
	for _, kind := range []simhttp.Kind{simhttp.SGLang, simhttp.VLLM} {
		t.Run("F27_prefill_restarts_before_dispatch_"+string(kind), func(t *testing.T) {
			d := startPD(t, kind)
			fault(t, d.pd.All(), simctl.Rule{Match: simctl.Match{Path: "/none"}}) // records what comes
			plans := uint64(1)                                                    // that the selector picks for before it has heard of the restart
			d.selector.epoch = func(w *worker.Spec) uint64 {
				if w.Leg == worker.Prefill && d.selector.plans > plans {
					return 6
				}
				return 5
			}
			for _, e := range d.pd.Prefill {
				d.fleet.epochs.Store(worker.IDOf(e.URL), uint64(6))
			}
			status, _, answer := d.asks(t, "/v1/chat/completions", fmt.Sprintf(chatBody, ""))
			if status != http.StatusOK || d.selector.plans != 2 {
				t.Errorf("status %d after %d plans, want 200 after 2: %s", status, d.selector.plans, answer)
			}
			sent := 0
			for _, e := range d.pd.All() {
				records, err := e.Records(t.Context(), "/v1/chat/completions")
				if err != nil {
					t.Fatal(err)
				}
				sent += len(records)
			}
			if sent != 2 {
				t.Errorf("%d requests were sent, want those of the second plan", sent)
			}
			d.quiet(t)
			for id, e := range d.selector.ends {
				if id.Plan == 1 && e[0] != (ending{worker.Neutral, true}) {
					t.Errorf("lease %v ended as %+v, want one that never got there and blames nobody", id, e[0])
				}
			}
			plans = 1 << 30 // and again, and again
			status, header, answer := d.asks(t, "/v1/chat/completions", fmt.Sprintf(chatBody, ""))
			if status != http.StatusServiceUnavailable || header.Get("X-Smg-Error-Code") != "no_available_workers" || !strings.Contains(answer, "restarted") || d.selector.plans != 4 {
				t.Errorf("status %d after %d plans: %s", status, d.selector.plans, answer)
			}
			d.idle()
		})
	}
	t.Run("client_fields_never_reach_an_engine", func(t *testing.T) {
		d := startPD(t, simhttp.SGLang)
		fault(t, d.pd.All(), simctl.Rule{Match: simctl.Match{Path: "/none"}})
		status, _, answer := d.asks(t, "/v1/chat/completions", fmt.Sprintf(chatBody, `,"bootstrap\u005froom":7,"bootstrap_host":"evil","kv_transfer_params":{"remote_host":"evil"}`))
		if status != http.StatusOK {
			t.Fatalf("status %d, %s", status, answer)
		}
		for _, e := range d.pd.All() {
			records, err := e.Records(t.Context(), "/v1/chat/completions")
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range records {
				var b struct {
					Room json.Number `json:"bootstrap_room"`
				}
				if err := json.Unmarshal(r.Body, &b); err != nil || b.Room == "7" || b.Room == "" || strings.Contains(string(r.Body), "evil") {
					t.Errorf("an engine got %s (%v)", r.Body, err)
				}
			}
		}
	})
}
