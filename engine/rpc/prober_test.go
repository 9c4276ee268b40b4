package rpc

import (
	"context"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"smg/engine"
	"smg/engine/enginepb/commonpb"
	"smg/engine/enginepb/sglangpb"
	"smg/engine/enginepb/vllmpb"
)

func args(t *testing.T, m map[string]any) *structpb.Struct {
	t.Helper()
	s, err := structpb.NewStruct(m)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestDiscover(t *testing.T) {
	tests := []struct {
		name string
		fake any
		want engine.Info
		err  string
	}{
		{
			"sglang",
			&fakeSGLang{
				health: &sglangpb.HealthCheckResponse{Healthy: true},
				model:  &sglangpb.GetModelInfoResponse{ModelPath: "/m", ServedModelName: "m", IsGeneration: true, MaxContextLength: 4096, EosTokenIds: []int32{2, 7}, SupportsVision: true},
				server: &sglangpb.GetServerInfoResponse{
					SglangVersion: "0.5", MaxTotalNumTokens: 9000,
					ServerArgs: args(t, map[string]any{"dp_size": 2, "tp_size": 1, "max_total_tokens": nil, "disaggregation_mode": "null", "load_balance_method": "round_robin", "list": []any{1}}),
				},
			},
			engine.Info{Runtime: "sglang", ModelID: "m", Models: []string{"m"}, Labels: map[string]string{
				"served_model_name": "m", "model_path": "/m", "is_generation": "true", "max_model_len": "4096", "eos_token_ids": "2,7", "accepted_media": "image",
				"version": "0.5", "max_total_tokens": "9000", "dp_size": "2", "tp_size": "1", "disaggregation_mode": "null", "load_balance_method": "round_robin",
			}},
			"",
		},
		{
			"vllm",
			&fakeVLLM{
				health: &vllmpb.HealthCheckResponse{Healthy: true},
				model:  &vllmpb.GetModelInfoResponse{ModelPath: "org/m", VocabSize: 100},
				server: &vllmpb.GetServerInfoResponse{KvConnector: "NixlConnector", KvRole: "kv_producer", KvEngineId: "e", DataParallelSize: 4, BlockSize: 16},
			},
			engine.Info{Runtime: "vllm", ModelID: "org/m", Models: []string{"org/m"}, Labels: map[string]string{
				"model_path": "org/m", "is_generation": "false", "vocab_size": "100", "kv_connector": "NixlConnector", "kv_role": "kv_producer", "kv_engine_id": "e", "dp_size": "4", "kv_block_size": "16",
			}},
			"",
		},
		{"one that tells nothing", &fakeVLLM{health: &vllmpb.HealthCheckResponse{Healthy: true}}, engine.Info{Runtime: "vllm", ModelID: "unknown", Labels: map[string]string{}}, ""},
		{"not well yet", &fakeSGLang{health: &sglangpb.HealthCheckResponse{Message: "loading"}}, engine.Info{}, "not healthy: loading"},
		{"another protocol", struct{}{}, engine.Info{}, "none of the protocols of sglang and vllm"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := NewProber(client(t)).Discover(t.Context(), serve(t, tt.fake).url, "", "")
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("info (-want +got):\n%s", diff)
			}
			if (tt.err == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
		})
	}
}

func TestHealth(t *testing.T) {
	p := NewProber(client(t))
	up := serve(t, &fakeVLLM{health: &vllmpb.HealthCheckResponse{Healthy: true}})
	if err := p.Health(t.Context(), up.url, "key", engine.RuntimeVLLM); err != nil {
		t.Error(err)
	}
	if err := p.Health(t.Context(), up.url, "k\ney", engine.RuntimeVLLM); !hasKind(err, engine.ErrRequest) || strings.Contains(err.Error(), "ney") {
		t.Errorf("a key that is no field's value: %v", err)
	}
	if err := p.Health(t.Context(), up.url, "", engine.RuntimeSGLang); !isRefused(err, 501) {
		t.Errorf("the wrong protocol: %v", err)
	}
	down := serve(t, &fakeVLLM{health: &vllmpb.HealthCheckResponse{}})
	if err := p.Health(t.Context(), down.url, "", engine.RuntimeVLLM); !errors.Is(err, errUnwell) {
		t.Errorf("an engine that is not well: %v", err)
	}
	down.stop()
	if err := p.Health(t.Context(), down.url, "", engine.RuntimeVLLM); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("an engine that is not there: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Health(ctx, up.url, "", engine.RuntimeVLLM); !hasKind(err, engine.ErrCanceled) {
		t.Errorf("a probe that was given up: %v", err)
	}
}

func TestIdentify(t *testing.T) {
	identify := func(fake any, runtime string) engine.Identity {
		t.Helper()
		id, err := NewProber(client(t)).Identify(t.Context(), serve(t, fake).url, "", runtime)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	sglang := func(started int64, mode string, seed any) engine.Identity {
		return identify(&fakeSGLang{server: &sglangpb.GetServerInfoResponse{
			StartTime:  &timestamppb.Timestamp{Seconds: started},
			ServerArgs: args(t, map[string]any{"disaggregation_mode": mode, "disaggregation_bootstrap_port": 8998, "random_seed": seed}),
		}}, engine.RuntimeSGLang)
	}
	first := sglang(100, "prefill", 1)
	if first.ID == 0 || first.BootstrapPort != 8998 || first != sglang(100, "prefill", 1) {
		t.Errorf("%+v is not the same twice", first)
	}
	if again := sglang(101, "decode", 1); again.ID == first.ID || again.BootstrapPort != 0 {
		t.Errorf("%+v is another process of %+v, and no prefill engine", again, first)
	}
	if id := identify(&fakeSGLang{}, engine.RuntimeSGLang); id != (engine.Identity{}) {
		t.Errorf("an engine that tells nothing is %+v", id)
	}
	if id := identify(&fakeVLLM{server: &vllmpb.GetServerInfoResponse{KvEngineId: "a"}}, engine.RuntimeVLLM); id.ID == 0 {
		t.Error("vLLM's engine id is nobody's")
	}
	if id := identify(&fakeVLLM{server: &vllmpb.GetServerInfoResponse{}}, engine.RuntimeVLLM); id.ID != 0 {
		t.Errorf("vLLM without an engine id is %+v", id)
	}
}

func TestFlush(t *testing.T) {
	p := NewProber(client(t))
	if err := p.Flush(t.Context(), serve(t, &fakeSGLang{flush: &commonpb.FlushCacheResponse{Success: true}}).url, "", engine.RuntimeSGLang); err != nil {
		t.Error(err)
	}
	if err := p.Flush(t.Context(), serve(t, &fakeSGLang{flush: &commonpb.FlushCacheResponse{Message: "busy"}}).url, "", engine.RuntimeSGLang); err == nil || !strings.Contains(err.Error(), "busy") {
		t.Errorf("a cache that was not flushed: %v", err)
	}
	if err := p.Flush(t.Context(), serve(t, &fakeVLLM{}).url, "", engine.RuntimeVLLM); !isRefused(err, 501) {
		t.Errorf("an engine that cannot: %v", err)
	}
}

func TestGateway(t *testing.T) {
	t.Run("56_loads_of_ranks", func(t *testing.T) {
		sglang := &fakeSGLang{loads: &sglangpb.GetLoadsResponse{Loads: []*sglangpb.SchedulerLoad{
			{
				NumRunningReqs: 3, NumWaitingReqs: 2, NumTotalReqs: 5, NumUsedTokens: 50, MaxTotalNumTokens: 100, TokenUsage: 0.5, GenThroughput: 600,
				CacheHitRate: 0.25, Utilization: 0.75, MaxRunningRequests: 64, NumWaitingUncachedTokens: 300,
				Memory:         &sglangpb.MemoryMetrics{WeightGb: 14, TokenCapacity: 100},
				Queues:         &sglangpb.QueueMetrics{Waiting: 2, Retracted: 1},
				Disaggregation: &sglangpb.DisaggregationMetrics{Mode: "prefill", PrefillPreallocQueueReqs: 1, PrefillInflightQueueReqs: 2, DecodeRetractedQueueReqs: 4, KvTransferLatencyMs: 1.5},
			},
			{DpRank: 1, NumWaitingReqs: 3, TokenUsage: 1.01},
		}}}
		want := engine.Loads{Source: engine.SourceGRPC, Ranks: []engine.RankLoad{
			{
				Running: new(3), Waiting: new(2), Total: new(5), UsedTokens: new(50), MaxTokens: new(100), TokenUsage: new(0.5), Throughput: new(600.0),
				CacheHitRate: new(0.25), Utilization: new(0.75), MaxRunning: new(64), WaitingUncachedTokens: new(300),
				Memory:     &engine.MemoryLoad{WeightGB: new(14.0), KVCacheGB: new(0.0), GraphGB: new(0.0), TokenCapacity: new(100)},
				Queues:     &engine.QueueLoad{Waiting: new(2), Grammar: new(0), Paused: new(0), Retracted: new(1)},
				DisaggMode: "prefill", TransferLatency: new(1.5), TransferSpeed: new(0.0), PrefillQueue: new(3), DecodeQueue: new(4),
			},
			{ // 0 tokens although requests wait: they are not counted
				Rank: 1, Running: new(0), Waiting: new(3), Total: new(0), TokenUsage: new(1.0), Throughput: new(0.0), CacheHitRate: new(0.0), Utilization: new(0.0),
			},
		}}
		got, err := NewProber(client(t)).Loads(t.Context(), serve(t, sglang).url, "", engine.RuntimeSGLang)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("loads (-want +got):\n%s", diff)
		}
		if waiting, _ := got.Waiting(); waiting != 5 {
			t.Errorf("%d requests wait on all ranks, want 5", waiting)
		}
	})
	t.Run("56_no_report", func(t *testing.T) {
		for name, fake := range map[string]*fakeVLLM{"unimplemented": {}, "no ranks": {loads: &vllmpb.GetLoadsResponse{}}} {
			if got, err := NewProber(client(t)).Loads(t.Context(), serve(t, fake).url, "", engine.RuntimeVLLM); err == nil {
				t.Errorf("%s: %+v, want no report", name, got)
			}
		}
	})
	t.Run("58_events", func(t *testing.T) {
		block := func(hash int64, tokens ...uint32) *commonpb.KvBlock {
			return &commonpb.KvBlock{BlockHash: hash, TokenIds: tokens, BlockSize: int32(len(tokens))}
		}
		stored := func(s *commonpb.KvBlocksStored) *commonpb.KvCacheEvent {
			return &commonpb.KvCacheEvent{Data: &commonpb.KvCacheEvent_Stored{Stored: s}}
		}
		removed := func(r *commonpb.KvBlocksRemoved) *commonpb.KvCacheEvent {
			return &commonpb.KvCacheEvent{Data: &commonpb.KvCacheEvent_Removed{Removed: r}}
		}
		host := commonpb.KvCacheTier_KV_CACHE_TIER_HOST
		batches := []*commonpb.KvEventBatch{
			{SequenceNumber: 4, Events: []*commonpb.KvCacheEvent{
				stored(&commonpb.KvBlocksStored{Blocks: []*commonpb.KvBlock{block(-1, 1, 2), block(2, 3, 4)}, ParentBlockHash: new(int64(0))}),
				{},
			}},
			{SequenceNumber: 4, Load: &commonpb.EngineLoad{LoadOnly: true}},
			{SequenceNumber: 9, DpRank: new(int32(1)), Load: &commonpb.EngineLoad{}, Events: []*commonpb.KvCacheEvent{
				removed(&commonpb.KvBlocksRemoved{BlockHashes: []int64{2, -1}}),
				removed(&commonpb.KvBlocksRemoved{BlockHashes: []int64{3}, Tier: &host}),
				stored(&commonpb.KvBlocksStored{Blocks: []*commonpb.KvBlock{block(5, 9)}, Tier: &host}),
				stored(&commonpb.KvBlocksStored{Blocks: []*commonpb.KvBlock{block(6, 9)}, CacheSalt: new("s")}),
				stored(&commonpb.KvBlocksStored{Blocks: []*commonpb.KvBlock{{BlockHash: 7, LoraId: new(int64(1))}}}),
				{Data: &commonpb.KvCacheEvent_Cleared{Cleared: &commonpb.KvCacheCleared{}}},
			}},
		}
		want := []engine.KVBatch{
			{Seq: 4, Events: []engine.KVEvent{{
				Stored:  []engine.KVBlock{{Hash: 1<<64 - 1, Tokens: []uint32{1, 2}, Size: 2}, {Hash: 2, Tokens: []uint32{3, 4}, Size: 2}},
				Chained: true, Parent: 0,
			}}},
			{Seq: 9, Rank: 1, Events: []engine.KVEvent{{Removed: []uint64{2, 1<<64 - 1}}, {Cleared: true}}},
		}
		asked := make(chan uint64, 1)
		fake := &fakeSGLang{events: func(r *commonpb.SubscribeKvEventsRequest, s grpc.ServerStreamingServer[commonpb.KvEventBatch]) error {
			asked <- r.StartSequenceNumber
			return say[commonpb.SubscribeKvEventsRequest](batches...)(r, s)
		}}
		c := client(t)
		e, err := c.Events(t.Context(), target(t, c, serve(t, fake).url), engine.RuntimeSGLang, "", 3)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		var got []engine.KVBatch
		for {
			b, err := e.Next()
			if err != nil {
				if !errors.Is(err, io.EOF) {
					t.Error(err)
				}
				break
			}
			got = append(got, b)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("batches (-want +got):\n%s", diff)
		}
		if from := <-asked; from != 3 {
			t.Errorf("asked for what follows %d, want 3", from)
		}
	})
	t.Run("58_ends_of_events", func(t *testing.T) {
		tests := []struct {
			name string
			code codes.Code
			late bool // behind a batch
			want error
		}{
			{"unimplemented", codes.Unimplemented, false, engine.ErrNoEvents},
			{"out of range", codes.OutOfRange, false, engine.ErrEventsLost},
			{"data loss", codes.DataLoss, true, engine.ErrEventsLost},
			{"any other", codes.Internal, true, nil},
		}
		for _, tt := range tests {
			fake := &fakeSGLang{events: func(_ *commonpb.SubscribeKvEventsRequest, s grpc.ServerStreamingServer[commonpb.KvEventBatch]) error {
				if tt.late {
					if err := s.Send(&commonpb.KvEventBatch{SequenceNumber: 1}); err != nil {
						return err
					}
				}
				return status.Error(tt.code, "it ends")
			}}
			c := client(t)
			e, err := c.Events(t.Context(), target(t, c, serve(t, fake).url), engine.RuntimeSGLang, "", 0)
			if tt.late {
				if err != nil {
					t.Fatal(err)
				}
				if _, err := e.Next(); err != nil {
					t.Fatal(err)
				}
				_, err = e.Next()
				e.Close()
			}
			if tt.want == nil && !isRefused(err, 500) || tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
			}
		}
	})
	t.Run("58_events_are_quiet", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		left := make(chan struct{})
		fake := &fakeSGLang{events: func(_ *commonpb.SubscribeKvEventsRequest, s grpc.ServerStreamingServer[commonpb.KvEventBatch]) error {
			defer close(left)
			if err := s.SendHeader(metadata.MD{}); err != nil {
				return err
			}
			<-s.Context().Done()
			return s.Context().Err()
		}}
		c := client(t)
		e, err := c.Events(ctx, target(t, c, serve(t, fake).url), engine.RuntimeSGLang, "key", 0)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		cancel()
		if _, err := e.Next(); !hasKind(err, engine.ErrCanceled) {
			t.Errorf("%v, want %v", err, engine.ErrCanceled)
		}
		within(t, left, "the subscription ends")
	})
}
