package flags

import (
	"math"
	"time"
)

// Admission is how many requests are served at the same time, and who waits.
type Admission struct {
	// MaxConcurrent is how many requests run at the same time, -1 any number.
	MaxConcurrent int
	// QueueSize is how many more wait for their turn, each for up to QueueTimeout.
	QueueSize    int
	QueueTimeout time.Duration
	// RatePerSecond is how many requests may begin in a second, after the first
	// MaxConcurrent ones; 0 is no limit of that kind.
	RatePerSecond int
}

// admissionTable defines the flags of [Admission].
func admissionTable() []Def {
	return []Def{
		{
			Name: "max-concurrent-requests", Kind: Scalar, Value: "N", Default: "-1", Group: groupRequests, In: serving, Dashed: true,
			Help: "Requests that run at the same time, their streams included; -1 is any number.",
			set:  setNumber(func(s *Serve) *int { return &s.Admission.MaxConcurrent }, math.MinInt32, math.MaxInt32),
		},
		{
			Name: "queue-size", Kind: Scalar, Value: "N", Default: "100", Group: groupRequests, In: serving,
			Help: "Requests that wait for their turn; 0 refuses at once what is too many.",
			set:  setNumber(func(s *Serve) *int { return &s.Admission.QueueSize }, 0, math.MaxInt32),
		},
		{
			Name: "queue-timeout-secs", Kind: Scalar, Value: "SECS", Default: "60", Group: groupRequests, In: serving,
			Help: "How long a request waits for its turn.",
			set:  setSeconds(func(s *Serve) *time.Duration { return &s.Admission.QueueTimeout }, 0),
		},
		{
			Name: "rate-limit-tokens-per-second", Kind: Scalar, Value: "N", Default: "0", Group: groupRequests, In: serving,
			Help: "Requests that may begin in a second, after --max-concurrent-requests at once; 0 is no such limit.",
			set:  setNumber(func(s *Serve) *int { return &s.Admission.RatePerSecond }, math.MinInt32, 1_000_000),
		},
	}
}
