package ingress

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// sweepEvery is how often running exchanges are looked at. A client that left
// unseen is noticed within two sweeps.
const sweepEvery = 400 * time.Millisecond

// watcher looks after clients that net/http does not: one that left while bytes of
// its are still unread (net/http stops watching a connection once bytes wait
// there), one that closed only its sending side, and one that stopped reading.
type watcher struct {
	stall time.Duration

	mu      sync.Mutex
	watched map[*watch]struct{}
}

// watch is one exchange as the watcher sees it.
type watch struct {
	cancel   context.CancelFunc
	peerGone func() bool // nil when the protocol tells by itself
	writes   atomic.Uint32

	// Of the sweep alone.
	sweeps     int
	lastWrites uint32
	stalledFor time.Duration

	mu       sync.Mutex // keeps the writer from being used after the handler's return
	writer   http.ResponseWriter
	finished bool
}

func newWatcher(stall time.Duration) *watcher {
	return &watcher{stall: stall, watched: map[*watch]struct{}{}}
}

func (wa *watcher) add(w *watch) {
	wa.mu.Lock()
	wa.watched[w] = struct{}{}
	wa.mu.Unlock()
}

func (wa *watcher) remove(w *watch) {
	wa.mu.Lock()
	delete(wa.watched, w)
	wa.mu.Unlock()
	w.mu.Lock()
	w.finished = true
	w.mu.Unlock()
}

// writing marks the begin (and, called again, the end) of a write to the client.
func (w *watch) writing() { w.writes.Add(1) }

// run sweeps until ctx ends.
func (wa *watcher) run(ctx context.Context) {
	t := time.NewTicker(sweepEvery)
	defer t.Stop()
	var batch []*watch
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		batch = wa.collect(batch[:0])
		for _, w := range batch {
			wa.look(w)
		}
		clear(batch)
	}
}

func (wa *watcher) collect(into []*watch) []*watch {
	wa.mu.Lock()
	defer wa.mu.Unlock()
	into = slices.Grow(into, len(wa.watched))
	for w := range wa.watched {
		into = append(into, w)
	}
	return into
}

func (wa *watcher) look(w *watch) {
	w.sweeps++
	if w.sweeps > 1 && w.peerGone != nil && w.peerGone() {
		w.cancel()
		return
	}
	n := w.writes.Load()
	if n%2 == 0 || n != w.lastWrites {
		w.lastWrites, w.stalledFor = n, 0
		return
	}
	if w.stalledFor += sweepEvery; w.stalledFor < wa.stall {
		return
	}
	w.cancel()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.finished {
		// Ends the blocked write with an error; a failure to do so leaves the
		// write to the next sweep.
		_ = http.NewResponseController(w.writer).SetWriteDeadline(time.Now())
	}
}
