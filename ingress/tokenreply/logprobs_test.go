package tokenreply_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"smg/engine/rpc"
	"smg/ingress/tokenreply"
)

// probs are of tokens, with as many others at each place as tops has.
func probs(tokens []uint32, values []float32, tops ...[]rpc.TokenLogprob) *rpc.Logprobs {
	return &rpc.Logprobs{Tokens: tokens, Values: values, Top: tops}
}

func nan() float32 { return float32(math.NaN()) }

type others = []rpc.TokenLogprob

func at(token uint32, value float32) rpc.TokenLogprob {
	return rpc.TokenLogprob{Token: token, Value: value}
}

func TestLogprobs(t *testing.T) {
	v, ids := words("é", "x", "\xf0\x9f", "\x98\x80", "p", "q", "\xff")
	e, x, half, rest, p, q, bad := ids[0], ids[1], ids[2], ids[3], ids[4], ids[5], ids[6]
	with := func(piece *rpc.Piece, output, input *rpc.Logprobs) *rpc.Piece {
		piece.Output, piece.Input = output, input
		return piece
	}
	tests := []struct {
		name   string
		change func(*tokenreply.Request)
		want   rpc.LogprobsWanted
		pieces []*rpc.Piece
		// said is what of each choice, or event, is told.
		said []string
	}{
		{
			name: "chat",
			want: rpc.LogprobsWanted{Output: true, Top: 1},
			pieces: []*rpc.Piece{
				with(piece(e, half), probs([]uint32{e, half}, []float32{-0.25, -1e-7}, others{at(e, -0.25), at(x, -2)}, others{at(half, -1e-7)}), nil),
				with(last("stop", rest, x), probs([]uint32{rest, x}, []float32{float32(math.Inf(-1)), nan()}, others{}), nil),
			},
			said: []string{`{"content":[` +
				`{"token":"é","logprob":-0.25,"bytes":[195,169],"top_logprobs":[{"token":"é","logprob":-0.25,"bytes":[195,169]}]},` +
				`{"token":"�","logprob":-1e-07,"bytes":[240,159],"top_logprobs":[{"token":"�","logprob":-1e-07,"bytes":[240,159]}]},` +
				`{"token":"�","logprob":-9999,"bytes":[152,128],"top_logprobs":[]},` +
				`{"token":"x","logprob":-9999,"bytes":[120],"top_logprobs":[]}]}`},
		},
		{
			name:   "chat that was not asked",
			pieces: []*rpc.Piece{with(last("stop", e), probs([]uint32{e}, []float32{-1}), nil)},
			said:   []string{`null`},
		},
		{
			name:   "chat that was not told",
			want:   rpc.LogprobsWanted{Output: true, Top: 2},
			pieces: []*rpc.Piece{last("stop", e)},
			said:   []string{`{"content":[]}`},
		},
		{
			name:   "chat as it comes",
			change: func(r *tokenreply.Request) { r.Stream, r.Stop = true, []string{"xx"} },
			want:   rpc.LogprobsWanted{Output: true},
			pieces: []*rpc.Piece{
				with(piece(e), probs([]uint32{e}, []float32{-1}), nil),
				with(piece(x), probs([]uint32{x}, []float32{-2}), nil),
				with(piece(p), probs([]uint32{p}, []float32{-3}), nil),
				with(last("stop", tokenEOS), probs([]uint32{tokenEOS}, []float32{-4}), nil),
			},
			said: []string{
				`null`,
				`{"content":[{"token":"é","logprob":-1,"bytes":[195,169],"top_logprobs":[]}]}`,
				`{"content":[{"token":"x","logprob":-2,"bytes":[120],"top_logprobs":[]},{"token":"p","logprob":-3,"bytes":[112],"top_logprobs":[]}]}`,
				`{"content":[{"token":"</s>","logprob":-4,"bytes":[60,47,115,62],"top_logprobs":[]}]}`,
			},
		},
		{
			name:   "not of what is behind a stop string",
			change: func(r *tokenreply.Request) { r.Stop = []string{"x"} },
			want:   rpc.LogprobsWanted{Output: true},
			pieces: []*rpc.Piece{with(last("length", x, e), probs([]uint32{x, e}, []float32{-1, -2}), nil)},
			said:   []string{`{"content":[{"token":"x","logprob":-1,"bytes":[120],"top_logprobs":[]}]}`},
		},
		{
			name:   "completions",
			change: func(r *tokenreply.Request) { r.API = tokenreply.Completions },
			want:   rpc.LogprobsWanted{Output: true, Top: 2},
			pieces: []*rpc.Piece{
				with(piece(e, x), probs([]uint32{e, x}, []float32{-0.5, -1.5}, others{at(e, -0.5), at(q, -1), at(p, -3)}, others{at(p, -1), at(q, -1.25)}), nil),
				with(last("length", half, bad), probs([]uint32{half, bad}, []float32{-2, -3}, others{at(half, -2), at(bad, -3)}, others{at(half, -2)}), nil),
			},
			said: []string{`{"text_offset":[0,1,2,2],"token_logprobs":[-0.5,-1.5,-2,-3],"tokens":["é","x","�","�"],` +
				`"top_logprobs":[{"é":-0.5,"q":-1},{"p":-1,"q":-1.25,"x":-1.5},{"�":-2},{"�":-2}]}`},
		},
		{
			name:   "completions without others",
			change: func(r *tokenreply.Request) { r.API = tokenreply.Completions },
			want:   rpc.LogprobsWanted{Output: true},
			pieces: []*rpc.Piece{with(last("length", e), probs([]uint32{e}, []float32{-0.5}), nil)},
			said:   []string{`{"text_offset":[0],"token_logprobs":[-0.5],"tokens":["é"],"top_logprobs":[{"é":-0.5}]}`},
		},
		{
			name: "completions with the prompt's",
			change: func(r *tokenreply.Request) {
				r.API, r.Echo = tokenreply.Completions, true
				r.Prompts[0].Tokens, r.Prompts[0].Text = []uint32{tokenTool, p, q}, "pq"
			},
			want: rpc.LogprobsWanted{Output: true, Prompt: true, Top: 1},
			pieces: []*rpc.Piece{
				with(piece(e), probs([]uint32{e}, []float32{-1}, others{at(e, -1)}), probs([]uint32{tokenTool, p, q}, []float32{nan(), -2, -3}, nil, others{at(p, -2)}, others{at(x, -1)})),
				with(last("length", x), probs([]uint32{x}, []float32{-4}, others{at(x, -4)}), nil),
			},
			said: []string{`{"text_offset":[0,0,1,2,3],"token_logprobs":[null,-2,-3,-1,-4],"tokens":["<|tool|>","p","q","é","x"],` +
				`"top_logprobs":[null,{"p":-2},{"x":-1,"q":-3},{"é":-1},{"x":-4}]}`},
		},
		{
			name: "completions with the prompt's, as it comes",
			change: func(r *tokenreply.Request) {
				r.API, r.Engine, r.Echo, r.Stream = tokenreply.Completions, tokenreply.VLLM, true, true
				r.Prompts[0].Tokens = []uint32{p}
			},
			want: rpc.LogprobsWanted{Output: true, Prompt: true},
			pieces: []*rpc.Piece{
				with(piece(e), probs([]uint32{e}, []float32{-1}), probs([]uint32{p}, []float32{nan()})),
				last("length"),
			},
			said: []string{
				`{"text_offset":[0],"token_logprobs":[null],"tokens":["p"],"top_logprobs":[null]}`,
				`{"text_offset":[1],"token_logprobs":[-1],"tokens":["é"],"top_logprobs":[{"é":-1}]}`,
				`null`,
			},
		},
		{
			name:   "generate",
			change: func(r *tokenreply.Request) { r.API = tokenreply.Generate },
			want:   rpc.LogprobsWanted{Output: true, From: -1},
			pieces: []*rpc.Piece{with(last("length", e, x), probs([]uint32{e, x}, []float32{-1, nan()}), probs(nil, nil))},
			said:   []string{`"input_token_logprobs":[],"output_token_logprobs":[[-1,10,null],[null,11,null]]`},
		},
		{
			name:   "generate, all of it",
			change: func(r *tokenreply.Request) { r.API, r.Prompts[0].TokenText = tokenreply.Generate, true },
			want:   rpc.LogprobsWanted{Output: true, Prompt: true, From: 1, Top: 1, Tokens: []uint32{q}},
			pieces: []*rpc.Piece{{
				Tokens: []uint32{x}, Done: true, Finish: "length",
				Output: &rpc.Logprobs{Tokens: []uint32{x}, Values: []float32{-1}, Top: []others{{at(x, -1)}}, Asked: []others{{at(q, -8)}}},
				// Of all, as vLLM tells, while the second one is the first that was asked for.
				Input: &rpc.Logprobs{Tokens: []uint32{5, 6, 7}, Values: []float32{nan(), -2, -3}, Top: []others{nil, {at(p, -1)}, nil}, Asked: []others{nil, {at(q, -7)}, nil}},
			}},
			said: []string{`"input_token_logprobs":[[-2,6,""],[-3,7,""]],"output_token_logprobs":[[-1,11,"x"]],` +
				`"input_top_logprobs":[[[-1,14,"p"]],null],"output_top_logprobs":[[[-1,11,"x"]]],` +
				`"input_token_ids_logprobs":[[[-7,15,"q"]],null],"output_token_ids_logprobs":[[[-8,15,"q"]]]`},
		},
		{
			name:   "generate what is new",
			change: func(r *tokenreply.Request) { r.API, r.Stream, r.Incremental = tokenreply.Generate, true, true },
			want:   rpc.LogprobsWanted{Output: true, Prompt: true},
			pieces: []*rpc.Piece{
				with(piece(e), probs([]uint32{e}, []float32{-1}), probs([]uint32{5, 6, 7}, []float32{nan(), -2, -3})),
				with(last("length", x), probs([]uint32{x}, []float32{-4}), nil),
			},
			said: []string{
				`"input_token_logprobs":[[null,5,null],[-2,6,null],[-3,7,null]],"output_token_logprobs":[[-1,10,null]]`,
				`"input_token_logprobs":[],"output_token_logprobs":[[-4,11,null]]`,
			},
		},
		{
			name:   "generate from the beginning",
			change: func(r *tokenreply.Request) { r.API, r.Stream = tokenreply.Generate, true },
			want:   rpc.LogprobsWanted{Output: true, Prompt: true, From: 2},
			pieces: []*rpc.Piece{
				with(piece(e), probs([]uint32{e}, []float32{-1}), probs([]uint32{7}, []float32{-3})),
				with(last("length", x), probs([]uint32{x}, []float32{-4}), nil),
			},
			said: []string{
				`"input_token_logprobs":[[-3,7,null]],"output_token_logprobs":[[-1,10,null]]`,
				`"input_token_logprobs":[[-3,7,null]],"output_token_logprobs":[[-1,10,null],[-4,11,null]]`,
			},
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			req := chat()
			if tc.change != nil {
				tc.change(req)
			}
			req.Prompts[0].Logprobs = tc.want
			answer := run(t, req, v, tc.pieces...)
			if diff := cmp.Diff(tc.said, told(t, req, answer)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// told is what an answer, or each of its events, tells of probabilities.
func told(t *testing.T, req *tokenreply.Request, answer string) (all []string) {
	t.Helper()
	for _, doc := range events(answer) {
		if doc == "[DONE]" {
			continue
		}
		var a struct {
			Choices []struct{ Logprobs json.RawMessage }
			Meta    json.RawMessage `json:"meta_info"`
		}
		if err := json.Unmarshal([]byte(doc), &a); err != nil {
			t.Fatalf("%v: %s", err, doc)
		}
		for _, c := range a.Choices {
			all = append(all, string(c.Logprobs))
		}
		if req.API == tokenreply.Generate {
			const before = `"cached_tokens":0,`
			meta := string(a.Meta)
			for len(meta) > len(before) && meta[:len(before)] != before {
				meta = meta[1:]
			}
			all = append(all, meta[len(before):len(meta)-1])
		}
	}
	return all
}

// What prefill knows of a prompt counts before what decode says.
func TestTellPrompt(t *testing.T) {
	v, ids := words("a")
	req := chat()
	req.API = tokenreply.Generate
	req.Prompts[0].Logprobs = rpc.LogprobsWanted{Output: true, Prompt: true}
	r := begin(t, req, v)
	r.TellPrompt(0, nil)
	r.TellPrompt(7, probs([]uint32{1}, []float32{-1}))
	r.TellPrompt(0, probs([]uint32{5, 6, 7}, []float32{nan(), -1, -2}))
	p := last("length", ids[0])
	p.Output, p.Input = probs(ids, []float32{-3}), probs([]uint32{5, 6, 7}, []float32{-9, -9, -9})
	add(t, r, nil, p)
	want := []string{`"input_token_logprobs":[[null,5,null],[-1,6,null],[-2,7,null]],"output_token_logprobs":[[-3,10,null]]`}
	if diff := cmp.Diff(want, told(t, req, string(r.AppendEnd(nil)))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Prompts of one request may want different things.
func TestLogprobsPerPrompt(t *testing.T) {
	v, ids := words("a")
	req := chat()
	req.API, req.Batch = tokenreply.Generate, true
	req.Prompts = append(req.Prompts, req.Prompts[0])
	req.Prompts[1].Logprobs.Output = true
	r := begin(t, req, v)
	for i := range 2 {
		p := last("length", ids[0])
		p.Output = probs(ids, []float32{-3})
		if _, err := r.Append(nil, i, p); err != nil {
			t.Fatal(err)
		}
	}
	var answers []struct {
		Meta map[string]any `json:"meta_info"`
	}
	if err := json.Unmarshal(r.AppendEnd(nil), &answers); err != nil {
		t.Fatal(err)
	}
	const key = "output_token_logprobs"
	if _, ok := answers[0].Meta[key]; ok || len(answers) != 2 {
		t.Errorf("the first prompt's answer tells of probabilities: %v", answers)
	}
	if _, ok := answers[1].Meta[key]; !ok {
		t.Errorf("the second prompt's answer does not tell of probabilities: %v", answers)
	}
}
