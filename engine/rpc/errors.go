package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"smg/engine"
)

// httpStatus is what an engine would have answered over HTTP.
func httpStatus(c codes.Code) int {
	switch c {
	case codes.OK:
		return http.StatusOK
	case codes.InvalidArgument, codes.FailedPrecondition, codes.OutOfRange, codes.Canceled:
		return http.StatusBadRequest
	case codes.Unauthenticated:
		return http.StatusUnauthorized
	case codes.PermissionDenied:
		return http.StatusForbidden
	case codes.NotFound:
		return http.StatusNotFound
	case codes.AlreadyExists, codes.Aborted:
		return http.StatusConflict
	case codes.ResourceExhausted:
		return http.StatusTooManyRequests
	case codes.Unimplemented:
		return http.StatusNotImplemented
	case codes.Unavailable:
		return http.StatusServiceUnavailable
	case codes.DeadlineExceeded:
		return http.StatusGatewayTimeout
	case codes.Unknown, codes.Internal, codes.DataLoss:
	}
	return http.StatusInternalServerError
}

// failure turns the error of a call into one of package engine's. ctx is the caller's.
func (t *Target) failure(ctx context.Context, s *seen, err error) error {
	st := status.Convert(err)
	e := &engine.Error{Target: t.url, Reused: s.reused, Err: errors.New(st.Message())}
	switch code := st.Code(); {
	case ctx.Err() != nil:
		e.Kind, e.Err = engine.ErrCanceled, canceled(ctx)
	case code == codes.DeadlineExceeded && isUp(ctx): // whoever looked at the clock first
		e.Kind, e.Err = engine.ErrCanceled, context.DeadlineExceeded
	case s.decided.Load():
		return &engine.Refused{Target: t.url, Status: httpStatus(code), Code: code.String(), Message: st.Message()}
	case !s.sent.Load() && code == codes.Unavailable:
		e.Kind = engine.ErrConnect
		if _, last := t.conn.failed(0); last != nil {
			e.Err = last
		}
	case !s.sent.Load() && code == codes.ResourceExhausted: // larger than we may send
		e.Kind = engine.ErrRequest
	case code == codes.ResourceExhausted, code == codes.Internal, code == codes.Unknown, code == codes.Unimplemented:
		// A message that is too large or none, a frame that cannot be, an answer that is
		// not gRPC's.
		e.Kind = engine.ErrProtocol
	case !s.heard.Load():
		e.Kind = engine.ErrNoAnswer
	default:
		e.Kind, e.Err = engine.ErrBroken, fmt.Errorf("%w: %s", io.ErrUnexpectedEOF, st.Message())
	}
	return e
}

// canceled words the end of ctx.
func canceled(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// unconnected is why there is no connection.
func (t *Target) unconnected(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return &engine.Error{Kind: engine.ErrCanceled, Target: t.url, Err: canceled(ctx)}
	}
	if errors.Is(err, engine.ErrClosed) {
		return &engine.Error{Kind: engine.ErrClosed, Target: t.url}
	}
	return &engine.Error{Kind: engine.ErrConnect, Target: t.url, Err: err}
}

// isUp says whether the deadline of ctx is there, or as good as that.
func isUp(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) < 100*time.Millisecond
}
