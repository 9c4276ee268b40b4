package gateway

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"smg/bus"
	"smg/worker"
)

// alone is how a worker is made known to this process alone. Nil where nobody here
// would use it.
type alone interface {
	Offer(s *worker.Spec)
	Withdraw(id worker.ID)
}

// records keeps worker records in the bus's bucket. While there is no bus they are
// offered to this process alone, and put into the bucket once it is there. It is
// safe for concurrent use.
type records struct {
	bucket *bus.Bucket[worker.ID, worker.Spec]
	alone  alone
	log    *slog.Logger

	// Held while the bucket is written, so that no older record overwrites a newer one
	// or its removal. It is taken before mu.
	writing sync.Mutex

	mu      sync.Mutex
	all     map[worker.ID]*worker.Spec // registered here
	pending map[worker.ID]*unwritten
}

// unwritten is a record that is not in the bucket yet.
type unwritten struct {
	spec *worker.Spec
	// changed says that the bucket had the worker: if it has it no more, somebody has
	// removed it meanwhile.
	changed bool
}

func newRecords(bucket *bus.Bucket[worker.ID, worker.Spec], log *slog.Logger) *records {
	return &records{bucket: bucket, log: log, all: map[worker.ID]*worker.Spec{}, pending: map[worker.ID]*unwritten{}}
}

// Put stores a record, or will.
func (r *records) Put(ctx context.Context, spec *worker.Spec) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	err := r.bucket.Put(ctx, spec)
	if err != nil && !r.later(ctx, err) {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all[spec.ID] = spec
	delete(r.pending, spec.ID)
	if err != nil {
		r.log.Warn("worker is not known to other services yet", slog.String("worker", spec.URL), slog.Any("reason", err))
		r.pending[spec.ID] = &unwritten{spec: spec}
		if r.alone != nil {
			r.alone.Offer(spec)
		}
	}
	return nil
}

// Change stores what change makes of a record. While there is no bus only those that
// were registered here can be changed, and only those be deleted that the bucket never had.
func (r *records) Change(ctx context.Context, id worker.ID, change func(*worker.Spec) (*worker.Spec, error)) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	var stored *worker.Spec
	err := r.write(ctx, id) // what is changed is what this process has made of it
	if err == nil {
		err = r.bucket.Change(ctx, id, func(old *worker.Spec) (*worker.Spec, error) {
			var err error
			stored, err = change(old)
			return stored, err
		})
	}
	away := err != nil && r.later(ctx, err)
	if err != nil && !away {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	known, waits := r.all[id], r.pending[id]
	if away {
		if known == nil {
			return err
		}
		var refused error
		if stored, refused = change(known.Clone()); refused != nil {
			return refused
		}
		if stored == nil && (waits == nil || waits.changed) {
			return err // the bucket may have it, and would bring it back
		}
	}
	switch {
	case stored == nil:
		r.forget(id)
	case away:
		r.all[id] = stored
		r.pending[id] = &unwritten{spec: stored, changed: waits == nil || waits.changed}
		if r.alone != nil {
			r.alone.Offer(stored)
		}
	case known != nil:
		r.all[id] = stored
	}
	return nil
}

// forget drops what is known of a worker here, and takes back what was offered of it.
// r.mu is held.
func (r *records) forget(id worker.ID) {
	waited := r.pending[id] != nil
	delete(r.all, id)
	delete(r.pending, id)
	if waited && r.alone != nil {
		r.alone.Withdraw(id)
	}
}

// told takes what the bucket tells before then does, so that a change without a bus
// begins with what others have made of a record: nil is that there is none.
func (r *records) told(then func(worker.ID, *worker.Spec)) func(worker.ID, *worker.Spec) {
	return func(id worker.ID, s *worker.Spec) {
		r.mu.Lock()
		if old, waits := r.all[id], r.pending[id]; old != nil {
			switch {
			case s == nil:
				if waits == nil || waits.changed { // else it is of a stay before this one
					r.forget(id)
				}
			case s.RegisteredAt.After(old.RegisteredAt): // it is somebody else's now
				delete(r.all, id)
				delete(r.pending, id)
			case overtakes(s, old):
				r.all[id] = s
				delete(r.pending, id)
			}
		}
		r.mu.Unlock()
		then(id, s)
	}
}

// overtakes says whether others have written s after old: they have changed the worker,
// or registered it anew.
func overtakes(s, old *worker.Spec) bool {
	return s.RegisteredAt.After(old.RegisteredAt) || s.RegisteredAt.Equal(old.RegisteredAt) && s.Revision > old.Revision
}

// Delete removes a record. One that the bucket never had needs no bus.
func (r *records) Delete(ctx context.Context, id worker.ID) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	r.mu.Lock()
	waits := r.pending[id]
	r.mu.Unlock()
	err := r.bucket.Delete(ctx, id)
	if err != nil && (waits == nil || waits.changed || !r.later(ctx, err)) {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(id)
	return nil
}

// later says whether a failed write is worth another try.
func (r *records) later(ctx context.Context, err error) bool {
	return ctx.Err() == nil && (errors.Is(err, bus.ErrDisconnected) || errors.Is(err, context.DeadlineExceeded))
}

// retryEvery is the period at which pending records are tried.
const retryEvery = 250 * time.Millisecond

// run puts pending records until ctx ends.
func (r *records) run(ctx context.Context) error {
	t := time.NewTicker(retryEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
		for r.retry(ctx) { // one after another, while the bus takes them
		}
	}
}

// retry puts one pending record and says whether that went well.
func (r *records) retry(ctx context.Context) bool {
	r.writing.Lock()
	defer r.writing.Unlock()
	id, ok := r.anyPending()
	return ok && r.write(ctx, id) == nil // the bus says itself what is wrong with it
}

// errAbsent: the bucket has no such worker, but had it.
var errAbsent = errors.New("the bucket does not have the worker")

// write puts what is pending of a worker, if anything is, unless somebody has changed,
// registered anew or removed it meanwhile. r.writing is held.
func (r *records) write(ctx context.Context, id worker.ID) error {
	r.mu.Lock()
	p := r.pending[id]
	r.mu.Unlock()
	if p == nil {
		return nil
	}
	removed := false
	err := r.bucket.Change(ctx, id, func(old *worker.Spec) (*worker.Spec, error) {
		switch {
		case old == nil && p.changed:
			return nil, errAbsent
		case old != nil && overtakes(old, p.spec):
			return old, nil
		}
		return p.spec, nil
	})
	if errors.Is(err, errAbsent) {
		removed, err = r.bucket.Deleted(ctx, id)
		if err == nil && !removed { // the bucket has lost it
			err = r.bucket.Put(ctx, p.spec)
		}
	}
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.pending[id] != p:
	case removed:
		r.forget(id)
	default:
		delete(r.pending, id)
	}
	return nil
}

func (r *records) anyPending() (id worker.ID, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.pending {
		return id, true
	}
	return id, false
}

// model is what the first worker serves, "" if there is none or it names none.
func (r *records) model() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var first *worker.Spec
	for _, s := range r.all {
		if first == nil || s.Compare(first) < 0 {
			first = s
		}
	}
	if first == nil {
		return ""
	}
	return first.ModelID()
}
