package ingress

import (
	"context"
	"errors"
	"testing"
	"time"
)

func newLife() *life {
	return &life{request: context.WithValue(context.Background(), connKey{}, "value"), deadline: time.Unix(1000, 0)}
}

// fired waits until ch is closed.
func fired(t *testing.T, what string, ch <-chan struct{}) {
	t.Helper()
	select {
	case <-ch:
	case <-time.After(patience):
		t.Fatalf("%s: nothing", what)
	}
}

func TestLife(t *testing.T) {
	for _, tt := range []struct {
		name  string
		state uint32
		want  error
	}{
		{"left", left, context.Canceled},
		{"overdue", overdue, context.DeadlineExceeded},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLife()
			if at, ok := l.Deadline(); !ok || !at.Equal(l.deadline) || l.Err() != nil || l.Value(connKey{}) != "value" {
				t.Fatalf("%v %v %v %v", at, ok, l.Err(), l.Value(connKey{}))
			}
			done := l.Done()
			child, cancel := context.WithCancel(l)
			defer cancel()
			called, again := make(chan struct{}), make(chan struct{})
			context.AfterFunc(l, func() { close(called) })
			stopped := l.AfterFunc(func() { t.Error("called although stopped") })
			if !stopped() || stopped() {
				t.Error("stop does not say what it did")
			}
			for range 5 { // more than there is room for
				l.AfterFunc(func() { again <- struct{}{} })
			}
			l.end(tt.state)
			l.end(left + overdue - tt.state) // the first end holds
			fired(t, "Done", done)
			fired(t, "Done of a child", child.Done())
			fired(t, "AfterFunc of package context", called)
			for range 5 {
				fired(t, "AfterFunc", again)
			}
			late := make(chan struct{})
			stop := l.AfterFunc(func() { close(late) })
			fired(t, "AfterFunc after the end", late)
			if stop() {
				t.Error("stopped what has run")
			}
			fired(t, "Done after the end", l.Done())
			for _, ctx := range []context.Context{l, child} {
				if !errors.Is(ctx.Err(), tt.want) || !errors.Is(context.Cause(ctx), tt.want) {
					t.Errorf("%v, cause %v; want %v", ctx.Err(), context.Cause(ctx), tt.want)
				}
			}
		})
	}
}

// A child that is done with leaves nothing behind.
func TestLifeLetsGo(t *testing.T) {
	l := newLife()
	for range 100 {
		_, cancel := context.WithTimeout(l, time.Hour)
		cancel()
	}
	if len(l.after) != 0 {
		t.Errorf("%d calls are kept", len(l.after))
	}
}

// Once the server is cut, exchanges end: those that run, and those yet to come.
func TestCutAll(t *testing.T) {
	wa := newWatcher(DefaultConfig(), time.Now)
	before, removed, after := newLife(), newLife(), newLife()
	watches := [3]watch{{ctx: before}, {ctx: removed}, {ctx: after}}
	wa.add(&watches[0])
	wa.add(&watches[1])
	wa.remove(&watches[1])
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	wa.run(ctx)
	wa.add(&watches[2])
	if before.Err() == nil || after.Err() == nil || removed.Err() != nil {
		t.Errorf("before %v, after %v, removed %v", before.Err(), after.Err(), removed.Err())
	}
}
