package ingress

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// PermitsConfig is how many requests are served at the same time, and who waits.
type PermitsConfig struct {
	// Max is how many requests of the API run at the same time, their answers' bodies
	// included; -1 is any number.
	Max int
	// Queue is how many more wait for their turn, each for up to Wait.
	Queue int
	Wait  time.Duration
	// Rate is how many requests may begin in a second, after the first Max ones; 0 is
	// no limit of that kind. With it Max does not bound how many run.
	Rate int
}

// DefaultPermits is that of a gateway that was given no flags.
func DefaultPermits() PermitsConfig { return PermitsConfig{Max: -1, Queue: 100, Wait: time.Minute} }

// Validate reports every value out of range, each by its flag.
func (c PermitsConfig) Validate() error {
	var errs []error
	if c.Max < 1 && c.Max != -1 {
		errs = append(errs, fmt.Errorf("--max-concurrent-requests must be at least 1, or -1 for any number, not %d", c.Max))
	}
	if c.Queue < 0 {
		errs = append(errs, fmt.Errorf("--queue-size must not be negative, not %d", c.Queue))
	}
	if c.Queue > 0 && c.Wait <= 0 {
		errs = append(errs, errors.New("--queue-timeout-secs must be greater than 0"))
	}
	if c.Rate < 0 {
		errs = append(errs, fmt.Errorf("--rate-limit-tokens-per-second must not be negative, not %d", c.Rate))
	}
	return errors.Join(errs...)
}

// Why there is no permit.
var (
	errQueueFull    = errors.New("the queue is full")
	errQueueTimeout = errors.New("the wait took too long")
)

// permits hands out who may run, strictly in the order of coming: what becomes free goes
// to whoever has waited longest, and nobody who comes later is served before. It is safe
// for concurrent use.
type permits struct {
	cfg     PermitsConfig
	metrics *httpMetrics
	now     func() time.Time

	mu    sync.Mutex
	free  int       // that nobody has; with a rate: as of at
	at    time.Time // when free was right, with a rate
	first *waiter   // of the queue
	last  *waiter
	queue int         // its length
	next  *time.Timer // of the first waiter's permit, with a rate
}

// waiter is a request in the queue.
type waiter struct {
	admitted   chan struct{} // closed once it has a permit
	prev, next *waiter
	has        bool // a permit; guarded by permits.mu
}

// newPermits is nil where nothing is limited.
func newPermits(cfg PermitsConfig, m *httpMetrics, now func() time.Time) *permits {
	if cfg.Max < 0 {
		return nil
	}
	return &permits{cfg: cfg, metrics: m, now: now, free: cfg.Max, at: now()}
}

// take returns once the caller may run, who then calls give. The error is errQueueFull,
// errQueueTimeout or that of ctx.
func (p *permits) take(ctx context.Context) error {
	w, err := p.enter()
	if err != nil {
		p.metrics.refused.WithLabelValues(queueFull).Inc()
		p.metrics.limited.WithLabelValues(limitRejected).Inc()
		return err
	}
	if w != nil {
		if err = p.wait(ctx, w); errors.Is(err, errQueueTimeout) {
			p.metrics.refused.WithLabelValues(queueTimeout).Inc()
			p.metrics.limited.WithLabelValues(limitRejected).Inc()
		}
		if err != nil {
			return err
		}
	}
	p.metrics.limited.WithLabelValues(limitAllowed).Inc()
	p.metrics.inflight.Inc()
	return nil
}

// enter takes a permit that is free, or a place in the queue.
func (p *permits) enter() (*waiter, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refill()
	switch {
	case p.first == nil && p.free > 0:
		p.free--
		return nil, nil
	case p.queue >= p.cfg.Queue:
		return nil, errQueueFull
	}
	w := &waiter{admitted: make(chan struct{}), prev: p.last}
	if p.last == nil {
		p.first = w
	} else {
		p.last.next = w
	}
	p.last = w
	p.queue++
	p.metrics.queued.Inc()
	p.arm()
	return w, nil
}

// wait waits for the permit of one who is in the queue.
func (p *permits) wait(ctx context.Context, w *waiter) error {
	t := time.NewTimer(p.cfg.Wait)
	defer t.Stop()
	select {
	case <-w.admitted:
		return nil
	case <-t.C:
		return p.leave(w, errQueueTimeout)
	case <-ctx.Done():
		return p.leave(w, ctx.Err())
	}
}

// leave takes one out of the queue, and returns why. One whose time was up just when he
// was admitted is admitted; one who has gone leaves the permit to the next.
func (p *permits) leave(w *waiter, why error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !w.has:
		p.unlink(w)
	case errors.Is(why, errQueueTimeout):
		return nil
	default:
		p.free++
		p.admit()
	}
	return why
}

// give gives back what take has returned nil for.
func (p *permits) give() {
	p.metrics.inflight.Dec()
	if p.cfg.Rate > 0 {
		return // permits come with time alone
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free++
	p.admit()
}

// admit gives what is free to those who have waited longest. p.mu is held.
func (p *permits) admit() {
	for p.first != nil && p.free > 0 {
		w := p.first
		p.free--
		p.unlink(w)
		w.has = true
		close(w.admitted)
	}
	p.arm()
}

// unlink takes one out of the queue. p.mu is held.
func (p *permits) unlink(w *waiter) {
	if w.prev == nil {
		p.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		p.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next = nil, nil
	p.queue--
	p.metrics.queued.Dec()
}

// refill adds the permits that time has brought, whole ones alone. p.mu is held.
func (p *permits) refill() {
	if p.cfg.Rate == 0 {
		return
	}
	every := time.Second / time.Duration(p.cfg.Rate)
	n := p.now().Sub(p.at) / every
	if n <= 0 {
		return
	}
	if p.free += int(min(n, time.Duration(p.cfg.Max))); p.free >= p.cfg.Max {
		p.free, p.at = p.cfg.Max, p.now()
		return
	}
	p.at = p.at.Add(n * every)
}

// arm sees that the first in the queue is admitted when the next permit comes. p.mu is
// held.
func (p *permits) arm() {
	if p.cfg.Rate == 0 || p.first == nil || p.next != nil {
		return
	}
	every := time.Second / time.Duration(p.cfg.Rate)
	p.next = time.AfterFunc(p.at.Add(every).Sub(p.now()), func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.next = nil
		p.refill()
		p.admit()
	})
}

// retryRefused is when somebody may come back who got no permit.
const retryRefused = 2 * time.Second

// takePermit waits for the request's turn, or refuses it.
func (x *exchange) takePermit(*http.Request) error {
	p := x.srv.permits
	if p == nil || x.route.class != classAPI {
		return nil
	}
	err := p.take(&x.ctx)
	switch {
	case err == nil:
		x.permitted = true
		return nil
	case errors.Is(err, errQueueFull):
		no := gatewayProblem(http.StatusTooManyRequests, "admission_queue_full",
			"%d requests run and %d wait, which is all that may (--max-concurrent-requests, --queue-size): try again later", p.cfg.Max, p.cfg.Queue)
		no.retryAfter = retryRefused
		return no
	case errors.Is(err, errQueueTimeout):
		no := gatewayProblem(http.StatusServiceUnavailable, "admission_queue_timeout",
			"the request's turn has not come within %v (--queue-timeout-secs): try again later", p.cfg.Wait)
		no.retryAfter = retryRefused
		return no
	}
	return contextProblem(&x.ctx, "the request's turn was awaited")
}

// givePermit gives back what takePermit took, once the answer is out.
func (x *exchange) givePermit() {
	if x.permitted {
		x.permitted = false
		x.srv.permits.give()
	}
}
