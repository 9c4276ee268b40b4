package wire

import (
	"errors"
	"time"

	"smg/worker"
)

// ErrSelectionUnavailable is the answer when no selector replica can be asked.
var ErrSelectionUnavailable = errors.New("no selector answers")

// ErrQueued is a selector's first answer to a [Select] that waits: another follows,
// unless the lease is ended before.
var ErrQueued = errors.New("the request waits for a worker")

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

	// Fit narrows who may be picked, nil does not. Units is how many sequences the
	// lease counts, 0 is one.
	Fit   *worker.Fit
	Units int
	// Wait is how long the select may wait for a worker that has room, 0 is not at all:
	// see [ErrQueued]. Those of higher Priority are served first. Tenant is whose
	// request it is.
	Wait     time.Duration
	Priority int
	Tenant   string
	// Dry has the worker named and counts nothing.
	Dry bool

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
	// Matched is how many tokens of the prompt the worker is known to hold.
	Matched int64
	// Degraded says that the ingress chose by itself. It does not travel.
	Degraded bool
}
