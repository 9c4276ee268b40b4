package kvindex

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"smg/worker"
)

// EventKind is what an engine says of its blocks.
type EventKind uint8

// The events.
const (
	Stored  EventKind = iota + 1 // Blocks are in the cache
	Removed                      // Hashes are not any more
	Cleared                      // nothing is
)

// Event is one change of an engine's cache.
type Event struct {
	Kind EventKind

	// Of Stored: the blocks, one chained to the next, and if Chained the first to the
	// block whose hash is Parent. BlockSize is how many tokens the engine says that
	// the first has, 0 if it says nothing.
	Blocks    []Block
	Chained   bool
	Parent    uint64
	BlockSize int

	// Of Removed.
	Hashes []uint64
}

// Batch is some events of one data-parallel rank. What an engine sends besides, such
// as its load under a number that was there before, is none.
type Batch struct {
	Seq    uint64 // counts the batches of the rank
	Rank   int
	Events []Event
}

// Resume is what can be had of events that were missed.
type Resume uint8

// The ways to resume.
const (
	// ByNumber: a stream of all ranks that is asked for by one number. Asked for none,
	// it begins with what the engine holds, or with what happens next.
	ByNumber Resume = iota
	// ByRank: each rank by its own number, as far back as its engine remembers.
	ByRank
	// Never: what was missed is lost.
	Never
)

// Cursor is how far a rank has been read.
type Cursor struct {
	Rank int
	Seq  uint64 // of the last batch that was applied
}

// End is why an event stream ended.
type End uint8

// The ends.
const (
	// EndOther: closed, unreachable, or any error that is not one of the others.
	EndOther End = iota
	// EndUnimplemented: the engine publishes no events.
	EndUnimplemented
	// EndLost: the engine cannot replay what this reader has not seen: it asked for
	// too old a number (OutOfRange), or was too slow (DataLoss), or the engine has begun
	// to count anew.
	EndLost
)

// Do is what to do next with an event stream.
type Do uint8

// The next things to do.
const (
	Read    Do = iota + 1 // read the next batch of the stream
	Connect               // drop the stream, open another
	Stop                  // drop the stream, and that was it
)

// String is a word for the log.
func (d Do) String() string {
	switch d {
	case Read:
		return "read"
	case Connect:
		return "connect"
	case Stop:
		return "stop"
	}
	return "nothing"
}

// Step is what a [Feed] wants done.
type Step struct {
	Do Do
	// Of Connect: how long to wait first, and behind what to ask for events, by rank. It
	// is empty to begin anew. By number it has one cursor at most, and none at 0, which
	// stands for that.
	After time.Duration
	From  []Cursor
	// Err is what is wrong with events that were not stored, if anything is: a
	// matter for the log.
	Err error
}

// The back-off of connections.
const (
	firstWait = 100 * time.Millisecond
	lastWait  = 30 * time.Second
)

// Feed is the state of one worker's event subscription. It brings the worker's events
// into an index, and answers everything that happens to the stream with what to do
// next; the caller does it. Every rank counts its batches by itself. It is not safe for
// concurrent use; its index is.
type Feed struct {
	src    *Source
	resume Resume
	ranks  map[int]*cursor
	done   bool

	learns   bool // the next stored block teaches the block size
	failures int  // ends since the last connection
	barren   int  // connections made at once since a batch last followed on another
}

// cursor is how far a rank has been read.
type cursor struct {
	last  uint64
	asked bool // for what is missing behind it
}

// NewFeed tracks a worker in an index. Its block size is learned from its events.
func NewFeed(ix *Index, id worker.ID, resume Resume) *Feed {
	return &Feed{src: ix.Track(id, 0), resume: resume, ranks: map[int]*cursor{}, learns: true}
}

// Begin is the first step: to connect.
func (f *Feed) Begin() Step {
	if f.done {
		return Step{Do: Stop}
	}
	return f.connect(0)
}

// Connected tells that a stream is open.
func (f *Feed) Connected() {
	f.failures, f.learns = 0, true
}

// Apply brings a batch into the index. A batch that was seen before is skipped. If
// batches of its rank are missing before this one, it is not applied, and the engine
// is asked at once for all behind the last good one. If that does not bring them, or
// cannot, they are lost, and so is what the rank was known to hold.
func (f *Feed) Apply(b *Batch, now time.Time) Step {
	if f.done {
		return Step{Do: Stop}
	}
	if b.Rank < 0 || b.Rank > MaxRank {
		return Step{Do: Read, Err: fmt.Errorf("%w: %d", ErrRank, b.Rank)}
	}
	c := f.ranks[b.Rank]
	switch {
	case c == nil:
	case b.Seq <= c.last:
		return Step{Do: Read}
	case b.Seq == c.last+1:
		f.barren = 0
	case f.resume == Never || f.resume == ByRank && c.asked:
		if f.src.Clear(b.Rank) != nil { // it has been removed
			return f.Close()
		}
	case c.asked || f.resume == ByNumber && len(f.ranks) > 1:
		return f.startOver()
	default:
		c.asked = true
		return f.atOnce()
	}
	step := Step{Do: Read}
	for i := range b.Events {
		err := f.apply(b.Rank, &b.Events[i], now)
		if errors.Is(err, ErrUntracked) {
			f.done = true
			return Step{Do: Stop}
		}
		if step.Err == nil {
			step.Err = err
		}
	}
	f.ranks[b.Rank] = &cursor{last: b.Seq}
	return step
}

func (f *Feed) apply(rank int, e *Event, now time.Time) error {
	switch e.Kind {
	case Stored:
		if err := f.learn(e); err != nil || len(e.Blocks) == 0 {
			return err
		}
		if e.Chained {
			if err := f.src.Extend(rank, e.Parent, e.Blocks, now); !errors.Is(err, ErrUnknownParent) {
				return err
			}
		}
		return f.src.Store(rank, e.Blocks, now)
	case Removed:
		return f.src.Remove(rank, e.Hashes)
	case Cleared:
		return f.src.Clear(rank)
	}
	return nil // an event of a newer engine
}

// learn takes the block size from the first block of a connection.
func (f *Feed) learn(e *Event) error {
	if !f.learns || len(e.Blocks) == 0 {
		return nil
	}
	size := e.BlockSize
	if size < 1 {
		size = len(e.Blocks[0].Tokens)
	}
	if size < 1 {
		return nil // it has nothing to teach
	}
	f.learns = false
	return f.src.SetBlockSize(size)
}

// Ended tells that a stream ended or could not be opened.
func (f *Feed) Ended(why End) Step {
	switch {
	case f.done:
		return Step{Do: Stop}
	case why == EndUnimplemented:
		return f.Close()
	case why == EndLost:
		return f.startOver()
	}
	f.failures++
	return f.connect(wait(f.failures))
}

// Close ends the subscription and drops the worker's blocks, unless it has been
// tracked anew. All further steps are to stop.
func (f *Feed) Close() Step {
	f.done = true
	f.src.Drop()
	return Step{Do: Stop}
}

// startOver forgets what the worker holds and asks for its present state.
func (f *Feed) startOver() Step {
	if f.src.ClearAll() != nil { // it has been removed
		return f.Close()
	}
	clear(f.ranks)
	return f.atOnce()
}

// atOnce connects without waiting, unless that was tried just now and brought nothing.
func (f *Feed) atOnce() Step {
	after := time.Duration(0)
	if f.barren > 0 {
		after = wait(f.barren)
	}
	f.barren++
	return f.connect(after)
}

// connect asks for what is behind the cursors. What cannot be said by one number is
// not asked for: then the stream begins anew.
func (f *Feed) connect(after time.Duration) Step {
	step := Step{Do: Connect, After: after}
	for rank, c := range f.ranks {
		step.From = append(step.From, Cursor{rank, c.last})
	}
	if f.resume == ByNumber && (len(step.From) > 1 || len(step.From) == 1 && step.From[0].Seq == 0) {
		if f.src.ClearAll() != nil {
			return f.Close()
		}
		clear(f.ranks)
		step.From = nil
	}
	slices.SortFunc(step.From, func(a, b Cursor) int { return cmp.Compare(a.Rank, b.Rank) })
	return step
}

// wait is how long to wait before the n-th attempt, from 1 on.
func wait(n int) time.Duration {
	if n > 9 { // firstWait doubled nine times is beyond
		return lastWait
	}
	return min(firstWait<<(n-1), lastWait)
}
