package front

import (
	"net"
	"sync/atomic"
	"time"
)

// Config is what a [Listener] checks its connections against.
type Config struct {
	// MaxHeadBytes is the HTTP server's own limit for a head. Lines are checked up
	// to a little more, so that the server can word its refusal.
	MaxHeadBytes int
	// WriteStall ends a write that the client takes no part of for so long.
	WriteStall time.Duration
}

// Listener hands out connections that are checked as they are read.
type Listener struct {
	net.Listener
	cfg Config
}

// NewListener checks what the connections of l carry.
func NewListener(l net.Listener, cfg Config) *Listener {
	return &Listener{Listener: l, cfg: cfg}
}

// headSlack is by how much net/http lets a head exceed its limit before it answers
// 431, doubled.
const headSlack = 8 << 10

// Accept waits for the next connection, a *[Conn].
func (l *Listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &Conn{Conn: c, framing: framing{maxLine: l.cfg.MaxHeadBytes + headSlack}, stall: l.cfg.WriteStall}, nil
}

// Conn is a client's connection. Reads go through the checks: once a fault is
// found, they return it for ever, and the HTTP server answers 400 and closes.
// Writes fail once the client takes nothing of them for the stall limit.
// Everything else is the connection's own.
type Conn struct {
	net.Conn
	framing framing
	fault   error

	stall   time.Duration
	renewed atomic.Int64 // when the write deadline was moved last, Unix nanoseconds
	foreign atomic.Bool  // somebody else has set a write deadline
}

// Read is [net.Conn.Read] up to the first fault of framing. Like any connection's,
// it is called by one goroutine at a time.
func (c *Conn) Read(p []byte) (int, error) {
	if c.fault != nil {
		return 0, c.fault
	}
	n, err := c.Conn.Read(p)
	if n == 0 {
		return n, err
	}
	good, fault := c.framing.feed(p[:n])
	if fault == nil {
		return n, err
	}
	c.fault = fault
	if good > 0 {
		return good, nil
	}
	return 0, fault
}

// writePiece is the most that a client has to take within the stall limit.
const writePiece = 64 << 10

// Write is [net.Conn.Write] under a deadline that slides along with what the
// client takes.
func (c *Conn) Write(p []byte) (int, error) {
	done := 0
	for {
		c.renew()
		n, err := c.Conn.Write(p[done:min(done+writePiece, len(p))])
		if done += n; err != nil || done == len(p) {
			return done, err
		}
	}
}

// renew moves the deadline, seldom enough to cost nothing: a write gets at least
// three quarters of the limit.
func (c *Conn) renew() {
	now := time.Now()
	if c.foreign.Load() || now.UnixNano()-c.renewed.Load() < int64(c.stall/4) {
		return
	}
	c.renewed.Store(now.UnixNano())
	// A connection that takes no deadline fails the write itself.
	_ = c.Conn.SetWriteDeadline(now.Add(c.stall))
}

// SetWriteDeadline replaces the sliding deadline by t; the zero time brings the
// sliding one back.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	if !t.IsZero() {
		c.foreign.Store(true)
		return c.Conn.SetWriteDeadline(t)
	}
	// net/http does so after each answer: where nothing was replaced, nothing is
	// to be done.
	if c.foreign.Swap(false) {
		c.renewed.Store(0)
	}
	return nil
}

// CloseWrite says to the client that nothing more follows. net/http does so before
// it gives up a connection whose request it did not read, so that the client gets
// to see the answer.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// PeerGone says whether the client has closed its side, sent or unsent bytes
// notwithstanding. It may be called at any time, also where it cannot be told: the
// answer is false then.
func (c *Conn) PeerGone() bool { return peerGone(c.Conn) }
