package simgrpc

import (
	"context"
	"encoding/json"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"smg/engine/enginepb/commonpb"
	"smg/engine/enginepb/vllmpb"
	"smg/sim/simhttp"
	"smg/sim/simtext"
)

// vllm is vLLM's engine.
type vllm struct {
	vllmpb.UnimplementedVllmEngineServer
	engine *simhttp.Server
}

// Generate implements the service.
func (e *vllm) Generate(r *vllmpb.GenerateRequest, s grpc.ServerStreamingServer[vllmpb.GenerateResponse]) (err error) {
	v := visitOf(s.Context())
	defer func() { v.Leave(statusOf(err)) }()
	prompt := tokens(r.GetTokenized().GetInputIds())
	if _, text := r.Input.(*vllmpb.GenerateRequest_Text); text {
		prompt = e.engine.Config().Tokens.Tokenize(r.GetText())
	}
	p := r.GetSamplingParams()
	c := &simhttp.Call{
		ID: r.RequestId, Prompt: prompt, N: int(max(p.GetN(), 1)), Stream: r.Stream,
		Sampling: simtext.Sampling{
			Temperature: 1, TopP: orOne(p.GetTopP()), Seed: int64(p.GetSeed()),
			MaxTokens: -1, MinTokens: int(p.GetMinTokens()), IgnoreEOS: p.GetIgnoreEos(),
			Stop: p.GetStop(), StopTokenIDs: tokens(p.GetStopTokenIds()), KeepStop: p.GetIncludeStopStrInOutput(),
		},
	}
	if p != nil && p.Temperature != nil {
		c.Sampling.Temperature = float64(p.GetTemperature())
	}
	if p != nil && p.MaxTokens != nil {
		c.Sampling.MaxTokens = int(p.GetMaxTokens())
	}
	if text := r.GetKvTransferParamsJson(); text != "" {
		if !json.Valid([]byte(text)) {
			return status.Error(codes.InvalidArgument, "kv_transfer_params_json is not valid JSON")
		}
		c.KV = json.RawMessage(text)
	}
	if r.DataParallelRank != nil {
		c.Rank = new(int(r.GetDataParallelRank()))
	}
	probs := vllmProbs{params: p, prompt: r.GetTokenized().GetInputIds()}
	fault := v.Answer(c, func(said simhttp.Said) error {
		chunk := &vllmpb.GenerateStreamChunk{ // which counts its own tokens
			TokenIds: ids(said.Tokens), PromptTokens: uint32(said.Prompt), CompletionTokens: uint32(len(said.Tokens)),
			CachedTokens: uint32(said.Cached), Index: uint32(said.Choice), OutputLogprobs: probs.output(said), InputLogprobs: probs.input(said),
		}
		if r.Stream && len(said.Tokens) > 0 {
			if err := s.Send(&vllmpb.GenerateResponse{Response: &vllmpb.GenerateResponse_Chunk{Chunk: chunk}}); err != nil {
				return err
			}
		}
		if !said.Done {
			return nil
		}
		end := &vllmpb.GenerateComplete{ // which repeats the tokens of the last chunk
			OutputIds: chunk.TokenIds, FinishReason: said.Finish, PromptTokens: chunk.PromptTokens, CompletionTokens: chunk.CompletionTokens,
			CachedTokens: chunk.CachedTokens, Index: chunk.Index, OutputLogprobs: chunk.OutputLogprobs, InputLogprobs: probs.whole(),
		}
		if said.KV != nil {
			end.KvTransferParamsJson = new(string(said.KV))
		}
		switch {
		case said.StopString != "":
			end.MatchedStop = &vllmpb.GenerateComplete_MatchedStopStr{MatchedStopStr: said.StopString}
		case said.HasStopToken && said.StopToken != simtext.EOS:
			end.MatchedStop = &vllmpb.GenerateComplete_MatchedTokenId{MatchedTokenId: uint32(said.StopToken)}
		}
		return s.Send(&vllmpb.GenerateResponse{Response: &vllmpb.GenerateResponse_Complete{Complete: end}})
	})
	return ended(s.Context(), fault)
}

// HealthCheck implements the service.
func (e *vllm) HealthCheck(context.Context, *vllmpb.HealthCheckRequest) (*vllmpb.HealthCheckResponse, error) {
	return &vllmpb.HealthCheckResponse{Healthy: true, Message: "Health"}, nil
}

// Abort implements the service.
func (e *vllm) Abort(_ context.Context, r *vllmpb.AbortRequest) (*vllmpb.AbortResponse, error) {
	e.engine.Abort(r.RequestIds)
	return &vllmpb.AbortResponse{}, nil
}

// GetModelInfo implements the service.
func (e *vllm) GetModelInfo(context.Context, *vllmpb.GetModelInfoRequest) (*vllmpb.GetModelInfoResponse, error) {
	cfg := e.engine.Config()
	return &vllmpb.GetModelInfoResponse{
		ModelPath: cfg.Model, TokenizerPath: e.engine.TokenizerPath(), ServedModelName: cfg.Model, IsGeneration: true,
		MaxContextLength: uint32(cfg.Core.Context()), MaxReqInputLen: int32(cfg.Core.Context()), VocabSize: simtext.VocabSize,
		ModelType: "sim", Architectures: []string{"SimForCausalLM"}, EosTokenIds: []int32{int32(simtext.EOS)},
	}, nil
}

// GetServerInfo implements the service.
func (e *vllm) GetServerInfo(context.Context, *vllmpb.GetServerInfoRequest) (*vllmpb.GetServerInfoResponse, error) {
	cfg := e.engine.Config()
	info := &vllmpb.GetServerInfoResponse{
		ActiveRequests: uint32(e.engine.InFlight()), UptimeSeconds: time.Since(e.engine.Started()).Seconds(), ServerType: "vllm-grpc",
		DataParallelSize: int32(max(cfg.Ranks.Size, 1)), BlockSize: int32(cfg.Core.BlockSize), MaxNumSeqs: int32(cfg.Core.MaxRunning),
	}
	if role := cfg.Disagg.KVRole; role != "" {
		info.KvConnector, info.KvRole, info.KvEngineId = connector(cfg.Disagg), string(role), e.engine.EngineID()
	}
	return info, nil
}

func connector(d simhttp.Disaggregation) string {
	if d.Connector != "" {
		return d.Connector
	}
	return simhttp.NixlConnector
}

// GetLoads implements the service.
func (e *vllm) GetLoads(context.Context, *vllmpb.GetLoadsRequest) (*vllmpb.GetLoadsResponse, error) {
	ranks, ok := e.engine.RankLoads()
	if !ok {
		return nil, status.Error(codes.Unimplemented, "Method not found!")
	}
	out := &vllmpb.GetLoadsResponse{Timestamp: time.Now().UTC().Format(time.RFC3339Nano), DpRankCount: int32(len(ranks))}
	for _, l := range ranks {
		out.Loads = append(out.Loads, &vllmpb.SchedulerLoad{
			DpRank: int32(l.Rank), NumRunningReqs: int32(l.Running), NumWaitingReqs: int32(l.Waiting), NumTotalReqs: int32(l.Running + l.Waiting),
			NumUsedTokens: int32(l.UsedTokens), MaxTotalNumTokens: int32(l.CapacityTokens), TokenUsage: l.KVUsage, GenThroughput: l.GenThroughput,
			CacheHitRate: l.CacheHitRate, MaxRunningRequests: int32(l.MaxRunning), NumWaitingUncachedTokens: int32(l.WaitingUncachedTokens),
		})
	}
	return out, nil
}

// FlushCache implements the service.
func (e *vllm) FlushCache(context.Context, *commonpb.FlushCacheRequest) (*commonpb.FlushCacheResponse, error) {
	return flushed(e.engine), nil
}

// SubscribeKvEvents implements the service.
func (e *vllm) SubscribeKvEvents(r *commonpb.SubscribeKvEventsRequest, s grpc.ServerStreamingServer[commonpb.KvEventBatch]) error {
	return subscribe(e.engine, r, s)
}

// vllmProbs are the log-probabilities that a request wants.
type vllmProbs struct {
	params *vllmpb.SamplingParams
	prompt []uint32
	told   map[int]bool
}

func (p *vllmProbs) output(said simhttp.Said) *vllmpb.OutputLogProbs {
	if p.params == nil || p.params.Logprobs == nil || len(said.Tokens) == 0 {
		return nil
	}
	out := &vllmpb.OutputLogProbs{TokenIds: ids(said.Tokens)}
	for i := range said.Tokens {
		out.TokenLogprobs = append(out.TokenLogprobs, logprob(outputs, said.From+i))
		if top := p.params.GetLogprobs(); top > 0 {
			list := &vllmpb.TopLogProbs{}
			for k := range uint32(top) {
				list.TokenIds, list.Values = append(list.TokenIds, k), append(list.Values, logprob(bestOutputs, said.From+i))
			}
			out.TopLogprobs = append(out.TopLogprobs, list)
		}
	}
	return out
}

// input is what is said of the prompt, once for a choice.
func (p *vllmProbs) input(said simhttp.Said) *vllmpb.InputLogProbs {
	if p.told[said.Choice] {
		return nil
	}
	if p.told == nil {
		p.told = map[int]bool{}
	}
	p.told[said.Choice] = true
	return p.whole()
}

func (p *vllmProbs) whole() *vllmpb.InputLogProbs {
	if p.params == nil || p.params.PromptLogprobs == nil {
		return nil
	}
	in := &vllmpb.InputLogProbs{TokenIds: p.prompt}
	for i := range p.prompt {
		v := &vllmpb.InputTokenLogProb{}
		if i > 0 {
			v.Value = new(logprob(inputs, i))
		}
		in.TokenLogprobs = append(in.TokenLogprobs, v)
	}
	return in
}
