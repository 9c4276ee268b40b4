package rpc

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/testing/protocmp"

	"smg/engine"
	"smg/engine/enginepb/sglangpb"
	"smg/engine/enginepb/vllmpb"
)

func chunkS(index uint32, total uint32, tokens ...uint32) *sglangpb.GenerateResponse {
	return &sglangpb.GenerateResponse{Response: &sglangpb.GenerateResponse_Chunk{Chunk: &sglangpb.GenerateStreamChunk{
		TokenIds: tokens, PromptTokens: 3, CompletionTokens: total, CachedTokens: 2, Index: index,
	}}}
}

func endS(index uint32, total uint32, tokens ...uint32) *sglangpb.GenerateResponse {
	return &sglangpb.GenerateResponse{Response: &sglangpb.GenerateResponse_Complete{Complete: &sglangpb.GenerateComplete{
		OutputIds: tokens, FinishReason: "stop", PromptTokens: 3, CompletionTokens: total, CachedTokens: 2, Index: index,
		MatchedStop: &sglangpb.GenerateComplete_MatchedTokenId{MatchedTokenId: 9},
	}}}
}

func chunkV(index uint32, tokens ...uint32) *vllmpb.GenerateResponse {
	return &vllmpb.GenerateResponse{Response: &vllmpb.GenerateResponse_Chunk{Chunk: &vllmpb.GenerateStreamChunk{
		TokenIds: tokens, PromptTokens: 3, CompletionTokens: uint32(len(tokens)), CachedTokens: 2, Index: index,
	}}}
}

func endV(index uint32, tokens ...uint32) *vllmpb.GenerateResponse {
	return &vllmpb.GenerateResponse{Response: &vllmpb.GenerateResponse_Complete{Complete: &vllmpb.GenerateComplete{
		OutputIds: tokens, FinishReason: "length", PromptTokens: 3, CompletionTokens: uint32(len(tokens)), CachedTokens: 2, Index: index,
	}}}
}

// say is a fake's answer, message by message.
func say[R, M any](messages ...*M) func(*R, grpc.ServerStreamingServer[M]) error {
	return func(_ *R, s grpc.ServerStreamingServer[M]) error {
		for _, m := range messages {
			if err := s.Send(m); err != nil {
				return err
			}
		}
		return nil
	}
}

func TestPieces(t *testing.T) {
	piece := func(index, completion int, tokens ...uint32) Piece {
		return Piece{Index: index, Tokens: tokens, Prompt: 3, Cached: 2, Completion: completion}
	}
	ended := func(p Piece, finish string, stop *uint32) Piece {
		p.Done, p.Finish, p.StopToken = true, finish, stop
		return p
	}
	tests := []struct {
		name    string
		n       int
		sglang  []*sglangpb.GenerateResponse
		vllm    []*vllmpb.GenerateResponse
		want    []Piece
		failure error
	}{
		{
			name: "sglang: the end repeats the last piece", n: 1,
			sglang: []*sglangpb.GenerateResponse{chunkS(0, 1, 5), chunkS(0, 3, 6, 7), endS(0, 3, 6, 7)},
			want:   []Piece{piece(0, 1, 5), piece(0, 3, 6, 7), ended(piece(0, 3), "stop", new(uint32(9)))},
		},
		{
			name: "sglang: the end has more than was said", n: 1,
			sglang: []*sglangpb.GenerateResponse{chunkS(0, 1, 5), endS(0, 3, 5, 6, 7)},
			want:   []Piece{piece(0, 1, 5), ended(piece(0, 3, 6, 7), "stop", new(uint32(9)))},
		},
		{
			name: "sglang: whole", n: 2,
			sglang: []*sglangpb.GenerateResponse{endS(1, 2, 5, 6), endS(0, 1, 7)},
			want:   []Piece{ended(piece(1, 2, 5, 6), "stop", new(uint32(9))), ended(piece(0, 1, 7), "stop", new(uint32(9)))},
		},
		{
			name: "vllm: two answers at a time", n: 2,
			vllm: []*vllmpb.GenerateResponse{chunkV(0, 5), chunkV(1, 6), chunkV(1, 7), endV(1, 7), chunkV(0, 8), endV(0, 8)},
			want: []Piece{piece(0, 1, 5), piece(1, 1, 6), piece(1, 2, 7), ended(piece(1, 2), "length", nil), piece(0, 2, 8), ended(piece(0, 2), "length", nil)},
		},
		{
			name: "vllm: whole", n: 1,
			vllm: []*vllmpb.GenerateResponse{endV(0, 5, 6, 7)},
			want: []Piece{ended(piece(0, 3, 5, 6, 7), "length", nil)},
		},
		{name: "an end too few", n: 2, vllm: []*vllmpb.GenerateResponse{endV(0, 5)}, want: []Piece{ended(piece(0, 1, 5), "length", nil)}, failure: engine.ErrBroken},
		{name: "nothing at all", n: 1, sglang: []*sglangpb.GenerateResponse{}, failure: engine.ErrBroken},
		{name: "a choice that nobody asked for", n: 1, vllm: []*vllmpb.GenerateResponse{chunkV(1, 5)}, failure: engine.ErrProtocol},
		{name: "a choice that goes on", n: 2, vllm: []*vllmpb.GenerateResponse{endV(0, 5), chunkV(0, 6)}, want: []Piece{ended(piece(0, 1, 5), "length", nil)}, failure: engine.ErrProtocol},
		{name: "an empty message", n: 1, sglang: []*sglangpb.GenerateResponse{{}}, failure: engine.ErrProtocol},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var fake any = &fakeVLLM{generate: say[vllmpb.GenerateRequest](tt.vllm...)}
			runtime := engine.RuntimeVLLM
			if tt.sglang != nil {
				fake, runtime = &fakeSGLang{generate: say[sglangpb.GenerateRequest](tt.sglang...)}, engine.RuntimeSGLang
			}
			c := client(t)
			s, err := c.Generate(t.Context(), target(t, c, serve(t, fake).url), runtime, call(tt.n))
			if err != nil {
				t.Fatal(err)
			}
			got, err := readAll(s)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("pieces (-want +got):\n%s", diff)
			}
			if !hasKind(err, tt.failure) {
				t.Errorf("error %v, want kind %v", err, tt.failure)
			}
		})
	}
}

// wanted are requests with everything set, and with nothing.
func full() *Request {
	return &Request{
		ID: "r-1", Tokens: []uint32{1, 2}, Text: "one two", Stream: true, Rank: new(0),
		Logprobs: LogprobsWanted{Output: true, Prompt: true, From: 4, Top: 3, Tokens: []uint32{7}},
		Sampling: Sampling{
			Temperature: 0, TopP: 0.5, TopK: 40, MinP: 0.25, FrequencyPenalty: 0.5, PresencePenalty: -0.5, RepetitionPenalty: 1.5,
			MaxTokens: new(0), MinTokens: 2, N: 3, Stop: []string{"."}, StopTokens: []uint32{5}, KeepStop: true, IgnoreEOS: true,
			Seed: new(int64(1) << 40), LogitBias: map[uint32]float64{6: -1}, Constraint: &Constraint{Kind: Regex, Text: "a+"},
		},
		Bootstrap: &Bootstrap{Host: "p", Port: 8998, Room: 12}, KV: &KVTransfer{JSON: `{"a":1}`, Host: "unused", Port: 1},
	}
}

func TestRequests(t *testing.T) {
	sampled := &sglangpb.SamplingParams{
		Temperature: 0, TopP: 0.5, TopK: 40, MinP: 0.25, FrequencyPenalty: 0.5, PresencePenalty: -0.5, RepetitionPenalty: 1.5,
		MaxNewTokens: new(uint32(0)), MinNewTokens: 2, N: 3, Stop: []string{"."}, StopTokenIds: []uint32{5}, NoStopTrim: true, IgnoreEos: true,
		LogitBias: map[string]float32{"6": -1}, Constraint: &sglangpb.SamplingParams_Regex{Regex: "a+"},
	}
	tests := []struct {
		name   string
		in     *Request
		sglang *sglangpb.GenerateRequest
		vllm   *vllmpb.GenerateRequest
	}{
		{
			"what engines do where they are told nothing",
			&Request{ID: "r", Tokens: []uint32{1}, Sampling: DefaultSampling()},
			&sglangpb.GenerateRequest{
				RequestId: "r", Tokenized: &sglangpb.TokenizedInput{InputIds: []uint32{1}}, LogprobStartLen: -1,
				SamplingParams: &sglangpb.SamplingParams{Temperature: 1, TopP: 1, TopK: -1, RepetitionPenalty: 1, N: 1, SkipSpecialTokens: true, SpacesBetweenSpecialTokens: true},
			},
			&vllmpb.GenerateRequest{
				RequestId: "r", Input: &vllmpb.GenerateRequest_Tokenized{Tokenized: &vllmpb.TokenizedInput{InputIds: []uint32{1}}},
				SamplingParams: &vllmpb.SamplingParams{Temperature: new(float32(1)), TopP: 1, RepetitionPenalty: 1, N: 1, SkipSpecialTokens: true, SpacesBetweenSpecialTokens: true},
			},
		},
		{
			"everything",
			full(),
			&sglangpb.GenerateRequest{
				RequestId: "r-1", Tokenized: &sglangpb.TokenizedInput{OriginalText: "one two", InputIds: []uint32{1, 2}}, SamplingParams: sampled,
				ReturnLogprob: true, LogprobStartLen: 4, TopLogprobsNum: 3, TokenIdsLogprob: []uint32{7}, Stream: true, DataParallelRank: new(int32(0)),
				DisaggregatedParams: &sglangpb.DisaggregatedParams{BootstrapHost: "p", BootstrapPort: 8998, BootstrapRoom: 12},
			},
			&vllmpb.GenerateRequest{
				RequestId: "r-1", Input: &vllmpb.GenerateRequest_Tokenized{Tokenized: &vllmpb.TokenizedInput{OriginalText: "one two", InputIds: []uint32{1, 2}}},
				Stream: true, DataParallelRank: new(int32(0)), KvTransferParamsJson: new(`{"a":1}`),
				SamplingParams: &vllmpb.SamplingParams{
					Temperature: new(float32(0)), TopP: 0.5, TopK: 40, MinP: 0.25, FrequencyPenalty: 0.5, PresencePenalty: -0.5, RepetitionPenalty: 1.5,
					MaxTokens: new(uint32(0)), MinTokens: 2, N: 3, Stop: []string{"."}, StopTokenIds: []uint32{5}, IncludeStopStrInOutput: true, IgnoreEos: true,
					Logprobs: new(int32(3)), PromptLogprobs: new(int32(3)), Seed: new(int32(0)), LogitBias: map[int32]float32{6: -1},
					Constraint: &vllmpb.SamplingParams_Regex{Regex: "a+"},
				},
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := sglangRequest(tt.in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.sglang, s, protocmp.Transform()); diff != "" {
				t.Errorf("sglang (-want +got):\n%s", diff)
			}
			v, err := vllmRequest(tt.in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.vllm, v, protocmp.Transform()); diff != "" {
				t.Errorf("vllm (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("the older form of what is known of KV", func(t *testing.T) {
		r := full()
		r.KV = &KVTransfer{Host: "h", Port: 7}
		v, err := vllmRequest(r)
		if err != nil {
			t.Fatal(err)
		}
		want := &vllmpb.KvTransferParams{RemoteHost: "h", RemotePort: 7}
		if diff := cmp.Diff(want, v.KvTransferParams, protocmp.Transform()); diff != "" || v.KvTransferParamsJson != nil {
			t.Errorf("%v (-want +got):\n%s", v.KvTransferParamsJson, diff)
		}
	})
}

func TestConstraints(t *testing.T) {
	tests := []struct {
		name   string
		in     Constraint
		sglang *sglangpb.SamplingParams
		vllm   *vllmpb.SamplingParams
	}{
		{"schema", Constraint{Kind: JSONSchema, Text: "{}"}, &sglangpb.SamplingParams{Constraint: &sglangpb.SamplingParams_JsonSchema{JsonSchema: "{}"}}, &vllmpb.SamplingParams{Constraint: &vllmpb.SamplingParams_JsonSchema{JsonSchema: "{}"}}},
		{"any object", Constraint{Kind: JSONObject}, &sglangpb.SamplingParams{Constraint: &sglangpb.SamplingParams_JsonSchema{JsonSchema: `{"type": "object"}`}}, &vllmpb.SamplingParams{Constraint: &vllmpb.SamplingParams_JsonObject{JsonObject: true}}},
		{"grammar", Constraint{Kind: Grammar, Text: "g"}, &sglangpb.SamplingParams{Constraint: &sglangpb.SamplingParams_EbnfGrammar{EbnfGrammar: "g"}}, &vllmpb.SamplingParams{Constraint: &vllmpb.SamplingParams_Grammar{Grammar: "g"}}},
		{"tag", Constraint{Kind: StructuralTag, Text: "t"}, &sglangpb.SamplingParams{Constraint: &sglangpb.SamplingParams_StructuralTag{StructuralTag: "t"}}, &vllmpb.SamplingParams{Constraint: &vllmpb.SamplingParams_StructuralTag{StructuralTag: "t"}}},
		{"texts", Constraint{Kind: Choice, Choices: []string{"a.", "b"}}, &sglangpb.SamplingParams{Constraint: &sglangpb.SamplingParams_Regex{Regex: `(a\.|b)`}}, &vllmpb.SamplingParams{Constraint: &vllmpb.SamplingParams_Choice{Choice: &vllmpb.ChoiceConstraint{Choices: []string{"a.", "b"}}}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := call(1)
			r.Sampling.Constraint = &tt.in
			s, err := sglangRequest(r)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.sglang.Constraint, s.SamplingParams.Constraint); diff != "" {
				t.Errorf("sglang (-want +got):\n%s", diff)
			}
			v, err := vllmRequest(r)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.vllm.Constraint, v.SamplingParams.Constraint, protocmp.Transform()); diff != "" {
				t.Errorf("vllm (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLogprobs(t *testing.T) {
	top := func(tokens ...uint32) *sglangpb.TopLogProbs {
		return &sglangpb.TopLogProbs{TokenIds: tokens, Values: []float32{-1, -2, -3}[:len(tokens)]}
	}
	chunk, end := chunkS(0, 1, 5), endS(0, 2, 6)
	chunk.GetChunk().OutputLogprobs = &sglangpb.OutputLogProbs{TokenIds: []uint32{5}, TokenLogprobs: []float32{-0.5}, TopLogprobs: []*sglangpb.TopLogProbs{top(5, 8)}}
	input := &sglangpb.InputLogProbs{TokenIds: []uint32{1, 2}, TokenLogprobs: []*sglangpb.InputTokenLogProb{{}, {Value: new(float32(-2))}}}
	chunk.GetChunk().InputLogprobs, end.GetComplete().InputLogprobs = input, input
	end.GetComplete().OutputLogprobs = &sglangpb.OutputLogProbs{TokenIds: []uint32{6}, TokenLogprobs: []float32{-0.25}, TokenIdsLogprobs: []*sglangpb.TopLogProbs{top(7)}}
	c := client(t)
	s, err := c.Generate(t.Context(), target(t, c, serve(t, &fakeSGLang{generate: say[sglangpb.GenerateRequest](chunk, end)}).url), engine.RuntimeSGLang, call(1))
	if err != nil {
		t.Fatal(err)
	}
	got, err := readAll(s)
	if err != nil {
		t.Fatal(err)
	}
	want := []Piece{
		{
			Tokens: []uint32{5}, Prompt: 3, Cached: 2, Completion: 1,
			Output: &Logprobs{Tokens: []uint32{5}, Values: []float32{-0.5}, Top: [][]TokenLogprob{{{5, -1}, {8, -2}}}},
			Input:  &Logprobs{Tokens: []uint32{1, 2}, Values: []float32{float32(math.NaN()), -2}},
		},
		{
			Tokens: []uint32{6}, Prompt: 3, Cached: 2, Completion: 2, Done: true, Finish: "stop", StopToken: new(uint32(9)),
			Output: &Logprobs{Tokens: []uint32{6}, Values: []float32{-0.25}, Asked: [][]TokenLogprob{{{7, -1}}}},
		},
	}
	nan := cmp.Comparer(func(a, b float32) bool { return a == b || math.IsNaN(float64(a)) && math.IsNaN(float64(b)) })
	if diff := cmp.Diff(want, got, nan); diff != "" {
		t.Errorf("pieces (-want +got):\n%s", diff)
	}
}
