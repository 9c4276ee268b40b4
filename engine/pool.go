package engine

import (
	"crypto/tls"
	"slices"
	"sync"
	"time"
)

// pool keeps the idle connections to one scheme, host and port, by the same rules. The one used
// last goes out first, so that the others can age and be closed.
type pool struct {
	client   *Client
	name     string
	key      string // in Client.pools
	hostport string
	tls      *tls.Config // nil for http
	rules    rules

	targets int // guarded by Client.mu

	mu     sync.Mutex
	idle   []*conn // used last at the end
	closed bool
}

func newPool(c *Client, a address, key string, r rules) *pool {
	p := &pool{client: c, name: a.poolKey(), key: key, hostport: a.hostport, rules: r}
	if a.secure {
		p.tls = c.tls.Clone()
		p.tls.ServerName = a.host
	}
	return p
}

// take returns an idle connection whose time is not over, or nil.
func (p *pool) take(now time.Time) *conn {
	for {
		p.mu.Lock()
		last := len(p.idle) - 1
		if last < 0 {
			p.mu.Unlock()
			return nil
		}
		cn := p.idle[last]
		p.idle[last] = nil
		p.idle = p.idle[:last]
		p.mu.Unlock()
		if !cn.expired(now) {
			cn.reused = true
			return cn
		}
		cn.close()
	}
}

// put keeps cn for the next request, or closes it. hint is the time for which
// the engine promised to keep it, negative for no word.
func (p *pool) put(cn *conn, now time.Time, hint time.Duration) {
	limit := p.rules.idle
	if hint >= 0 && (limit == 0 || hint < limit) {
		limit = hint
	}
	cn.idleUntil = time.Time{}
	if limit > 0 {
		cn.idleUntil = now.Add(limit)
	}
	p.mu.Lock()
	kept := !p.closed && len(p.idle) < p.rules.maxIdle
	if kept {
		p.idle = append(p.idle, cn)
	}
	p.mu.Unlock()
	if !kept {
		cn.close()
	}
}

func (p *pool) size() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.idle)
}

// reap closes the connections whose time is over, and, among those that may
// stay for ever, the ones that the engine closed.
func (p *pool) reap(now time.Time) {
	var over []*conn
	p.mu.Lock()
	p.idle = slices.DeleteFunc(p.idle, func(cn *conn) bool {
		gone := cn.expired(now) || cn.idleUntil.IsZero() && !cn.quiet()
		if gone {
			over = append(over, cn)
		}
		return gone
	})
	p.mu.Unlock()
	for _, cn := range over {
		cn.close()
	}
}

// close closes the idle connections and keeps no more.
func (p *pool) close() {
	p.mu.Lock()
	idle := p.idle
	p.idle, p.closed = nil, true
	p.mu.Unlock()
	for _, cn := range idle {
		cn.close()
	}
}
