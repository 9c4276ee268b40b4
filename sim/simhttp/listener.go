package simhttp

import (
	"fmt"
	"net"
	"sync"
)

// door is a listener that can be shut so that the kernel refuses connections,
// and opened again at the same address.
type door struct {
	addr string

	mu     sync.Mutex
	inner  net.Listener  // nil while shut
	opened chan struct{} // closed when inner changes or the door is gone
	gone   bool
	resets int // connections to reset on arrival
}

func newDoor(l net.Listener) *door {
	return &door{addr: l.Addr().String(), inner: l, opened: make(chan struct{})}
}

// Accept implements net.Listener. While the door is shut it waits.
func (d *door) Accept() (net.Conn, error) {
	for {
		d.mu.Lock()
		inner, opened, gone := d.inner, d.opened, d.gone
		d.mu.Unlock()
		if gone {
			return nil, net.ErrClosed
		}
		if inner == nil {
			<-opened
			continue
		}
		c, err := inner.Accept()
		if err != nil {
			d.mu.Lock()
			shut := d.inner != inner && !d.gone
			d.mu.Unlock()
			if shut {
				continue
			}
			return nil, err
		}
		if d.takeReset() {
			reset(c)
			continue
		}
		return c, nil
	}
}

func (d *door) takeReset() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.resets == 0 {
		return false
	}
	d.resets--
	return true
}

// reset closes c so that its peer reads a connection reset.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

func (d *door) setResets(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.resets = n
}

// shut closes the listener until open is called.
func (d *door) shut() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.inner == nil {
		return nil
	}
	err := d.inner.Close()
	d.inner = nil
	return err
}

// set shuts or opens the door.
func (d *door) set(shut bool) error {
	if shut {
		return d.shut()
	}
	return d.open()
}

func (d *door) open() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.inner != nil || d.gone {
		return nil
	}
	l, err := net.Listen("tcp", d.addr)
	if err != nil {
		return fmt.Errorf("listen again: %w", err)
	}
	d.inner = l
	close(d.opened)
	d.opened = make(chan struct{})
	return nil
}

// Close implements net.Listener.
func (d *door) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.gone {
		return nil
	}
	d.gone = true
	close(d.opened)
	if d.inner == nil {
		return nil
	}
	return d.inner.Close()
}

// Addr implements net.Listener.
func (d *door) Addr() net.Addr {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.inner != nil {
		return d.inner.Addr()
	}
	return doorAddr(d.addr)
}

type doorAddr string

func (doorAddr) Network() string  { return "tcp" }
func (a doorAddr) String() string { return string(a) }
