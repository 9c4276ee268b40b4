package flags

import (
	"math"
	"time"
)

// Requests is how requests are told apart, which web pages may send them, and which
// bodies are passed on without being read.
type Requests struct {
	// CORSOrigins are the origins whose pages may use the API, none for any.
	CORSOrigins []string
	// RequestIDHeaders are lower-case header names, the first present one is a request's
	// id.
	RequestIDHeaders []string
	// MaxBuffered is the size in bytes up to which bodies are kept for another attempt.
	// Larger ones are passed on as they come, where nobody needs to read them.
	// MaxBufferedSet says that the user chose it.
	MaxBuffered    int64
	MaxBufferedSet bool
	// BodyStall ends a body that is passed on and brings no byte for so long; 0 is no
	// limit.
	BodyStall time.Duration
}

// requestTable defines the flags of [Requests].
func requestTable() []Def {
	return []Def{
		{
			Name: "cors-allowed-origins", Kind: List, Value: "ORIGIN...", Group: groupRequests, In: serving,
			Help: "Origins whose web pages may use the API, such as https://chat.example.org; any without it.",
			set: func(s *Serve, v string) error {
				s.Requests.CORSOrigins = append(s.Requests.CORSOrigins, v)
				return nil
			},
			clear: func(s *Serve) { s.Requests.CORSOrigins = nil },
		},
		{
			Name: "request-id-headers", Kind: List, Value: "NAME...", Group: groupRequests, In: serving,
			Help:  "Request headers that may hold the request's id, the first one present is read (x-request-id, x-correlation-id, x-trace-id, request-id).",
			set:   addHeader(func(s *Serve) *[]string { return &s.Requests.RequestIDHeaders }),
			clear: func(s *Serve) { s.Requests.RequestIDHeaders = []string{} },
		},
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
