package front

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
)

// socket reads and writes a connection's socket by system calls that Go's scheduler
// is not told of. They never wait, and so need no telling; told, the scheduler wakes
// its monitor thread for the first call after each moment of idleness, and that
// thread then looks around every 20 µs. At 2,000 small requests a second it was a
// tenth of the gateway's CPU time (package engine does the same, for the same
// reason). Waiting is the poller's, and deadlines are the connection's own.
//
// One goroutine at a time may read, and one write.
type socket struct {
	net.Conn
	raw     syscall.RawConn // nil if there is no socket
	in, out transfer
}

// transfer is one read or write under way.
type transfer struct {
	step func(fd uintptr) bool // bound once: one for each call would be an allocation
	p    []byte
	n    int
	err  error
}

// maxTransfer bounds a system call, during which the scheduler cannot interrupt.
const maxTransfer = 64 << 10

func (s *socket) open(c net.Conn) {
	s.Conn = c
	sc, ok := c.(syscall.Conn)
	if !ok {
		return
	}
	if raw, err := sc.SyscallConn(); err == nil {
		s.raw = raw
		s.in.step, s.out.step = s.in.read, s.out.write
	}
}

// Read is [net.Conn.Read].
func (s *socket) Read(p []byte) (int, error) {
	if s.raw == nil || len(p) == 0 {
		return s.Conn.Read(p)
	}
	return s.in.run(s.raw.Read, p[:min(len(p), maxTransfer)], "read")
}

// Write is [net.Conn.Write].
func (s *socket) Write(p []byte) (int, error) {
	if s.raw == nil || len(p) == 0 {
		return s.Conn.Write(p)
	}
	return s.out.run(s.raw.Write, p, "write")
}

func (t *transfer) run(poll func(func(uintptr) bool) error, p []byte, op string) (int, error) {
	t.p, t.n, t.err = p, 0, nil
	err := poll(t.step)
	t.p = nil
	if err == nil {
		err = t.err
	}
	if err == nil || errors.Is(err, io.EOF) {
		return t.n, err
	}
	// net/http knows the errors of a connection by their Op.
	if e := new(net.OpError); errors.As(err, &e) {
		err = e.Err
	}
	return t.n, &net.OpError{Op: op, Net: "tcp", Err: err}
}

// read is called by the poller whenever the socket may have bytes; true ends it.
func (t *transfer) read(fd uintptr) bool {
	n, errno := readNow(fd, t.p)
	switch {
	case errno == syscall.EAGAIN:
		return false
	case errno != 0:
		t.err = os.NewSyscallError("read", errno)
	case n == 0:
		t.err = io.EOF
	}
	t.n = n
	return true
}

// write is called by the poller whenever the socket may have room; true ends it.
func (t *transfer) write(fd uintptr) bool {
	for t.n < len(t.p) {
		n, errno := writeNow(fd, t.p[t.n:min(t.n+maxTransfer, len(t.p))])
		switch {
		case errno == syscall.EAGAIN:
			return false
		case errno != 0:
			t.err = os.NewSyscallError("write", errno)
			return true
		}
		t.n += n
	}
	return true
}
