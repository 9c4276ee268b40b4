package tokenreply_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"smg/engine/rpc"
	"smg/ingress/tokenreply"
)

// events are those of a stream, without what they begin with.
func events(stream string) (all []string) {
	for event := range strings.SplitSeq(strings.TrimSuffix(stream, "\n\n"), "\n\n") {
		all = append(all, strings.TrimPrefix(event, "data: "))
	}
	return all
}

func TestEvents(t *testing.T) {
	v, ids := words("a", "b", "c")
	a, b, c := ids[0], ids[1], ids[2]
	told := func(p *rpc.Piece) *rpc.Piece {
		p.Prompt, p.Cached = 9, 4
		return p
	}
	const chatHead = `{"id":"c-1","object":"chat.completion.chunk","created":7,"model":"m","choices":[`
	const textHead = `{"id":"c-1","object":"text_completion","created":7,"model":"m","choices":[`
	tests := []struct {
		name   string
		change func(*tokenreply.Request)
		pieces []*rpc.Piece
		want   []string
	}{
		{
			name:   "the end has no tokens of its own",
			change: func(r *tokenreply.Request) { r.Engine = tokenreply.VLLM },
			pieces: []*rpc.Piece{piece(a, b), last("length")},
			want: []string{
				chatHead + `{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null,"stop_reason":null}]}`,
				chatHead + `{"index":0,"delta":{"content":"ab"},"logprobs":null,"finish_reason":null,"stop_reason":null}]}`,
				chatHead + `{"index":0,"delta":{"content":""},"logprobs":null,"finish_reason":"length","stop_reason":null}]}`,
				`[DONE]`,
			},
		},
		{
			name: "usage with each",
			change: func(r *tokenreply.Request) {
				r.API, r.Engine, r.IncludeUsage, r.ContinuousUsage = tokenreply.Completions, tokenreply.VLLM, true, true
			},
			pieces: []*rpc.Piece{told(piece(a)), told(last("length", b, c))},
			want: []string{
				textHead + `{"index":0,"text":"a","logprobs":null,"finish_reason":null,"stop_reason":null}],"usage":{"prompt_tokens":9,"total_tokens":10,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":4}}}`,
				textHead + `{"index":0,"text":"bc","logprobs":null,"finish_reason":"length","stop_reason":null}],"usage":{"prompt_tokens":9,"total_tokens":12,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":4}}}`,
				textHead + `],"usage":{"prompt_tokens":9,"total_tokens":12,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":4}}}`,
				`[DONE]`,
			},
		},
		{
			name: "usage with each needs usage",
			change: func(r *tokenreply.Request) {
				r.API, r.Engine, r.ContinuousUsage, r.HideCached = tokenreply.Completions, tokenreply.VLLM, true, true
			},
			pieces: []*rpc.Piece{last("length", a)},
			want:   []string{textHead + `{"index":0,"text":"a","logprobs":null,"finish_reason":"length","stop_reason":null}]}`, `[DONE]`},
		},
		{
			name: "SGLang's usage without what was cached",
			change: func(r *tokenreply.Request) {
				r.API, r.IncludeUsage, r.ContinuousUsage, r.HideCached = tokenreply.Completions, true, true, true
			},
			pieces: []*rpc.Piece{last("stop", a)},
			want: []string{
				textHead + `{"index":0,"text":"a","logprobs":null,"finish_reason":null,"matched_stop":null}],"usage":{"prompt_tokens":3,"total_tokens":4,"completion_tokens":1,"prompt_tokens_details":null,"reasoning_tokens":0}}`,
				textHead + `{"index":0,"text":"","logprobs":null,"finish_reason":"stop","matched_stop":null}],"usage":{"prompt_tokens":3,"total_tokens":4,"completion_tokens":1,"prompt_tokens_details":null,"reasoning_tokens":0}}`,
				textHead + `],"usage":{"prompt_tokens":3,"total_tokens":4,"completion_tokens":1,"prompt_tokens_details":null,"reasoning_tokens":0}}`,
				`[DONE]`,
			},
		},
		{
			name:   "generate from the beginning",
			change: func(r *tokenreply.Request) { r.API = tokenreply.Generate },
			pieces: []*rpc.Piece{told(piece(a)), told(piece(b)), told(last("length", c))},
			want: []string{
				`{"text":"a","output_ids":[10],"meta_info":{"id":"c-1","finish_reason":null,"prompt_tokens":9,"weight_version":"default","total_retractions":0,"completion_tokens":1,"cached_tokens":4}}`,
				`{"text":"ab","output_ids":[10,11],"meta_info":{"id":"c-1","finish_reason":null,"prompt_tokens":9,"weight_version":"default","total_retractions":0,"completion_tokens":2,"cached_tokens":4}}`,
				`{"text":"abc","output_ids":[10,11,12],"meta_info":{"id":"c-1","finish_reason":{"type":"length","length":3},"prompt_tokens":9,"weight_version":"default","total_retractions":0,"completion_tokens":3,"cached_tokens":4}}`,
				`[DONE]`,
			},
		},
		{
			name:   "generate what is new",
			change: func(r *tokenreply.Request) { r.API, r.Incremental, r.Batch = tokenreply.Generate, true, true },
			pieces: []*rpc.Piece{piece(a), piece(tokenTool), piece(b), last("stop", tokenEOS)},
			want: []string{
				`{"text":"a","output_ids":[10],"meta_info":{"id":"c-1","finish_reason":null,"prompt_tokens":3,"weight_version":"default","total_retractions":0,"completion_tokens":1,"cached_tokens":0},"index":0}`,
				`{"text":"b","output_ids":[4,11],"meta_info":{"id":"c-1","finish_reason":null,"prompt_tokens":3,"weight_version":"default","total_retractions":0,"completion_tokens":3,"cached_tokens":0},"index":0}`,
				`{"text":"","output_ids":[2],"meta_info":{"id":"c-1","finish_reason":{"type":"stop","matched":2},"prompt_tokens":3,"weight_version":"default","total_retractions":0,"completion_tokens":4,"cached_tokens":0},"index":0}`,
				`[DONE]`,
			},
		},
		{
			name:   "generate given up",
			change: func(r *tokenreply.Request) { r.API = tokenreply.Generate },
			pieces: []*rpc.Piece{last("abort", a)},
			want: []string{
				`{"text":"a","output_ids":[10],"meta_info":{"id":"c-1","finish_reason":{"type":"abort","message":"Aborted","status_code":null,"err_type":null},"prompt_tokens":3,"weight_version":"default","total_retractions":0,"completion_tokens":1,"cached_tokens":0}}`,
				`[DONE]`,
			},
		},
		{
			name: "echo of tokens",
			change: func(r *tokenreply.Request) {
				r.API, r.Echo, r.Prompts[0].Tokens = tokenreply.Completions, true, []uint32{tokenTool, b, c}
			},
			pieces: []*rpc.Piece{last("length")},
			want: []string{
				textHead + `{"index":0,"text":"bc","logprobs":null,"finish_reason":null,"matched_stop":null}],"usage":null}`,
				textHead + `{"index":0,"text":"","logprobs":null,"finish_reason":"length","matched_stop":null}],"usage":null}`,
				`[DONE]`,
			},
		},
		{
			name: "a stop string ends it before the engine does",
			change: func(r *tokenreply.Request) {
				r.API, r.Engine, r.Stop = tokenreply.Completions, tokenreply.VLLM, []string{"bc"}
			},
			pieces: []*rpc.Piece{piece(a), piece(b), piece(c), piece(a, a), last("length", b)},
			want: []string{
				textHead + `{"index":0,"text":"a","logprobs":null,"finish_reason":null,"stop_reason":null}]}`,
				textHead + `{"index":0,"text":"","logprobs":null,"finish_reason":"stop","stop_reason":"bc"}]}`,
				`[DONE]`,
			},
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			req := chat()
			req.Stream = true
			tc.change(req)
			if diff := cmp.Diff(tc.want, events(run(t, req, v, tc.pieces...))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestEnds(t *testing.T) {
	v, ids := words("a", "b")
	req := chat()
	req.API, req.N, req.Batch, req.Stop = tokenreply.Completions, 2, true, []string{"b"}
	req.Prompts = append(req.Prompts, req.Prompts[0])
	r := begin(t, req, v)
	put := func(prompt, index int, p *rpc.Piece) {
		t.Helper()
		p.Index = index
		if dst, err := r.Append([]byte("x"), prompt, p); err != nil || string(dst) != "x" {
			t.Fatalf("a piece of a whole answer: %q, %v", dst, err)
		}
	}
	put(1, 1, last("length", ids[0]))
	put(1, 0, &rpc.Piece{Tokens: ids, Cached: 2})
	if !r.PromptDone(1) || r.PromptDone(0) || r.Done() {
		t.Error("the second prompt alone is done")
	}
	put(1, 0, last("length", ids[0])) // says nothing new
	put(0, 0, last("length", ids[0], ids[0]))
	put(0, 1, last("abort"))
	if !r.Done() {
		t.Error("all is done")
	}
	if diff := cmp.Diff(tokenreply.Usage{Prompt: 6, Completion: 5, Cached: 2}, r.Usage()); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
	if r.Held() == 0 {
		t.Error("a whole answer that is kept takes nothing")
	}
	if got := string(r.AppendEnd([]byte("x"))); !strings.HasPrefix(got, `x{"id":`) {
		t.Errorf("the end is %q", got)
	}
	if got := string(r.AppendEnd([]byte("x"))); got != "x" {
		t.Errorf("a second end is %q", got)
	}
}

// What one engine found in its cache another one can not know.
func TestTellCached(t *testing.T) {
	v, ids := words("a")
	for _, api := range []tokenreply.API{tokenreply.Chat, tokenreply.Generate} {
		req := chat()
		req.API, req.N = api, 2
		r := begin(t, req, v)
		r.TellCached(0, 2)
		r.TellCached(7, 1)
		for i := range 2 {
			add(t, r, nil, &rpc.Piece{Index: i, Tokens: ids, Cached: 3, Done: true})
		}
		if got := string(r.AppendEnd(nil)); r.Usage().Cached != 2 || !strings.Contains(got, `"cached_tokens":2`) || strings.Contains(got, `"cached_tokens":3`) {
			t.Errorf("API %d: %+v, %s", api, r.Usage(), got)
		}
	}
}

func TestFaults(t *testing.T) {
	v, _ := words()
	tests := []struct {
		name   string
		change func(*tokenreply.Request)
		want   string
	}{
		{"no prompts", func(r *tokenreply.Request) { r.Prompts = nil }, "1 answers to each of 0 prompts"},
		{"no answers", func(r *tokenreply.Request) { r.N = 0 }, "0 answers"},
		{"too many", func(r *tokenreply.Request) { r.N = 1 << 40 }, "1099511627776 answers"},
		{"an empty stop string", func(r *tokenreply.Request) { r.Stop = []string{"a", ""} }, "stop string 1 is empty"},
		{"no API", func(r *tokenreply.Request) { r.API = 0 }, "API 0"},
		{"no engine", func(r *tokenreply.Request) { r.Engine = 7 }, "engine 7"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			req := chat()
			tc.change(req)
			if _, err := tokenreply.New(req, v); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
	r := begin(t, chat(), v)
	for _, at := range [][2]int{{1, 0}, {-1, 0}, {0, 1}, {0, -1}} {
		if _, err := r.Append(nil, at[0], &rpc.Piece{Index: at[1]}); err == nil {
			t.Errorf("a piece of prompt %d, choice %d is taken", at[0], at[1])
		}
	}
}
