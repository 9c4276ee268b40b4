package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// The kinds of failure that callers branch on. Everything that [Client.Send]
// and [Response] return matches exactly one of them under [errors.Is].
var (
	// ErrConnect: no connection came about (refused, no route, name not
	// found, TLS, connect timeout). The engine has seen nothing.
	ErrConnect = errors.New("could not connect")
	// ErrNoAnswer: the connection ended before the first byte of an answer.
	// The engine may have seen the request. Error.Reused tells a pooled
	// connection, which it may have closed while idle, from a fresh one.
	ErrNoAnswer = errors.New("connection ended before any answer")
	// ErrProtocol: the answer is not strict HTTP/1.x.
	ErrProtocol = errors.New("malformed answer")
	// ErrHeadTooLarge: the head of the answer exceeds Config.MaxHeadBytes.
	ErrHeadTooLarge = errors.New("head of the answer too large")
	// ErrBroken: the answer ended before its end. It also matches
	// [io.ErrUnexpectedEOF].
	ErrBroken = errors.New("answer broken off")
	// ErrCanceled: the caller's context ended. It also matches what
	// ctx.Err() and [context.Cause] say.
	ErrCanceled = errors.New("request given up")
	// ErrRequest: the request cannot be sent as it is (a line break in a
	// field, a path with a blank). Nothing was sent.
	ErrRequest = errors.New("invalid request")
	// ErrClosed: the client or the response was closed before.
	ErrClosed = errors.New("closed")
)

// Error is the failure of one exchange with an engine.
type Error struct {
	Kind   error  // one of the sentinels of this package
	Target string // base URL of the engine
	Reused bool   // the connection came out of the pool
	Err    error  // what happened, may be nil
}

// Error implements error.
func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("engine %s: %v", e.Target, e.Kind)
	}
	return fmt.Sprintf("engine %s: %v: %v", e.Target, e.Kind, e.Err)
}

// Unwrap lets [errors.Is] see both the kind and the cause.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Err}
}

// framingError is a violation of the protocol, found by the parsers, which
// know no target.
type framingError string

func (e framingError) Error() string { return string(e) }

// errHeadTooLarge is the parser's word for ErrHeadTooLarge.
const errHeadTooLarge = framingError("head too large")

// canceled words the end of ctx.
func canceled(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// fail turns what went wrong with an answer into an Error. started says that
// a byte of the answer had arrived.
func (cn *conn) fail(err error, started bool) error {
	e := &Error{Target: cn.pool.name, Reused: cn.reused, Err: err}
	var framing framingError
	switch {
	case cn.ctx.Err() != nil:
		e.Kind, e.Err = ErrCanceled, canceled(cn.ctx)
	case cn.late.Load():
		e.Kind, e.Err = ErrBroken, cn.errLate()
	case errors.Is(err, errHeadTooLarge):
		e.Kind, e.Err = ErrHeadTooLarge, nil
	case errors.As(err, &framing):
		e.Kind = ErrProtocol
	case !started:
		e.Kind = ErrNoAnswer
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		e.Kind, e.Err = ErrBroken, io.ErrUnexpectedEOF
	default:
		e.Kind, e.Err = ErrBroken, fmt.Errorf("%w: %w", io.ErrUnexpectedEOF, err)
	}
	return e
}
