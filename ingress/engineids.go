package ingress

import (
	"context"
	"maps"
	"strconv"
	"sync"
	"time"

	"smg/bootstrap"
	"smg/worker"
)

// engineIDs are the ids by which decode engines ask for KV of vLLM prefill workers with
// Mooncake. An engine draws another one at each start, and can be chosen before it is
// registered anew: of each process its bootstrap server is asked once, before it is used.
// It is safe for concurrent use.
type engineIDs struct {
	ask func(ctx context.Context, url string) (map[int]string, error) // nil: what is registered holds
	now func() time.Time

	mu    sync.Mutex
	known map[worker.ID]*engineID
}

// engineID is what one process has said, or is being asked.
type engineID struct {
	epoch uint64
	done  chan struct{} // closed when the rest is known
	ranks map[int]string
	until time.Time // of a failure: when to ask again
}

const (
	// engineIDWait bounds the question: one to a server that is there takes a millisecond.
	engineIDWait = time.Second
	// engineIDPause is how long nobody is asked again who has not answered.
	engineIDPause = 5 * time.Second
)

// of is the id of a prefill worker's process, false if there is none. Where the process
// does not say it, what is registered holds.
func (e *engineIDs) of(ctx context.Context, w *worker.Spec, epoch uint64) (string, bool) {
	registered, ok := w.MooncakeID()
	if !ok || e.ask == nil || epoch == 0 {
		return registered, ok
	}
	id, first := e.entry(w.ID, epoch)
	if first {
		e.fill(ctx, id, w)
	}
	select {
	case <-id.done:
	case <-ctx.Done():
		return registered, ok
	}
	s := *w
	if s.KVEngineID = bootstrap.EngineOf(id.ranks, w); s.KVEngineID == "" {
		return registered, ok
	}
	return s.MooncakeID()
}

// entry is what is known of a process. first says that the caller is to fill it.
func (e *engineIDs) entry(id worker.ID, epoch uint64) (known *engineID, first bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	known = e.known[id]
	if known != nil && known.epoch >= epoch && (known.until.IsZero() || e.now().Before(known.until)) {
		return known, false
	}
	if e.known == nil {
		e.known = map[worker.ID]*engineID{}
	}
	known = &engineID{epoch: epoch, done: make(chan struct{})}
	e.known[id] = known
	return known, true
}

// fill asks a process, whatever becomes of the request for whose sake it does.
func (e *engineIDs) fill(ctx context.Context, id *engineID, w *worker.Spec) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), engineIDWait)
	defer cancel()
	ranks, err := e.ask(ctx, "http://"+w.BootstrapHost+":"+strconv.Itoa(int(bootstrap.MooncakePort(w))))
	e.mu.Lock()
	defer e.mu.Unlock()
	if id.ranks = ranks; err != nil {
		id.until = e.now().Add(engineIDPause)
	}
	close(id.done)
}

// prune drops what the workers have said that are gone.
func (e *engineIDs) prune(gone func(worker.ID) bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.DeleteFunc(e.known, func(id worker.ID, _ *engineID) bool { return gone(id) })
}

// forget has a worker asked anew: what it has said may be of a process that is gone.
func (e *engineIDs) forget(id worker.ID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.known, id)
}
