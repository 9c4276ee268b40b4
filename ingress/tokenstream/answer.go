// Package tokenstream reads the answers that engines give in tokens to the prompts of one
// request, all at the same time, and hands out what is made of them as bytes, as if they
// came from one engine over HTTP. It waits, and it holds memory; what the bytes are is
// decided by package tokenreply. It does not know who made the calls, nor leases.
package tokenstream

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"smg/engine"
	"smg/engine/rpc"
	"smg/ingress/tokenreply"
)

// Stream is an engine's answer to one prompt, see [rpc.Stream].
type Stream interface {
	Next() (rpc.Piece, error)
	Buffered() int
	Close()
}

var _ Stream = (*rpc.Stream)(nil)

// Budget is what answers that are kept may take. It is safe for concurrent use.
type Budget interface {
	Reserve(bytes int64) bool
	Release(bytes int64)
}

// ErrNoRoom says that the budget has no room for an answer.
var ErrNoRoom = errors.New("no room for the answer")

const (
	enough   = 64 << 10 // bytes that are handed out at once, more or less
	roomStep = 64 << 10 // by which room is asked for
)

// Answer is the answer to a request. It belongs to one goroutine, and must be closed.
type Answer struct {
	reply   *tokenreply.Reply
	streams []Stream
	left    []bool // streams that were closed before their end
	ends    []int  // of choices, that each stream has told
	open    int    // streams that have not ended
	budget  Budget
	room    int64 // taken of it

	seen bool // next is what is said next
	next message
	out  []byte
	err  error // it stays
	over bool  // all is handed out

	// Of several streams: one goroutine each, which end with Close.
	readers sync.WaitGroup
	said    chan message
	gone    chan struct{}
}

// message is what a stream has said.
type message struct {
	from  int
	piece rpc.Piece
	err   error
}

// New reads streams, of which there is one for each prompt of reply, in their order. They
// are closed with the answer. budget may be nil.
func New(reply *tokenreply.Reply, streams []Stream, budget Budget) *Answer {
	a := &Answer{reply: reply, streams: streams, left: make([]bool, len(streams)), ends: make([]int, len(streams)), open: len(streams), budget: budget, gone: make(chan struct{})}
	if len(streams) > 1 {
		a.said = make(chan message)
		for i := range streams {
			a.readers.Go(func() { a.read(i) })
		}
	}
	return a
}

// read hands on what a stream says, up to its end.
func (a *Answer) read(i int) {
	for {
		piece, err := a.streams[i].Next()
		select {
		case a.said <- message{i, piece, err}:
		case <-a.gone:
			return
		}
		if err != nil {
			return
		}
	}
}

// Await waits until an engine has said something, and takes nothing of it. The error is
// what it was, if it was one: nothing of the answer has been handed out then.
func (a *Answer) Await() error {
	if a.seen || a.err != nil || a.over {
		return a.err
	}
	switch m := a.wait(); {
	case errors.Is(m.err, io.EOF):
		a.err = a.endless(m.from)
	case m.err != nil:
		a.err = m.err
	default:
		a.next, a.seen = m, true
	}
	return a.err
}

// Next waits for something of the answer, and returns all of it that is there: whole
// events of a stream, or all of any other answer. The bytes are overwritten by the next
// call. At the end it returns [io.EOF]. Other errors are those of the streams, ErrNoRoom,
// or an [engine.Error] where engines keep to no protocol; they stay.
func (a *Answer) Next() ([]byte, error) {
	if a.over {
		return nil, io.EOF
	}
	a.out = a.out[:0]
	for a.err == nil && !a.over && (len(a.out) == 0 || len(a.out) < enough && a.ready()) {
		a.err = a.take(a.wait())
	}
	if len(a.out) > 0 { // the error is said next
		return a.out, nil
	}
	return nil, a.err
}

// Ended says that all has been handed out.
func (a *Answer) Ended() bool { return a.over }

// Buffered is how many bytes are there for certain: none, since Next leaves none.
func (a *Answer) Buffered() int { return 0 }

// Sent says that the request has gone out whole.
func (a *Answer) Sent() bool { return true }

// Close ends the streams that have not ended, and waits until they are not read any more.
func (a *Answer) Close() {
	select {
	case <-a.gone:
		return
	default:
	}
	close(a.gone)
	for _, s := range a.streams {
		s.Close()
	}
	a.readers.Wait()
	if a.budget != nil {
		a.budget.Release(a.room)
	}
}

// wait is the next thing that any stream says.
func (a *Answer) wait() message {
	switch {
	case a.seen:
		a.seen = false
		return a.next
	case a.said != nil:
		return <-a.said
	}
	piece, err := a.streams[0].Next()
	return message{0, piece, err}
}

// ready says whether wait would not wait.
func (a *Answer) ready() bool {
	if a.said == nil {
		return a.streams[0].Buffered() > 0
	}
	if !a.seen {
		select {
		case a.next = <-a.said:
			a.seen = true
		default:
		}
	}
	return a.seen
}

// take takes what a stream has said.
func (a *Answer) take(m message) error {
	i := m.from
	switch {
	case a.left[i]: // what came before it was closed, or that it was
		return nil
	case errors.Is(m.err, io.EOF):
		if !a.reply.PromptDone(i) {
			return a.endless(i)
		}
		a.ended()
		return nil
	case m.err != nil:
		return m.err
	}
	var err error
	if a.out, err = a.reply.Append(a.out, i, &m.piece); err != nil {
		return &engine.Error{Kind: engine.ErrProtocol, Err: err}
	}
	if m.piece.Done {
		a.ends[i]++
	}
	if a.reply.PromptDone(i) && a.ends[i] < a.reply.N() {
		// There was a stop string that the engine has not seen.
		a.left[i] = true
		a.streams[i].Close()
		a.ended()
	}
	return a.afford()
}

// endless is the error of a stream that has ended before its answer.
func (a *Answer) endless(i int) error {
	return &engine.Error{Kind: engine.ErrBroken, Err: fmt.Errorf("%w: the answer to prompt %d has no end", io.ErrUnexpectedEOF, i)}
}

// ended counts a stream that has ended. With the last one the answer has.
func (a *Answer) ended() {
	if a.open--; a.open == 0 {
		a.out = a.reply.AppendEnd(a.out)
		a.over = true
	}
}

// afford asks for room for what the reply keeps.
func (a *Answer) afford() error {
	if a.budget == nil {
		return nil
	}
	held := int64(a.reply.Held())
	if a.over || held <= a.room {
		return nil
	}
	more := held - a.room + roomStep
	if !a.budget.Reserve(more) {
		return ErrNoRoom
	}
	a.room += more
	return nil
}
