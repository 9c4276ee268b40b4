package ingress

import (
	"errors"
	"io"

	"smg/engine"
)

// rewriter changes an answer of decode on its way to the client, where it needs what
// only another leg knows. What it cannot change for the better it leaves as it is.
type rewriter interface {
	// event appends to dst what the client gets in place of a whole event.
	event(dst, event []byte) []byte
	// whole is what the client gets in place of an answer that is no stream.
	whole(answer []byte) []byte
}

// source is where the bytes of an answer come from, see [engine.Response].
type source interface {
	Next() ([]byte, error)
	Ended() bool
	Buffered() int
}

// rewritten is an answer that a rewriter changes: a stream event by event, any other
// answer once it is whole. What would be too much to keep goes on unchanged.
type rewritten struct {
	*engine.Response
	by      rewriter
	buffers *buffers
	limit   int

	events bool
	frames framer
	out    []byte

	all  []byte // of an answer that is no stream
	held int64  // of the budget
	over bool   // all of it is handed out
	raw  bool   // the rest goes on unchanged
}

func (x *exchange) rewritten(resp *engine.Response, sse bool) *rewritten {
	return &rewritten{Response: resp, by: x.rewrite, buffers: &x.srv.buffers, limit: int(x.srv.cfg.MaxPayloadBytes), events: sse, frames: framer{budget: &x.srv.buffers}}
}

// Next is like that of [engine.Response].
func (w *rewritten) Next() ([]byte, error) {
	switch {
	case w.raw:
		return w.Response.Next()
	case w.events:
		return w.nextEvents()
	case w.over:
		return nil, io.EOF
	}
	return w.nextWhole()
}

func (w *rewritten) nextEvents() ([]byte, error) {
	for {
		piece, err := w.Response.Next()
		if errors.Is(err, io.EOF) {
			if left := w.frames.tail(); len(left) > 0 {
				return left, nil
			}
		}
		if err != nil {
			return nil, err
		}
		w.out = w.out[:0]
		w.frames.add(piece)
		for e, ok := w.frames.next(); ok; e, ok = w.frames.next() {
			if w.frames.raw {
				w.out = append(w.out, e...)
			} else {
				w.out = w.by.event(w.out, e)
			}
		}
		if len(w.out) > 0 {
			return w.out, nil
		}
	}
}

func (w *rewritten) nextWhole() ([]byte, error) {
	piece, err := w.Response.Next()
	if err == nil && !w.Response.Ended() {
		for err == nil {
			more := int64(len(piece))
			if len(w.all)+len(piece) > w.limit || !w.buffers.reserve(more) {
				w.raw = true
				return append(w.all, piece...), nil
			}
			w.held += more
			w.all = append(w.all, piece...)
			piece, err = w.Response.Next()
		}
		piece = w.all
		if errors.Is(err, io.EOF) {
			err = nil
		}
	}
	if err != nil {
		return nil, err
	}
	w.over = true
	return w.by.whole(piece), nil
}

// Ended is like that of [engine.Response].
func (w *rewritten) Ended() bool {
	if w.events || w.raw {
		return w.Response.Ended() && len(w.frames.held) == 0
	}
	return w.over
}

// Buffered is like that of [engine.Response].
func (w *rewritten) Buffered() int {
	if w.over {
		return 0
	}
	return w.Response.Buffered()
}

// release gives back what was kept.
func (w *rewritten) release() {
	w.buffers.release(w.held)
	w.held = 0
	w.frames.release()
}
