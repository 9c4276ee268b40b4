package engine

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"smg/worker"
)

// Client sends requests to engines. It is safe for concurrent use. It starts
// no goroutine but those of a request whose body the engine does not take at
// once; [Client.Run] adds the one that closes idle connections.
type Client struct {
	cfg Config
	tls *tls.Config

	dials   atomic.Uint64
	stale   atomic.Uint64
	resends atomic.Uint64
	closed  atomic.Bool

	mu    sync.Mutex // guards pools; taken before a pool's own lock
	pools map[string]*pool
}

// Stats counts since the client was made.
type Stats struct {
	Dials   uint64 // connections opened
	Stale   uint64 // idle connections found dead or dirty when wanted
	Resends uint64 // free re-sends
}

// New returns a client without connections.
func New(cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return clientOf(cfg), nil
}

// clientOf is New for a configuration that is known to be sound.
func clientOf(cfg Config) *Client {
	return &Client{
		cfg: cfg,
		tls: &tls.Config{
			RootCAs:              cfg.RootCAs,
			GetClientCertificate: cfg.Certificates,
			MinVersion:           tls.VersionTLS12,
		},
		pools: make(map[string]*pool),
	}
}

// Stats returns the counters.
func (c *Client) Stats() Stats {
	return Stats{Dials: c.dials.Load(), Stale: c.stale.Load(), Resends: c.resends.Load()}
}

// Target parses an engine's base URL (scheme http or https, a path is put
// before every request's). It does no I/O. Keep the result as long as the
// worker exists, then [Client.Forget] it.
func (c *Client) Target(rawURL string) (*Target, error) { return c.Reach(rawURL, nil) }

// Reach is Target with rules that the worker has of its own, nil for none.
func (c *Client) Reach(rawURL string, own *worker.PoolRules) (*Target, error) {
	a, err := parseAddress(rawURL)
	if err != nil {
		return nil, err
	}
	if c.closed.Load() {
		return nil, fmt.Errorf("engine %s: client: %w", a.normalized, ErrClosed)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	rules := c.rulesOf(own)
	key := a.poolKey() + rules.key(c)
	p := c.pools[key]
	if p == nil {
		p = newPool(c, a, key, rules)
		c.pools[key] = p
	}
	p.targets++
	return &Target{
		url:    a.normalized,
		prefix: a.prefix,
		host:   " HTTP/1.1\r\nHost: " + a.authority + "\r\n",
		pool:   p,
		rules:  rules,
	}, nil
}

// Forget closes the idle connections of a removed worker, unless another
// target shares them; running requests end undisturbed. A forgotten target
// can still be sent to, but keeps no connections.
func (c *Client) Forget(t *Target) {
	if t.forgotten.Swap(true) {
		return
	}
	c.mu.Lock()
	t.pool.targets--
	last := t.pool.targets == 0
	if last && c.pools[t.pool.key] == t.pool {
		delete(c.pools, t.pool.key)
	}
	c.mu.Unlock()
	if last {
		t.pool.close()
	}
}

// Send posts req to t and returns once the head of the answer is there. ctx
// governs the exchange up to [Response.Close]: when it ends, the connection
// is closed at once. Without an error the caller owns the Response and must
// close it; the errors are [*Error].
//
// If a pooled connection dies before the first byte of an answer, although
// it looked sound, the request is sent once more on a fresh one, unless
// req.NoResend or Config.ResendLimit forbid it. Only an engine that closes
// idle connections makes that happen, but it may have seen the request.
func (c *Client) Send(ctx context.Context, t *Target, req *Request) (*Response, error) {
	if err := req.check(); err != nil {
		return nil, &Error{Kind: ErrRequest, Target: t.url, Err: err}
	}
	for {
		cn, err := c.connection(ctx, t)
		if err != nil {
			return nil, err
		}
		resp, err := cn.send(ctx, t, req)
		switch {
		case err == nil:
			return resp, nil
		case errors.Is(err, errStale): // nothing of the request is out
			c.stale.Add(1)
			continue
		case !c.mayResend(req, err):
			return nil, err
		}
		c.resends.Add(1)
		// Other pooled connections may be as dead as this one.
		if cn, err = c.dial(ctx, t.pool); err != nil {
			return nil, err
		}
		if resp, err = cn.send(ctx, t, req); err != nil {
			return nil, err
		}
		resp.Resent = true
		return resp, nil
	}
}

// connection takes the connection that was used last, or opens one.
func (c *Client) connection(ctx context.Context, t *Target) (*conn, error) {
	if c.closed.Load() {
		return nil, &Error{Kind: ErrClosed, Target: t.url}
	}
	if ctx.Err() != nil {
		return nil, &Error{Kind: ErrCanceled, Target: t.url, Err: canceled(ctx)}
	}
	if cn := t.pool.take(c.cfg.Now()); cn != nil {
		return cn, nil
	}
	return c.dial(ctx, t.pool)
}

// mayResend says whether the free re-send applies.
func (c *Client) mayResend(req *Request, err error) bool {
	var e *Error
	return errors.As(err, &e) && errors.Is(e.Kind, ErrNoAnswer) && e.Reused && !isTimeout(e.Err) &&
		!req.NoResend && req.Stream == nil && len(req.Body) < c.cfg.ResendLimit
}

// Warm opens connections until n idle ones wait for t, at most
// its MaxIdlePerTarget, a few at a time. It returns the first failure, or
// when ctx ends.
func (c *Client) Warm(ctx context.Context, t *Target, n int) error {
	const atOnce = 8
	missing := min(n, t.rules.maxIdle) - t.pool.size()
	if missing <= 0 {
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		wg   sync.WaitGroup
		left atomic.Int64
	)
	left.Store(int64(missing))
	for range min(atOnce, missing) {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				cn, err := c.dial(ctx, t.pool)
				if err != nil {
					cancel(err)
					return
				}
				t.pool.put(cn, c.cfg.Now(), -1)
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// Run closes idle connections when their time has come, until ctx ends; then
// it closes the client.
func (c *Client) Run(ctx context.Context) error {
	defer c.Close()
	tick := time.NewTicker(c.reapEvery())
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			c.reap()
		}
	}
}

// reapEvery lets a connection overstay by a fifth at most.
func (c *Client) reapEvery() time.Duration {
	if c.cfg.IdleTimeout == 0 {
		return time.Second
	}
	return min(max(c.cfg.IdleTimeout/5, 50*time.Millisecond), time.Second)
}

func (c *Client) reap() {
	now := c.cfg.Now()
	for _, p := range c.allPools() {
		p.reap(now)
	}
}

func (c *Client) allPools() []*pool {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]*pool, 0, len(c.pools))
	for _, p := range c.pools {
		all = append(all, p)
	}
	return all
}

// Close closes all idle connections and refuses further requests with
// ErrClosed; running ones end undisturbed and close theirs. It returns nil.
func (c *Client) Close() error {
	c.closed.Store(true)
	for _, p := range c.allPools() {
		p.close()
	}
	return nil
}
