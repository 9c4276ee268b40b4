package flags

import (
	"math"
	"slices"
	"strings"

	"smg/policy"
)

// replayTable defines replay's own flags. Those of the simulated engines are called as
// in smg sim, where they mean the same.
func replayTable() []Def {
	return []Def{
		{
			Name: "policy", Kind: Scalar, Value: "POLICY[,POLICY]", Group: groupReplay, In: InReplay, Everyday: true,
			Help: "Policies to try; all that suit the recorded leg, if none is given.",
			set:  setPolicies,
		},
		{
			Name: "workers", Kind: Scalar, Value: "N", Group: groupReplay, In: InReplay, Everyday: true,
			Help: "Number of engines; as many as there were, if it is not given.",
			set:  setNumber(func(s *Serve) *int { return &s.Replay.Workers }, 1, maxEngines),
		},
		{
			Name: "model", Kind: Scalar, Value: "MODEL", Group: groupReplay, In: InReplay, Everyday: true,
			Help: "Model whose requests are replayed; the one with the most, if it is not given.",
			set:  setText(func(s *Serve) *string { return &s.Replay.Model }),
		},
		{
			Name: "rate", Kind: Scalar, Value: "X", Default: "1", Group: groupReplay, In: InReplay, Everyday: true,
			Help: "How many times faster than recorded requests arrive.",
			set:  setDecimal(func(s *Serve) *float64 { return &s.Replay.Rate }),
		},
		{
			Name: "output-tokens", Kind: Scalar, Value: "N", Group: groupReplay, In: InReplay, Everyday: true,
			Help: "Length of every answer; guessed from how long its call took, if it is not given.",
			set:  setNumber(func(s *Serve) *int { return &s.Replay.OutputTokens }, 1, math.MaxInt32),
		},
		{
			Name: "rounds", Kind: Scalar, Value: "N", Default: "1", Group: groupReplay, In: InReplay,
			Help: "Runs of each policy, which differ in the seed of its chance.",
			set:  setNumber(func(s *Serve) *int { return &s.Replay.Rounds }, 1, 1000),
		},
		{
			Name: "seed", Kind: Scalar, Value: "N", Default: "1", Group: groupReplay, In: InReplay,
			Help: "Seed of the first round; equal seeds give equal tables.",
			set:  setNumber(func(s *Serve) *int64 { return &s.Replay.Seed }, 0, math.MaxInt64),
		},
		{
			Name: "prefill-tps", Kind: Scalar, Value: "TOKENS/S", Default: "20000", Group: groupReplay, In: InReplay, Everyday: true,
			Help: "Prefill tokens per second of an engine.",
			set:  setDecimal(func(s *Serve) *float64 { return &s.Replay.PrefillTPS }),
		},
		{
			Name: "kv-tokens", Kind: Scalar, Value: "TOKENS", Default: "1572864", Group: groupReplay, In: InReplay, Everyday: true,
			Help: "KV cache of an engine.",
			set:  setNumber(func(s *Serve) *int { return &s.Replay.KVTokens }, 1, math.MaxInt32),
		},
		{
			Name: "kv-block-tokens", Kind: Scalar, Value: "TOKENS", Default: "16", Group: groupReplay, In: InReplay,
			Help: "Size of a block of it.",
			set:  setNumber(func(s *Serve) *int { return &s.Replay.BlockTokens }, 1, math.MaxInt32),
		},
		{
			Name: "chunk-tokens", Kind: Scalar, Value: "TOKENS", Default: "8192", Group: groupReplay, In: InReplay,
			Help: "Tokens of an iteration; longer prompts are prefilled in chunks.",
			set:  setNumber(func(s *Serve) *int { return &s.Replay.ChunkTokens }, 1, math.MaxInt32),
		},
		{
			Name: "max-running", Kind: Scalar, Value: "N", Default: "256", Group: groupReplay, In: InReplay,
			Help: "Requests that an engine computes at the same time.",
			set:  setNumber(func(s *Serve) *int { return &s.Replay.MaxRunning }, 1, math.MaxInt32),
		},
		{
			Name: "decode-step-ms", Kind: Scalar, Value: "MS", Default: "8", Group: groupReplay, In: InReplay,
			Help: "A decode step with one sequence.",
			set:  setDecimal(func(s *Serve) *float64 { return &s.Replay.DecodeStepMS }),
		},
		{
			Name: "decode-seq-us", Kind: Scalar, Value: "US", Default: "50", Group: groupReplay, In: InReplay,
			Help: "What each other sequence adds to it.",
			set:  setDecimal(func(s *Serve) *float64 { return &s.Replay.DecodeSeqUS }),
		},
	}
}

// setPolicies takes names of policies with commas between them.
func setPolicies(s *Serve, v string) error {
	s.Replay.Policies = nil
	for name := range strings.SplitSeq(v, ",") {
		var known string
		if err := setEnum(func(*Serve) *string { return &known }, "policy", policy.Names())(s, name); err != nil {
			return err
		}
		if !slices.Contains(s.Replay.Policies, known) {
			s.Replay.Policies = append(s.Replay.Policies, known)
		}
	}
	return nil
}
