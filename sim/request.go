package sim

import (
	"errors"
	"slices"
	"time"
)

// ID names a sequence from Submit to its Done event. An engine never uses an
// ID twice.
type ID uint64

// Request is one sequence to compute.
type Request struct {
	// Label is shown in the ledger; it need not be unique.
	Label string
	// PromptTokens must be at least 1.
	PromptTokens int
	// OutputTokens is the exact length of the answer. The engine is told it
	// beforehand because answers are decided elsewhere; 0 computes the prompt
	// only, as an embedding does.
	OutputTokens int
	// Handover says whether the KV of the sequence comes from or goes to another
	// engine.
	Handover Handover
	// Blocks are the hashes of the full blocks of prompt and output, in order.
	// Blocks without a hash are neither found in nor added to the cache.
	Blocks []BlockHash
}

// Handover is what happens to the KV of a sequence besides being computed.
type Handover uint8

// The zero Handover computes the KV here and frees it at the end.
const (
	// Keep: nothing leaves or enters the engine.
	Keep Handover = iota
	// Send: when all is computed the sequence is Ready. It then keeps its
	// blocks, outside the batch, until Transfer has sent them or it is aborted.
	Send
	// Receive: on admission the sequence gets blocks for its prompt and then
	// waits, outside the batch, for Deliver.
	Receive
)

// Errors of Submit.
var (
	// ErrQueueFull says that MaxQueue requests are waiting.
	ErrQueueFull = errors.New("the waiting queue is full")
	// ErrTooLong says that prompt and output can never fit.
	ErrTooLong = errors.New("the sequence is longer than the engine can hold")
	// ErrEmpty says that the request has no prompt.
	ErrEmpty = errors.New("the prompt is empty")
)

// EventKind says what happened to a sequence.
type EventKind uint8

// The life of a sequence is Admitted, Token…, Done; a Preempted is followed by
// another Admitted. One that is sent is Ready before it is Done. An aborted
// sequence may be Done at any point.
const (
	// Admitted: the sequence left the queue. Cached tells its prefix hits.
	Admitted EventKind = iota + 1
	// Token: one more output token. Tokens is the count so far.
	Token
	// Preempted: the sequence lost its KV blocks and waits again.
	Preempted
	// Ready: all is computed, and the KV waits to be sent.
	Ready
	// Done: the last event of the sequence.
	Done
)

// Event is something that happened at a moment of the engine's time.
type Event struct {
	ID      ID
	Kind    EventKind
	At      time.Duration
	Tokens  int  // output tokens so far
	Cached  int  // prompt tokens found in the prefix cache at first admission
	Aborted bool // of Done: ended by Abort
}

// sequence is a request with its progress. It holds blocks while it runs:
// the shared ones first, in prompt order, then the private ones.
type sequence struct {
	id        ID
	req       Request
	arrived   time.Duration
	estimate  int // uncached prompt tokens, as known on arrival
	admitted  bool
	cached    int // prompt tokens found in the cache at first admission
	generated int
	computed  int // tokens whose KV is stored
	scheduled int // tokens being computed by the current iteration
	shared    []*block
	private   int
	preempted int // times

	delivered bool          // of Receive: its KV has come, or never will
	asked     time.Duration // of Send: when Transfer was called
	sentAt    time.Duration // of Send on the line: when the transfer ends
}

// total counts the tokens known so far. The KV of all of them is needed for
// the next token.
func (s *sequence) total() int { return s.req.PromptTokens + s.generated }

// remaining counts the tokens to compute before the next output token: 1 in
// decode, more in prefill.
func (s *sequence) remaining() int { return s.total() - s.computed }

func (s *sequence) decoding() bool { return s.generated > 0 && s.remaining() == 1 }

// incomplete reports whether anything is left to compute.
func (s *sequence) incomplete() bool {
	return s.generated < s.req.OutputTokens || s.computed < s.req.PromptTokens
}

// awaitsKV reports whether the KV of the prompt is still to come from another
// engine.
func (s *sequence) awaitsKV() bool { return s.req.Handover == Receive && !s.delivered }

func (s *sequence) blocks() int { return len(s.shared) + s.private }

// release returns all blocks. Later blocks go first, so that they are evicted
// before the ones they build upon.
func (s *sequence) release(p *pool) {
	for _, b := range slices.Backward(s.shared) {
		p.drop(b)
	}
	p.give(s.private)
	s.shared, s.private, s.computed, s.scheduled = nil, 0, 0, 0
}

// share publishes the private blocks that computed tokens have filled.
func (s *sequence) share(p *pool, blockSize int) {
	full := min(s.computed/blockSize, len(s.req.Blocks))
	for i := len(s.shared); i < full; i++ {
		s.shared = append(s.shared, p.publish(s.req.Blocks[i]))
		s.private--
	}
}
