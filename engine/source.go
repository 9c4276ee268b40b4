package engine

import (
	"errors"
	"io"
)

// Source is the body of an answer that does not come over HTTP. One goroutine uses it at
// a time.
type Source interface {
	// Next waits for bytes and returns those that are there, which the next call may
	// overwrite. At the end it returns io.EOF; other errors stay.
	Next() ([]byte, error)
	// Buffered is how many bytes, or things that bytes are made of, are there already.
	Buffered() int
	// Ended says that the whole body has been handed out.
	Ended() bool
	// Close gives up what is left.
	Close()
}

// elsewhere is what a [Response] reads from a Source.
type elsewhere struct {
	src   Source
	piece []byte // taken, and not read yet
	err   error  // that follows it
}

// ResponseOf is an answer whose body comes from src: for those who relay answers, it is
// like one that has come over HTTP. A length of -1 is not known.
func ResponseOf(status int, fields []Field, length int64, src Source) *Response {
	return &Response{Status: status, Fields: fields, ContentLength: length, other: &elsewhere{src: src}}
}

// next is what was taken before, or else what comes next.
func (e *elsewhere) next() ([]byte, error) {
	if len(e.piece) == 0 && e.err == nil {
		e.take()
	}
	if p := e.piece; len(p) > 0 {
		e.piece = nil
		return p, nil
	}
	return nil, e.err
}

// take waits for some bytes, or for the end.
func (e *elsewhere) take() {
	for len(e.piece) == 0 && e.err == nil {
		if e.src == nil {
			e.err = ErrClosed
			return
		}
		e.piece, e.err = e.src.Next()
	}
}

func (e *elsewhere) read(p []byte) (int, error) {
	piece, err := e.next()
	if err != nil {
		return 0, err
	}
	n := copy(p, piece)
	e.piece = piece[n:]
	return n, nil
}

func (e *elsewhere) buffered() int {
	if e.src == nil || e.err != nil {
		return len(e.piece)
	}
	return len(e.piece) + e.src.Buffered()
}

func (e *elsewhere) ended() bool {
	return len(e.piece) == 0 && (errors.Is(e.err, io.EOF) || e.src != nil && e.src.Ended())
}

func (e *elsewhere) close() {
	if e.src != nil {
		e.src.Close()
		e.src, e.piece, e.err = nil, nil, ErrClosed
	}
}
