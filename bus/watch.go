package bus

import (
	"context"
	"errors"
	"hash/maphash"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Events are told what changes in a bucket. They come one at a time, from one
// goroutine, and must not block for long. What is the same as before, a value or
// its absence, is not told again. A nil one is not told.
type Events[K comparable, V any] struct {
	// Put: v is stored under k, as a new value or in place of another. The receiver
	// owns v.
	Put func(k K, v *V)
	// Delete: somebody deleted k, which need not have been told before. That a bucket
	// has no k is no deletion: it may be a new bucket, which is going to be filled
	// again.
	Delete func(k K)
	// Synced: all that was in the bucket has been told, at first and after each
	// reconnect.
	Synced func()
}

// Watch tells ev what is in the bucket and what changes, until ctx ends, which is
// no error, or the connection is closed. It survives losing the connection, a
// server that forgot everything, and a bucket that was removed: it starts anew,
// compares with what it told before, and puts again what this process had put.
// One Watch at a time may run for a Bucket.
func (b *Bucket[K, V]) Watch(ctx context.Context, ev Events[K, V]) error {
	w := &watch[K, V]{
		bucket: b,
		events: ev,
		told:   map[K]state{},
		seed:   maphash.MakeSeed(),
	}
	defer b.conn.OnReconnect(b.restart)()
	failing := false
	for {
		started, err := w.once(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if b.conn.nc.IsClosed() {
			return errClosed
		}
		if started {
			failing = false
		}
		// That there is no connection is told where it is noticed.
		if err != nil && !failing && !errors.Is(err, ErrDisconnected) {
			failing = true
			b.conn.log.Warn("watching a bucket failed; it is tried again until it works", "bucket", b.table.Bucket, "error", err)
		}
		if err != nil {
			w.pause(ctx)
		}
	}
}

var (
	errClosed   = errors.New("watching a bucket: the connection to NATS is closed")
	errStopped  = errors.New("the watch was ended by the server")
	errNoAnswer = errors.New("no answer from the server")
)

// watch is the state of one [Bucket.Watch].
type watch[K comparable, V any] struct {
	bucket *Bucket[K, V]
	events Events[K, V]
	seed   maphash.Seed
	told   map[K]state // last, of each key

	badTold bool
}

// state is what a key was last told to be.
type state struct {
	deleted bool
	digest  uint64 // of the value
}

func (w *watch[K, V]) pause(ctx context.Context) {
	t := time.NewTimer(reconnectWait)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-w.bucket.again:
	case <-t.C:
	}
}

// once watches until something calls for a new watch; then err is nil. started
// says that the bucket was told once as a whole.
func (w *watch[K, V]) once(ctx context.Context) (started bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	kv, err := w.bucket.reopen(ctx)
	if err != nil {
		cancel()
		return false, err
	}
	// The context must outlive the call, so its end is not the call's time limit.
	limit := time.AfterFunc(requestTimeout, cancel)
	updates, err := kv.WatchAll(ctx)
	inTime := limit.Stop()
	if err != nil {
		cancel()
		if !inTime {
			err = errNoAnswer
		}
		return false, sendError(err)
	}
	defer func() {
		cancel() // which unsubscribes
		drain(updates.Updates())
	}()

	present := map[K]bool{} // in the first pass
	for {
		select {
		case <-ctx.Done():
			return started, nil
		case <-w.bucket.again:
			return started, nil
		case e, ok := <-updates.Updates():
			if !ok { // the bucket is gone
				return started, errStopped
			}
			if e != nil {
				if k, ok := w.entry(e); ok && !started {
					present[k] = true
				}
				continue
			}
			started = true
			if w.events.Synced != nil {
				w.events.Synced()
			}
			if err := w.bucket.refill(ctx, func(k K) bool { return present[k] }); err != nil {
				return started, err
			}
			present = nil
		}
	}
}

// drain unblocks a watcher that is being stopped, until it has stopped.
func drain(updates <-chan jetstream.KeyValueEntry) {
	t := time.NewTimer(requestTimeout)
	defer t.Stop()
	for {
		select {
		case _, ok := <-updates:
			if !ok {
				return
			}
		case <-t.C:
			return
		}
	}
}

// entry tells what e changes.
func (w *watch[K, V]) entry(e jetstream.KeyValueEntry) (K, bool) {
	table := &w.bucket.table
	k, err := table.ParseKey(e.Key())
	if err != nil {
		w.bad(e, err)
		return k, false
	}
	if e.Operation() != jetstream.KeyValuePut {
		w.bucket.deleted(k, e.Revision())
		if w.tell(k, state{deleted: true}) && w.events.Delete != nil {
			w.events.Delete(k)
		}
		return k, true
	}
	v, err := table.Decode(k, e.Value())
	if err != nil {
		w.bad(e, err)
		return k, true
	}
	if w.tell(k, state{digest: maphash.Bytes(w.seed, e.Value())}) && w.events.Put != nil {
		w.events.Put(k, v)
	}
	return k, true
}

// tell says whether k is something else now.
func (w *watch[K, V]) tell(k K, now state) bool {
	before, known := w.told[k]
	w.told[k] = now
	return !known || before != now
}

func (w *watch[K, V]) bad(e jetstream.KeyValueEntry, err error) {
	w.bucket.conn.metrics.dropped.WithLabelValues(w.bucket.table.Kind, malformed).Inc()
	if !w.badTold {
		w.badTold = true
		w.bucket.conn.log.Warn("ignored a value that cannot be read; further ones are only counted",
			"bucket", w.bucket.table.Bucket, "key", e.Key(), "error", err)
	}
}
