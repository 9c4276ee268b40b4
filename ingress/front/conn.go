package front

import (
	"context"
	"net"
	"sync"
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

// Listener hands out connections that are checked as they are read, and that tell
// when their client leaves while [Listener.Run] runs.
type Listener struct {
	net.Listener
	cfg     Config
	hangups *hangups // nil if clients cannot be heard leaving
}

// NewListener checks what the connections of l carry. Whoever makes one runs it.
func NewListener(l net.Listener, cfg Config) *Listener {
	h, err := newHangups()
	if err != nil {
		h = nil // the HTTP server's own watching has to do
	}
	return &Listener{Listener: l, cfg: cfg, hangups: h}
}

// Run tells the connections whose client leaves, until ctx ends: later than the last
// of their requests. On an error, clients that leave are noticed no more.
func (l *Listener) Run(ctx context.Context) error {
	if l.hangups == nil {
		return nil
	}
	return l.hangups.run(ctx)
}

// headSlack is by how much net/http lets a head exceed its limit before it answers
// 431, doubled.
const headSlack = 8 << 10

// Accept waits for the next connection, a *[Conn].
func (l *Listener) Accept() (net.Conn, error) {
	inner, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &Conn{framing: framing{maxLine: l.cfg.MaxHeadBytes + headSlack}, stall: l.cfg.WriteStall}
	c.socket.open(inner)
	if l.hangups != nil && l.hangups.add(c) {
		c.hangups = l.hangups
	}
	return c, nil
}

// Conn is a client's connection. Reads go through the checks: once a fault is
// found, they return it for ever, and the HTTP server answers 400 and closes.
// Writes fail once the client takes nothing of them for the stall limit. It tells
// the exchange under way when the client leaves. One goroutine at a time may read,
// and one write; the rest is safe for concurrent use.
type Conn struct {
	socket
	framing  framing
	fault    error
	deadline deadline

	stall   time.Duration
	renewed atomic.Int64 // when the write deadline was moved last, Unix nanoseconds
	foreign atomic.Bool  // somebody else has set a write deadline

	hangups  *hangups // nil if nobody tells when the client leaves
	number   uint64   // in hangups
	mu       sync.Mutex
	gone     bool
	exchange Exchange
}

// Read is [net.Conn.Read] up to the first fault of framing.
//
// While a handler runs, net/http reads one byte of what follows the request, in
// order to notice that the client leaves. Where hangups notice it, that read has
// nothing to do and returns nothing, as a Reader may; waiting in it and being woken
// from it was 7 % of the gateway's CPU time at 2,000 small requests a second. No
// other read asks for one byte between two requests: net/http reads heads and bodies
// into buffers whose last byte is free only within one.
func (c *Conn) Read(p []byte) (int, error) {
	if c.fault != nil {
		return 0, c.fault
	}
	if c.hangups != nil && len(p) == 1 && c.framing.between() {
		return 0, nil
	}
	n, err := c.read(p)
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
		n, err := c.socket.Write(p[done:min(done+writePiece, len(p))])
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

// Exchange is a request under way on a connection.
type Exchange interface {
	// ClientGone is called when the client has closed its side. It must neither
	// wait nor use the connection.
	ClientGone()
}

// Begin has e told when the client leaves, at once if it has left, until End. It
// says whether that will be: where it is false, only the HTTP server can tell.
func (c *Conn) Begin(e Exchange) bool {
	if c.hangups == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.exchange = e
	if c.gone {
		e.ClientGone()
	}
	return true
}

// End ends what Begin began: the exchange is told nothing after it.
func (c *Conn) End() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.exchange = nil
}

func (c *Conn) hangUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
	if c.exchange != nil {
		c.exchange.ClientGone()
	}
}

// Close is [net.Conn.Close].
func (c *Conn) Close() error {
	if c.hangups != nil {
		c.hangups.drop(c)
	}
	return c.Conn.Close()
}

// PeerGone says whether the client has closed its side, sent or unsent bytes
// notwithstanding. It may be called at any time, also where it cannot be told: the
// answer is false then.
func (c *Conn) PeerGone() bool { return peerGone(c.Conn) }
