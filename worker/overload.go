package worker

import "cmp"

// OverloadLimits are the loads from which on a worker is vetoed as overloaded. A
// limit that is 0 is not set, and the fleet's holds.
type OverloadLimits struct {
	// Waiting is the number of waiting requests, over all ranks.
	Waiting int
	// TokenUsage is the share of the KV cache in use, the mean of all ranks, at
	// most 1.
	TokenUsage float64
}

// Set says whether there is a limit at all.
func (l OverloadLimits) Set() bool { return l != OverloadLimits{} }

// Or is l, with the fleet's limit for each signal that l leaves open.
func (l OverloadLimits) Or(fleet OverloadLimits) OverloadLimits {
	return OverloadLimits{Waiting: cmp.Or(l.Waiting, fleet.Waiting), TokenUsage: cmp.Or(l.TokenUsage, fleet.TokenUsage)}
}

// Veto says whether what a worker reports keeps requests from it: a signal that is
// limited has reached its limit. What is not reported is 0 and reaches none.
func (l OverloadLimits) Veto(r *Report) bool {
	return l.Waiting > 0 && r.Waiting >= int64(l.Waiting) || l.TokenUsage > 0 && r.KVUsage >= l.TokenUsage
}
