package worker

import (
	"fmt"
	"strings"
)

// Leg is the part of a request that a worker serves. A plan has one or more legs.
type Leg uint8

// The legs. Regular workers serve a request whole.
const (
	Regular Leg = iota
	Encode
	Prefill
	Decode
)

var legNames = [...]string{"regular", "encode", "prefill", "decode"}

// String is the leg's name in flags, labels and subjects.
func (l Leg) String() string {
	if int(l) < len(legNames) {
		return legNames[l]
	}
	return fmt.Sprintf("leg(%d)", uint8(l))
}

// ParseLeg is the inverse of [Leg.String].
func ParseLeg(s string) (Leg, error) {
	for i, n := range legNames {
		if s == n {
			return Leg(i), nil
		}
	}
	return 0, fmt.Errorf("unknown leg %q: want one of %s", s, strings.Join(legNames[:], ", "))
}

// Mode is how a worker is spoken to.
type Mode uint8

// The connection modes. HTTP covers https, GRPC covers grpcs.
const (
	HTTP Mode = iota
	GRPC
)

// String is the mode's name in labels and answers.
func (m Mode) String() string {
	if m == GRPC {
		return "grpc"
	}
	return "http"
}

// Runtime names the engine behind a worker.
type Runtime string

// The runtimes that registration can detect. An engine that speaks the OpenAI
// API and is neither of the named ones is Generic.
const (
	SGLang  Runtime = "sglang"
	VLLM    Runtime = "vllm"
	Generic Runtime = "generic"
)

// Status is a worker's place in its life. Only Ready workers are chosen.
type Status uint8

// The statuses, as GET /workers shows them.
const (
	Pending Status = iota
	Ready
	NotReady
	Failed
	Draining
)

var statusNames = [...]string{"pending", "ready", "not_ready", "failed", "draining"}

// String is the status as GET /workers shows it.
func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return fmt.Sprintf("status(%d)", uint8(s))
}
