package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"smg/wire"
)

// requestTimeout bounds each exchange with JetStream.
const requestTimeout = 2 * time.Second

// Bucket is a table of package wire in a KV bucket, which is made on first use. It
// remembers what this process put, to put it again should the bucket lose it. It
// is safe for concurrent use.
type Bucket[K comparable, V any] struct {
	conn  *Conn
	table wire.Table[K, V]
	again chan struct{} // asks the watch to start anew; one request is as good as many

	// Held during a write, so that writes and what is remembered of them have one order.
	mu  sync.Mutex
	kv  jetstream.KeyValue // nil until first used
	own map[K]written
}

// written is a value that this process put.
type written struct {
	data     []byte
	revision uint64 // in the bucket of now; 0 when it may be another bucket by now
}

// NewBucket is the bucket of a table. It talks to nobody yet.
func NewBucket[K comparable, V any](c *Conn, t wire.Table[K, V]) *Bucket[K, V] {
	return &Bucket[K, V]{conn: c, table: t, again: make(chan struct{}, 1), own: map[K]written{}}
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
	err := b.write(ctx, func(ctx context.Context, kv jetstream.KeyValue) error {
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
	err := b.write(ctx, func(ctx context.Context, kv jetstream.KeyValue) error {
		return kv.Delete(ctx, b.table.FormatKey(k))
	})
	if err != nil {
		return fmt.Errorf("deleting %s from %s: %w", b.table.FormatKey(k), b.table.Bucket, err)
	}
	delete(b.own, k)
	return nil
}

// write runs f on the bucket, and once more on a new one if there is none any more.
func (b *Bucket[K, V]) write(ctx context.Context, f func(context.Context, jetstream.KeyValue) error) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if !b.conn.Connected() {
		return ErrDisconnected
	}
	if b.kv == nil {
		if err := b.open(ctx); err != nil {
			return err
		}
	}
	err := f(ctx, b.kv)
	if errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrNoResponders) {
		if err := b.open(ctx); err != nil {
			return err
		}
		b.restart()
		err = f(ctx, b.kv)
	}
	return sendError(err)
}

// restart has a running watch start anew.
func (b *Bucket[K, V]) restart() {
	select {
	case b.again <- struct{}{}:
	default:
	}
}

// open finds the bucket or makes it. It is called with b.mu held.
func (b *Bucket[K, V]) open(ctx context.Context) error {
	if !b.conn.Connected() {
		return ErrDisconnected
	}
	kv, err := b.conn.js.KeyValue(ctx, b.table.Bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		kv, err = b.create(ctx)
		if errors.Is(err, jetstream.ErrBucketExists) { // made by another process meanwhile
			kv, err = b.conn.js.KeyValue(ctx, b.table.Bucket)
		}
	}
	if err != nil {
		return fmt.Errorf("opening the bucket: %w", jetStreamError(sendError(err)))
	}
	b.kv = kv
	return nil
}

// create makes the bucket as the server allows.
func (b *Bucket[K, V]) create(ctx context.Context) (kv jetstream.KeyValue, err error) {
	config := jetstream.KeyValueConfig{
		Bucket:      b.table.Bucket,
		Description: "smg: " + b.table.Kind,
		History:     1,
		Storage:     b.conn.storage(),
	}
	for _, config.Replicas = range b.conn.replicas() {
		kv, err = b.conn.js.CreateKeyValue(ctx, config)
		if !isTooFewServers(err) {
			break
		}
	}
	if isTooFewServers(err) {
		err = fmt.Errorf("--nats-replicas %d: the NATS cluster is too small: %w", config.Replicas, err)
	}
	return kv, err
}

// reopen is the bucket of now. Revisions of an earlier one mean nothing in it.
func (b *Bucket[K, V]) reopen(ctx context.Context) (jetstream.KeyValue, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.open(ctx); err != nil {
		return nil, err
	}
	for k, w := range b.own {
		b.own[k] = written{data: w.data}
	}
	return b.kv, nil
}

// deleted forgets what this process put, unless it put it after the deletion.
func (b *Bucket[K, V]) deleted(k K, revision uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if w, ok := b.own[k]; ok && w.revision < revision {
		delete(b.own, k)
	}
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
		b.conn.log.Info("put again what the bucket had lost", "bucket", b.table.Bucket, "values", len(missing))
	}
	return nil
}
