package front

import (
	"errors"
	"os"
	"sync"
	"time"
)

// deadline is the deadline of reads. net/http moves it four times in a request, and
// hardly ever reads under it: moving the connection's own each time was 3 % of the
// gateway's CPU time. So it is kept here, and the connection's own is moved only
// for a read that it would let wait for too long. One that ends a read too early
// costs a second look.
type deadline struct {
	mu      sync.Mutex
	want    time.Time // the zero time is none
	set     time.Time // the connection's own
	reading bool
}

// SetReadDeadline is [net.Conn.SetReadDeadline]: reads that wait already obey too.
func (c *Conn) SetReadDeadline(t time.Time) error {
	d := &c.deadline
	d.mu.Lock()
	defer d.mu.Unlock()
	d.want = t
	if d.reading && d.late() {
		return c.moveDeadline()
	}
	return nil
}

// late says whether the connection's own deadline comes after the wanted one.
func (d *deadline) late() bool {
	return !d.want.IsZero() && (d.set.IsZero() || d.set.After(d.want))
}

// moveDeadline is called under the lock.
func (c *Conn) moveDeadline() error {
	c.deadline.set = c.deadline.want
	return c.socket.SetReadDeadline(c.deadline.set)
}

// read reads under the wanted deadline.
func (c *Conn) read(p []byte) (n int, err error) {
	d := &c.deadline
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.late() {
		if err := c.moveDeadline(); err != nil {
			return 0, err
		}
	}
	for {
		d.reading = true
		d.mu.Unlock()
		n, err = c.socket.Read(p)
		d.mu.Lock()
		d.reading = false
		if err == nil || n > 0 || d.set.Equal(d.want) || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		if err := c.moveDeadline(); err != nil { // it was too early
			return 0, err
		}
	}
}

// SetDeadline is [net.Conn.SetDeadline].
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}
