package ingress

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"smg/ingress/front"
)

// sweepEvery is how often running exchanges are looked at. A client that left
// unseen is noticed within two sweeps.
const sweepEvery = 400 * time.Millisecond

// watcher ends what would not end by itself: a request whose time is up, and one
// whose client just stopped reading or sending. On HTTP/1 it also looks whether the
// client has left, in case its connection could not be told: net/http does not see
// that where bytes of the client's are still unread or only its sending side is
// closed. One sweep over all of them is cheaper than timers for each.
type watcher struct {
	requestTimeout, readStall, writeStall, uploadStall time.Duration
	now                                                func() time.Time
	aged                                               func(bins []int) // is told the ages of what runs, now and then

	mu    sync.Mutex
	first *watch // of a ring without order
	cut   bool   // the server is: nothing runs any more
}

// watch is one exchange as the watcher sees it.
type watch struct {
	ctx  *life
	conn *front.Conn // nil on HTTP/2, which tells by itself

	// steps counts what the client takes or gives, waits what it is waited for;
	// the exchange writes both.
	steps   atomic.Uint32
	waits   atomic.Uint32
	stalled atomic.Bool
	pace    pace

	// Of the sweep alone.
	sweeps    int
	lastSteps uint32
	lastMove  time.Time

	upload atomic.Pointer[upload] // of a body that is passed on, nil in the usual case

	next, prev *watch // guarded by watcher.mu

	mu     sync.Mutex // keeps the writer from being used after the handler's return
	writer http.ResponseWriter
}

// What a client can be waited for.
const (
	nothing uint32 = iota
	uploading
	taking
)

func (w *watch) begin(wait uint32) {
	w.steps.Add(1)
	w.waits.Store(wait)
}

func (w *watch) end()      { w.waits.Store(nothing) }
func (w *watch) progress() { w.steps.Add(1) }

// ClientGone implements [front.Exchange].
func (w *watch) ClientGone() { w.ctx.end(left) }

func newWatcher(cfg Config, now func() time.Time) *watcher {
	return &watcher{requestTimeout: cfg.RequestTimeout, readStall: cfg.BodyStall, writeStall: cfg.WriteStall, uploadStall: cfg.Upload.Stall, now: now, aged: func([]int) {}}
}

func (wa *watcher) add(w *watch) {
	wa.mu.Lock()
	defer wa.mu.Unlock()
	if wa.first == nil {
		w.next, w.prev = w, w
	} else {
		w.next, w.prev = wa.first, wa.first.prev
		w.next.prev, w.prev.next = w, w
	}
	wa.first = w
	if wa.cut {
		w.ctx.end(left)
	}
}

func (wa *watcher) remove(w *watch) {
	wa.mu.Lock()
	if w.next == w {
		wa.first = nil
	} else {
		w.next.prev, w.prev.next = w.prev, w.next
		if wa.first == w {
			wa.first = w.next
		}
	}
	wa.mu.Unlock()
	w.mu.Lock()
	w.writer = nil
	w.mu.Unlock()
}

// run sweeps until ctx ends: often, and whenever a deadline comes. With ctx, all
// exchanges end.
func (wa *watcher) run(ctx context.Context) {
	every := min(sweepEvery, wa.requestTimeout)
	t := time.NewTimer(every)
	defer t.Stop()
	var batch []*watch
	var aged time.Time
	for {
		select {
		case <-ctx.Done():
			wa.cutAll()
			return
		case <-t.C:
		}
		now, pause := wa.now(), every
		batch = wa.collect(batch[:0])
		if now.Sub(aged) >= ageEvery {
			aged = now
			wa.count(batch, now)
		}
		for _, w := range batch {
			if left := w.ctx.deadline.Sub(now); left > 0 {
				pause = min(pause, left)
			}
			wa.look(w, now)
		}
		clear(batch)
		t.Reset(pause)
	}
}

// cutAll ends what runs, and what is yet to come.
func (wa *watcher) cutAll() {
	wa.mu.Lock()
	wa.cut = true
	wa.mu.Unlock()
	for _, w := range wa.collect(nil) {
		w.ctx.end(left)
	}
}

func (wa *watcher) collect(into []*watch) []*watch {
	wa.mu.Lock()
	defer wa.mu.Unlock()
	for w := wa.first; w != nil; {
		into = append(into, w)
		if w = w.next; w == wa.first {
			break
		}
	}
	return into
}

func (wa *watcher) look(w *watch, now time.Time) {
	w.sweeps++
	switch {
	case w.ctx.Err() != nil:
	case !now.Before(w.ctx.deadline):
		w.ctx.end(overdue)
	case w.conn != nil && w.sweeps > 1 && w.conn.PeerGone():
		w.ctx.end(left)
	}
	if u := w.upload.Load(); u != nil {
		u.look(w, now, wa.uploadStall)
	}
	waits, steps := w.waits.Load(), w.steps.Load()
	if waits == nothing || steps != w.lastSteps || w.lastMove.IsZero() {
		w.lastSteps, w.lastMove = steps, now
	}
	still := now.Sub(w.lastMove)
	switch {
	case waits == uploading && w.ctx.Err() != nil:
		// Nothing but a deadline ends a read.
		w.release((*http.ResponseController).SetReadDeadline)
	case waits == uploading && w.pace.look(wa, now):
		w.release((*http.ResponseController).SetReadDeadline)
	case waits == uploading && still >= wa.readStall:
		w.stalled.Store(true)
		w.release((*http.ResponseController).SetReadDeadline)
	case waits == taking && still >= wa.writeStall:
		w.ctx.end(left)
		w.release((*http.ResponseController).SetWriteDeadline)
	}
}

// release ends a blocked read or write. If that fails, the next sweep tries again.
func (w *watch) release(setDeadline func(*http.ResponseController, time.Time) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.writer != nil {
		_ = setDeadline(http.NewResponseController(w.writer), time.Now())
	}
}
