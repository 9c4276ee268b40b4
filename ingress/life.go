package ingress

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// life is the context of an exchange. It ends when its time is up, when the client
// leaves, when the server is cut, or with the exchange: whoever sees that calls end.
//
// It is a type of its own because every request has one and hardly any is asked for
// more than Err: contexts of the standard library, with their maps of children and
// a channel each, were nine allocations of a request.
type life struct {
	request  context.Context // of net/http, for its values
	deadline time.Time

	state atomic.Uint32
	mu    sync.Mutex
	done  chan struct{} // made for who asks
	after []*func()     // to be called at the end
	few   [2]*func()    // room for after
}

// States of a life.
const (
	running uint32 = iota
	left           // context.Canceled
	overdue        // context.DeadlineExceeded
)

// Deadline implements [context.Context].
func (l *life) Deadline() (time.Time, bool) { return l.deadline, true }

// Err implements [context.Context].
func (l *life) Err() error {
	switch l.state.Load() {
	case running:
		return nil
	case overdue:
		return context.DeadlineExceeded
	}
	return context.Canceled
}

// Value implements [context.Context].
func (l *life) Value(key any) any { return l.request.Value(key) }

// Done implements [context.Context].
func (l *life) Done() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done == nil {
		l.done = make(chan struct{})
		if l.state.Load() != running {
			close(l.done)
		}
	}
	return l.done
}

// AfterFunc calls f in a goroutine of its own once the life has ended. Package
// context uses it to derive contexts. stop prevents that, and says whether it did.
func (l *life) AfterFunc(f func()) (stop func() bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state.Load() != running {
		go f()
		return func() bool { return false }
	}
	if l.after == nil {
		l.after = l.few[:0]
	}
	l.after = append(l.after, &f)
	return func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		i := slices.Index(l.after, &f)
		if i < 0 {
			return false
		}
		l.after = slices.Delete(l.after, i, i+1)
		return true
	}
}

// end ends the life as state says, unless it has ended before.
func (l *life) end(state uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.state.CompareAndSwap(running, state) {
		return
	}
	if l.done != nil {
		close(l.done)
	}
	for _, f := range l.after {
		go (*f)()
	}
	l.after = nil
}
