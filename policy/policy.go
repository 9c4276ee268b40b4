// Package policy decides which worker of a pool gets a request. Each policy is a
// file of its own behind the one contract [Policy]; [New] makes one by name.
//
// A policy hashes and matches first, without a lock, and then lets the pool take:
// choosing, counting and crediting are one step. Policies know the pool and the
// request's routing inputs. They do not know who fills the pool, which leg it
// serves, how a request travels, or what an HTTP header is.
package policy

import "smg/worker"

// Policy chooses a worker of pool. It is safe for concurrent use and keeps nothing
// of req. The error is one of package worker's: ErrNoWorkers, ErrOverloaded,
// ErrUnavailable or ErrDeclined, possibly wrapped.
type Policy interface {
	Pick(req *Request, pool *worker.Pool) (Decision, error)
}

// Forgetter is a Policy with state per worker, told when one is removed.
type Forgetter interface {
	Forget(id worker.ID)
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
	// counter's label; "" for policies without branches.
	Branch string
}
