package front

import (
	"net"
	"sync/atomic"
	"time"
)

// outward is a socket whose writes fail once the client takes nothing of them for the
// stall limit.
type outward struct {
	socket
	stall   time.Duration // 0 leaves it to the connection below
	renewed atomic.Int64  // when the write deadline was moved last, Unix nanoseconds
	foreign atomic.Bool   // somebody else has set a write deadline
}

func (o *outward) open(c net.Conn, stall time.Duration) {
	o.stall = stall
	o.socket.open(c)
}

// writePiece is the most that a client has to take within the stall limit.
const writePiece = 64 << 10

// Write is [net.Conn.Write] under a deadline that slides along with what the
// client takes.
func (o *outward) Write(p []byte) (int, error) {
	done := 0
	for {
		o.renew()
		n, err := o.socket.Write(p[done:min(done+writePiece, len(p))])
		if done += n; err != nil || done == len(p) {
			return done, err
		}
	}
}

// renew moves the deadline, seldom enough to cost nothing: a write gets at least
// three quarters of the limit.
func (o *outward) renew() {
	if o.stall == 0 {
		return
	}
	now := time.Now()
	if o.foreign.Load() || now.UnixNano()-o.renewed.Load() < int64(o.stall/4) {
		return
	}
	o.renewed.Store(now.UnixNano())
	// A connection that takes no deadline fails the write itself.
	_ = o.Conn.SetWriteDeadline(now.Add(o.stall))
}

// SetWriteDeadline replaces the sliding deadline by t; the zero time brings the
// sliding one back.
func (o *outward) SetWriteDeadline(t time.Time) error {
	if !t.IsZero() {
		o.foreign.Store(true)
		return o.Conn.SetWriteDeadline(t)
	}
	// net/http does so after each answer: where nothing was replaced, nothing is
	// to be done.
	if o.foreign.Swap(false) {
		o.renewed.Store(0)
		if o.stall == 0 {
			return o.Conn.SetWriteDeadline(t) // to who has the sliding one
		}
	}
	return nil
}
