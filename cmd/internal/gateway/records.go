package gateway

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"smg/bus"
	"smg/worker"
)

// offer makes a worker usable here alone. It may be nil.
type offer func(*worker.Spec)

// records keeps worker records in the bus's bucket. While there is no bus they are
// offered to this process alone, and put into the bucket once it is there.
type records struct {
	bucket *bus.Bucket[worker.ID, worker.Spec]
	offer  offer
	log    *slog.Logger

	mu      sync.Mutex
	all     []*worker.Spec // registered here, in any order
	pending []*worker.Spec // not in the bucket yet
}

// Put stores a record, or will. It is safe for concurrent use.
func (r *records) Put(ctx context.Context, spec *worker.Spec) error {
	err := r.bucket.Put(ctx, spec)
	if err != nil && !r.later(ctx, err) {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, spec)
	if err != nil {
		r.log.Warn("worker is not known to other services yet", slog.String("worker", spec.URL), slog.Any("reason", err))
		r.pending = append(r.pending, spec)
		if r.offer != nil {
			r.offer(spec)
		}
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
		r.mu.Lock()
		pending := r.pending
		r.mu.Unlock()
		for _, spec := range pending {
			if err := r.bucket.Put(ctx, spec); err != nil {
				break // the bus says itself what is wrong with it
			}
			r.mu.Lock()
			r.pending = slices.DeleteFunc(slices.Clone(r.pending), func(s *worker.Spec) bool { return s == spec })
			r.mu.Unlock()
		}
	}
}

// model is what the first worker serves, "" if there is none or it names none.
func (r *records) model() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.all) == 0 {
		return ""
	}
	return slices.MinFunc(r.all, func(a, b *worker.Spec) int { return a.RegisteredAt.Compare(b.RegisteredAt) }).ModelID()
}
