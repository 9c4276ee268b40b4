package load

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// slot is a connection to each address: at most one request is under way on it.
type slot struct {
	conns []*conn

	moment time.Duration // that its request was meant for
	first  time.Duration // when the last of its answers began
	open   int           // answers that are not there yet
	marked bool          // one of them was
}

// conn is one connection of a slot.
type conn struct {
	fd     int
	index  int32
	addr   netip.AddrPort
	slot   *slot
	answer answer

	busy bool   // its answer is not there yet
	rest []byte // of the request
	full bool   // the socket takes no more of it now
}

// open connects c.
func (d *Driver) open(c *conn) error {
	family, addr := sockaddr(c.addr)
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("creating a socket: %w", err)
	}
	c.fd = fd
	err = errors.Join(
		os.NewSyscallError("connect", connect(fd, addr)),
		os.NewSyscallError("setsockopt", unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)),
		os.NewSyscallError("fcntl", unix.SetNonblock(fd, true)),
		os.NewSyscallError("epoll_ctl", unix.EpollCtl(d.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: c.index})),
	)
	if err != nil {
		return errors.Join(fmt.Errorf("connecting to %s: %w", c.addr, err), c.close())
	}
	c.full = false
	return nil
}

// connect waits for the connection. Signals, which the Go runtime sends itself, do
// not end the attempt.
func connect(fd int, addr unix.Sockaddr) error {
	for {
		err := unix.Connect(fd, addr)
		if !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EALREADY) {
			if errors.Is(err, unix.EISCONN) {
				return nil
			}
			return err
		}
	}
}

func sockaddr(a netip.AddrPort) (family int, addr unix.Sockaddr) {
	if ip := a.Addr().Unmap(); ip.Is4() {
		return unix.AF_INET, &unix.SockaddrInet4{Port: int(a.Port()), Addr: ip.As4()}
	}
	return unix.AF_INET6, &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
}

func (c *conn) close() error {
	if c.fd < 0 {
		return nil
	}
	fd := c.fd
	c.fd = -1
	return os.NewSyscallError("close", unix.Close(fd))
}

// write sends what the socket takes of the request. A broken connection is noticed
// by the read that its event leads to.
func (d *Driver) write(c *conn) {
	for len(c.rest) > 0 {
		n, err := unix.Write(c.fd, c.rest)
		switch {
		case err == nil:
			c.rest = c.rest[n:]
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			d.watch(c, true)
			return
		default:
			// The event of the broken connection leads to serve.
			c.rest = nil
			return
		}
	}
	d.watch(c, false)
}

// watch has c tell when its socket takes more.
func (d *Driver) watch(c *conn, full bool) {
	if c.full == full {
		return
	}
	e := unix.EpollEvent{Events: unix.EPOLLIN, Fd: c.index}
	if full {
		e.Events |= unix.EPOLLOUT
	}
	if unix.EpollCtl(d.epoll, unix.EPOLL_CTL_MOD, c.fd, &e) == nil {
		c.full = full
	}
}

// serve deals with an event of c. The error is final; what concerns c alone is
// counted.
func (d *Driver) serve(r *run, c *conn, events uint32) error {
	if events&unix.EPOLLOUT != 0 && c.busy {
		d.write(c)
	}
	if events&^unix.EPOLLOUT == 0 {
		return nil
	}
	n, err := unix.Read(c.fd, d.buf)
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
		return nil
	case err != nil || n == 0:
		return r.failed(c, ErrLost)
	case !c.busy:
		r.res.fail(ErrSurplus)
		return r.failed(c, ErrSurplus)
	}
	if !c.answer.began {
		c.slot.first = r.now()
	}
	done, fault := c.answer.feed(d.buf[:n])
	switch {
	case fault != nil:
		return r.failed(c, fault)
	case !done:
		return nil
	}
	closes := c.answer.close
	r.answered(c)
	if closes {
		return r.replace(c)
	}
	return nil
}

// awake is how long before a moment the generator stays awake instead of being
// woken: waking takes a processor that sleeps about so long.
const awake = 20 * time.Microsecond

// await waits for events until awake before wait has passed. It returns at once
// within that, so that its caller spins.
func (d *Driver) await(events []unix.EpollEvent, wait time.Duration) (int, error) {
	// epoll_wait counts in milliseconds, too coarse for moments.
	ts := unix.NsecToTimespec(int64(max(wait-awake, 0)))
	fds := [1]unix.PollFd{{Fd: int32(d.epoll), Events: unix.POLLIN}}
	if n, err := unix.Ppoll(fds[:], &ts, nil); n == 0 || errors.Is(err, unix.EINTR) {
		return 0, nil
	} else if err != nil {
		return 0, os.NewSyscallError("ppoll", err)
	}
	n, err := unix.EpollWait(d.epoll, events, 0)
	if errors.Is(err, unix.EINTR) {
		return 0, nil
	}
	return n, os.NewSyscallError("epoll_wait", err)
}

// preciseSleep lets the kernel wake this thread on time instead of up to 50 µs
// later; the function that it returns undoes that. Where it is refused, lateness
// shows it.
func preciseSleep() (undo func()) {
	if unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) != nil {
		return func() {}
	}
	return func() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0) } // 0 is the default
}

// threadCPU is what this thread has used.
func threadCPU() (time.Duration, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		return 0, os.NewSyscallError("clock_gettime", err)
	}
	return time.Duration(ts.Nano()), nil
}
