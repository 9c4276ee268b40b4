package load

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Driver keeps connections to one subject. It is for one goroutine at a time.
type Driver struct {
	cfg   Config
	send  [][]byte // requests
	epoll int
	slots []*slot
	conns []*conn // of all slots, by index
	buf   []byte
}

// Dial opens the connections.
func Dial(cfg Config) (*Driver, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("load configuration: %w", err)
	}
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("creating an epoll: %w", err)
	}
	d := &Driver{cfg: cfg, send: cfg.requests(), epoll: epoll, buf: make([]byte, 256<<10)}
	for range cfg.Connections {
		s := &slot{}
		d.slots = append(d.slots, s)
		for _, addr := range cfg.addrs() {
			c := &conn{fd: -1, index: int32(len(d.conns)), addr: addr, slot: s, answer: answer{want: cfg.Body, mark: cfg.Mark}}
			s.conns = append(s.conns, c)
			d.conns = append(d.conns, c)
			if err := d.open(c); err != nil {
				return nil, errors.Join(err, d.Close())
			}
		}
	}
	return d, nil
}

// Close ends the connections.
func (d *Driver) Close() error {
	var errs []error
	for _, c := range d.conns {
		errs = append(errs, c.close())
	}
	if d.epoll >= 0 {
		errs = append(errs, unix.Close(d.epoll))
		d.epoll = -1
	}
	return errors.Join(errs...)
}

// Open sends a request at each of the moments, counted from its begin and in
// order, and waits for the answers. A request whose moment finds all connections
// busy is sent as soon as one is free; its latency counts from the moment all the
// same. Failed exchanges are counted, not returned: the error is that of ctx, or of
// a subject that takes no more connections.
func (d *Driver) Open(ctx context.Context, moments []time.Duration) (Result, error) {
	r := d.begin(ctx, len(moments))
	r.moments = moments
	return r.run(r.sendDue)
}

// Saturate keeps every connection busy for so long and waits for the last answers.
// Errors are those of [Driver.Open].
func (d *Driver) Saturate(ctx context.Context, length time.Duration) (Result, error) {
	r := d.begin(ctx, 1<<16)
	r.length = length
	return r.run(r.sendNext)
}

// One sends a single request and returns its answer's content, that of Addr where
// several subjects are asked.
func (d *Driver) One(ctx context.Context) ([]byte, error) {
	var content []byte
	first := &d.conns[0].answer
	first.keep = &content
	defer func() { first.keep = nil }()
	res, err := d.Open(ctx, []time.Duration{0})
	if err == nil && res.Errors() > 0 {
		err = errors.New(res.Faults())
	}
	if err != nil {
		return nil, fmt.Errorf("asking %s once: %w", d.cfg.Addr, err)
	}
	return content, nil
}

// run is one run over a driver's connections.
type run struct {
	d       *Driver
	ctx     context.Context //nolint:containedctx // the run lives as long as it
	start   time.Time
	moments []time.Duration // open loop
	length  time.Duration   // closed loop
	next    int             // of moments
	free    []*slot         // first freed first
	head    int             // of free
	freed   time.Duration   // when the last request that found no connection could be sent
	busy    int
	last    time.Duration // of the answers
	res     Result
}

func (d *Driver) begin(ctx context.Context, n int) *run {
	r := &run{d: d, ctx: ctx, free: slices.Clone(d.slots)}
	r.res.Latency = make([]time.Duration, 0, n)
	r.res.FirstByte = make([]time.Duration, 0, n)
	r.res.Late = make([]time.Duration, 0, n)
	return r
}

// lookEvery is how often a run looks whether its context has ended.
const lookEvery = 50 * time.Millisecond

// run sends by means of send, which says how long to wait at most, until it has
// nothing more to send, and takes the answers.
func (r *run) run(send func(now time.Duration) (wait time.Duration, more bool)) (Result, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer preciseSleep()()
	before, err := threadCPU()
	if err != nil {
		return Result{}, err
	}
	r.start = time.Now()
	events := make([]unix.EpollEvent, len(r.d.conns))
	var deadline time.Duration
	for {
		now := r.now()
		wait, more := send(now)
		if !more {
			if r.busy == 0 {
				break
			}
			if deadline == 0 {
				deadline = now + r.d.cfg.Timeout
			}
			if now >= deadline {
				if err := r.giveUp(); err != nil {
					return Result{}, err
				}
				break
			}
		}
		if err := r.ctx.Err(); err != nil {
			return Result{}, errors.Join(fmt.Errorf("load run: %w", err), r.giveUp())
		}
		n, err := r.d.await(events, min(wait, lookEvery))
		if err != nil {
			return Result{}, err
		}
		for _, e := range events[:n] {
			if err := r.d.serve(r, r.d.conns[e.Fd], e.Events); err != nil {
				return Result{}, err
			}
		}
	}
	after, err := threadCPU()
	if err != nil {
		return Result{}, err
	}
	r.res.Own, r.res.Elapsed = after-before, r.last
	r.res.sort()
	return r.res, nil
}

func (r *run) now() time.Duration { return time.Since(r.start) }

// sendDue sends what is due, as far as connections are free.
func (r *run) sendDue(now time.Duration) (wait time.Duration, more bool) {
	for r.next < len(r.moments) {
		moment := r.moments[r.next]
		if moment > now {
			return moment - now, true
		}
		if r.head == len(r.free) {
			return lookEvery, true // until a connection is free
		}
		possible := max(moment, r.freed)
		if r.freed > moment {
			r.res.Waited++
		}
		r.next++
		sent := r.now()
		r.res.Late = append(r.res.Late, max(sent-possible, 0))
		r.send(moment)
		now = sent
	}
	return lookEvery, false
}

// sendNext sends on every free connection while there is time.
func (r *run) sendNext(now time.Duration) (wait time.Duration, more bool) {
	if now >= r.length {
		return lookEvery, false
	}
	for r.head < len(r.free) {
		r.send(r.now())
	}
	return r.length - now, true
}

// send sends on the slot that has been free for longest.
func (r *run) send(moment time.Duration) {
	s := r.free[r.head]
	r.head++
	s.moment, s.open, s.marked = moment, len(s.conns), false
	r.busy++
	request := r.d.send[r.res.Sent%len(r.d.send)]
	r.res.Sent++
	for _, c := range s.conns {
		c.answer.reset()
		c.busy, c.rest = true, request
		r.d.write(c)
	}
}

// release makes s free again.
func (r *run) release(s *slot) {
	r.busy--
	if r.head == len(r.free) {
		r.freed = r.now()
		r.free, r.head = r.free[:0], 0
	} else if r.head > len(r.d.slots) {
		r.free = append(r.free[:0], r.free[r.head:]...)
		r.head = 0
	}
	r.free = append(r.free, s)
}

// answered notes a whole answer, which may not be the last that its request gets.
func (r *run) answered(c *conn) {
	s := c.slot
	c.busy = false
	s.marked = s.marked || c.answer.marked
	if s.open--; s.open > 0 {
		return
	}
	r.last = r.now()
	r.res.Answered++
	if s.marked {
		r.res.Marked++
	}
	r.res.Latency = append(r.res.Latency, r.last-s.moment)
	r.res.FirstByte = append(r.res.FirstByte, s.first-s.moment)
	r.release(s)
}

// failed notes an exchange that went wrong, if one was under way, and replaces the
// connection, with the others of the exchange that are still in use.
func (r *run) failed(c *conn, kind error) error {
	if !c.busy {
		return r.replace(c)
	}
	r.res.fail(kind)
	r.last = r.now()
	for _, other := range c.slot.conns {
		if !other.busy {
			continue
		}
		other.busy = false
		if err := r.replace(other); err != nil {
			return err
		}
	}
	c.slot.open = 0
	r.release(c.slot)
	return nil
}

// replace exchanges a connection for a new one.
func (r *run) replace(c *conn) error {
	if err := c.close(); err != nil {
		return err
	}
	return r.d.open(c)
}

// giveUp replaces the connections whose answers have not come.
func (r *run) giveUp() error {
	for _, c := range r.d.conns {
		if c.busy {
			if err := r.failed(c, ErrNoAnswer); err != nil {
				return err
			}
		}
	}
	return nil
}
