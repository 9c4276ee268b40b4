package ingress

import (
	"bytes"
	"errors"
	"io"
	"slices"
)

// maxEvent bounds what is kept of an event whose end has not come.
const maxEvent = 8 << 20

// border finds where events end: behind a blank line. Lines end with LF, CR or CRLF.
// It keeps its place, so that a stream can be shown to it in pieces, split anywhere.
type border struct {
	within bool // a line: its end is not that of an event
	cr     bool // the last byte was a CR, of which an LF may still come
}

// find is the length of what ends the event under way, -1 if b does not.
//
// The LF of an event that ends with CR and LF belongs to the event, unless it comes
// in another piece: then it begins the next one, which it does not change.
func (s *border) find(b []byte) int {
	for i := 0; i < len(b); i++ {
		c, cr := b[i], s.cr
		s.cr = c == '\r'
		switch {
		case c == '\n' && cr: // of a line that has ended
			continue
		case c != '\n' && c != '\r':
			s.within = true
			continue
		case s.within:
			s.within = false
			continue
		}
		if i++; c == '\r' && i < len(b) && b[i] == '\n' {
			s.cr = false
			i++
		}
		return i
	}
	return -1
}

// framer takes an event stream apart, which comes in pieces. It copies only what is
// not whole. The zero framer is at the begin of a stream.
type framer struct {
	border
	held []byte // of an event that is not whole
	rest []byte // of the last piece, unseen
	// raw says that an event was too long to be kept, or that there was no room: what comes is handed out as it
	// comes from then on, and is no event.
	raw bool

	budget *buffers // for what is kept of long events; nil is no bound but maxEvent
	taken  int64    // of it
}

// freeEvent is what is kept of an event without asking for room.
const freeEvent = 64 << 10

// afford says whether there is room for an event of n bytes.
func (f *framer) afford(n int) bool {
	more := int64(n) - freeEvent - f.taken
	switch {
	case n > maxEvent:
		return false
	case f.budget == nil || more <= 0:
		return true
	case !f.budget.reserve(more):
		return false
	}
	f.taken += more
	return true
}

// release gives the room back.
func (f *framer) release() {
	if f.taken > 0 {
		f.budget.release(f.taken)
		f.taken = 0
	}
}

// add gives it what has come, when next has nothing more. The piece must stay as it
// is until then.
func (f *framer) add(piece []byte) { f.rest = piece }

// next is the next whole event, with the line ends behind it; false when there is
// none yet. It stays as it is until the next call.
func (f *framer) next() (event []byte, ok bool) {
	if len(f.rest) == 0 {
		return nil, false
	}
	if f.raw {
		return f.tail(), true
	}
	piece := f.rest
	n := f.find(piece)
	switch {
	case n < 0 && !f.afford(len(f.held)+len(piece)):
		f.raw = true
		fallthrough
	case n < 0:
		f.rest = nil
		f.held = append(f.held, piece...)
		if f.raw {
			return f.tail(), true
		}
		return nil, false
	}
	f.rest = piece[n:]
	if len(f.held) == 0 {
		return piece[:n], true
	}
	event = append(f.held, piece[:n]...)
	f.held = event[:0]
	return event, true
}

// tail takes what is left: the begin of an event whose end has not come.
func (f *framer) tail() []byte {
	if len(f.held) == 0 {
		b := f.rest
		f.rest = nil
		return b
	}
	b := append(f.held, f.rest...)
	f.held, f.rest = nil, nil
	return b
}

// eventData is what an event says: its data lines without what marks them, joined.
// An event that says nothing has none.
func eventData(event []byte) []byte {
	var data []byte
	lines := 0
	for len(event) > 0 {
		line := event
		if i := bytes.IndexAny(event, "\r\n"); i >= 0 {
			line, event = event[:i], event[i+1:] // an LF behind a CR is an empty line
		} else {
			event = nil
		}
		value, ok := bytes.CutPrefix(line, []byte("data:"))
		if !ok {
			continue
		}
		value = bytes.TrimPrefix(value, []byte(" "))
		switch lines++; lines {
		case 1:
			data = slices.Clip(value) // no copy, in the usual case
		default:
			data = append(append(data, '\n'), value...)
		}
	}
	return data
}

// wholeEvent is the first event of a stream, if a piece has all of it.
func wholeEvent(piece []byte) []byte {
	var s border
	return piece[:max(0, s.find(piece))]
}

// firstEvent reads on until the first event of a stream is whole, or has become so
// long that it says nothing of interest. It returns what has come.
func firstEvent(resp source, piece []byte) (come []byte, event []byte, err error) {
	var s border
	if n := s.find(piece); n >= 0 {
		return piece, piece[:n], nil // the usual case
	}
	const enough = 64 << 10
	come = append(come, piece...)
	for len(come) < enough {
		if piece, err = resp.Next(); err != nil {
			if errors.Is(err, io.EOF) {
				err = nil // the next read says so again
			}
			return come, come, err
		}
		n := s.find(piece)
		before := len(come)
		if come = append(come, piece...); n >= 0 {
			return come, come[:before+n], nil
		}
	}
	return come, nil, nil
}

// hasDone says whether a piece of a stream ends it: "data: [DONE]" at the begin of a
// line, and two line ends behind it. What follows in the next piece does not count,
// nor does the begin of this one, unless it is one of a line.
func hasDone(piece []byte, atLine bool) bool {
	mark := []byte("data: [DONE]")
	for from := 0; ; {
		i := bytes.Index(piece[from:], mark)
		if i < 0 {
			return false
		}
		i += from
		from = i + len(mark)
		if i > 0 {
			atLine = endsLine(piece[i-1])
		}
		if n := lineEnd(piece[from:]); atLine && n > 0 && lineEnd(piece[from+n:]) > 0 {
			return true
		}
	}
}

func endsLine(c byte) bool { return c == '\n' || c == '\r' }

// lineEnd is the length of the line end that b begins with, 0 if there is none.
func lineEnd(b []byte) int {
	switch {
	case len(b) == 0 || !endsLine(b[0]):
		return 0
	case len(b) > 1 && b[0] == '\r' && b[1] == '\n':
		return 2
	}
	return 1
}
