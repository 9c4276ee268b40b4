package simhttp

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// connTable knows the open client connections of an engine, closes them when
// they have been idle for too long, and tells records when they were closed.
type connTable struct {
	clock     func() time.Time
	keepAlive func() time.Duration

	mu   sync.Mutex
	last int
	open map[net.Conn]*conn
}

// conn is one client connection.
type conn struct {
	id    int
	table *connTable

	// Guarded by connTable.mu.
	idle   bool
	timer  *time.Timer // closes the connection when it has idled; may be nil
	closed time.Time
}

type connKey struct{}

func newConnTable(clock func() time.Time, keepAlive func() time.Duration) *connTable {
	return &connTable{clock: clock, keepAlive: keepAlive, open: make(map[net.Conn]*conn)}
}

// context is for http.Server.ConnContext.
func (t *connTable) context(ctx context.Context, c net.Conn) context.Context {
	t.mu.Lock()
	defer t.mu.Unlock()
	return context.WithValue(ctx, connKey{}, t.knowLocked(c))
}

func (t *connTable) knowLocked(c net.Conn) *conn {
	info, ok := t.open[c]
	if !ok {
		t.last++
		info = &conn{id: t.last, table: t}
		t.open[c] = info
	}
	return info
}

func connOf(ctx context.Context) *conn {
	c, _ := ctx.Value(connKey{}).(*conn)
	return c
}

// state is for http.Server.ConnState.
func (t *connTable) state(c net.Conn, state http.ConnState) {
	t.mu.Lock()
	defer t.mu.Unlock()
	info := t.knowLocked(c)
	if info.timer != nil {
		info.timer.Stop()
		info.timer = nil
	}
	info.idle = state == http.StateIdle
	switch state {
	case http.StateIdle:
		t.armLocked(c, info)
	case http.StateClosed, http.StateHijacked:
		info.closed = t.clock()
		delete(t.open, c)
	}
}

func (t *connTable) armLocked(c net.Conn, info *conn) {
	if limit := t.keepAlive(); limit > 0 {
		// Closing an idle connection loses nothing that could be reported.
		info.timer = time.AfterFunc(limit, func() { _ = c.Close() })
	}
}

// rearm applies a new keep-alive limit to the connections that idle now.
func (t *connTable) rearm() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for c, info := range t.open {
		if info.timer != nil {
			info.timer.Stop()
			info.timer = nil
		}
		if info.idle {
			t.armLocked(c, info)
		}
	}
}

// closeIdle closes the connections without a request in flight.
func (t *connTable) closeIdle() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for c, info := range t.open {
		if info.idle {
			_ = c.Close()
		}
	}
}

func (t *connTable) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.open)
}

func (c *conn) closedAt() time.Time {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	return c.closed
}
