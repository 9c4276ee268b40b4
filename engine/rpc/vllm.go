package rpc

import (
	"context"
	"fmt"
	"math"
	"strconv"

	"github.com/zeebo/xxh3"
	"google.golang.org/grpc"

	"smg/engine"
	"smg/engine/enginepb/commonpb"
	"smg/engine/enginepb/vllmpb"
)

// vllm is the protocol of vLLM's engine.
type vllm struct{}

var _ dialect = vllm{}

func (vllm) generate(ctx context.Context, cc grpc.ClientConnInterface, r *Request) (messages, error) {
	in, err := vllmRequest(r)
	if err != nil {
		return nil, err
	}
	stream, err := vllmpb.NewVllmEngineClient(cc).Generate(ctx, in)
	if err != nil {
		return nil, err
	}
	return func() (message, error) {
		m, err := stream.Recv()
		if err != nil {
			return message{}, err
		}
		return vllmMessage(m)
	}, nil
}

func vllmRequest(r *Request) (*vllmpb.GenerateRequest, error) {
	sampling, err := vllmSampling(r)
	if err != nil {
		return nil, err
	}
	in := &vllmpb.GenerateRequest{
		RequestId:      r.ID,
		Input:          &vllmpb.GenerateRequest_Tokenized{Tokenized: &vllmpb.TokenizedInput{OriginalText: r.Text, InputIds: r.Tokens}},
		SamplingParams: sampling,
		Stream:         r.Stream,
	}
	switch kv := r.KV; {
	case kv == nil:
	case kv.JSON != "":
		in.KvTransferParamsJson = new(kv.JSON)
	default:
		in.KvTransferParams = &vllmpb.KvTransferParams{RemoteHost: kv.Host, RemotePort: uint32(kv.Port)}
	}
	if r.Rank != nil {
		in.DataParallelRank = new(int32(*r.Rank))
	}
	return in, nil
}

func vllmSampling(r *Request) (*vllmpb.SamplingParams, error) {
	s := &r.Sampling
	p := &vllmpb.SamplingParams{
		Temperature: new(float32(s.Temperature)), TopP: float32(s.TopP), TopK: uint32(max(s.TopK, 0)), MinP: float32(s.MinP),
		FrequencyPenalty: float32(s.FrequencyPenalty), PresencePenalty: float32(s.PresencePenalty), RepetitionPenalty: float32(s.RepetitionPenalty),
		MinTokens: uint32(s.MinTokens), N: uint32(s.N),
		Stop: s.Stop, StopTokenIds: s.StopTokens, IncludeStopStrInOutput: s.KeepStop, IgnoreEos: s.IgnoreEOS,
		SkipSpecialTokens: s.SkipSpecial, SpacesBetweenSpecialTokens: s.SpaceSpecial,
	}
	if s.MaxTokens != nil {
		p.MaxTokens = new(uint32(*s.MaxTokens))
	}
	if r.Logprobs.Output {
		p.Logprobs = new(int32(r.Logprobs.Top))
	}
	if r.Logprobs.Prompt {
		p.PromptLogprobs = new(int32(r.Logprobs.Top))
	}
	if s.Seed != nil {
		p.Seed = new(int32(*s.Seed & math.MaxInt32))
	}
	if len(s.LogitBias) > 0 {
		p.LogitBias = make(map[int32]float32, len(s.LogitBias))
		for token, bias := range s.LogitBias {
			if token > math.MaxInt32 {
				return nil, fmt.Errorf("logit_bias of token %d", token)
			}
			p.LogitBias[int32(token)] = float32(bias)
		}
	}
	c := s.Constraint
	if c == nil {
		return p, nil
	}
	switch c.Kind {
	case JSONSchema:
		p.Constraint = &vllmpb.SamplingParams_JsonSchema{JsonSchema: c.Text}
	case JSONObject:
		p.Constraint = &vllmpb.SamplingParams_JsonObject{JsonObject: true}
	case Regex:
		p.Constraint = &vllmpb.SamplingParams_Regex{Regex: c.Text}
	case Grammar:
		p.Constraint = &vllmpb.SamplingParams_Grammar{Grammar: c.Text}
	case StructuralTag:
		p.Constraint = &vllmpb.SamplingParams_StructuralTag{StructuralTag: c.Text}
	case Choice:
		p.Constraint = &vllmpb.SamplingParams_Choice{Choice: &vllmpb.ChoiceConstraint{Choices: c.Choices}}
	default:
		return nil, fmt.Errorf("constraint of kind %d", c.Kind)
	}
	return p, nil
}

func vllmMessage(m *vllmpb.GenerateResponse) (message, error) {
	switch {
	case m.GetChunk() != nil:
		c := m.GetChunk()
		return message{
			index: c.Index, tokens: c.TokenIds, prompt: c.PromptTokens, cached: c.CachedTokens, completion: c.CompletionTokens,
			output: vllmOutput(c.OutputLogprobs), input: vllmInput(c.InputLogprobs),
		}, nil
	case m.GetComplete() != nil:
		c := m.GetComplete()
		out := message{
			index: c.Index, tokens: c.OutputIds, prompt: c.PromptTokens, cached: c.CachedTokens, completion: c.CompletionTokens,
			output: vllmOutput(c.OutputLogprobs), input: vllmInput(c.InputLogprobs),
			done: true, finish: c.FinishReason, stopText: c.GetMatchedStopStr(), kv: c.GetKvTransferParamsJson(),
		}
		if _, ok := c.MatchedStop.(*vllmpb.GenerateComplete_MatchedTokenId); ok {
			out.stopToken = new(c.GetMatchedTokenId())
		}
		return out, nil
	}
	return message{}, errEmptyMessage
}

func vllmOutput(l *vllmpb.OutputLogProbs) *Logprobs {
	if l == nil {
		return nil
	}
	return &Logprobs{Tokens: l.TokenIds, Values: l.TokenLogprobs, Top: vllmTop(l.TopLogprobs)}
}

func vllmInput(l *vllmpb.InputLogProbs) *Logprobs {
	if l == nil {
		return nil
	}
	out := &Logprobs{Tokens: l.TokenIds, Values: make([]float32, len(l.TokenLogprobs)), Top: vllmTop(l.TopLogprobs)}
	for i, v := range l.TokenLogprobs {
		out.Values[i] = orNaN(v.Value)
	}
	return out
}

func vllmTop(tops []*vllmpb.TopLogProbs) [][]TokenLogprob {
	if len(tops) == 0 {
		return nil
	}
	all := make([][]TokenLogprob, len(tops))
	for i, t := range tops {
		all[i] = paired(t.TokenIds, t.Values)
	}
	return all
}

func (vllm) abort(ctx context.Context, cc grpc.ClientConnInterface, id string) error {
	_, err := vllmpb.NewVllmEngineClient(cc).Abort(ctx, &vllmpb.AbortRequest{RequestIds: []string{id}})
	return err
}

func (vllm) health(ctx context.Context, cc grpc.ClientConnInterface) (bool, string, error) {
	out, err := vllmpb.NewVllmEngineClient(cc).HealthCheck(ctx, &vllmpb.HealthCheckRequest{})
	return out.GetHealthy(), out.GetMessage(), err
}

func (vllm) describe(ctx context.Context, cc grpc.ClientConnInterface) (engine.Info, engine.Identity, error) {
	client := vllmpb.NewVllmEngineClient(cc)
	model, err := client.GetModelInfo(ctx, &vllmpb.GetModelInfoRequest{})
	if err != nil && !unimplemented(err) {
		return engine.Info{}, engine.Identity{}, err
	}
	server, err := client.GetServerInfo(ctx, &vllmpb.GetServerInfoRequest{})
	if err != nil && !unimplemented(err) {
		return engine.Info{}, engine.Identity{}, err
	}
	l := labels{}
	l.set("served_model_name", model.GetServedModelName())
	l.set("model_path", model.GetModelPath())
	l.set("tokenizer_path", model.GetTokenizerPath())
	l.set("model_type", model.GetModelType())
	l.set("default_sampling_params", model.GetDefaultSamplingParamsJson())
	l.count("max_model_len", int64(model.GetMaxContextLength()))
	l.count("vocab_size", int64(model.GetVocabSize()))
	l.list("eos_token_ids", model.GetEosTokenIds())
	if model != nil {
		l.set("is_generation", strconv.FormatBool(model.GetIsGeneration()))
	}
	l.media(model.GetSupportsVision())
	l.set("kv_connector", server.GetKvConnector())
	l.set("kv_role", server.GetKvRole())
	l.set("kv_engine_id", server.GetKvEngineId())
	l.count("dp_size", int64(server.GetDataParallelSize()))
	l.count("kv_block_size", int64(server.GetBlockSize()))
	l.count("max_running_requests", int64(server.GetMaxNumSeqs()))

	var id engine.Identity
	if engineID := server.GetKvEngineId(); engineID != "" { // drawn at the start, unless an operator fixes it
		id.ID = max(1, xxh3.HashString(engineID))
	}
	return l.info(engine.RuntimeVLLM), id, nil
}

func (vllm) loads(ctx context.Context, cc grpc.ClientConnInterface) ([]engine.RankLoad, error) {
	out, err := vllmpb.NewVllmEngineClient(cc).GetLoads(ctx, &vllmpb.GetLoadsRequest{Include: sections()})
	if err != nil {
		return nil, err
	}
	ranks := make([]engine.RankLoad, 0, len(out.Loads))
	for _, l := range out.Loads {
		ranks = append(ranks, core(l))
	}
	return ranks, nil
}

func (vllm) flush(ctx context.Context, cc grpc.ClientConnInterface, in *commonpb.FlushCacheRequest) (*commonpb.FlushCacheResponse, error) {
	return vllmpb.NewVllmEngineClient(cc).FlushCache(ctx, in)
}

func (vllm) events(ctx context.Context, cc grpc.ClientConnInterface, in *commonpb.SubscribeKvEventsRequest) (grpc.ServerStreamingClient[commonpb.KvEventBatch], error) {
	return vllmpb.NewVllmEngineClient(cc).SubscribeKvEvents(ctx, in)
}
