package simgrpc

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"smg/engine/enginepb/commonpb"
	"smg/engine/enginepb/sglangpb"
	"smg/sim/simhttp"
	"smg/sim/simtext"
)

// sglang is SGLang's scheduler.
type sglang struct {
	sglangpb.UnimplementedSglangSchedulerServer
	engine *simhttp.Server
}

// Generate implements the service.
func (e *sglang) Generate(r *sglangpb.GenerateRequest, s grpc.ServerStreamingServer[sglangpb.GenerateResponse]) (err error) {
	v := visitOf(s.Context())
	defer func() { v.Leave(statusOf(err)) }()
	if r.Tokenized == nil {
		return status.Error(codes.InvalidArgument, "Tokenized input must be provided")
	}
	p := r.GetSamplingParams()
	c := &simhttp.Call{
		ID: r.RequestId, Prompt: tokens(r.Tokenized.InputIds), N: int(p.GetN()), Stream: r.Stream,
		Sampling: simtext.Sampling{
			Temperature: float64(p.GetTemperature()), TopP: orOne(p.GetTopP()),
			MaxTokens: -1, MinTokens: int(p.GetMinNewTokens()), IgnoreEOS: p.GetIgnoreEos(),
			Stop: p.GetStop(), StopTokenIDs: tokens(p.GetStopTokenIds()), KeepStop: p.GetNoStopTrim(),
		},
	}
	if p.GetN() == 0 {
		return status.Error(codes.InvalidArgument, "n must be at least 1, got 0.") // proto3's zero is no default
	}
	if p.MaxNewTokens != nil {
		c.Sampling.MaxTokens = int(p.GetMaxNewTokens())
	}
	if d := r.DisaggregatedParams; d != nil {
		c.Room = &simhttp.Room{Host: d.BootstrapHost, Port: int(d.BootstrapPort), Number: int64(d.BootstrapRoom)}
	}
	if r.DataParallelRank != nil {
		c.Rank = new(int(r.GetDataParallelRank()))
	}
	probs := sglangProbs{request: r, mode: e.engine.Config().Disagg.Mode}
	fault := v.Answer(c, func(said simhttp.Said) error {
		chunk := &sglangpb.GenerateStreamChunk{
			TokenIds: ids(said.Tokens), PromptTokens: uint32(said.Prompt), CompletionTokens: uint32(said.From + len(said.Tokens)),
			CachedTokens: uint32(said.Cached), Index: uint32(said.Choice),
			OutputLogprobs: probs.output(said), InputLogprobs: probs.input(said),
		}
		if r.Stream && len(said.Tokens) > 0 {
			if err := s.Send(&sglangpb.GenerateResponse{RequestId: r.RequestId, Response: &sglangpb.GenerateResponse_Chunk{Chunk: chunk}}); err != nil {
				return err
			}
		}
		if !said.Done {
			return nil
		}
		end := &sglangpb.GenerateComplete{ // which repeats the tokens of the last chunk
			OutputIds: chunk.TokenIds, FinishReason: said.Finish, PromptTokens: chunk.PromptTokens, CompletionTokens: chunk.CompletionTokens,
			CachedTokens: chunk.CachedTokens, Index: chunk.Index, OutputLogprobs: chunk.OutputLogprobs, InputLogprobs: probs.whole(said),
		}
		switch {
		case said.StopString != "":
			end.MatchedStop = &sglangpb.GenerateComplete_MatchedStopStr{MatchedStopStr: said.StopString}
		case said.HasStopToken:
			end.MatchedStop = &sglangpb.GenerateComplete_MatchedTokenId{MatchedTokenId: uint32(said.StopToken)}
		}
		return s.Send(&sglangpb.GenerateResponse{RequestId: r.RequestId, Response: &sglangpb.GenerateResponse_Complete{Complete: end}})
	})
	return ended(s.Context(), fault)
}

// HealthCheck implements the service.
func (e *sglang) HealthCheck(context.Context, *sglangpb.HealthCheckRequest) (*sglangpb.HealthCheckResponse, error) {
	return &sglangpb.HealthCheckResponse{Healthy: true, Message: "Health check passed"}, nil
}

// Abort implements the service.
func (e *sglang) Abort(_ context.Context, r *sglangpb.AbortRequest) (*sglangpb.AbortResponse, error) {
	found := e.engine.Abort([]string{r.RequestId})
	word := "not found"
	if found {
		word = "aborted"
	}
	return &sglangpb.AbortResponse{Success: found, Message: fmt.Sprintf("Request %s %s", r.RequestId, word)}, nil
}

// GetModelInfo implements the service.
func (e *sglang) GetModelInfo(context.Context, *sglangpb.GetModelInfoRequest) (*sglangpb.GetModelInfoResponse, error) {
	cfg := e.engine.Config()
	return &sglangpb.GetModelInfoResponse{
		ModelPath: cfg.Model, TokenizerPath: e.engine.TokenizerPath(), ServedModelName: cfg.Model, IsGeneration: true, WeightVersion: "default",
		MaxContextLength: int32(cfg.Core.Context()), MaxReqInputLen: int32(cfg.Core.Context() - 1), VocabSize: simtext.VocabSize,
		ModelType: "sim", Architectures: []string{"SimForCausalLM"}, EosTokenIds: []int32{int32(simtext.EOS)},
	}, nil
}

// GetServerInfo implements the service.
func (e *sglang) GetServerInfo(context.Context, *sglangpb.GetServerInfoRequest) (*sglangpb.GetServerInfoResponse, error) {
	facts := e.engine.Facts()
	delete(facts, "internal_states")
	raw, err := json.Marshal(facts) // as the engine's are, all numbers are floats
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	args := new(structpb.Struct)
	if err := args.UnmarshalJSON(raw); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	version, _ := facts["version"].(string)
	return &sglangpb.GetServerInfoResponse{
		ServerArgs: args, SchedulerInfo: &structpb.Struct{}, ActiveRequests: int32(e.engine.InFlight()), UptimeSeconds: time.Since(e.engine.Started()).Seconds(),
		SglangVersion: version, ServerType: "grpc", StartTime: timestamppb.New(e.engine.Started()),
		MaxTotalNumTokens: int32(e.engine.Config().Core.KVBlocks * e.engine.Config().Core.BlockSize),
	}, nil
}

// GetLoads implements the service.
func (e *sglang) GetLoads(_ context.Context, r *sglangpb.GetLoadsRequest) (*sglangpb.GetLoadsResponse, error) {
	ranks, ok := e.engine.RankLoads()
	if !ok {
		return nil, status.Error(codes.Unimplemented, "Method not found!")
	}
	out := &sglangpb.GetLoadsResponse{Timestamp: time.Now().UTC().Format(time.RFC3339Nano), DpRankCount: int32(len(ranks)), Aggregate: &sglangpb.AggregateMetrics{}}
	has := func(section string) bool {
		for _, name := range r.Include {
			if name == section || name == "all" {
				return true
			}
		}
		return len(r.Include) == 0
	}
	for _, l := range ranks {
		if r.DpRank != nil && int(r.GetDpRank()) != l.Rank {
			continue
		}
		load := &sglangpb.SchedulerLoad{
			DpRank: int32(l.Rank), NumRunningReqs: int32(l.Running), NumWaitingReqs: int32(l.Waiting), NumTotalReqs: int32(l.Running + l.Waiting),
			NumUsedTokens: int32(l.UsedTokens), MaxTotalNumTokens: int32(l.CapacityTokens), TokenUsage: l.KVUsage, GenThroughput: l.GenThroughput,
			CacheHitRate: l.CacheHitRate, Utilization: l.Utilization, MaxRunningRequests: int32(l.MaxRunning), NumWaitingUncachedTokens: int32(l.WaitingUncachedTokens),
		}
		if has("memory") {
			load.Memory = &sglangpb.MemoryMetrics{TokenCapacity: int32(l.CapacityTokens)}
		}
		if has("queues") {
			load.Queues = &sglangpb.QueueMetrics{Waiting: int32(l.Waiting), Retracted: int32(l.Preempted)}
		}
		if has("disagg") {
			load.Disaggregation = &sglangpb.DisaggregationMetrics{
				Mode: l.Mode, PrefillPreallocQueueReqs: int32(l.Bootstrap), PrefillInflightQueueReqs: int32(l.Sending),
				DecodePreallocQueueReqs: int32(max(l.DecodeQueue-l.Receiving, 0)), DecodeTransferQueueReqs: int32(l.Receiving),
				KvTransferSpeedGbS: l.Speed, KvTransferLatencyMs: l.Latency,
			}
		}
		out.Loads = append(out.Loads, load)
		out.Aggregate.TotalRunningReqs += load.NumRunningReqs
		out.Aggregate.TotalWaitingReqs += load.NumWaitingReqs
		out.Aggregate.TotalReqs += load.NumTotalReqs
		out.Aggregate.AvgTokenUsage += load.TokenUsage / float64(len(ranks))
		out.Aggregate.AvgThroughput += load.GenThroughput / float64(len(ranks))
		out.Aggregate.AvgUtilization += load.Utilization / float64(len(ranks))
	}
	return out, nil
}

// FlushCache implements the service.
func (e *sglang) FlushCache(context.Context, *commonpb.FlushCacheRequest) (*commonpb.FlushCacheResponse, error) {
	return flushed(e.engine), nil
}

// SubscribeKvEvents implements the service.
func (e *sglang) SubscribeKvEvents(r *commonpb.SubscribeKvEventsRequest, s grpc.ServerStreamingServer[commonpb.KvEventBatch]) error {
	return subscribe(e.engine, r, s)
}

// sglangProbs are the log-probabilities that a request wants. The numbers tell what they
// belong to, as over HTTP.
type sglangProbs struct {
	request *sglangpb.GenerateRequest
	mode    simhttp.Mode
	told    map[int]bool
}

func (p *sglangProbs) output(said simhttp.Said) *sglangpb.OutputLogProbs {
	if !p.request.ReturnLogprob || len(said.Tokens) == 0 {
		return nil
	}
	what := outputs
	if p.mode == simhttp.Prefill {
		what = prefilled
	}
	out := &sglangpb.OutputLogProbs{TokenIds: ids(said.Tokens)}
	for i := range said.Tokens {
		out.TokenLogprobs = append(out.TokenLogprobs, logprob(what, said.From+i))
		if top := p.request.TopLogprobsNum; top > 0 {
			list := &sglangpb.TopLogProbs{}
			for k := range uint32(top) {
				list.TokenIds, list.Values = append(list.TokenIds, k), append(list.Values, logprob(bestOutputs, said.From+i))
			}
			out.TopLogprobs = append(out.TopLogprobs, list)
		}
	}
	return out
}

// input is what is said of the prompt, once for a choice.
func (p *sglangProbs) input(said simhttp.Said) *sglangpb.InputLogProbs {
	if p.told[said.Choice] {
		return nil
	}
	if p.told == nil {
		p.told = map[int]bool{}
	}
	p.told[said.Choice] = true
	return p.whole(said)
}

func (p *sglangProbs) whole(simhttp.Said) *sglangpb.InputLogProbs {
	start := int(p.request.LogprobStartLen)
	prompt := p.request.Tokenized.InputIds
	if !p.request.ReturnLogprob || start < 0 || start >= len(prompt) || p.mode == simhttp.Decode {
		return nil
	}
	in := &sglangpb.InputLogProbs{TokenIds: prompt[start:]}
	for i := start; i < len(prompt); i++ {
		v := &sglangpb.InputTokenLogProb{}
		if i > 0 {
			v.Value = new(logprob(inputs, i))
		}
		in.TokenLogprobs = append(in.TokenLogprobs, v)
	}
	return in
}
