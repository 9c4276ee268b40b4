package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"smg/wire"
)

// ErrConflict says that what is stored is not what the write was to follow.
var ErrConflict = errors.New("another value is stored")

// Versioned is a table of package wire in a KV bucket, each of whose values may have
// several writers: a write says which revision it follows, and fails if another one
// is stored. It remembers nothing: who has lost values puts them again, once a watch
// has told what there is. It is safe for concurrent use.
type Versioned[K comparable, V any] struct {
	kv    *keyValue
	table wire.Table[K, V]
}

// Stored is what is in a bucket under a key.
type Stored[V any] struct {
	// Value is nil if there is none, or none that can be read.
	Value *V
	// Revision tells apart what is stored under a key one after the other, in one
	// bucket; it grows. In another bucket, which there may be after each Begin of a
	// watch, it says nothing. It is 0 if nothing is stored.
	Revision uint64
	// Age is for how long the value has been stored, by the clocks of two machines.
	Age time.Duration
}

// NewVersioned is the table in a bucket with limits, which is made on first use. It
// talks to nobody yet.
func NewVersioned[K comparable, V any](c *Conn, t wire.Table[K, V], limits Limits) *Versioned[K, V] {
	return &Versioned[K, V]{kv: newKeyValue(c, t.Bucket, t.Kind, &limits), table: t}
}

// Write stores v under its key if the revision after is stored there, or nothing if
// that is 0, and returns v's revision. With [ErrConflict] it returns what is stored
// instead; after another error v may be stored or not.
func (b *Versioned[K, V]) Write(ctx context.Context, v *V, after uint64) (Stored[V], error) {
	k := b.table.Key(v)
	data, err := b.table.Append(nil, v)
	if err != nil {
		return Stored[V]{}, fmt.Errorf("storing in %s: %w", b.table.Bucket, err)
	}
	var now Stored[V]
	err = b.kv.do(ctx, func(ctx context.Context, kv jetstream.KeyValue) error {
		now = Stored[V]{Value: v}
		var err error
		if after == 0 {
			now.Revision, err = kv.Create(ctx, b.table.FormatKey(k), data)
		} else {
			now.Revision, err = kv.Update(ctx, b.table.FormatKey(k), data, after)
		}
		if isConflict(err) {
			if now, err = b.read(ctx, kv, k); err == nil {
				err = ErrConflict
			}
		}
		return err
	})
	if err != nil {
		return now, fmt.Errorf("storing %s in %s: %w", b.table.FormatKey(k), b.table.Bucket, err)
	}
	return now, nil
}

// Remove deletes what is stored under k, if it is the revision after, and leaves a
// mark that tells everybody. With [ErrConflict] it returns what is stored instead;
// that nothing is stored is no error. With after 0 nothing is deleted.
func (b *Versioned[K, V]) Remove(ctx context.Context, k K, after uint64) (Stored[V], error) {
	var now Stored[V]
	err := b.kv.do(ctx, func(ctx context.Context, kv jetstream.KeyValue) error {
		var err error
		if after != 0 {
			err = kv.Delete(ctx, b.table.FormatKey(k), jetstream.LastRevision(after))
			if !isConflict(err) {
				return err
			}
		}
		now, err = b.read(ctx, kv, k)
		if err == nil && now.Revision != 0 {
			err = ErrConflict
		}
		return err
	})
	if err != nil {
		return now, fmt.Errorf("deleting %s from %s: %w", b.table.FormatKey(k), b.table.Bucket, err)
	}
	return Stored[V]{}, nil
}

// isConflict says whether a write failed because of what is stored.
func isConflict(err error) bool {
	return errors.Is(err, jetstream.ErrKeyRevisionMismatch) || errors.Is(err, jetstream.ErrKeyExists)
}

// read is what is stored under k.
func (b *Versioned[K, V]) read(ctx context.Context, kv jetstream.KeyValue, k K) (Stored[V], error) {
	e, err := kv.Get(ctx, b.table.FormatKey(k))
	if errors.Is(err, jetstream.ErrKeyNotFound) || errors.Is(err, jetstream.ErrKeyDeleted) {
		return Stored[V]{}, nil
	}
	if err != nil {
		return Stored[V]{}, err
	}
	s, _ := b.stored(k, e) // a value that cannot be read has a revision
	return s, nil
}

func (b *Versioned[K, V]) stored(k K, e jetstream.KeyValueEntry) (Stored[V], error) {
	v, err := b.table.Decode(k, e.Value())
	return Stored[V]{Value: v, Revision: e.Revision(), Age: max(0, time.Since(e.Created()))}, err
}

// VersionedEvents are told what is in a bucket and what changes. They come one at a
// time, from one goroutine, and must not block for long. This process's own writes
// are told too.
type VersionedEvents[K comparable, V any] struct {
	// Begin: all that is stored is told from here on, whether it was told before or
	// not. The bucket may be another one.
	Begin func()
	// Put: a value is stored under k.
	Put func(k K, s Stored[V])
	// Delete: somebody deleted k at a revision. That a value is not there, or is no
	// more because nobody has put it for too long, is not told.
	Delete func(k K, revision uint64)
	// Synced: all that was stored at Begin has been told.
	Synced func()
}

// Watch tells ev of the bucket until ctx ends, which is no error, or the connection
// is closed. It survives losing the connection, a server that forgot everything, and
// a bucket that was removed: it begins anew. One Watch at a time may run.
func (b *Versioned[K, V]) Watch(ctx context.Context, ev VersionedEvents[K, V]) error {
	return b.kv.watch(ctx, b.table.Keys, &versionedWatch[K, V]{table: b, events: ev})
}

// versionedWatch is the state of one [Versioned.Watch].
type versionedWatch[K comparable, V any] struct {
	table  *Versioned[K, V]
	events VersionedEvents[K, V]
	bad    badValues
}

func (w *versionedWatch[K, V]) begin() { w.events.Begin() }

func (w *versionedWatch[K, V]) synced(context.Context) error {
	w.events.Synced()
	return nil
}

func (w *versionedWatch[K, V]) entry(e jetstream.KeyValueEntry) {
	k, err := w.table.table.ParseKey(e.Key())
	if err == nil && e.Operation() != jetstream.KeyValuePut {
		w.events.Delete(k, e.Revision())
		return
	}
	var s Stored[V]
	if err == nil {
		s, err = w.table.stored(k, e)
	}
	if err != nil {
		w.bad.add(w.table.kv, e, err)
		return
	}
	w.events.Put(k, s)
}
