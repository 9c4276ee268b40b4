package selector

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"smg/engine"
	"smg/legs"
	"smg/worker"
)

func TestLoadsOf(t *testing.T) {
	tests := []struct {
		name string
		in   engine.Loads
		want legs.Loads
	}{
		{
			"two ranks",
			engine.Loads{Ranks: []engine.RankLoad{
				{
					Rank: 0, Running: new(3), Waiting: new(1), WaitingUncachedTokens: new(300), MaxRunning: new(64), TokenUsage: new(0.25), Throughput: new(600.0),
					CacheHitRate: new(0.5), DisaggMode: "prefill", TransferLatency: new(1.5), TransferSpeed: new(2.5), PrefillQueue: new(4), DecodeQueue: new(0),
					Total: new(4), UsedTokens: new(5), Utilization: new(0.125),
					Memory: &engine.MemoryLoad{WeightGB: new(14.5), TokenCapacity: new(6)}, Queues: &engine.QueueLoad{Grammar: new(2), Retracted: new(1)},
				},
				{Rank: 1, Running: new(2), Waiting: new(4), WaitingUncachedTokens: new(700), MaxRunning: new(64), TokenUsage: new(0.75), Throughput: new(400.0)},
			}},
			legs.Loads{
				Sums: worker.Report{Waiting: 5, Queued: 1000, Running: 5, MaxRunning: 128, Throughput: 1000, KVUsage: 0.5},
				Ranks: []legs.RankLoad{
					{
						Rank: 0, Running: new(3.0), Waiting: new(1.0), TokenUsage: new(0.25), Throughput: new(600.0), CacheHitRate: new(0.5),
						Mode: "prefill", TransferLatency: new(1.5), TransferSpeed: new(2.5), PrefillQueue: new(4.0), DecodeQueue: new(0.0),
						Total: new(4.0), WaitingUncachedTokens: new(300.0), UsedTokens: new(5.0), MaxRunning: new(64.0), Utilization: new(0.125),
						WeightGB: new(14.5), TokenCapacity: new(6.0), QueueGrammar: new(2.0), QueueRetracted: new(1.0),
					},
					{Rank: 1, Running: new(2.0), Waiting: new(4.0), WaitingUncachedTokens: new(700.0), MaxRunning: new(64.0), TokenUsage: new(0.75), Throughput: new(400.0)},
				},
			},
		},
		{
			"an empty queue is a count",
			engine.Loads{Ranks: []engine.RankLoad{{WaitingUncachedTokens: new(0)}}},
			legs.Loads{Sums: worker.Report{Queued: 0}, Ranks: []legs.RankLoad{{WaitingUncachedTokens: new(0.0)}}},
		},
		{
			"nothing known",
			engine.Loads{Ranks: []engine.RankLoad{{}}},
			legs.Loads{Sums: worker.Report{Queued: worker.NotReported}, Ranks: []legs.RankLoad{{}}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, loadsOf(tt.in, &worker.Spec{})); diff != "" {
				t.Errorf("loads (-want +got):\n%s", diff)
			}
		})
	}
}

func TestGateway(t *testing.T) {
	t.Run("40_ranks_together", func(t *testing.T) {
		tests := []struct {
			name   string
			limits worker.OverloadLimits
			ranks  []engine.RankLoad
			want   bool
		}{
			{"waiting is summed", worker.OverloadLimits{Waiting: 5}, []engine.RankLoad{{Waiting: new(3)}, {Rank: 1, Waiting: new(3)}}, true},
			{"usage is averaged", worker.OverloadLimits{TokenUsage: 0.9}, []engine.RankLoad{{TokenUsage: new(0.95)}, {Rank: 1, TokenUsage: new(0.80)}}, false},
			{"usage of those that say it", worker.OverloadLimits{TokenUsage: 0.9}, []engine.RankLoad{{TokenUsage: new(0.95)}, {Rank: 1, Waiting: new(3)}}, true},
			{"what is not reported vetoes nobody", worker.OverloadLimits{Waiting: 5, TokenUsage: 0.9}, []engine.RankLoad{{Running: new(99)}}, false},
		}
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				sums := loadsOf(engine.Loads{Ranks: tt.ranks}, &worker.Spec{}).Sums
				if got := tt.limits.Veto(&sums); got != tt.want {
					t.Errorf("vetoed: %v, want %v", got, tt.want)
				}
			})
		}
	})
}
