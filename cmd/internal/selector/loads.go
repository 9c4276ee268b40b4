package selector

import (
	"context"
	"maps"
	"slices"

	"smg/cmd/internal/flags"
	"smg/engine"
	"smg/legs"
	"smg/worker"
)

// loadConfig is when workers are polled, and what loads are too much.
func loadConfig(cfg *flags.Launch) legs.LoadConfig {
	return legs.LoadConfig{
		Interval: cfg.LoadMonitorInterval, OnDemand: cfg.DisableLoadMonitoring, Export: cfg.EngineMetrics,
		Overload: worker.OverloadLimits{Waiting: cfg.OverloadWaiting, TokenUsage: cfg.OverloadTokenUsage},
	}
}

// loadsFrom lets a leg's keepers poll engines, each with its worker's key.
func loadsFrom(p Prober) func(*worker.Spec) legs.LoadSource {
	return func(s *worker.Spec) legs.LoadSource {
		key, err := p.Keys.Open(s)
		if err != nil {
			return closed{err}
		}
		return loadSource{engine.NewLoadSource(p.Engines, engine.LoadTarget{BaseURL: s.Base(), APIKey: key, Runtime: string(s.Runtime)}), s}
	}
}

// closed is the source of a worker that cannot be asked.
type closed struct{ err error }

func (c closed) Poll(context.Context) (legs.Loads, error) { return legs.Loads{}, c.err }

// loadSource is an engine's loads in the words of package legs.
type loadSource struct {
	engine *engine.LoadSource
	worker *worker.Spec
}

func (s loadSource) Poll(ctx context.Context) (legs.Loads, error) {
	loads, err := s.engine.Poll(ctx)
	if err != nil {
		return legs.Loads{}, err
	}
	return loadsOf(loads, s.worker), nil
}

// loadsOf sums an engine's loads up, or is that of the rank that the worker is. What
// none of the ranks reports is 0, except for the tokens in the queue, where 0 is a count.
func loadsOf(l engine.Loads, s *worker.Spec) legs.Loads {
	used := ranksOf(l)
	if i := slices.IndexFunc(l.Ranks, func(r engine.RankLoad) bool { return r.Rank == s.DPRank }); s.DPSize > 0 && i >= 0 {
		l.Ranks = l.Ranks[i : i+1]
	}
	count := func(n int, _ bool) int64 { return int64(n) }
	ratio := func(x float64, _ bool) float64 { return x }
	r := worker.Report{
		Waiting: count(l.Waiting()), Queued: worker.NotReported, Running: count(l.Running()), MaxRunning: count(l.MaxRunning()),
		Throughput: ratio(l.Throughput()), KVUsage: ratio(l.KVUsage()),
		Ranks: used,
	}
	if tokens, known := l.WaitingUncachedTokens(); known {
		r.Queued = int64(tokens)
	}
	ranks := make([]legs.RankLoad, len(l.Ranks))
	for i := range l.Ranks {
		k := &l.Ranks[i]
		ranks[i] = legs.RankLoad{
			Rank: k.Rank, Running: float(k.Running), Waiting: float(k.Waiting),
			TokenUsage: k.TokenUsage, Throughput: k.Throughput, CacheHitRate: k.CacheHitRate,
			Mode: k.DisaggMode, TransferLatency: k.TransferLatency, TransferSpeed: k.TransferSpeed,
			PrefillQueue: float(k.PrefillQueue), DecodeQueue: float(k.DecodeQueue),
			Total: float(k.Total), WaitingUncachedTokens: float(k.WaitingUncachedTokens),
			UsedTokens: float(k.UsedTokens), MaxTokens: float(k.MaxTokens), MaxRunning: float(k.MaxRunning), Utilization: k.Utilization,
		}
		if m := k.Memory; m != nil {
			ranks[i].WeightGB, ranks[i].KVCacheGB, ranks[i].GraphGB, ranks[i].TokenCapacity = m.WeightGB, m.KVCacheGB, m.GraphGB, float(m.TokenCapacity)
		}
		if q := k.Queues; q != nil {
			ranks[i].QueueWaiting, ranks[i].QueueGrammar = float(q.Waiting), float(q.Grammar)
			ranks[i].QueuePaused, ranks[i].QueueRetracted = float(q.Paused), float(q.Retracted)
		}
	}
	return legs.Loads{Sums: r, Ranks: ranks}
}

// ranksOf are the tokens that each rank uses, of an engine that has several.
func ranksOf(l engine.Loads) (used []worker.RankUse) {
	tokens := l.TokensByRank()
	if len(tokens) < 2 {
		return nil
	}
	for _, rank := range slices.Sorted(maps.Keys(tokens)) {
		used = append(used, worker.RankUse{Rank: rank, Used: int64(tokens[rank])})
	}
	return used
}

func float(n *int) *float64 {
	if n == nil {
		return nil
	}
	return new(float64(*n))
}
