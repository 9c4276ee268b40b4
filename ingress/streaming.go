package ingress

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// upload is the body of a request on its way to a worker, which nobody reads. It is an
// [engine.Request.Stream]: Read and Close are called by the engine's client, each on a
// goroutine of its own, that have ended when the call has.
type upload struct {
	x    *exchange
	r    *http.Request
	from io.Reader

	small []byte // all of it, in the chunked coding, where it is gathered first

	steps   atomic.Uint32 // what has come
	reading atomic.Bool   // the client is waited for
	stalled atomic.Bool   // for too long
	closed  atomic.Bool   // nobody wants more
	whole   atomic.Bool   // all has come
	failed  atomic.Pointer[error]

	// Of the sweep alone.
	lastSteps uint32
	lastMove  time.Time
}

func newUpload(x *exchange, r *http.Request) *upload { return &upload{x: x, r: r, from: r.Body} }

// Read implements [io.Reader].
func (u *upload) Read(p []byte) (int, error) {
	u.steps.Add(1)
	u.reading.Store(true)
	n, err := u.from.Read(p)
	u.reading.Store(false)
	switch {
	case errors.Is(err, io.EOF):
		u.whole.Store(true)
	case err != nil && !u.closed.Load():
		u.failed.CompareAndSwap(nil, &err)
	}
	return n, err
}

// Close implements [io.Closer]: it ends a Read, for good.
func (u *upload) Close() error {
	u.closed.Store(true)
	if !u.whole.Load() {
		u.x.watch.release((*http.ResponseController).SetReadDeadline)
	}
	return nil
}

// look is the sweep's.
func (u *upload) look(w *watch, now time.Time, stall time.Duration) {
	steps := u.steps.Load()
	if !u.reading.Load() || steps != u.lastSteps || u.lastMove.IsZero() {
		u.lastSteps, u.lastMove = steps, now
		return
	}
	switch {
	case w.ctx.Err() != nil:
	case stall > 0 && now.Sub(u.lastMove) >= stall:
		u.stalled.Store(true)
	default:
		return
	}
	w.release((*http.ResponseController).SetReadDeadline)
}

// gather reads a body of n bytes whole, into small. It returns what it took from the
// budget, also on error.
func (u *upload) gather(n int64) (held int64, err error) {
	b := &u.x.srv.buffers
	if !b.reserve(n) {
		u.partial()
		forsake(u.x.w, u.r)
		return 0, exhaustedBudget("request bodies")
	}
	const frame = "\r\n0\r\n\r\n"
	buf := fmt.Appendf(b.get(n+int64(len(frame))+8), "%x\r\n", n)
	from := len(buf)
	buf = buf[:from+int(n)]
	if _, err := io.ReadFull(u, buf[from:]); err != nil {
		b.put(buf)
		u.failed.CompareAndSwap(nil, &err)
		return n, u.fault()
	}
	u.whole.Store(true)
	u.small = append(buf, frame...)
	return n, nil
}

// fault is what the client is to blame for, nil if nothing. It can be called on no
// upload.
func (u *upload) fault() error {
	if u == nil || u.failed.Load() == nil {
		return nil
	}
	return u.x.unreadable(*u.failed.Load(), u.stalled.Load(), u.x.srv.cfg.Upload.Stall)
}

// partial closes the connection of a client whose body has not come whole, behind the
// answer: what is left of it must not be taken for a request. On HTTP/2 a stream ends by
// itself.
func (u *upload) partial() {
	if u != nil && !u.whole.Load() && u.r.ProtoMajor == 1 {
		u.x.w.Header().Set("Connection", "close")
	}
}

// unfinished says whether something of the body has not come yet.
func (u *upload) unfinished() bool { return u != nil && !u.whole.Load() }
