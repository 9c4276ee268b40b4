package flags

import (
	"math"
	"time"

	"smg/worker"
)

// Sharing is what is decided about requests that several workers share, beyond which
// workers those are.
type Sharing struct {
	DPAware   bool // a worker is each data-parallel rank of an engine
	MinTokens bool // prefill and decode go to the rank with the fewest tokens
	// LocalPrefill is up to how many tokens of a prompt decode computes itself.
	LocalPrefill int64
	// EncodeFallback is who gets media for which no encode worker is available.
	EncodeFallback string
	// Answers is how SGLang's engines are asked for several answers of a chat.
	Answers string
	// MaxRooms is how many sequences a decode worker gets at a time, 0 for as many as it
	// reports to run, and AdmissionWait how long a request waits for one with room.
	MaxRooms      int
	AdmissionWait time.Duration
}

// noFallback refuses media for which no encode worker is available.
const noFallback = "none"

// EncodeOnPrefill says whether a prefill worker gets them.
func (s *Sharing) EncodeOnPrefill() bool { return s.EncodeFallback == worker.Prefill.String() }

// Ways to ask for several answers.
const (
	answersList  = "list"
	answersSplit = "split"
)

// SplitAnswers says whether each answer is asked for by itself.
func (s *Sharing) SplitAnswers() bool { return s.Answers == answersSplit }

// sharingTable defines the flags of [Sharing].
func sharingTable() []Def {
	return []Def{
		{
			Name: "dp-aware", Kind: Bool, Group: groupWorkers, In: serving,
			Help: "Make a worker, URL@RANK, of each data-parallel rank that an engine tells of.",
			set:  setBool(func(s *Serve) *bool { return &s.Sharing.DPAware }),
		},
		{
			Name: "dp-minimum-tokens-scheduler", Kind: Bool, Group: groupLegs, In: serving,
			Help: "Have the data-parallel rank with the fewest tokens in use serve each leg of a request.",
			set:  setBool(func(s *Serve) *bool { return &s.Sharing.MinTokens }),
		},
		{
			Name: "pd-local-prefill-max-tokens", Kind: Scalar, Value: "N", Default: "0", Group: groupLegs, In: serving,
			Help: "Prompt tokens not known to be cached up to which a vLLM decode worker needs no prefill worker; 0 for always.",
			set:  setNumber(func(s *Serve) *int64 { return &s.Sharing.LocalPrefill }, 0, math.MaxInt64),
		},
		{
			Name: "encode-fallback", Kind: Scalar, Value: "LEG", Default: noFallback, Group: groupLegs, In: serving,
			Help: "Who gets media for which no encode worker is available: none, or a prefill worker whose label accepted_media has their type.",
			set: setEnum(func(s *Serve) *string { return &s.Sharing.EncodeFallback }, "fallback of the encode leg",
				[]string{noFallback, worker.Prefill.String()}),
		},
		{
			Name: "pd-n-mode", Kind: Scalar, Value: "MODE", Default: answersList, Group: groupLegs, In: serving,
			Help: "How SGLang legs are asked for several answers of a chat (n): as a list of rooms, or split into a request for each, for engines that refuse lists.",
			set:  setEnum(func(s *Serve) *string { return &s.Sharing.Answers }, "mode of several answers", []string{answersList, answersSplit}),
		},
		{
			Name: "pd-max-rooms-per-decode", Kind: Scalar, Value: "N", Default: "0", Group: groupLegs, In: everyProcess,
			Help: "Sequences that a decode worker gets at a time, of all gateways together; 0 for as many as it reports to run, or any number if it reports none.",
			set:  setNumber(func(s *Serve) *int { return &s.Sharing.MaxRooms }, 0, math.MaxInt32),
		},
		{
			Name: "pd-admission-wait-secs", Kind: Scalar, Value: "SECS", Default: "30", Group: groupLegs, In: serving,
			Help: "How long a request waits for a decode worker with room, before it is refused with 503; 0 refuses it at once.",
			set:  setSeconds(func(s *Serve) *time.Duration { return &s.Sharing.AdmissionWait }, 0),
		},
	}
}

// check judges the values of those flags.
func (Sharing) check(*checker) {}
