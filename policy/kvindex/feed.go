package kvindex

import (
	"errors"
	"fmt"
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

// Batch is some events of one rank in the order of their sequence numbers.
type Batch struct {
	Seq    uint64 // counts the rank's batches; 0 is no number
	Rank   int
	Events []Event
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
	// too old a number (OutOfRange), or was too slow (DataLoss).
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
	// Of Connect: the sequence number to ask for, and how long to wait first.
	From  uint64
	After time.Duration
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
// next; the caller does it. It is not safe for concurrent use; its index is.
//
// Each rank of a worker counts its own batches. An engine can be asked for what follows
// one number, so a worker of which several ranks have spoken is asked for its present
// state once its stream has ended.
type Feed struct {
	src  *Source
	last []uint64 // of each rank: number of the last batch that was applied; 0: none
	done bool
	anew bool // the next connection tells everything, and what is known is to be dropped

	learns   bool // the next stored block teaches the block size
	failures int  // ends since the last connection
	barren   int  // connections made at once since a batch was last applied
}

// NewFeed tracks a worker in an index. Its block size is learned from its events.
func NewFeed(ix *Index, id worker.ID) *Feed {
	return &Feed{src: ix.Track(id, 0), learns: true}
}

// Begin is the first step: to connect.
func (f *Feed) Begin() Step {
	if f.done {
		return Step{Do: Stop}
	}
	return Step{Do: Connect, From: f.from()}
}

// from is the number behind which the engine is asked, 0 for its present state.
func (f *Feed) from() (seq uint64) {
	for _, last := range f.last {
		if last > 0 && seq > 0 {
			f.anew = true
			return 0
		}
		seq = max(seq, last)
	}
	return seq
}

// Connected tells that a stream is open.
func (f *Feed) Connected() {
	f.failures, f.learns = 0, true
	if f.anew {
		f.forget()
	}
}

// forget drops what the worker is known to hold, and says whether it is still there.
func (f *Feed) forget() bool {
	f.last, f.anew = nil, false
	return f.src.ClearAll() == nil
}

// Apply brings a batch into the index. A batch that was seen before is skipped. If
// batches are missing before this one, it is not applied, and the engine is asked
// at once for all behind the last good one. If that does not bring them, they are
// lost.
func (f *Feed) Apply(b *Batch, now time.Time) Step {
	if f.done {
		return Step{Do: Stop}
	}
	if b.Rank < 0 || b.Rank > MaxRank {
		return Step{Do: Read, Err: fmt.Errorf("%w: %d", ErrRank, b.Rank)}
	}
	for len(f.last) <= b.Rank {
		f.last = append(f.last, 0)
	}
	switch last := f.last[b.Rank]; {
	case last > 0 && b.Seq <= last:
		return Step{Do: Read}
	case last > 0 && b.Seq > last+1 && f.barren > 0:
		return f.startOver()
	case last > 0 && b.Seq > last+1:
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
	f.last[b.Rank], f.barren = b.Seq, 0
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
	return Step{Do: Connect, From: f.from(), After: wait(f.failures)}
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
	if !f.forget() { // it has been removed
		return f.Close()
	}
	return f.atOnce()
}

// atOnce connects without waiting, unless that was tried just now and brought nothing.
func (f *Feed) atOnce() Step {
	step := Step{Do: Connect, From: f.from()}
	if f.barren > 0 {
		step.After = wait(f.barren)
	}
	f.barren++
	return step
}

// wait is how long to wait before the n-th attempt, from 1 on.
func wait(n int) time.Duration {
	if n > 9 { // firstWait doubled nine times is beyond
		return lastWait
	}
	return min(firstWait<<(n-1), lastWait)
}
