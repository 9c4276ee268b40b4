package simhttp_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"smg/sim/simctl"
	"smg/sim/simhttp"
	"smg/sim/simtest"
)

func produce() map[string]any {
	return map[string]any{
		"kv_transfer_params": map[string]any{"do_remote_decode": true, "do_remote_prefill": false},
		"max_tokens":         1, "stream": false,
	}
}

// paramsOf reads kv_transfer_params of an answer, nil if it has none.
func paramsOf(t *testing.T, body string) json.RawMessage {
	t.Helper()
	p := decode[struct {
		Params json.RawMessage `json:"kv_transfer_params"`
	}](t, body).Params
	if string(p) == "null" {
		return nil
	}
	return p
}

func consume(t *testing.T, body string, params json.RawMessage) string {
	t.Helper()
	return with(t, body, map[string]any{"kv_transfer_params": params})
}

// sequential asks a producer and then a consumer, and leaves the first or the
// second early if victim is 0 or 1, or between the two if it is 2.
func sequential(t *testing.T, p, d *simtest.Engine, body string, wait time.Duration, victim int) {
	first := startIn(p, with(t, body, produce()))
	if victim == 0 {
		time.Sleep(wait)
		first.cancel()
		first.wait(t)
		return
	}
	got := first.wait(t)
	if got.status != 200 {
		t.Errorf("prefill: %+v", got)
		return
	}
	if victim == 2 {
		return
	}
	second := startIn(d, consume(t, body, paramsOf(t, got.body)))
	if victim == 1 {
		time.Sleep(wait)
		second.cancel()
	}
	if got := second.wait(t); victim > 2 && got.status != 200 {
		t.Errorf("decode: %+v", got)
	}
}

const vllmChat = `{"temperature":0,"messages":[{"role":"user","content":"Tell me about the sea, its tides, its storms, its ships and its fishes"}]}`

func TestVLLMPDSaysTheSame(t *testing.T) {
	regular := callerOf(t, simtest.Start(t, config(simhttp.SGLang)))
	pd := simtest.StartPD(t, 1, 1, config(simhttp.VLLM))
	p, d := pd.Prefill[0], pd.Decode[0]
	for _, tc := range []struct{ name, path, body string }{
		{"chat", "/v1/chat/completions", vllmChat},
		{"chat streamed", "/v1/chat/completions", with(t, vllmChat, map[string]any{"stream": true})},
		{"completion", "/v1/completions", `{"prompt":"Once upon a time in the west","max_tokens":30}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, want := regular.post(tc.path, tc.body)
			status, answer := callerOf(t, p).post(tc.path, with(t, tc.body, produce()))
			params := paramsOf(t, answer)
			if status != 200 || params == nil {
				t.Fatalf("%d %s", status, answer)
			}
			l, err := p.Ledger(ctxFor(t))
			if err != nil || l.Transferring != 1 || l.BlocksHeld == 0 || l.InFlight != 0 || l.Idle() {
				t.Errorf("the answer is out, and the ledger is %+v (%v)", l, err)
			}
			status, answer = callerOf(t, d).post(tc.path, consume(t, tc.body, params))
			if got := textOf(t, answer); status != 200 || got != textOf(t, want) {
				t.Errorf("%d %q, want %q", status, got, textOf(t, want))
			}
			atRest(t, p, d)
		})
	}
	t.Run("PD-17 decode counts all as cached", func(t *testing.T) {
		_, answer := callerOf(t, p).post("/v1/chat/completions", with(t, vllmChat, produce()))
		u := callerOf(t, d).ask("/v1/chat/completions", consume(t, vllmChat, paramsOf(t, answer))).Usage
		if u.Details.Cached != u.Prompt {
			t.Errorf("%+v", u)
		}
	})
	if tr, err := d.Transfers(ctxFor(t)); err != nil || tr.Received != 4 || tr.Recomputed != 0 {
		t.Errorf("decode counts %+v (%v)", tr, err)
	}
}

func TestKVParamsOfAnAnswer(t *testing.T) {
	cfg := config(simhttp.VLLM)
	cfg.Disagg.EngineID = "engine-7"
	p := simtest.StartPD(t, 1, 0, cfg).Prefill[0]
	setFaults(t, p, simctl.Faults{Transfer: &simctl.TransferFault{Params: json.RawMessage(`{"unknown":{"a":[1]},"big":12345678901234567890}`)}})
	_, answer := callerOf(t, p).post("/v1/chat/completions", with(t, vllmChat, produce()))
	raw := paramsOf(t, answer)
	got := decode[map[string]any](t, string(raw))
	want := map[string]any{
		"do_remote_prefill": true, "do_remote_decode": false, "remote_engine_id": "engine-7",
		"remote_host": "127.0.0.1", "remote_port": float64(p.PeerPort), "tp_size": 1.0,
	}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s is %v, want %v", k, got[k], v)
		}
	}
	if !strings.Contains(string(raw), `"big":12345678901234567890`) || len(got["remote_block_ids"].([]any)) == 0 {
		t.Errorf("%s", raw)
	}
	for _, tc := range []struct {
		name string
		add  map[string]any
		held bool
	}{
		{"without the tag", map[string]any{"kv_transfer_params": nil}, false},
		{"PD n=2", map[string]any{"n": 2}, false},
		{"an answer that ends by itself", map[string]any{"max_tokens": 5000}, false},
		{"streamed", map[string]any{"stream": true}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before, _ := p.Ledger(ctxFor(t))
			status, answer := callerOf(t, p).post("/v1/chat/completions", with(t, with(t, vllmChat, produce()), tc.add))
			if status != 200 || strings.Contains(answer, "remote_block_ids") {
				t.Errorf("%d %s", status, answer)
			}
			if after, _ := p.Ledger(ctxFor(t)); (after.Transferring > before.Transferring) != tc.held {
				t.Errorf("%d held, before %d", after.Transferring, before.Transferring)
			}
		})
	}
}

func TestKVLoadFails(t *testing.T) {
	cfg := impatient(simhttp.VLLM)
	cfg.Disagg.TokensOnly = true
	pd := simtest.StartPD(t, 1, 1, cfg)
	p, d := pd.Prefill[0], pd.Decode[0]
	cfg.Disagg.KVRole, cfg.Disagg.LoadFailure = simhttp.KVBoth, simhttp.Recompute
	lenient := simtest.Start(t, cfg)
	regular := callerOf(t, simtest.Start(t, config(simhttp.VLLM)))
	_, plain := regular.post("/v1/chat/completions", vllmChat)
	want := textOf(t, plain)

	fresh := func() map[string]any {
		_, answer := callerOf(t, p).post("/v1/chat/completions", with(t, vllmChat, produce()))
		return decode[map[string]any](t, string(paramsOf(t, answer)))
	}
	tests := []struct {
		name   string
		params func(t *testing.T) map[string]any
		want   string
	}{
		{"nobody listens", func(*testing.T) map[string]any { return with2(fresh(), "remote_port", freePort(t)) }, "connection refused"},
		{"another engine", func(*testing.T) map[string]any { return with2(fresh(), "remote_engine_id", "x") }, "not x"},
		{"an unknown request", func(*testing.T) map[string]any { return with2(fresh(), "remote_request_id", "x") }, "no KV is held"},
		{"other blocks", func(*testing.T) map[string]any { return with2(fresh(), "remote_block_ids", []int{1}) }, "not its blocks"},
		{"an HTTP server of another kind", func(t *testing.T) map[string]any { return with2(fresh(), "remote_port", portOf(t, p)) }, "status 404"},
		{"KV-04 expired", func(t *testing.T) map[string]any {
			params := fresh()
			idle(t, p)
			return params
		}, "expired"},
		{"KV-02 aborted", func(t *testing.T) map[string]any {
			setFaults(t, p, simctl.Faults{})
			_, answer := callerOf(t, p).post("/v1/chat/completions", with(t, vllmChat, with2(produce(), "request_id", "mine")))
			if status, body := callerOf(t, p).post("/abort_requests", `{"request_ids":["mine"]}`); status != 200 {
				t.Errorf("%d %s", status, body)
			}
			return decode[map[string]any](t, string(paramsOf(t, answer)))
		}, "no KV is held"},
		{"dropped", func(t *testing.T) map[string]any {
			hold(t, p, simctl.TransferFault{Drop: true})
			return fresh()
		}, "unexpected EOF"},
		{"held", func(t *testing.T) map[string]any {
			hold(t, p, simctl.TransferFault{Hold: true})
			return fresh()
		}, "timed out after 0.1s"},
		{"refused", func(t *testing.T) map[string]any {
			params := fresh()
			hold(t, p, simctl.TransferFault{Refuse: true})
			return params
		}, "refused"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			body := with(t, vllmChat, map[string]any{"kv_transfer_params": tc.params(t)})
			status, text := callerOf(t, d).post("/v1/chat/completions", body)
			if status != 500 || !strings.Contains(text, "KV load failed") || !strings.Contains(text, tc.want) {
				t.Errorf("%d %s, want 500 with %q", status, text, tc.want)
			}
			body = with(t, vllmChat, map[string]any{"kv_transfer_params": tc.params(t)})
			if status, text := callerOf(t, lenient).post("/v1/chat/completions", body); status != 200 || textOf(t, text) != want {
				t.Errorf("recompute: %d %s", status, text)
			}
			setFaults(t, p, simctl.Faults{})
			atRest(t, p, d, lenient)
		})
	}
	tr, _ := p.Transfers(ctxFor(t))
	if tr.Expired == 0 {
		t.Errorf("producer counts %+v", tr)
	}
	if tr, _ := lenient.Transfers(ctxFor(t)); tr.Recomputed != uint64(len(tests)) || tr.Failed != uint64(len(tests)) {
		t.Errorf("consumer counts %+v", tr)
	}
	t.Run("streamed", func(t *testing.T) {
		body := with(t, vllmChat, map[string]any{"stream": true, "kv_transfer_params": with2(fresh(), "remote_request_id", "x")})
		status, text := callerOf(t, d).post("/v1/chat/completions", body)
		if status != 200 || !strings.HasPrefix(text, `data: {"error":{"message":"Internal server error: KV load failed`) || !strings.HasSuffix(text, "data: [DONE]\n\n") {
			t.Errorf("%d %s", status, text)
		}
	})
}

// TestWithoutParams asks a consumer that is told nothing, or too little: it
// computes the prompt itself, as the real one does, and counts that.
func TestWithoutParams(t *testing.T) {
	d := simtest.StartPD(t, 0, 1, config(simhttp.VLLM)).Decode[0]
	c := callerOf(t, d)
	bodies := []string{
		vllmChat,
		with(t, vllmChat, map[string]any{"kv_transfer_params": nil}),
		with(t, vllmChat, map[string]any{"kv_transfer_params": map[string]any{"do_remote_prefill": true, "remote_host": "h"}}),
		with(t, vllmChat, map[string]any{"kv_transfer_params": map[string]any{"do_remote_decode": true}}),
	}
	for _, body := range bodies {
		c.ask("/v1/chat/completions", body)
	}
	if tr, err := d.Transfers(ctxFor(t)); err != nil || tr.Recomputed != uint64(len(bodies)) {
		t.Errorf("%+v %v", tr, err)
	}
	idle(t, d)
}

func TestStrictKVParams(t *testing.T) {
	pd := simtest.StartPD(t, 1, 1, config(simhttp.VLLM))
	regular := simtest.Start(t, config(simhttp.VLLM))
	for _, tc := range []struct {
		name   string
		engine *simtest.Engine
		add    string // to the body
		want   string
	}{
		{"no connector", regular, `"kv_transfer_params":{"do_remote_decode":true}`, "no KV connector"},
		{"neither", pd.Prefill[0], `"kv_transfer_params":{}`, "must be true"},
		{"both", pd.Prefill[0], `"kv_transfer_params":{"do_remote_decode":true,"do_remote_prefill":true}`, "must be true"},
		{"decode at a producer", pd.Prefill[0], `"kv_transfer_params":{"do_remote_prefill":true}`, "kv_producer"},
		{"prefill at a consumer", pd.Decode[0], `"kv_transfer_params":{"do_remote_decode":true}`, "kv_consumer"},
		{"incomplete", pd.Decode[0], `"kv_transfer_params":{"do_remote_prefill":true,"remote_host":"h"}`, "remote_block_ids"},
		{"PD-06 streamed", pd.Prefill[0], `"stream":true,"max_tokens":1,"kv_transfer_params":{"do_remote_decode":true}`, "not streamed"},
		{"PD-06 stream options", pd.Prefill[0], `"stream_options":{"include_usage":true},"max_tokens":1,"kv_transfer_params":{"do_remote_decode":true}`, "Stream options"},
		{"many tokens", pd.Prefill[0], `"max_tokens":9,"kv_transfer_params":{"do_remote_decode":true}`, "one token"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			setFaults(t, tc.engine, simctl.Faults{Strict: true})
			body := fmt.Sprintf(`{"messages":[{"role":"user","content":"Hi"}],%s}`, tc.add)
			if status, text := callerOf(t, tc.engine).post("/v1/chat/completions", body); status != http.StatusBadRequest || !strings.Contains(text, tc.want) {
				t.Errorf("%d %s, want 400 with %q", status, text, tc.want)
			}
		})
	}
	t.Run("no object", func(t *testing.T) {
		if status, text := callerOf(t, regular).post("/v1/completions", `{"prompt":"a","kv_transfer_params":[]}`); status != 400 {
			t.Errorf("%d %s", status, text)
		}
	})
	t.Run("what fits passes", func(t *testing.T) {
		for _, e := range pd.All() {
			setFaults(t, e, simctl.Faults{Strict: true})
		}
		_, answer := callerOf(t, pd.Prefill[0]).post("/v1/chat/completions", with(t, vllmChat, produce()))
		callerOf(t, pd.Decode[0]).ask("/v1/chat/completions", consume(t, vllmChat, paramsOf(t, answer)))
		atRest(t, pd.All()...)
	})
}
