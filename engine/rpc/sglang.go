package rpc

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/zeebo/xxh3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/structpb"

	"smg/engine"
	"smg/engine/enginepb/commonpb"
	"smg/engine/enginepb/sglangpb"
)

// sglang is the protocol of SGLang's scheduler.
type sglang struct{}

var _ dialect = sglang{}

func (sglang) generate(ctx context.Context, cc grpc.ClientConnInterface, r *Request) (messages, error) {
	in, err := sglangRequest(r)
	if err != nil {
		return nil, err
	}
	stream, err := sglangpb.NewSglangSchedulerClient(cc).Generate(ctx, in)
	if err != nil {
		return nil, err
	}
	return func() (message, error) {
		m, err := stream.Recv()
		if err != nil {
			return message{}, err
		}
		return sglangMessage(m)
	}, nil
}

func sglangRequest(r *Request) (*sglangpb.GenerateRequest, error) {
	sampling, err := sglangSampling(&r.Sampling)
	if err != nil {
		return nil, err
	}
	in := &sglangpb.GenerateRequest{
		RequestId:       r.ID,
		Tokenized:       &sglangpb.TokenizedInput{OriginalText: r.Text, InputIds: r.Tokens},
		SamplingParams:  sampling,
		ReturnLogprob:   r.Logprobs.Output || r.Logprobs.Prompt,
		LogprobStartLen: -1,
		TopLogprobsNum:  int32(r.Logprobs.Top),
		TokenIdsLogprob: r.Logprobs.Tokens,
		Stream:          r.Stream,
	}
	if r.Logprobs.Prompt {
		in.LogprobStartLen = int32(min(max(r.Logprobs.From, 0), math.MaxInt32))
	}
	if b := r.Bootstrap; b != nil {
		in.DisaggregatedParams = &sglangpb.DisaggregatedParams{BootstrapHost: b.Host, BootstrapPort: int32(b.Port), BootstrapRoom: b.Room}
	}
	if r.Rank != nil {
		in.DataParallelRank = new(int32(*r.Rank))
	}
	return in, nil
}

func sglangSampling(s *Sampling) (*sglangpb.SamplingParams, error) {
	p := &sglangpb.SamplingParams{
		Temperature: float32(s.Temperature), TopP: float32(s.TopP), TopK: int32(s.TopK), MinP: float32(s.MinP),
		FrequencyPenalty: float32(s.FrequencyPenalty), PresencePenalty: float32(s.PresencePenalty), RepetitionPenalty: float32(s.RepetitionPenalty),
		MinNewTokens: uint32(s.MinTokens), N: uint32(s.N),
		Stop: s.Stop, StopTokenIds: s.StopTokens, NoStopTrim: s.KeepStop, IgnoreEos: s.IgnoreEOS,
		SkipSpecialTokens: s.SkipSpecial, SpacesBetweenSpecialTokens: s.SpaceSpecial,
	}
	if s.MaxTokens != nil {
		p.MaxNewTokens = new(uint32(*s.MaxTokens))
	}
	if len(s.LogitBias) > 0 {
		p.LogitBias = make(map[string]float32, len(s.LogitBias))
		for token, bias := range s.LogitBias {
			p.LogitBias[strconv.FormatUint(uint64(token), 10)] = float32(bias)
		}
	}
	c := s.Constraint
	if c == nil {
		return p, nil
	}
	switch c.Kind {
	case JSONSchema:
		p.Constraint = &sglangpb.SamplingParams_JsonSchema{JsonSchema: c.Text}
	case JSONObject:
		p.Constraint = &sglangpb.SamplingParams_JsonSchema{JsonSchema: `{"type": "object"}`}
	case Regex:
		p.Constraint = &sglangpb.SamplingParams_Regex{Regex: c.Text}
	case Grammar:
		p.Constraint = &sglangpb.SamplingParams_EbnfGrammar{EbnfGrammar: c.Text}
	case StructuralTag:
		p.Constraint = &sglangpb.SamplingParams_StructuralTag{StructuralTag: c.Text}
	case Choice: // of which it knows none
		quoted := make([]string, len(c.Choices))
		for i, text := range c.Choices {
			quoted[i] = regexp.QuoteMeta(text)
		}
		p.Constraint = &sglangpb.SamplingParams_Regex{Regex: "(" + strings.Join(quoted, "|") + ")"}
	default:
		return nil, fmt.Errorf("constraint of kind %d", c.Kind)
	}
	return p, nil
}

func sglangMessage(m *sglangpb.GenerateResponse) (message, error) {
	switch {
	case m.GetChunk() != nil:
		c := m.GetChunk()
		return message{
			index: c.Index, tokens: c.TokenIds, prompt: c.PromptTokens, cached: c.CachedTokens, completion: c.CompletionTokens, totals: true,
			output: sglangOutput(c.OutputLogprobs), input: sglangInput(c.InputLogprobs),
		}, nil
	case m.GetComplete() != nil:
		c := m.GetComplete()
		out := message{
			index: c.Index, tokens: c.OutputIds, prompt: c.PromptTokens, cached: c.CachedTokens, completion: c.CompletionTokens, totals: true,
			output: sglangOutput(c.OutputLogprobs), input: sglangInput(c.InputLogprobs),
			done: true, finish: c.FinishReason, stopText: c.GetMatchedStopStr(),
		}
		if _, ok := c.MatchedStop.(*sglangpb.GenerateComplete_MatchedTokenId); ok {
			out.stopToken = new(c.GetMatchedTokenId())
		}
		return out, nil
	}
	return message{}, errEmptyMessage
}

// errEmptyMessage is the error of an answer that says nothing we know.
var errEmptyMessage = errors.New("a message that is neither a piece nor an end")

func sglangOutput(l *sglangpb.OutputLogProbs) *Logprobs {
	if l == nil {
		return nil
	}
	return &Logprobs{Tokens: l.TokenIds, Values: l.TokenLogprobs, Top: sglangTop(l.TopLogprobs), Asked: sglangTop(l.TokenIdsLogprobs)}
}

func sglangInput(l *sglangpb.InputLogProbs) *Logprobs {
	if l == nil {
		return nil
	}
	out := &Logprobs{Tokens: l.TokenIds, Values: make([]float32, len(l.TokenLogprobs)), Top: sglangTop(l.TopLogprobs)}
	for i, v := range l.TokenLogprobs {
		out.Values[i] = orNaN(v.Value)
	}
	return out
}

func orNaN(v *float32) float32 {
	if v == nil {
		return float32(math.NaN())
	}
	return *v
}

func sglangTop(tops []*sglangpb.TopLogProbs) [][]TokenLogprob {
	if len(tops) == 0 {
		return nil
	}
	all := make([][]TokenLogprob, len(tops))
	for i, t := range tops {
		all[i] = paired(t.TokenIds, t.Values)
	}
	return all
}

// paired joins tokens with their values; what one side lacks is left out.
func paired(tokens []uint32, values []float32) []TokenLogprob {
	list := make([]TokenLogprob, min(len(tokens), len(values)))
	for i := range list {
		list[i] = TokenLogprob{tokens[i], values[i]}
	}
	return list
}

func (sglang) abort(ctx context.Context, cc grpc.ClientConnInterface, id string) error {
	_, err := sglangpb.NewSglangSchedulerClient(cc).Abort(ctx, &sglangpb.AbortRequest{RequestId: id, Reason: "nobody waits for the answer any more"})
	return err
}

func (sglang) health(ctx context.Context, cc grpc.ClientConnInterface) (bool, string, error) {
	out, err := sglangpb.NewSglangSchedulerClient(cc).HealthCheck(ctx, &sglangpb.HealthCheckRequest{})
	return out.GetHealthy(), out.GetMessage(), err
}

// serverArgs are the arguments of SGLang's server that are facts about a worker, under
// the names that worker labels have.
var serverArgs = []string{
	"served_model_name", "model_path", "tokenizer_path", "tp_size", "dp_size", "pp_size", "ep_size", "page_size", "context_length",
	"max_total_tokens", "max_prefill_tokens", "max_running_requests", "load_balance_method",
	"disaggregation_mode", "disaggregation_bootstrap_port", "disaggregation_transfer_backend", "chat_template", "kv_events_config",
}

func (sglang) describe(ctx context.Context, cc grpc.ClientConnInterface) (engine.Info, engine.Identity, error) {
	client := sglangpb.NewSglangSchedulerClient(cc)
	model, err := client.GetModelInfo(ctx, &sglangpb.GetModelInfoRequest{})
	if err != nil && !unimplemented(err) {
		return engine.Info{}, engine.Identity{}, err
	}
	server, err := client.GetServerInfo(ctx, &sglangpb.GetServerInfoRequest{})
	if err != nil && !unimplemented(err) {
		return engine.Info{}, engine.Identity{}, err
	}
	l := labels{}
	args := server.GetServerArgs().GetFields()
	for _, name := range serverArgs {
		l.set(name, scalar(args[name]))
	}
	l.count("max_total_tokens", int64(server.GetMaxTotalNumTokens())) // what the cache really holds, and not what was asked
	l.set("version", server.GetSglangVersion())
	l.set("served_model_name", model.GetServedModelName())
	l.set("model_path", model.GetModelPath())
	l.set("tokenizer_path", model.GetTokenizerPath())
	l.set("model_type", model.GetModelType())
	l.set("weight_version", model.GetWeightVersion())
	l.set("preferred_sampling_params", model.GetPreferredSamplingParams())
	l.set("default_sampling_params", model.GetDefaultSamplingParamsJson())
	l.count("max_model_len", int64(model.GetMaxContextLength()))
	l.count("vocab_size", int64(model.GetVocabSize()))
	l.list("eos_token_ids", model.GetEosTokenIds())
	if model != nil {
		l.set("is_generation", strconv.FormatBool(model.GetIsGeneration()))
	}
	l.media(model.GetSupportsVision())

	var id engine.Identity
	port := scalar(args["disaggregation_bootstrap_port"])
	if n, err := strconv.ParseUint(port, 10, 16); err == nil && scalar(args["disaggregation_mode"]) == "prefill" {
		id.BootstrapPort = uint16(n)
	}
	if started := server.GetStartTime(); started != nil || args["random_seed"] != nil {
		id.ID = max(1, xxh3.HashString(fmt.Sprint(started.GetSeconds(), started.GetNanos(), " ", scalar(args["random_seed"]), " ", port)))
	}
	return l.info(engine.RuntimeSGLang), id, nil
}

// scalar renders a string, number or truth value; what is none is no fact. Numbers come
// as floats, whatever they are.
func scalar(v *structpb.Value) string {
	switch k := v.GetKind().(type) {
	case *structpb.Value_StringValue:
		return k.StringValue
	case *structpb.Value_NumberValue:
		return strconv.FormatFloat(k.NumberValue, 'f', -1, 64)
	case *structpb.Value_BoolValue:
		return strconv.FormatBool(k.BoolValue)
	}
	return ""
}

// sections are the parts of a load report that are asked for.
func sections() []string { return []string{"core", "disagg", "queues", "memory"} }

func (sglang) loads(ctx context.Context, cc grpc.ClientConnInterface) ([]engine.RankLoad, error) {
	out, err := sglangpb.NewSglangSchedulerClient(cc).GetLoads(ctx, &sglangpb.GetLoadsRequest{Include: sections()})
	if err != nil {
		return nil, err
	}
	ranks := make([]engine.RankLoad, 0, len(out.Loads))
	for _, l := range out.Loads {
		r := core(l)
		if m := l.Memory; m != nil {
			r.Memory = &engine.MemoryLoad{WeightGB: measure(m.WeightGb), KVCacheGB: measure(m.KvCacheGb), GraphGB: measure(m.GraphGb), TokenCapacity: count(m.TokenCapacity)}
		}
		if q := l.Queues; q != nil {
			r.Queues = &engine.QueueLoad{Waiting: count(q.Waiting), Grammar: count(q.Grammar), Paused: count(q.Paused), Retracted: count(q.Retracted)}
		}
		if d := l.Disaggregation; d != nil {
			r.DisaggMode = d.Mode
			r.TransferLatency, r.TransferSpeed = measure(d.KvTransferLatencyMs), measure(d.KvTransferSpeedGbS)
			r.PrefillQueue = count(d.PrefillPreallocQueueReqs + d.PrefillInflightQueueReqs)
			r.DecodeQueue = count(d.DecodePreallocQueueReqs + d.DecodeTransferQueueReqs + d.DecodeRetractedQueueReqs)
		}
		ranks = append(ranks, r)
	}
	return ranks, nil
}

func (sglang) flush(ctx context.Context, cc grpc.ClientConnInterface, in *commonpb.FlushCacheRequest) (*commonpb.FlushCacheResponse, error) {
	return sglangpb.NewSglangSchedulerClient(cc).FlushCache(ctx, in)
}

func (sglang) events(ctx context.Context, cc grpc.ClientConnInterface, in *commonpb.SubscribeKvEventsRequest) (grpc.ServerStreamingClient[commonpb.KvEventBatch], error) {
	return sglangpb.NewSglangSchedulerClient(cc).SubscribeKvEvents(ctx, in)
}
