package bus

import (
	"context"
	"errors"
	"hash/maphash"
	"maps"

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
	return b.kv.watch(ctx, b.table.Keys, w)
}

// watch is the state of one [Bucket.Watch].
type watch[K comparable, V any] struct {
	bucket  *Bucket[K, V]
	events  Events[K, V]
	seed    maphash.Seed
	told    map[K]state // last, of each key
	present map[K]bool  // in the first pass
	roomy   int         // how many keys are in told before some are forgotten

	bad badValues
}

// state is what a key was last told to be.
type state struct {
	deleted bool
	digest  uint64 // of the value
}

func (w *watch[K, V]) begin() {
	w.bucket.renewed()
	w.present = map[K]bool{}
}

func (w *watch[K, V]) synced(ctx context.Context) error {
	if w.events.Synced != nil {
		w.events.Synced()
	}
	present := w.present
	w.present = nil
	// A mark that the bucket does not keep any more is not told again.
	maps.DeleteFunc(w.told, func(k K, was state) bool { return was.deleted && !present[k] })
	return w.bucket.refill(ctx, func(k K) bool { return present[k] })
}

// entry tells what e changes.
func (w *watch[K, V]) entry(e jetstream.KeyValueEntry) {
	table := &w.bucket.table
	k, err := table.ParseKey(e.Key())
	if err != nil {
		w.bad.add(w.bucket.kv, e, err)
		return
	}
	if w.present != nil {
		w.present[k] = true
	}
	if e.Operation() != jetstream.KeyValuePut {
		w.bucket.deleted(k, mark{e.Revision(), e.Created()})
		if w.tell(k, state{deleted: true}) && w.events.Delete != nil {
			w.events.Delete(k)
		}
		if w.present == nil && len(w.told) >= max(w.roomy, minTold) {
			w.bucket.forgotten(w.told)
			w.roomy = 2 * len(w.told)
		}
		return
	}
	v, err := table.Decode(k, e.Value())
	if err != nil {
		w.bad.add(w.bucket.kv, e, err)
		return
	}
	w.bucket.overtaken(k, e.Value(), e.Revision())
	if w.tell(k, state{digest: maphash.Bytes(w.seed, e.Value())}) && w.events.Put != nil {
		w.events.Put(k, v)
	}
}

// tell says whether k is something else now.
func (w *watch[K, V]) tell(k K, now state) bool {
	before, known := w.told[k]
	w.told[k] = now
	return !known || before != now
}

// badValues are those of a bucket that could not be read.
type badValues struct{ told bool }

func (b *badValues) add(kv *keyValue, e jetstream.KeyValueEntry, err error) {
	kv.conn.metrics.dropped.WithLabelValues(kv.kind, malformed).Inc()
	if !b.told {
		b.told = true
		kv.conn.log.Warn("ignored a value that cannot be read; further ones are only counted",
			"bucket", kv.name, "key", e.Key(), "error", err)
	}
}

var (
	errClosed   = errors.New("watching a bucket: the connection to NATS is closed")
	errStopped  = errors.New("the watch was ended by the server")
	errNoAnswer = errors.New("no answer from the server")
)
