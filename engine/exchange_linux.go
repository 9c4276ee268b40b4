package engine

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// flight is one exchange up to the first bytes of the answer, on the bare
// socket, inside a single [syscall.RawConn.Read]. That call first clears the
// poller's memory of readiness, and sleeps only when step says so. The read
// that a client must do anyway before it may sleep is done before the
// request is written, and so tells for free whether the pooled connection
// ended or holds bytes nobody asked for: read, write, sleep, read.
type flight struct {
	raw  syscall.RawConn
	step func(fd uintptr) bool // bound once

	head, body []byte
	into       []byte // where the answer goes
	waiting    bool   // the request is out

	sent     int
	writeErr error
	got      int
	readErr  error
	stale    bool
}

func (cn *conn) open() error {
	sc, ok := cn.tcp.(syscall.Conn)
	if !ok {
		return errors.New("connection without a descriptor")
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return err
	}
	cn.flight.raw, cn.flight.step = raw, cn.flight.run
	if cn.tls == nil {
		cn.rd.src = &cn.flight
	}
	return nil
}

// run is called by the poller, at once and then whenever the socket is
// readable; true ends the flight.
func (f *flight) run(fd uintptr) bool {
	if f.waiting {
		return f.receive(int(fd))
	}
	var probe [1]byte
	n, errno := readOnce(int(fd), probe[:])
	if errno == unix.EAGAIN {
		return f.transmit(int(fd))
	}
	f.stale, f.got = true, n
	return true
}

// transmit writes without waiting.
func (f *flight) transmit(fd int) (over bool) {
	f.waiting = true
	for total := len(f.head) + len(f.body); f.sent < total; {
		inHead := min(f.sent, len(f.head))
		n, errno := writeOnce(fd, f.head[inHead:], f.body[f.sent-inHead:])
		if errno == unix.EAGAIN {
			return true
		}
		if errno != 0 {
			f.writeErr = os.NewSyscallError("write", errno)
			return true
		}
		f.sent += n
	}
	return false
}

func (f *flight) receive(fd int) (over bool) {
	n, errno := readOnce(fd, f.into)
	switch {
	case errno == unix.EAGAIN:
		return false
	case errno != 0:
		f.readErr = os.NewSyscallError("read", errno)
	case n == 0:
		f.readErr = io.EOF
	}
	f.got = n
	return true
}

// exchange sends the request. When it went out whole, the first bytes of the
// answer are in the reader on return; otherwise the rest is on its way.
func (cn *conn) exchange(head, body []byte) error {
	if cn.tls != nil {
		return cn.exchangeBlocking(head, body)
	}
	f := &cn.flight
	*f = flight{raw: f.raw, step: f.step, head: head, body: body, into: cn.rd.buf[:min(len(cn.rd.buf), maxOnce)]}
	err := f.raw.Read(f.step)
	f.head, f.body, f.into = nil, nil, nil
	switch {
	case err != nil:
		return err
	case f.stale:
		cn.rd.seen = f.got > 0
		return errStale
	case f.writeErr != nil:
		// It may have answered before it closed: the reader will tell.
		cn.writeErr = f.writeErr
	case f.sent < len(head):
		// The answer is read into the buffer that holds the head.
		cn.upload = startUpload(cn.tcp, append([]byte(nil), head[f.sent:]...), body)
	case f.sent < len(head)+len(body):
		cn.upload = startUpload(cn.tcp, body[f.sent-len(head):])
	default:
		cn.rd.w, cn.rd.err = f.got, f.readErr
		cn.rd.seen = f.got > 0
		cn.rd.full = f.got == len(cn.rd.buf)
	}
	return nil
}

// quiet says that an idle connection neither ended nor got bytes.
func (cn *conn) quiet() bool {
	var n int
	var err error
	peek := func(fd uintptr) bool {
		var probe [1]byte
		n, _, err = unix.Recvfrom(int(fd), probe[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		return true
	}
	if rawErr := cn.flight.raw.Read(peek); rawErr != nil {
		return false
	}
	if cn.tls == nil {
		return errors.Is(err, unix.EAGAIN)
	}
	if !errors.Is(err, unix.EAGAIN) {
		// Session tickets may wait behind a handshake; the first answer
		// takes them along. Only the peer can have made them.
		return err == nil && n > 0 && !cn.answered
	}
	return cn.drained()
}

// drained says that no decrypted byte waits inside the TLS layer. A deadline
// that has passed keeps it from the socket.
func (cn *conn) drained() bool {
	if cn.tcp.SetReadDeadline(time.Unix(1, 0)) != nil {
		return false
	}
	var probe [1]byte
	n, err := cn.tls.Read(probe[:])
	if cn.tcp.SetReadDeadline(time.Time{}) != nil {
		return false
	}
	return n == 0 && errors.Is(err, os.ErrDeadlineExceeded)
}

// Read is [io.Reader] for what comes after the first bytes of the answer.
func (f *flight) Read(p []byte) (int, error) {
	f.into, f.got, f.readErr, f.waiting = p[:min(len(p), maxOnce)], 0, nil, true
	err := f.raw.Read(f.step)
	f.into = nil
	if err == nil {
		err = f.readErr
	}
	return f.got, err
}

// maxOnce bounds a system call, during which the scheduler cannot interrupt.
const maxOnce = 64 << 10

// readOnce and writeOnce are one system call on a descriptor that does not block.
// Go's scheduler is not told of it: there is no wait to be told of, and telling
// wakes its monitor thread for the first call after each moment of idleness, which
// then looks around every 20 µs. At 2,000 small requests a second that was a tenth
// of the gateway's CPU time.
func readOnce(fd int, p []byte) (int, unix.Errno) {
	for {
		n, errno := rawRead(fd, p)
		if errno != unix.EINTR {
			return n, errno
		}
	}
}

// writeOnce writes the first bytes of head and body together.
func writeOnce(fd int, head, body []byte) (int, unix.Errno) {
	head = head[:min(len(head), maxOnce)]
	body = body[:min(len(body), maxOnce-len(head))]
	for {
		n, errno := rawWrite(fd, head, body)
		if errno != unix.EINTR {
			return n, errno
		}
	}
}
