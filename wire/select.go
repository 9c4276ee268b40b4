package wire

import (
	"errors"
	"time"

	"smg/worker"
)

// ErrSelectionUnavailable is the answer when no selector replica can be asked.
var ErrSelectionUnavailable = errors.New("no selector answers")

// Select asks a leg's selector for one worker. All but Now travels.
type Select struct {
	Lease  worker.LeaseID
	Model  string // canonical id or alias, "" for a request that names no model
	Keys   worker.Keys
	Target string      // raw X-SMG-Target-Worker
	Skip   []worker.ID // tried before: avoided while another candidate exists

	// Text is the prompt as the policies see it, cut at MaxText; Chars is how many
	// characters it has in truth.
	Text  string
	Chars int64
	// TokenIDs are the prompt's tokens, cut at MaxTokenIDs; Tokens is how many there
	// are in truth, 0 when they are not known. Text is not sent beside them.
	TokenIDs []uint32
	Tokens   int64
	// Namespace is the request's cache partition, 0 for none: prompts of different
	// ones never share what is cached.
	Namespace uint64

	Now time.Time // of the asking; the selector's own clock when zero
}

// Most of a prompt that is looked at.
const (
	MaxText     = 256 << 10 // bytes
	MaxTokenIDs = 64 << 10
)

// Pick is a selector's answer: a worker on which the lease is counted already.
type Pick struct {
	Worker *worker.Spec
	Epoch  uint64 // of the process behind the worker's URL, 0 when unknown
	Probe  bool   // the call probes a half-open breaker
	Policy string // the policy's name, for labels and logs
	Branch string // which of its branches decided, "" if it has none
	Tokens int64  // credited to the worker
	// Degraded says that the ingress chose by itself. It does not travel.
	Degraded bool
}
