package engine

import "math"

// Where [Loads] come from.
const (
	SourceLoads   = "loads"   // GET /v1/loads
	SourceMetrics = "metrics" // GET /metrics
	SourceGRPC    = "grpc"    // GetLoads
)

// Loads is what an engine says about its load at one moment, rank by rank of its
// data parallelism. What it leaves out is missing, and so is what cannot be: a
// number that is not finite, is negative or beyond belief. Missing is never 0. It
// is a value: nobody changes what its pointers point to.
type Loads struct {
	Source string // SourceLoads, SourceMetrics or SourceGRPC
	Ranks  []RankLoad
}

// RankLoad is the load of one rank; nil is missing. Ratios lie in 0..1.
type RankLoad struct {
	Rank int // where the engine names none, its place in the answer

	Running *int // requests that are computed
	Waiting *int // requests that wait
	Total   *int // requests

	WaitingUncachedTokens *int // queued tokens that are not in the prefix cache
	UsedTokens            *int // of the KV cache
	MaxTokens             *int // what the KV cache can hold
	MaxRunning            *int // requests that can run at the same time

	TokenUsage   *float64 // ratio of the KV cache in use
	Throughput   *float64 // generated tokens per second
	CacheHitRate *float64 // ratio
	Utilization  *float64 // ratio

	DisaggMode      string   // "prefill", "decode", "null" or, if missing, ""
	TransferLatency *float64 // of KV, in milliseconds
	TransferSpeed   *float64 // of KV, in GB per second
	PrefillQueue    *int     // requests
	DecodeQueue     *int     // requests

	Memory *MemoryLoad
	Queues *QueueLoad
}

// MemoryLoad is where a rank's memory went.
type MemoryLoad struct {
	WeightGB, KVCacheGB, GraphGB *float64
	TokenCapacity                *int
}

// QueueLoad are the requests of a rank that wait, by what they wait for.
type QueueLoad struct {
	Waiting, Grammar, Paused, Retracted *int
}

// The sums and means are over the ranks that report the number; known is false
// where none does.

// Running is the number of requests that are computed.
func (l Loads) Running() (requests int, known bool) {
	return sum(l.Ranks, func(r *RankLoad) *int { return r.Running })
}

// Waiting is the number of requests that wait.
func (l Loads) Waiting() (requests int, known bool) {
	return sum(l.Ranks, func(r *RankLoad) *int { return r.Waiting })
}

// WaitingUncachedTokens is the work that waits. Known and 0 is an empty queue, or
// one whose prompts are all cached; not known, it has to be estimated.
func (l Loads) WaitingUncachedTokens() (tokens int, known bool) {
	return sum(l.Ranks, func(r *RankLoad) *int { return r.WaitingUncachedTokens })
}

// UsedTokens is the number of tokens in the KV cache.
func (l Loads) UsedTokens() (tokens int, known bool) {
	return sum(l.Ranks, func(r *RankLoad) *int { return r.UsedTokens })
}

// MaxTokens is what the KV cache can hold.
func (l Loads) MaxTokens() (tokens int, known bool) {
	return sum(l.Ranks, func(r *RankLoad) *int { return r.MaxTokens })
}

// MaxRunning is the number of requests that can run at the same time.
func (l Loads) MaxRunning() (requests int, known bool) {
	return sum(l.Ranks, func(r *RankLoad) *int { return r.MaxRunning })
}

// PrefillQueue is the number of requests that wait for a decode engine, or whose
// KV is on its way there.
func (l Loads) PrefillQueue() (requests int, known bool) {
	return sum(l.Ranks, func(r *RankLoad) *int { return r.PrefillQueue })
}

// DecodeQueue is the number of requests that wait for room or for their KV.
func (l Loads) DecodeQueue() (requests int, known bool) {
	return sum(l.Ranks, func(r *RankLoad) *int { return r.DecodeQueue })
}

// Throughput is in generated tokens per second.
func (l Loads) Throughput() (tokensPerSecond float64, known bool) {
	return sum(l.Ranks, func(r *RankLoad) *float64 { return r.Throughput })
}

// KVUsage is the mean, 0..1.
func (l Loads) KVUsage() (ratio float64, known bool) {
	return mean(l.Ranks, func(r *RankLoad) *float64 { return r.TokenUsage })
}

// CacheHitRate is the mean, 0..1.
func (l Loads) CacheHitRate() (ratio float64, known bool) {
	return mean(l.Ranks, func(r *RankLoad) *float64 { return r.CacheHitRate })
}

// TokensByRank are the tokens in the KV cache of each rank that reports them. It is
// nil unless some rank says how many it can hold: only then are they absolute.
func (l Loads) TokensByRank() map[int]int {
	if capacity, _ := l.MaxTokens(); capacity == 0 {
		return nil
	}
	tokens := make(map[int]int, len(l.Ranks))
	for i := range l.Ranks {
		if r := &l.Ranks[i]; r.UsedTokens != nil {
			tokens[r.Rank] = *r.UsedTokens
		}
	}
	return tokens
}

func sum[T int | float64](ranks []RankLoad, of func(*RankLoad) *T) (total T, known bool) {
	for i := range ranks {
		if v := of(&ranks[i]); v != nil {
			total, known = total+*v, true
		}
	}
	return total, known
}

func mean(ranks []RankLoad, of func(*RankLoad) *float64) (ratio float64, known bool) {
	n := 0
	for i := range ranks {
		if v := of(&ranks[i]); v != nil {
			ratio += *v
			n++
		}
	}
	if n == 0 {
		return 0, false
	}
	return ratio / float64(n), true
}

// blank says that the rank holds no number at all.
func (r *RankLoad) blank() bool { return *r == RankLoad{Rank: r.Rank, DisaggMode: r.DisaggMode} }

// What is believed. Sums over all ranks stay exact and finite.
const (
	maxRanks   = 1024
	maxCount   = math.MaxInt32 // the counts of the wire have 32 bits
	maxMeasure = 1e9           // tokens/s, ms, GB/s, GB
	// maxRatio: engines that count reserved blocks overshoot 1 a little, which is
	// 1. More than that is a percentage or a mistake.
	maxRatio = 2
)

// number is one that may be missing.
type number struct {
	value   float64
	present bool
}

func (n number) count() *int {
	v := n.value
	if !n.present || v != math.Trunc(v) || v < 0 || v > maxCount {
		return nil
	}
	return new(int(v))
}

func (n number) measure() *float64 {
	// NaN compares as false.
	if v := n.value; n.present && 0 <= v && v <= maxMeasure {
		return &v
	}
	return nil
}

func (n number) ratio() *float64 {
	if v := n.value; n.present && 0 <= v && v <= maxRatio {
		return new(min(v, 1))
	}
	return nil
}
