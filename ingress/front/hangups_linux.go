package front

import (
	"context"
	"fmt"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// hangups hears of clients that leave, without reading: an epoll of its own that
// asks for hang-ups alone. A connection enters it once, so a request costs nothing.
type hangups struct {
	file *os.File
	poll syscall.RawConn

	mu    sync.Mutex
	conns map[uint64]*Conn // by number, as descriptors are used again
	last  uint64
}

func newHangups() (*hangups, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	// Go's poller waits for descriptors that do not block, an epoll among them.
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("preparing an epoll: %w", os.NewSyscallError("fcntl", err))
	}
	h := &hangups{file: os.NewFile(uintptr(fd), "hangups"), conns: map[uint64]*Conn{}}
	if h.poll, err = h.file.SyscallConn(); err != nil {
		return nil, err
	}
	return h, nil
}

// add has c told when its client leaves, and says whether it can be.
func (h *hangups) add(c *Conn) bool {
	sc, ok := c.under.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	h.mu.Lock()
	h.last++
	c.number = h.last
	h.conns[c.number] = c
	h.mu.Unlock()
	event := unix.EpollEvent{Events: unix.EPOLLRDHUP | unix.EPOLLET, Fd: int32(c.number), Pad: int32(c.number >> 32)}
	var ctlErr error
	if err = raw.Control(func(fd uintptr) {
		ctlErr = h.control(func(epoll uintptr) error { return unix.EpollCtl(int(epoll), unix.EPOLL_CTL_ADD, int(fd), &event) })
	}); err != nil || ctlErr != nil {
		h.drop(c)
		return false
	}
	return true
}

// control uses the epoll's descriptor, which may have been closed.
func (h *hangups) control(f func(fd uintptr) error) error {
	var err error
	if pollErr := h.poll.Control(func(fd uintptr) { err = f(fd) }); pollErr != nil {
		return pollErr
	}
	return err
}

// drop forgets c. Closing its descriptor takes it out of the epoll.
func (h *hangups) drop(c *Conn) {
	h.mu.Lock()
	delete(h.conns, c.number)
	h.mu.Unlock()
}

// run tells until ctx ends.
func (h *hangups) run(ctx context.Context) error {
	closed := make(chan struct{})
	end := func() {
		defer close(closed)
		_ = h.file.Close() // ends the wait below
	}
	stop := context.AfterFunc(ctx, end)
	defer func() {
		if stop() {
			end()
		}
		<-closed
	}()
	events := make([]unix.EpollEvent, 64)
	var err error
	pollErr := h.poll.Read(func(fd uintptr) bool {
		for {
			n, waitErr := unix.EpollWait(int(fd), events, 0)
			switch {
			case waitErr == unix.EINTR:
				continue
			case waitErr != nil:
				err = os.NewSyscallError("epoll_wait", waitErr)
				return true
			case n == 0:
				return false // the poller waits
			}
			for i := range events[:n] {
				h.tell(uint64(uint32(events[i].Fd)) | uint64(uint32(events[i].Pad))<<32)
			}
		}
	})
	switch {
	case ctx.Err() != nil:
		return nil
	case pollErr != nil:
		err = pollErr
	}
	return fmt.Errorf("listening for clients that leave: %w", err)
}

func (h *hangups) tell(number uint64) {
	h.mu.Lock()
	c := h.conns[number]
	h.mu.Unlock()
	if c != nil {
		c.hangUp()
	}
}
