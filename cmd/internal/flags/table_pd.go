package flags

import "smg/worker"

// Sharing is what is decided about requests that several workers share, beyond which
// workers those are.
type Sharing struct {
	// EncodeFallback is who gets media for which no encode worker is available.
	EncodeFallback string
}

// noFallback refuses media for which no encode worker is available.
const noFallback = "none"

// EncodeOnPrefill says whether a prefill worker gets them.
func (s *Sharing) EncodeOnPrefill() bool { return s.EncodeFallback == worker.Prefill.String() }

// sharingTable defines the flags of [Sharing].
func sharingTable() []Def {
	return []Def{
		{
			Name: "encode-fallback", Kind: Scalar, Value: "LEG", Default: noFallback, Group: groupLegs, In: serving,
			Help: "Who gets media for which no encode worker is available: none, or a prefill worker whose label accepted_media has their type.",
			set: setEnum(func(s *Serve) *string { return &s.Sharing.EncodeFallback }, "fallback of the encode leg",
				[]string{noFallback, worker.Prefill.String()}),
		},
	}
}

// check judges the values of those flags.
func (Sharing) check(*checker) {}
