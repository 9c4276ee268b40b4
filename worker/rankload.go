package worker

// RankLoad is the load of one rank of a worker's data parallelism, as its engine reports
// it; nil is missing. It is never modified.
type RankLoad struct {
	Rank int

	Running, Waiting *float64 // requests
	TokenUsage       *float64 // share of the KV cache in use
	Throughput       *float64 // generated tokens per second
	CacheHitRate     *float64 // share

	// Mode is that of disaggregation: "prefill", "decode", "null", or "" where the
	// engine names none. Without one the next four are not exported.
	Mode                      string
	TransferLatency           *float64 // of KV, in milliseconds
	TransferSpeed             *float64 // of KV, in GB per second
	PrefillQueue, DecodeQueue *float64 // requests

	Total                 *float64 // requests
	WaitingUncachedTokens *float64 // queued tokens that are not in the prefix cache
	UsedTokens, MaxTokens *float64 // of the KV cache
	MaxRunning            *float64 // requests that can run at the same time
	Utilization           *float64 // share

	WeightGB, KVCacheGB, GraphGB, TokenCapacity             *float64 // of memory
	QueueWaiting, QueueGrammar, QueuePaused, QueueRetracted *float64 // requests, by what they wait for
}

// RankNumbers is how many numbers a rank can have.
const RankNumbers = 23

// Numbers are where the rank's numbers are, in an order that never changes: what is new
// comes last.
func (r *RankLoad) Numbers() [RankNumbers]**float64 {
	return [...]**float64{
		&r.Running, &r.Waiting, &r.TokenUsage, &r.Throughput, &r.CacheHitRate,
		&r.TransferLatency, &r.TransferSpeed, &r.PrefillQueue, &r.DecodeQueue,
		&r.Total, &r.WaitingUncachedTokens, &r.UsedTokens, &r.MaxTokens, &r.MaxRunning, &r.Utilization,
		&r.WeightGB, &r.KVCacheGB, &r.GraphGB, &r.TokenCapacity,
		&r.QueueWaiting, &r.QueueGrammar, &r.QueuePaused, &r.QueueRetracted,
	}
}

// Loads is what a worker's engine reports now, by its ranks, of which there is at least one.
type Loads struct {
	Worker ID
	Ranks  []RankLoad
}
