package front

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"time"
)

// Config is what a [Listener] checks its connections against.
type Config struct {
	// MaxHeadBytes is the HTTP server's own limit for a head. Lines are checked up
	// to a little more, so that the server can word its refusal.
	MaxHeadBytes int
	// WriteStall ends a write that the client takes no part of for so long.
	WriteStall time.Duration
	// TLS is what connections are secured by, nil for none. What is checked is what they
	// carry.
	TLS *tls.Config
	// Insecure is told of clients that no secure connection can be made with; nil is
	// nobody.
	Insecure func(client net.Addr, err error)
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
	c := &Conn{framing: framing{maxLine: l.cfg.MaxHeadBytes + headSlack}, under: inner}
	if l.cfg.TLS == nil {
		c.outward.open(inner, l.cfg.WriteStall)
	} else {
		c.secure(inner, &l.cfg)
	}
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
	outward
	framing  framing
	fault    error
	deadline deadline
	under    net.Conn   // the client's own, below TLS
	shaking  *handshake // of TLS, nil once it is over or where there is none

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
	if c.shaking != nil && (n > 0 || err != nil) {
		c.shaking.over(c, err)
	}
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
func (c *Conn) PeerGone() bool { return peerGone(c.under) }
