package simhttp_test

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"smg/engine"
	"smg/sim/simctl"
	"smg/sim/simhttp"
	"smg/sim/simtest"
)

// read polls the engine as the gateway does. What a rank says of its memory and of
// its queues by kind is left out.
func read(t *testing.T, e *simtest.Engine, runtime string) engine.Loads {
	t.Helper()
	p := engine.NewProber(engine.DefaultConfig())
	t.Cleanup(p.Close)
	loads, err := engine.NewLoadSource(p, engine.LoadTarget{BaseURL: e.URL, Runtime: runtime}).Poll(ctxFor(t))
	if err != nil {
		t.Fatal(err)
	}
	for i := range loads.Ranks {
		loads.Ranks[i].Memory, loads.Ranks[i].Queues = nil, nil
	}
	return loads
}

// TestGatewayReadsLoads: what the gateway reads of an engine is what the engine
// says, by the route that such an engine has.
func TestGatewayReadsLoads(t *testing.T) {
	override := simctl.LoadsOverride{
		Running: new(3), Waiting: new(7), WaitingUncachedTokens: new(900), UsedTokens: new(50),
		TokenUsage: new(0.75), GenThroughput: new(123.5), CacheHitRate: new(0.25),
	}
	absent := override
	absent.Absent = true
	core := config(simhttp.SGLang).Core
	tests := []struct {
		name    string
		kind    simhttp.Kind
		runtime string
		loads   simctl.LoadsOverride
		want    engine.Loads
	}{
		{"sglang", simhttp.SGLang, engine.RuntimeSGLang, override, engine.Loads{
			Source: engine.SourceLoads,
			Ranks: []engine.RankLoad{{
				Running: new(3), Waiting: new(7), Total: new(10), WaitingUncachedTokens: new(900), UsedTokens: new(50),
				MaxTokens: new(core.KVBlocks * core.BlockSize), MaxRunning: new(core.MaxRunning), TokenUsage: new(0.75), Throughput: new(123.5),
				CacheHitRate: new(0.25), Utilization: new(0.75), DisaggMode: "null",
				PrefillQueue: new(0), DecodeQueue: new(0), TransferLatency: new(0.0), TransferSpeed: new(0.0),
			}},
		}},
		{"sglang without /v1/loads", simhttp.SGLang, engine.RuntimeSGLang, absent, engine.Loads{
			Source: engine.SourceMetrics,
			Ranks: []engine.RankLoad{{
				Running: new(3), Waiting: new(7), Total: new(10), TokenUsage: new(0.75), Throughput: new(123.5),
				CacheHitRate: new(0.25), Utilization: new(0.75),
			}},
		}},
		{"vllm", simhttp.VLLM, engine.RuntimeVLLM, override, engine.Loads{
			Source: engine.SourceMetrics,
			Ranks:  []engine.RankLoad{{Running: new(3), Waiting: new(7), Total: new(10), TokenUsage: new(0.75), CacheHitRate: new(0.25)}},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := simtest.Start(t, config(tt.kind))
			setFaults(t, e, simctl.Faults{Loads: &tt.loads})
			if diff := cmp.Diff(tt.want, read(t, e, tt.runtime)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	t.Run("a request that waits", func(t *testing.T) {
		for kind, runtime := range map[simhttp.Kind]string{simhttp.SGLang: engine.RuntimeSGLang, simhttp.VLLM: engine.RuntimeVLLM} {
			e := simtest.Start(t, config(kind))
			setFaults(t, e, simctl.Faults{Window: new(0)})
			waiting := startIn(e, `{"model":"sim",`+hello+`}`)
			await(t, e, "the request is there", func(l simctl.Ledger) bool { return len(l.Requests) == 1 })
			loads := read(t, e, runtime)
			if n, _ := loads.Waiting(); n != 1 {
				t.Errorf("%s: %d waiting", kind, n)
			}
			if tokens, known := loads.WaitingUncachedTokens(); (tokens > 0) != (kind == simhttp.SGLang) || known != (kind == simhttp.SGLang) {
				t.Errorf("%s: %d tokens waiting, %v", kind, tokens, known)
			}
			setFaults(t, e, simctl.Faults{})
			if got := waiting.wait(t); got.status != http.StatusOK {
				t.Errorf("%s: %+v", kind, got)
			}
		}
	})
	t.Run("roles", func(t *testing.T) {
		pd := simtest.StartPD(t, 1, 1, config(simhttp.SGLang))
		for e, mode := range map[*simtest.Engine]string{pd.Prefill[0]: "prefill", pd.Decode[0]: "decode"} {
			rank := read(t, e, engine.RuntimeSGLang).Ranks[0]
			if rank.DisaggMode != mode || rank.PrefillQueue == nil || rank.DecodeQueue == nil || rank.TransferLatency == nil || rank.TransferSpeed == nil {
				t.Errorf("%s: %+v", mode, rank)
			}
		}
	})
}
