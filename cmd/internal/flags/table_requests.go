package flags

import (
	"math"
	"time"
)

// Requests is how requests are told apart, which web pages may send them, and which
// bodies are passed on without being read.
type Requests struct {
	// MaxBuffered is the size in bytes up to which bodies are kept for another attempt.
	// Larger ones are passed on as they come, where nobody needs to read them.
	MaxBuffered int64
	// BodyStall ends a body that is passed on and brings no byte for so long; 0 is no
	// limit.
	BodyStall time.Duration
}

// requestTable defines the flags of [Requests].
func requestTable() []Def {
	return []Def{
		{
			Name: "max-buffered-request-bytes", Kind: Scalar, Value: "BYTES", Default: "1048576", Group: groupRequests, In: serving,
			Help: "Largest request body that is kept for a retry; larger ones are passed on unread where no policy needs their text.",
			set:  setNumber(func(s *Serve) *int64 { return &s.Requests.MaxBuffered }, 0, math.MaxInt64),
		},
		{
			Name: "stream-body-stall-timeout-secs", Kind: Scalar, Value: "SECS", Default: "300", Group: groupRequests, In: serving,
			Help: "How long a client may pause in a body that is passed on unread; 0 is any time.",
			set:  setSeconds(func(s *Serve) *time.Duration { return &s.Requests.BodyStall }, 0),
		},
	}
}
