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
	"time"

	"smg/policy/kvindex"
	"smg/worker"
)

// ErrInvalidTarget is a [Request.Target] that is no index of an available worker.
// It always comes wrapped together with [worker.ErrDeclined].
var ErrInvalidTarget = errors.New("invalid target worker")

// Policy chooses a worker of pool. It is safe for concurrent use, keeps nothing of
// req and changes nothing of it but what Seen points to. The error is one of package
// worker's: ErrNoWorkers, ErrOverloaded, ErrUnavailable or ErrDeclined, possibly
// wrapped.
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

// LoadReader is a Policy that may read what workers report of their load. The answer
// never changes; a policy that leans on another one gives the other's.
type LoadReader interface {
	ReadsLoads() bool
}

// EventReader is a Policy that follows what engines say of their KV caches. Events is
// where the events of a model's workers go, nil if it does not after all. It may be
// another one once no worker of the model is tracked. It is safe for concurrent use.
type EventReader interface {
	Events(model string) *kvindex.Index
}

// Undoer is a Policy with state that a choice changes. Undo takes back what the
// choice for lease changed, as far as nobody has built on it: the call never got to
// its worker. A lease that is unknown, or was long ago, changes nothing. It is safe
// for concurrent use.
type Undoer interface {
	Undo(lease worker.LeaseID)
}

// Ticker is a Policy with state that time changes. Tick is called a few times a
// second, by one goroutine at a time.
type Ticker interface {
	Tick(now time.Time)
}

// Ender is a Policy that shows something of itself. End is called once it is not asked
// any more.
type Ender interface{ End() }

// Request is what a policy may read of a request. Which parts are filled depends
// on what the policy says that it reads.
type Request struct {
	// Ask is handed to the pool: the lease to count, and whom to avoid. Its Tokens
	// are set by the policy.
	Ask worker.Ask
	// Keys are the routing keys.
	Keys worker.Keys
	// Target is the raw value of a request for a worker by index, "" if none.
	Target string
	// Text is the prompt, cut at 256 KiB; Chars is how many characters the whole has.
	Text  string
	Chars int64
	// TokenIDs are the prompt's tokens, cut at 64 Ki; Tokens is how many the whole
	// has, 0 when they are not known.
	TokenIDs []uint32
	Tokens   int64
	// Namespace is the cache partition, 0 for none: what is cached for one is of no
	// use to another.
	Namespace uint64
	// Seen, if not nil, gets what was compared where a score decides.
	Seen *Shortlist
}

// Size is how long the prompt is: in tokens if they are known, else in characters.
func (r *Request) Size() int64 {
	if r.Tokens > 0 {
		return r.Tokens
	}
	return r.Chars
}

// ask is what the pool is asked. The worker that is taken is credited with the
// prompt's tokens, or with mean where they are not known.
func (r *Request) ask(mean int64) worker.Ask {
	ask := r.Ask
	if ask.Tokens = r.Tokens; ask.Tokens <= 0 {
		ask.Tokens = mean
	}
	return ask
}

// Decision is what a policy chose and how.
type Decision struct {
	worker.Taken
	// Branch is which of the policy's branches decided, in the words of its
	// counter's label; "" for policies without branches. It is set with an error
	// too.
	Branch string
	// Matched is how many of the prompt's tokens the worker is known to hold.
	Matched int64
}

// Inputs is a set of the parts of a request that are read to choose a worker. A
// selector is sent only those.
type Inputs uint8

// The inputs.
const (
	// ReadsKey: the routing-key header and the target.
	ReadsKey Inputs = 1 << iota
	// ReadsSize: how long the prompt is.
	ReadsSize
	// ReadsTokens: the prompt's token ids.
	ReadsTokens
	// ReadsText: the prompt's text.
	ReadsText
	// ReadsImplicitKey: headers that serve as a key where there is none.
	ReadsImplicitKey
	// ReadsPinnedKey: the key of policy manual.
	ReadsPinnedKey
	// ReadsConversationKey: the keys of sticky sessions, of header and body.
	ReadsConversationKey
	// NeedsText: without the text, or tokens in its place, the policy cannot do what it
	// is for.
	NeedsText

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
	for i, name := range [...]string{"key", "size", "tokens", "text", "implicit key", "pinned key", "conversation key", "needs text"} {
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

// ReadsLoads says whether p reads what workers report of their load.
func ReadsLoads(p Policy) bool {
	r, ok := p.(LoadReader)
	return ok && r.ReadsLoads()
}

// url is the chosen worker as logs show it.
func (d *Decision) url() string {
	if d.Worker == nil {
		return "none"
	}
	return d.Worker.Spec.URL
}
