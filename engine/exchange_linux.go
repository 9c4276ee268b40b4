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
	cn.raw = raw
	cn.flight.step = cn.flight.run
	return nil
}

// run is called by the poller, at once and then whenever the socket is
// readable; true ends the flight.
func (f *flight) run(fd uintptr) bool {
	if f.waiting {
		return f.receive(int(fd))
	}
	var probe [1]byte
	n, err := readOnce(int(fd), probe[:])
	if errnoOf(err) == unix.EAGAIN {
		return f.transmit(int(fd))
	}
	f.stale, f.got = true, n
	return true
}

// transmit writes without waiting.
func (f *flight) transmit(fd int) (over bool) {
	n, err := writeOnce(fd, f.head, f.body)
	if err != nil && errnoOf(err) != unix.EAGAIN {
		f.writeErr = os.NewSyscallError("write", err)
	}
	f.sent, f.waiting = n, true
	return f.writeErr != nil || f.sent < len(f.head)+len(f.body)
}

func (f *flight) receive(fd int) (over bool) {
	n, err := readOnce(fd, f.into)
	switch {
	case err == nil && n == 0:
		f.readErr = io.EOF
	case err == nil:
		f.got = n
	case errnoOf(err) == unix.EAGAIN:
		return false
	default:
		f.readErr = os.NewSyscallError("read", err)
	}
	return true
}

// exchange sends the request. When it went out whole, the first bytes of the
// answer are in the reader on return; otherwise the rest is on its way.
func (cn *conn) exchange(head, body []byte) error {
	if cn.tls != nil {
		return cn.exchangeBlocking(head, body)
	}
	f := &cn.flight
	*f = flight{step: f.step, head: head, body: body, into: cn.rd.buf}
	err := cn.raw.Read(f.step)
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
	if rawErr := cn.raw.Read(peek); rawErr != nil {
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

// readOnce, writeOnce and errnoOf are about descriptors that never block.
func readOnce(fd int, p []byte) (int, error) {
	for {
		n, err := unix.Read(fd, p)
		if errnoOf(err) != unix.EINTR {
			return max(n, 0), err
		}
	}
}

func writeOnce(fd int, head, body []byte) (n int, err error) {
	for {
		if len(body) == 0 {
			n, err = unix.Write(fd, head)
		} else {
			n, err = unix.Writev(fd, [][]byte{head, body})
		}
		if errnoOf(err) != unix.EINTR {
			return max(n, 0), err
		}
	}
}

// errnoOf spares the hot path the walk of errors.Is: a system call returns
// its number bare. It is 0 for nil.
func errnoOf(err error) unix.Errno {
	errno, _ := err.(unix.Errno) //nolint:errorlint // never wrapped
	return errno
}
