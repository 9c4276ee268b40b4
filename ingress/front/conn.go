package front

import "net"

// Listener hands out connections that are checked as they are read.
type Listener struct {
	net.Listener
	maxLine int
}

// NewListener checks what the connections of l carry. maxHeadBytes bounds a line
// of a head; the head as a whole is bounded by the HTTP server.
func NewListener(l net.Listener, maxHeadBytes int) *Listener {
	return &Listener{Listener: l, maxLine: maxHeadBytes}
}

// Accept waits for the next connection, a *[Conn].
func (l *Listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &Conn{Conn: c, framing: framing{maxLine: l.maxLine}}, nil
}

// Conn is a client's connection. Reads go through the checks; everything else is
// the connection's own. Once a fault is found, reads return it for ever, and the
// HTTP server answers 400 and closes.
type Conn struct {
	net.Conn
	framing framing
	fault   error
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

// PeerGone says whether the client has closed its side, sent or unsent bytes
// notwithstanding. It may be called at any time, also where it cannot be told: the
// answer is false then.
func (c *Conn) PeerGone() bool { return peerGone(c.Conn) }
