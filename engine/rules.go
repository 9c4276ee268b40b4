package engine

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"smg/worker"
)

// rules are those of the connections to one target, and of its requests.
type rules struct {
	maxIdle int
	idle    time.Duration // 0 is for ever
	connect time.Duration
	whole   time.Duration // of a request, from its first byte to the end of the answer; 0 is any
}

// rulesOf are the client's own, but for what a worker has of its own; nil is nothing.
func (c *Client) rulesOf(own *worker.PoolRules) rules {
	r := rules{maxIdle: c.cfg.MaxIdlePerTarget, idle: c.cfg.IdleTimeout, connect: c.cfg.ConnectTimeout}
	if own == nil {
		return r
	}
	if own.MaxIdle != nil {
		r.maxIdle = *own.MaxIdle
	}
	if own.IdleTimeout != nil {
		r.idle = *own.IdleTimeout
	}
	if own.ConnectTimeout > 0 {
		r.connect = own.ConnectTimeout
	}
	r.whole = own.Timeout
	return r
}

// key tells pools of the same address apart that keep their connections by other rules.
func (r rules) key(c *Client) string {
	usual := c.rulesOf(nil)
	if usual.whole = r.whole; r == usual {
		return ""
	}
	return " " + strconv.Itoa(r.maxIdle) + " " + r.idle.String() + " " + r.connect.String()
}

// Follows says whether the target keeps to the rules that a worker has now.
func (t *Target) Follows(own *worker.PoolRules) bool { return t.rules == t.pool.client.rulesOf(own) }

// limit cuts the exchange that begins when its time is up.
func (cn *conn) limit(whole time.Duration) {
	if cn.whole = whole; whole > 0 {
		cn.timer = time.AfterFunc(whole, func() {
			cn.late.Store(true)
			cn.abort()
		})
	}
}

// unlimit says whether the exchange has ended in time.
func (cn *conn) unlimit() bool {
	if cn.timer == nil {
		return true
	}
	inTime := cn.timer.Stop()
	cn.timer = nil
	return inTime
}

// errLate words that the time of an exchange was up. To the caller the answer is one
// that has broken off: the engine may have seen the request.
func (cn *conn) errLate() error {
	return fmt.Errorf("%w: no whole answer within %v, the worker's own limit", io.ErrUnexpectedEOF, cn.whole)
}
