package bus

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"smg/wire"
)

// Bucket is a table of package wire in a KV bucket, which is made on first use. It
// remembers what this process put, to put it again should the bucket lose it. It
// is safe for concurrent use.
type Bucket[K comparable, V any] struct {
	kv    *keyValue
	table wire.Table[K, V]

	// Held during a write, so that writes and what is remembered of them have one order.
	mu      sync.Mutex
	own     map[K]written
	marks   map[K]mark // of deletions, as the watch has told
	unswept bool       // the server does not let this process remove them

	markedFor time.Duration
}

// written is a value that this process put.
type written struct {
	data     []byte
	revision uint64 // in the bucket of now; 0 when it may be another bucket by now
}

// NewBucket is the bucket of a table. It talks to nobody yet.
func NewBucket[K comparable, V any](c *Conn, t wire.Table[K, V]) *Bucket[K, V] {
	return &Bucket[K, V]{kv: newKeyValue(c, t.Bucket, t.Kind, nil), table: t, own: map[K]written{}, marks: map[K]mark{}, markedFor: markedFor}
}

// Put stores v under its key; it is stored when Put returns nil. After an error it
// may be stored or not, and nobody but the caller will try again.
func (b *Bucket[K, V]) Put(ctx context.Context, v *V) error {
	data, err := b.table.Append(nil, v)
	if err != nil {
		return fmt.Errorf("storing in %s: %w", b.table.Bucket, err)
	}
	k := b.table.Key(v)
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.put(ctx, k, data)
}

// put is called with b.mu held.
func (b *Bucket[K, V]) put(ctx context.Context, k K, data []byte) error {
	err := b.kv.do(ctx, func(ctx context.Context, kv jetstream.KeyValue) error {
		revision, err := kv.Put(ctx, b.table.FormatKey(k), data)
		if err == nil {
			b.own[k] = written{data, revision}
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("storing %s in %s: %w", b.table.FormatKey(k), b.table.Bucket, err)
	}
	return nil
}

// Delete removes what is stored under k, whoever put it, and leaves a mark that
// tells everybody, also those who are not connected now. Deleting what is not
// there is no error.
func (b *Bucket[K, V]) Delete(ctx context.Context, k K) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.kv.do(ctx, func(ctx context.Context, kv jetstream.KeyValue) error {
		return kv.Delete(ctx, b.table.FormatKey(k))
	})
	if err != nil {
		return fmt.Errorf("deleting %s from %s: %w", b.table.FormatKey(k), b.table.Bucket, err)
	}
	delete(b.own, k)
	b.sweep(ctx)
	return nil
}

// renewed says that the bucket may be another: revisions of an earlier one mean
// nothing in it.
func (b *Bucket[K, V]) renewed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for k, w := range b.own {
		b.own[k] = written{data: w.data}
	}
	clear(b.marks)
	b.unswept = false
}

// deleted notes a mark, and forgets what this process put, unless it put it after the
// deletion.
func (b *Bucket[K, V]) deleted(k K, m mark) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if w, ok := b.own[k]; ok && w.revision < m.revision {
		delete(b.own, k)
	}
	b.marks[k] = m
}

// refill puts again what this process put and the bucket has not.
func (b *Bucket[K, V]) refill(ctx context.Context, has func(K) bool) error {
	b.mu.Lock()
	var missing []K
	for k, w := range b.own {
		if w.revision == 0 && !has(k) {
			missing = append(missing, k)
		}
	}
	b.mu.Unlock()
	for _, k := range missing {
		b.mu.Lock()
		w, ok := b.own[k] // it may have been deleted, or put, meanwhile
		var err error
		if ok && w.revision == 0 {
			err = b.put(ctx, k, w.data)
		}
		b.mu.Unlock()
		if err != nil {
			return err
		}
	}
	if len(missing) > 0 {
		b.kv.conn.log.Info("put again what the bucket had lost", "bucket", b.table.Bucket, "values", len(missing))
	}
	return nil
}
