package simhttp_test

import (
	"net/http"
	"strings"
	"testing"

	"smg/sim/simhttp"
	"smg/sim/simtest"
)

func TestRefusals(t *testing.T) {
	const chat, comp, gen = "/v1/chat/completions", "/v1/completions", "/generate"
	long := strings.Repeat("word ", 200)
	tests := []struct {
		name       string
		kind       simhttp.Kind
		path, body string
		status     int
		contains   string
	}{
		{"bad JSON", simhttp.SGLang, chat, `{"a":`, 400, `"object":"error"`},
		{"bad JSON", simhttp.VLLM, chat, `{"a":`, 400, `{"error":{`},
		{"bad JSON", simhttp.SGLang, gen, `nope`, 400, `{"error":{"message":`},
		{"not an object", simhttp.VLLM, comp, `[1]`, 400, `JSON object`},
		{"null", simhttp.VLLM, comp, `null`, 400, `JSON object`},
		{"empty body", simhttp.VLLM, comp, ``, 400, `JSON decode error`},
		{"unknown model", simhttp.VLLM, comp, `{"model":"x","prompt":"a"}`, 404, "The model `x` does not exist."},
		{"no prompt", simhttp.VLLM, comp, `{}`, 400, `prompt: Field required`},
		{"empty prompt", simhttp.VLLM, comp, `{"prompt":""}`, 400, `cannot be empty`},
		{"empty list", simhttp.VLLM, comp, `{"prompt":[]}`, 400, `empty list`},
		{"mixed list", simhttp.VLLM, comp, `{"prompt":["a",1]}`, 400, `valid string`},
		{"negative id", simhttp.VLLM, comp, `{"prompt":[-1]}`, 400, `valid integer`},
		{"id out of vocabulary", simhttp.VLLM, comp, `{"prompt":[999999999]}`, 400, `out of vocabulary`},
		{"no messages", simhttp.SGLang, chat, `{"messages":[]}`, 400, `messages`},
		{"wrong type", simhttp.SGLang, chat, `{"stream":"yes",` + hello + `}`, 400, `valid boolean`},
		{"negative temperature", simhttp.VLLM, chat, `{"temperature":-1,` + hello + `}`, 400, `non-negative`},
		{"top_p", simhttp.VLLM, chat, `{"top_p":0,` + hello + `}`, 400, `(0, 1]`},
		{"n", simhttp.VLLM, chat, `{"n":0,` + hello + `}`, 400, `between 1 and`},
		{"max_tokens", simhttp.VLLM, chat, `{"max_tokens":0,` + hello + `}`, 400, `at least 1`},
		{"min above max", simhttp.VLLM, chat, `{"min_tokens":9,"max_tokens":3,` + hello + `}`, 400, `min_tokens`},
		{"logprobs", simhttp.SGLang, chat, `{"logprobs":true,` + hello + `}`, 400, `not supported`},
		{"logprobs", simhttp.VLLM, comp, `{"logprobs":1,"prompt":"a"}`, 400, `not supported`},
		{"logprobs of another batch", simhttp.SGLang, gen, `{"return_logprob":[true],"text":["a","b"]}`, 400, `return_logprob: 1 values for 2 prompts`},
		{"prompt too long", simhttp.SGLang, comp, `{"prompt":"` + long + `"}`, 400, `longer than the model's context length (100 tokens)`},
		{"prompt too long", simhttp.VLLM, comp, `{"prompt":"` + long + `"}`, 400, `maximum context length is 100 tokens`},
		{"answer too long", simhttp.SGLang, gen, `{"text":"a","sampling_params":{"max_new_tokens":100}}`, 400, `maximum context length of 100`},
		{"answer too long", simhttp.VLLM, chat, `{"max_tokens":100,` + hello + `}`, 400, `you requested`},
		{"text and ids", simhttp.SGLang, gen, `{"text":"a","input_ids":[1]}`, 400, `Either text or input_ids`},
		{"ids do not fit the batch", simhttp.SGLang, gen, `{"text":["a","b","c"],"rid":["x","y"]}`, 400, `2 ids for 3 prompts`},
		{"embedding format", simhttp.VLLM, "/v1/embeddings", `{"input":"a","encoding_format":"hex"}`, 400, `encoding_format`},
		{"echo of ids", simhttp.VLLM, comp, `{"prompt":[11],"echo":true}`, 400, `echo`},
		{"too many sequences", simhttp.VLLM, comp, `{"n":128,"prompt":["a","b","c","d","e","f","g","h","i"]}`, 400, `1152 sequences`},
		{"abort without rid", simhttp.SGLang, "/abort_request", `{}`, 400, `rid`},
		{"body too large", simhttp.VLLM, comp, `{"prompt":"` + strings.Repeat("x", 5000) + `"}`, 413, `too large`},
	}
	engines := map[simhttp.Kind]*simtest.Engine{}
	for _, kind := range kinds() {
		cfg := config(kind)
		cfg.Core.ContextLength = 100
		cfg.MaxBodyBytes = 4096
		engines[kind] = simtest.Start(t, cfg)
	}
	for _, tc := range tests {
		t.Run(string(tc.kind)+"/"+tc.name, func(t *testing.T) {
			status, text := callerOf(t, engines[tc.kind]).post(tc.path, tc.body)
			if status != tc.status || !strings.Contains(text, tc.contains) {
				t.Errorf("%d %s, want %d with %s", status, text, tc.status, tc.contains)
			}
			idle(t, engines[tc.kind])
		})
	}
}

func TestLenientJSON(t *testing.T) {
	e := simtest.Start(t, config(simhttp.VLLM))
	tests := []struct{ name, body string }{
		{"unknown fields and null", `{"future":{"x":[1]},"stream":null,"stop":null,"n":null,` + hello + `}`},
		{"names are exact", `{"STREAM":true,` + hello + `}`},
		{"the last of equal names counts", `{"n":7,"n":1,` + hello + `}`},
		{"stream_options without stream", `{"stream_options":{"include_usage":true},` + hello + `}`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if r := callerOf(t, e).ask("/v1/chat/completions", tc.body); len(r.Choices) != 1 {
				t.Errorf("got %+v", r)
			}
		})
	}
}

func TestAPIKey(t *testing.T) {
	tests := []struct {
		kind simhttp.Kind
		path string
		open bool
	}{
		{simhttp.SGLang, "/health", true},
		{simhttp.SGLang, "/metrics", true},
		{simhttp.SGLang, "/server_info", false},
		{simhttp.SGLang, "/v1/models", false},
		{simhttp.VLLM, "/health", true},
		{simhttp.VLLM, "/version", true},
		{simhttp.VLLM, "/v1/models", false},
	}
	engines := map[simhttp.Kind]*simtest.Engine{}
	for _, kind := range kinds() {
		cfg := config(kind)
		cfg.APIKey = "secret"
		engines[kind] = simtest.Start(t, cfg)
	}
	for _, tc := range tests {
		t.Run(string(tc.kind)+tc.path, func(t *testing.T) {
			c := callerOf(t, engines[tc.kind])
			want := http.StatusUnauthorized
			if tc.open {
				want = http.StatusOK
			}
			if status, text := c.do("GET", tc.path, ""); status != want {
				t.Errorf("without a key: %d %s, want %d", status, text, want)
			}
			req, err := http.NewRequestWithContext(ctxFor(t), http.MethodGet, c.url+tc.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer secret")
			resp, err := c.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Errorf("with the key: %d", resp.StatusCode)
			}
		})
	}
}
