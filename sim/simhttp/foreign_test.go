package simhttp_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"smg/sim/simctl"
	"smg/sim/simhttp"
	"smg/sim/simtest"
)

// foreign is a question in the form of each API whose answer is a text.
var foreign = []struct{ path, body string }{
	{"/v1/messages", `{"max_tokens":12,"temperature":0,"system":"Be brief.","messages":[{"role":"user","content":[{"type":"text","text":"What is it?"},` +
		`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}},{"type":"image","source":{"type":"url","url":"http://pictures.invalid/1"}}]}]%s}`},
	{"/v1/responses", `{"max_output_tokens":12,"temperature":0,"instructions":"Be brief.","input":[{"type":"reasoning"},{"role":"user","content":[{"type":"input_text","text":"What is it?"},` +
		`{"type":"input_image","image_url":"data:image/png;base64,aGk="},{"type":"input_image","image_url":"http://pictures.invalid/1"}]}]%s}`},
}

// spokenForeign is the text of an answer in those forms, streamed or not.
func spokenForeign(t *testing.T, body string) string {
	t.Helper()
	type answer struct {
		Type    string `json:"type"`
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
		Output []struct {
			Content []struct {
				Text string `json:"text"`
			} `json:"content"`
		} `json:"output"`
	}
	if !strings.HasPrefix(body, "event: ") {
		a := decode[answer](t, body)
		if len(a.Content) > 0 {
			return a.Content[0].Text
		}
		if len(a.Output) == 0 {
			t.Fatalf("%s says nothing", body)
		}
		return a.Output[0].Content[0].Text
	}
	var text strings.Builder
	for line := range strings.Lines(body) {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		switch {
		case !ok || data == "[DONE]":
		case strings.Contains(data, `"type":"content_block_delta"`):
			text.WriteString(decode[struct{ Delta struct{ Text string } }](t, data).Delta.Text)
		case strings.Contains(data, `"type":"response.output_text.delta"`):
			text.WriteString(decode[struct{ Delta string }](t, data).Delta)
		}
	}
	return text.String()
}

func TestForeignFormsSayTheSame(t *testing.T) {
	for _, kind := range kinds() {
		e := simtest.Start(t, config(kind))
		want := callerOf(t, e).ask("/v1/chat/completions", `{"max_tokens":12,"temperature":0,"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":[`+
			`{"type":"text","text":"What is it?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,aGk="}},{"type":"image_url","image_url":{"url":"http://pictures.invalid/1"}}]}]}`)
		for _, f := range foreign {
			for _, stream := range []string{"", `,"stream":true`} {
				t.Run(string(kind)+f.path+stream, func(t *testing.T) {
					status, text := callerOf(t, e).post(f.path, fmt.Sprintf(f.body, stream))
					if status != http.StatusOK {
						t.Fatalf("%d %s", status, text)
					}
					if got := spokenForeign(t, text); got != want.Choices[0].Message.Content {
						t.Errorf("got %q, want %q", got, want.Choices[0].Message.Content)
					}
				})
			}
		}
		idle(t, e)
	}
}

func TestForeignFormsHandOver(t *testing.T) {
	t.Run("sglang", func(t *testing.T) {
		cfg := config(simhttp.SGLang)
		pd := simtest.StartPD(t, 1, 1, cfg)
		one := callerOf(t, simtest.Start(t, cfg))
		for i, f := range foreign {
			body := fmt.Sprintf(f.body, "")
			_, plain := one.post(f.path, body)
			_, dec := both(t, pd.Prefill[0], pd.Decode[0], f.path, with(t, body, bootstrap(pd.Prefill[0], 7+i)))
			if got, want := spokenForeign(t, dec.body), spokenForeign(t, plain); got != want {
				t.Errorf("%s: got %q, want %q", f.path, got, want)
			}
			if status, text := callerOf(t, pd.Decode[0]).post(f.path, body); status != 400 || !strings.Contains(text, "without bootstrap room id") {
				t.Errorf("%s without a room: %d %s", f.path, status, text)
			}
		}
		const ranked = `{"query":"a","documents":["b","c"]}`
		_, plain := one.post("/v1/rerank", ranked)
		pre, dec := both(t, pd.Prefill[0], pd.Decode[0], "/v1/rerank", with(t, ranked, bootstrap(pd.Prefill[0], 99)))
		if pre.status != 200 || dec.body != plain || !strings.Contains(plain, `"index":1`) {
			t.Errorf("rerank: %+v %+v, want %s", pre, dec, plain)
		}
		if status, text := callerOf(t, pd.Decode[0]).post("/v1/rerank", ranked); status != 400 || !strings.Contains(text, "without bootstrap room id") {
			t.Errorf("rerank without a room: %d %s", status, text)
		}
		if tr := transfersOf(t, pd.Decode[0]); tr.Received != 4 {
			t.Errorf("decode counts %+v", tr)
		}
		atRest(t, pd.All()...)
	})
	t.Run("vllm", func(t *testing.T) {
		cfg := config(simhttp.VLLM)
		pd := simtest.StartPD(t, 1, 1, cfg)
		one := callerOf(t, simtest.Start(t, cfg))
		for _, f := range foreign {
			body := fmt.Sprintf(f.body, "")
			_, plain := one.post(f.path, body)
			capped := map[string]any{"max_tokens": 1, "max_output_tokens": 1, "kv_transfer_params": map[string]any{"do_remote_decode": true}}
			_, answer := callerOf(t, pd.Prefill[0]).post(f.path, with(t, body, capped))
			_, dec := callerOf(t, pd.Decode[0]).post(f.path, consume(t, body, paramsOf(t, answer)))
			if got, want := spokenForeign(t, dec), spokenForeign(t, plain); got != want {
				t.Errorf("%s: got %q, want %q", f.path, got, want)
			}
		}
		if tr := transfersOf(t, pd.Decode[0]); tr.Received != 2 {
			t.Errorf("decode counts %+v", tr)
		}
		atRest(t, pd.All()...)
	})
}

// TestForeignFaults sees that a stream that fails says so.
func TestForeignFaults(t *testing.T) {
	cfg := config(simhttp.SGLang)
	cfg.Disagg.Mode = simhttp.Decode
	e := simtest.Start(t, cfg)
	for _, f := range foreign {
		body := with(t, fmt.Sprintf(f.body, `,"stream":true`), map[string]any{"bootstrap_host": "127.0.0.1", "bootstrap_port": 1, "bootstrap_room": 1})
		resp, err := callerOf(t, e).try(ctxFor(t), http.MethodPost, f.path, body)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil || !strings.Contains(string(text), `"error":{`) || !strings.Contains(string(text), "KVTransferError") {
			t.Errorf("%s: %v %s", f.path, err, text)
		}
	}
	idle(t, e)
}

// TestStrictRefusesStrays is what tells a test that a gateway sends engines what is not
// for them.
func TestStrictRefusesStrays(t *testing.T) {
	unified, vllm := simtest.Start(t, config(simhttp.SGLang)), simtest.Start(t, config(simhttp.VLLM))
	encoders := config(simhttp.VLLM)
	encoders.Disagg.ECRole = simhttp.ECProducer
	encoder := simtest.Start(t, encoders)
	const chat = `{"max_tokens":1,"messages":[{"role":"user","content":[%s]}]%s}`
	const image, text = `{"type":"image_url","image_url":{"url":"http://pictures.invalid/1"}}`, `{"type":"text","text":"What is it?"}`
	for _, tc := range []struct {
		name   string
		engine *simtest.Engine
		body   string
		status int
	}{
		{"plain", unified, fmt.Sprintf(chat, text, ""), 200},
		{"room", unified, fmt.Sprintf(chat, text, `,"bootstrap_room":1`), 400},
		{"null port", unified, fmt.Sprintf(chat, text, `,"bootstrap_port":null`), 400},
		{"KV", unified, fmt.Sprintf(chat, text, `,"kv_transfer_params":{}`), 400},
		{"rank", unified, fmt.Sprintf(chat, text, `,"routed_dp_rank":0`), 400},
		{"room", vllm, fmt.Sprintf(chat, text, `,"bootstrap_room":1`), 400},
		{"KV without a connector", vllm, fmt.Sprintf(chat, text, `,"kv_transfer_params":{"do_remote_decode":true}`), 400},
		{"primer", encoder, fmt.Sprintf(chat, image, ""), 200},
		{"primer with KV", encoder, fmt.Sprintf(chat, image, `,"kv_transfer_params":{"do_remote_decode":true}`), 400},
		{"primer with text", encoder, fmt.Sprintf(chat, image+","+text, ""), 400},
		{"two media", encoder, fmt.Sprintf(chat, image+","+image, ""), 400},
		{"primer with tools", encoder, fmt.Sprintf(chat, image, `,"tools":[{"type":"function"}]`), 400},
	} {
		t.Run(tc.name, func(t *testing.T) {
			setFaults(t, tc.engine, simctl.Faults{Strict: true})
			if status, answer := callerOf(t, tc.engine).post("/v1/chat/completions", tc.body); status != tc.status {
				t.Errorf("strict: %d %s, want %d", status, answer, tc.status)
			}
			setFaults(t, tc.engine, simctl.Faults{})
			if status, answer := callerOf(t, tc.engine).post("/v1/chat/completions", tc.body); status != 200 {
				t.Errorf("lenient: %d %s, want 200", status, answer)
			}
		})
	}
}
