package simhttp_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"smg/sim/simhttp"
	"smg/sim/simtest"
)

const hello = `"messages":[{"role":"user","content":"Hello there"}]`

func TestSameAnswerEverywhere(t *testing.T) {
	var texts []string
	for _, kind := range kinds() {
		for _, e := range simtest.StartN(t, 2, config(kind)) {
			c := callerOf(t, e)
			whole := c.ask("/v1/chat/completions", `{"temperature":0,`+hello+`}`)
			text, _ := c.streamed("/v1/chat/completions", `{"temperature":0,"stream":true,`+hello+`}`)
			texts = append(texts, whole.Choices[0].Message.Content, text[0])
			idle(t, e)
		}
	}
	for _, text := range texts {
		if text != texts[0] || text == "" {
			t.Errorf("got %q, want %q", text, texts[0])
		}
	}
}

func TestChat(t *testing.T) {
	for _, kind := range kinds() {
		t.Run(string(kind), func(t *testing.T) {
			e := simtest.Start(t, config(kind))
			c := callerOf(t, e)
			r := c.ask("/v1/chat/completions", `{"model":"sim","max_tokens":5,`+hello+`}`)
			if r.Object != "chat.completion" || r.Model != "sim" || r.ID == "" {
				t.Errorf("head %+v", r)
			}
			choice := r.Choices[0]
			if choice.Message.Role != "assistant" || choice.FinishReason != "length" {
				t.Errorf("choice %+v", choice)
			}
			if r.Usage.Completion != 5 || r.Usage.Total != r.Usage.Prompt+5 || r.Usage.Prompt < 4 {
				t.Errorf("usage %+v", r.Usage)
			}
			whole := c.ask("/v1/chat/completions", `{"temperature":0,`+hello+`}`)
			if whole.Choices[0].FinishReason != "stop" {
				t.Errorf("finish %q, want the natural end", whole.Choices[0].FinishReason)
			}
			word := strings.Fields(whole.Choices[0].Message.Content)[3]
			stopped := c.ask("/v1/chat/completions", fmt.Sprintf(`{"temperature":0,"stop":%q,`+hello+`}`, word))
			got := stopped.Choices[0]
			if got.FinishReason != "stop" || strings.Contains(got.Message.Content, word) ||
				!strings.HasPrefix(whole.Choices[0].Message.Content, got.Message.Content) {
				t.Errorf("stopped at %q: %+v", word, got)
			}
			if got.MatchedStop != any(word) && got.StopReason != any(word) {
				t.Errorf("stop word %q not reported: %+v", word, got)
			}
			idle(t, e)
		})
	}
}

func TestChatStream(t *testing.T) {
	for _, kind := range kinds() {
		t.Run(string(kind), func(t *testing.T) {
			e := simtest.Start(t, config(kind))
			c := callerOf(t, e)
			_, events := c.streamed("/v1/chat/completions",
				`{"stream":true,"stream_options":{"include_usage":true},"max_tokens":7,"ignore_eos":true,`+hello+`}`)
			first, last, end := events[0], events[len(events)-2], events[len(events)-1]
			if first.Choices[0].Delta.Role != "assistant" || first.Object != "chat.completion.chunk" {
				t.Errorf("first event %+v", first)
			}
			if last.Choices[0].FinishReason != "length" {
				t.Errorf("last event %+v", last)
			}
			if len(end.Choices) != 0 || end.Usage == nil || end.Usage.Completion != 7 {
				t.Errorf("usage event %+v", end)
			}
			if _, events = c.streamed("/v1/chat/completions", `{"stream":true,`+hello+`}`); events[len(events)-1].Usage != nil {
				t.Error("usage without being asked for")
			}
			idle(t, e)
		})
	}
}

func TestChoicesAndBatches(t *testing.T) {
	for _, kind := range kinds() {
		t.Run(string(kind), func(t *testing.T) {
			e := simtest.Start(t, config(kind))
			c := callerOf(t, e)
			tests := []struct {
				name, path, body string
				choices, prompt  int
			}{
				{"chat n", "/v1/chat/completions", `{"n":3,"temperature":1,"seed":5,"max_tokens":4,` + hello + `}`, 3, 0},
				{"one prompt", "/v1/completions", `{"prompt":"a b c"}`, 1, 3},
				{"list of prompts", "/v1/completions", `{"prompt":["a b","c"],"n":2,"temperature":0}`, 4, 3},
				{"token ids", "/v1/completions", `{"prompt":[11,12,13,14]}`, 1, 4},
				{"lists of token ids", "/v1/completions", `{"prompt":[[11,12],[13]]}`, 2, 3},
			}
			for _, tc := range tests {
				t.Run(tc.name, func(t *testing.T) {
					c := callerOf(t, e)
					r := c.ask(tc.path, tc.body)
					if len(r.Choices) != tc.choices {
						t.Fatalf("%d choices, want %d", len(r.Choices), tc.choices)
					}
					if tc.prompt > 0 && r.Usage.Prompt != tc.prompt {
						t.Errorf("%d prompt tokens, want %d", r.Usage.Prompt, tc.prompt)
					}
					text, _ := c.streamed(tc.path, strings.Replace(tc.body, "{", `{"stream":true,`, 1))
					for i, choice := range r.Choices {
						if whole := choice.Text + choice.Message.Content; choice.Index != i || text[i] != whole {
							t.Errorf("choice %d: streamed %q, whole %q", i, text[i], whole)
						}
					}
				})
			}
			echo := c.ask("/v1/completions", `{"prompt":"once upon","echo":true}`).Choices[0].Text
			if !strings.HasPrefix(echo, "once upon ") {
				t.Errorf("echo %q", echo)
			}
			idle(t, e)
		})
	}
}

func TestPrefixCacheIsReported(t *testing.T) {
	e := simtest.Start(t, config(simhttp.SGLang))
	c := callerOf(t, e)
	body := `{"prompt":"` + strings.Repeat("word ", 100) + `"}`
	if r := c.ask("/v1/completions", body); r.Usage.Details.Cached != 0 {
		t.Errorf("cold: %d cached", r.Usage.Details.Cached)
	}
	if r := c.ask("/v1/completions", body); r.Usage.Details.Cached < 80 {
		t.Errorf("warm: %d cached, want nearly 100", r.Usage.Details.Cached)
	}
	if l := idle(t, e); l.BlocksCached == 0 {
		t.Errorf("nothing cached: %+v", l)
	}
	if status, text := c.post("/flush_cache", ""); status != http.StatusOK {
		t.Errorf("flush: %d %s", status, text)
	}
	if r := c.ask("/v1/completions", body); r.Usage.Details.Cached != 0 {
		t.Errorf("flushed: %d cached", r.Usage.Details.Cached)
	}
}

func TestConversationHitsItsOwnAnswer(t *testing.T) {
	e := simtest.Start(t, config(simhttp.VLLM))
	c := callerOf(t, e)
	first := c.ask("/v1/chat/completions", `{"temperature":0,"max_tokens":64,"ignore_eos":true,`+hello+`}`)
	second := c.ask("/v1/chat/completions", fmt.Sprintf(
		`{"messages":[{"role":"user","content":"Hello there"},{"role":"assistant","content":%q},{"role":"user","content":"Go on"}]}`,
		first.Choices[0].Message.Content))
	if want := first.Usage.Total / 16 * 16; second.Usage.Details.Cached != want {
		t.Errorf("%d tokens cached, want prompt and answer of the first turn, %d", second.Usage.Details.Cached, want)
	}
}

type generated struct {
	Text  string  `json:"text"`
	IDs   []int   `json:"output_ids"`
	Index float64 `json:"index"`
	Meta  struct {
		ID     string `json:"id"`
		Finish *struct {
			Type    string `json:"type"`
			Length  int    `json:"length"`
			Matched any    `json:"matched"`
		} `json:"finish_reason"`
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
	} `json:"meta_info"`
}

func TestGenerate(t *testing.T) {
	e := simtest.Start(t, config(simhttp.SGLang))
	c := callerOf(t, e)
	get := func(body string) generated {
		t.Helper()
		status, text := c.post("/generate", body)
		if status != http.StatusOK {
			t.Fatalf("%d %s", status, text)
		}
		return decode[generated](t, text)
	}
	one := get(`{"text":"1+1=","rid":"abc","sampling_params":{"max_new_tokens":8,"temperature":0,"ignore_eos":true}}`)
	if one.Meta.ID != "abc" || one.Meta.Finish.Type != "length" || one.Meta.Finish.Length != 8 || len(one.IDs) != 8 {
		t.Errorf("got %+v", one)
	}
	if zero := get(`{"text":"x","sampling_params":{"max_new_tokens":0}}`); zero.Text != "" || zero.Meta.Completion != 0 {
		t.Errorf("no new tokens: %+v", zero)
	}
	if ids := get(`{"input_ids":[101,102],"sampling_params":{"max_new_tokens":2}}`); ids.Meta.Prompt != 2 {
		t.Errorf("input ids: %+v", ids)
	}

	batch := `{"text":["a","b"],"rid":["r0","r1"],"sampling_params":{"n":2,"max_new_tokens":6,"temperature":0.5}}`
	status, text := c.post("/generate", batch)
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	items := decode[[]generated](t, text)
	if len(items) != 4 || items[0].Meta.ID != "r0" || items[3].Meta.ID != "r1" {
		t.Errorf("batch %+v", items)
	}

	resp, err := c.try(ctxFor(t), http.MethodPost, "/generate", strings.Replace(batch, "{", `{"stream":true,`, 1))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	last := map[int]generated{}
	all := frames(t, resp.Body)
	for _, frame := range all[:len(all)-1] {
		g := decode[generated](t, frame)
		if before := last[int(g.Index)]; !strings.HasPrefix(g.Text, before.Text) {
			t.Errorf("event %q does not continue %q", g.Text, before.Text)
		}
		last[int(g.Index)] = g
	}
	for i, item := range items {
		if last[i].Text != item.Text || last[i].Meta.Finish == nil {
			t.Errorf("streamed %d: %+v, whole %+v", i, last[i], item)
		}
	}
	idle(t, e)
}

func TestEmbeddings(t *testing.T) {
	e := simtest.Start(t, config(simhttp.VLLM))
	c := callerOf(t, e)
	type answer struct {
		Data []struct {
			Index     int `json:"index"`
			Embedding any `json:"embedding"`
		} `json:"data"`
		Usage struct {
			Prompt int `json:"prompt_tokens"`
		} `json:"usage"`
	}
	_, text := c.post("/v1/embeddings", `{"input":["one two","three"],"dimensions":8}`)
	floats := decode[answer](t, text)
	if len(floats.Data) != 2 || len(floats.Data[0].Embedding.([]any)) != 8 || floats.Usage.Prompt != 3 {
		t.Errorf("got %s", text)
	}
	_, text = c.post("/v1/embeddings", `{"input":[7,8],"encoding_format":"base64"}`)
	packed := decode[answer](t, text)
	raw, err := base64.StdEncoding.DecodeString(packed.Data[0].Embedding.(string))
	if err != nil || len(raw) != 4*64 {
		t.Errorf("base64 of %d bytes: %v", len(raw), err)
	}
	idle(t, e)
}

func TestInfoRoutes(t *testing.T) {
	tests := []struct {
		kind         simhttp.Kind
		method, path string
		status       int
		contains     string
	}{
		{simhttp.SGLang, "GET", "/health", 200, ""},
		{simhttp.SGLang, "GET", "/health_generate", 200, ""},
		{simhttp.SGLang, "GET", "/v1/models", 200, `"owned_by":"sglang"`},
		{simhttp.SGLang, "GET", "/server_info", 200, `"max_total_num_tokens":131072`},
		{simhttp.SGLang, "GET", "/get_server_info", 200, `"disaggregation_mode":"null"`},
		{simhttp.SGLang, "GET", "/model_info", 200, `"is_generation":true`},
		{simhttp.SGLang, "GET", "/get_model_info", 200, `"model_path":"sim"`},
		{simhttp.SGLang, "GET", "/v1/loads?include=core,disagg,queues,memory", 200, `"num_waiting_uncached_tokens":0`},
		{simhttp.SGLang, "GET", "/metrics", 200, "sglang:token_usage{"},
		{simhttp.SGLang, "GET", "/version", 404, "Not Found"},
		{simhttp.SGLang, "GET", "/generate", 405, "Method Not Allowed"},
		{simhttp.VLLM, "GET", "/health", 200, ""},
		{simhttp.VLLM, "GET", "/version", 200, `"version"`},
		{simhttp.VLLM, "GET", "/v1/models", 200, `"owned_by":"vllm"`},
		{simhttp.VLLM, "GET", "/metrics", 200, "vllm:kv_cache_usage_perc{"},
		{simhttp.VLLM, "GET", "/load", 200, `"server_load":0`},
		{simhttp.VLLM, "POST", "/reset_prefix_cache", 200, ""},
		{simhttp.VLLM, "GET", "/v1/loads", 404, "Not Found"},
		{simhttp.VLLM, "POST", "/generate", 404, "Not Found"},
		{simhttp.VLLM, "GET", "/server_info", 404, "Not Found"},
		{simhttp.VLLM, "GET", "/_sim/nonsense", 404, "no such control route"},
	}
	engines := map[simhttp.Kind]*simtest.Engine{}
	for _, kind := range kinds() {
		engines[kind] = simtest.Start(t, config(kind))
	}
	for _, tc := range tests {
		t.Run(string(tc.kind)+tc.path, func(t *testing.T) {
			status, text := callerOf(t, engines[tc.kind]).do(tc.method, tc.path, "")
			if status != tc.status || !strings.Contains(text, tc.contains) {
				t.Errorf("%d %s, want %d %s", status, text, tc.status, tc.contains)
			}
		})
	}
}

func TestMetricNames(t *testing.T) {
	want := map[simhttp.Kind][]string{
		simhttp.SGLang: {"sglang:num_running_reqs", "sglang:num_queue_reqs", "sglang:token_usage", "sglang:cache_hit_rate", "sglang:gen_throughput", "sglang:utilization", "sglang:generation_tokens_total", "sglang:time_to_first_token_seconds_bucket"},
		simhttp.VLLM:   {"vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "vllm:gpu_prefix_cache_hit_rate", "vllm:request_success_total", "vllm:e2e_request_latency_seconds_sum"},
	}
	for kind, names := range want {
		t.Run(string(kind), func(t *testing.T) {
			c := callerOf(t, simtest.Start(t, config(kind)))
			c.ask("/v1/completions", `{"prompt":"x","max_tokens":3,"ignore_eos":true}`)
			_, text := c.do("GET", "/metrics", "")
			for _, name := range names {
				if !strings.Contains(text, "\n"+name+"{") {
					t.Errorf("%s is missing", name)
				}
			}
			if !strings.Contains(text, "generation_tokens_total{") || !strings.Contains(text, "} 3\n") {
				t.Errorf("three tokens are not counted:\n%s", text)
			}
		})
	}
}
