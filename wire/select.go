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
	Key    worker.Key
	Target string      // raw X-SMG-Target-Worker
	Tokens int64       // estimated prompt tokens, 0 when unknown
	Skip   []worker.ID // tried before: avoided while another candidate exists
	Now    time.Time   // of the asking; the selector's own clock when zero
}

// Pick is a selector's answer: a worker on which the lease is counted already.
type Pick struct {
	Worker *worker.Spec
	Epoch  uint64 // of the process behind the worker's URL, 0 when unknown
	Probe  bool   // the call probes a half-open breaker
	Policy string // the policy's name, for labels and logs
	Branch string // which of its branches decided, "" if it has none
	// Degraded says that the ingress chose by itself. It does not travel.
	Degraded bool
}
