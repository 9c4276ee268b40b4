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
	pending map[worker.ID]*worker.Spec // not in the bucket yet
}

func newRecords(bucket *bus.Bucket[worker.ID, worker.Spec], log *slog.Logger) *records {
	return &records{bucket: bucket, log: log, all: map[worker.ID]*worker.Spec{}, pending: map[worker.ID]*worker.Spec{}}
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
		r.pending[spec.ID] = spec
		if r.alone != nil {
			r.alone.Offer(spec)
		}
	}
	return nil
}

// Change stores what change makes of a record. While there is no bus only those that
// were registered here can be changed, and none be deleted.
func (r *records) Change(ctx context.Context, id worker.ID, change func(*worker.Spec) (*worker.Spec, error)) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	var stored *worker.Spec
	err := r.bucket.Change(ctx, id, func(old *worker.Spec) (*worker.Spec, error) {
		if old == nil {
			old = r.waiting(id)
		}
		var err error
		stored, err = change(old)
		return stored, err
	})
	away := err != nil && r.later(ctx, err)
	if err != nil && !away {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if away {
		old := r.all[id]
		if old == nil {
			return err
		}
		var refused error
		if stored, refused = change(old.Clone()); refused != nil {
			return refused
		}
		if stored == nil {
			return err // the bucket may have it, and would bring it back
		}
	}
	known := r.all[id] != nil
	switch {
	case stored == nil:
		delete(r.all, id)
		delete(r.pending, id)
	case away:
		r.all[id], r.pending[id] = stored, stored
		if r.alone != nil {
			r.alone.Offer(stored)
		}
	default:
		if known {
			r.all[id] = stored
		}
		delete(r.pending, id)
	}
	return nil
}

// told takes what the bucket tells before then does, so that a change without a bus
// begins with what others have made of a record: nil is that there is none.
func (r *records) told(then func(worker.ID, *worker.Spec)) func(worker.ID, *worker.Spec) {
	return func(id worker.ID, s *worker.Spec) {
		r.mu.Lock()
		if old := r.all[id]; old != nil && r.pending[id] == nil {
			switch {
			case s == nil, s.RegisteredAt.After(old.RegisteredAt): // it is somebody else's now, if anybody's
				delete(r.all, id)
			case s.RegisteredAt.Equal(old.RegisteredAt) && s.Revision > old.Revision:
				r.all[id] = s
			}
		}
		r.mu.Unlock()
		then(id, s)
	}
}

// waiting is a record that is not in the bucket yet, or nil.
func (r *records) waiting(id worker.ID) *worker.Spec {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.pending[id]; s != nil {
		return s.Clone()
	}
	return nil
}

// Delete removes a record. One that is not in the bucket yet needs no bus.
func (r *records) Delete(ctx context.Context, id worker.ID) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	r.mu.Lock()
	pending := r.pending[id] != nil
	r.mu.Unlock()
	err := r.bucket.Delete(ctx, id)
	if err != nil && (!pending || !r.later(ctx, err)) {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, id)
	delete(r.pending, id)
	if pending && r.alone != nil {
		r.alone.Withdraw(id)
	}
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
	spec := r.anyPending()
	if spec == nil {
		return false
	}
	err := r.bucket.Change(ctx, spec.ID, func(old *worker.Spec) (*worker.Spec, error) {
		if old != nil && (old.RegisteredAt.After(spec.RegisteredAt) || old.RegisteredAt.Equal(spec.RegisteredAt) && old.Revision > spec.Revision) {
			return old, nil // somebody has changed it meanwhile, or registered it anew
		}
		return spec, nil
	})
	if err != nil {
		return false // the bus says itself what is wrong with it
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pending[spec.ID] == spec {
		delete(r.pending, spec.ID)
	}
	return true
}

func (r *records) anyPending() *worker.Spec {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, spec := range r.pending {
		return spec
	}
	return nil
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
