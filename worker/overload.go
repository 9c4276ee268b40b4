package worker

// OverloadLimits are the loads from which on a worker is vetoed as overloaded. A
// limit that is 0 is not set, and the fleet's holds.
type OverloadLimits struct {
	// Waiting is the number of waiting requests, over all ranks.
	Waiting int
	// TokenUsage is the share of the KV cache in use, the mean of all ranks, at
	// most 1.
	TokenUsage float64
}
