package legs

import (
	"context"
	"sync"
	"time"
)

// Bounds of the polls under way.
const (
	maxPolls     = 256                    // that have just begun
	maxSlowPolls = 4096                   // that take their time
	patience     = 500 * time.Millisecond // after which a poll takes its time
)

// lanes bound how many polls are under way. One that takes long makes room for
// others, so that workers that do not answer delay nobody but themselves.
type lanes struct {
	swift, slow chan struct{} // each holds one for a poll in it
}

func newLanes() *lanes {
	return &lanes{swift: make(chan struct{}, maxPolls), slow: make(chan struct{}, maxSlowPolls)}
}

// enter waits for room. It is false if ctx ends before.
func (l *lanes) enter(ctx context.Context) (*ticket, bool) {
	select {
	case l.swift <- struct{}{}:
	case <-ctx.Done():
		return nil, false
	}
	t := &ticket{lanes: l, in: l.swift}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer = time.AfterFunc(patience, t.move)
	return t, true
}

// ticket is one poll's place in a lane.
type ticket struct {
	lanes *lanes

	mu    sync.Mutex
	timer *time.Timer
	in    chan struct{} // nil once the poll has ended
}

// move goes over to the slow lane, as soon as that has room.
func (t *ticket) move() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.in == nil {
		return
	}
	select {
	case t.lanes.slow <- struct{}{}:
		<-t.in
		t.in = t.lanes.slow
	default:
		t.timer.Reset(patience)
	}
}

// leave gives the place up.
func (t *ticket) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer.Stop()
	<-t.in
	t.in = nil
}
