package flags

import "math"

// Sharing is what is decided about requests that several workers share, beyond which
// workers those are.
type Sharing struct {
	// LocalPrefill is up to how many tokens of a prompt decode computes itself.
	LocalPrefill int64
}

// sharingTable defines the flags of [Sharing].
func sharingTable() []Def {
	return []Def{
		{
			Name: "pd-local-prefill-max-tokens", Kind: Scalar, Value: "N", Default: "0", Group: groupLegs, In: serving,
			Help: "Prompt tokens not known to be cached up to which a vLLM decode worker needs no prefill worker; 0 for always.",
			set:  setNumber(func(s *Serve) *int64 { return &s.Sharing.LocalPrefill }, 0, math.MaxInt64),
		},
	}
}

// check judges the values of those flags.
func (Sharing) check(*checker) {}
