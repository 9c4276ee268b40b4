// Package policy decides which worker of a pool gets a request. Each policy is a
// file of its own behind the one contract [Policy]; [New] makes one by name, and a
// [Book] knows which one answers for which model.
//
// A policy hashes and matches first, without a lock, and then lets the pool take:
// choosing, counting and crediting are one step. Policies know the pool and the
// request's routing inputs. They do not know who fills the pool, which leg it
// serves, how a request travels, or what an HTTP header is.
//
// Lock order: a pool's lock, then a policy's own. A policy that holds its own lock
// never calls a pool.
package policy

import (
	"errors"
	"strings"

	"smg/worker"
)

// ErrInvalidTarget is a [Request.Target] that is no index of an available worker.
// It always comes wrapped together with [worker.ErrDeclined].
var ErrInvalidTarget = errors.New("invalid target worker")

// Policy chooses a worker of pool. It is safe for concurrent use and keeps nothing
// of req. The error is one of package worker's: ErrNoWorkers, ErrOverloaded,
// ErrUnavailable or ErrDeclined, possibly wrapped.
type Policy interface {
	Pick(req *Request, pool *worker.Pool) (Decision, error)
}

// Forgetter is a Policy with state per worker, told when one is removed. Forget is
// safe for concurrent use, with Pick too.
type Forgetter interface {
	Forget(id worker.ID)
}

// Reader is a Policy that reads something of a request. The answer never changes.
type Reader interface {
	Reads() Inputs
}

// Request is what a policy may read of a request. Which parts are filled depends
// on what the policy says that it reads.
type Request struct {
	// Ask is handed to the pool: the lease to count, and whom to avoid.
	Ask worker.Ask
	// Key is the routing key, or the zero Key.
	Key worker.Key
	// Target is the raw value of a request for a worker by index, "" if none.
	Target string
}

// Decision is what a policy chose and how.
type Decision struct {
	worker.Taken
	// Branch is which of the policy's branches decided, in the words of its
	// counter's label; "" for policies without branches. It is set with an error
	// too.
	Branch string
}

// Inputs is a set of the parts of a request that are read to choose a worker. A
// selector is sent only those.
type Inputs uint8

// The inputs.
const (
	// ReadsKey: the routing key and the target.
	ReadsKey Inputs = 1 << iota
	// ReadsSize: how long the prompt is.
	ReadsSize
	// ReadsTokens: the prompt's token ids.
	ReadsTokens
	// ReadsText: the prompt's text.
	ReadsText

	// ReadsNothing is the empty set.
	ReadsNothing Inputs = 0
)

// Has says whether every input of part is in the set.
func (in Inputs) Has(part Inputs) bool { return in&part == part }

// String lists the inputs, separated by "+", or is "nothing".
func (in Inputs) String() string {
	if in == ReadsNothing {
		return "nothing"
	}
	var names []string
	for i, name := range [...]string{"key", "size", "tokens", "text"} {
		if in.Has(1 << i) {
			names = append(names, name)
		}
	}
	return strings.Join(names, "+")
}

// Reads is what p reads of a request.
func Reads(p Policy) Inputs {
	if r, ok := p.(Reader); ok {
		return r.Reads()
	}
	return ReadsNothing
}
