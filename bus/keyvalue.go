package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// requestTimeout bounds each exchange with JetStream.
const requestTimeout = 2 * time.Second

// keyValue finds a KV bucket, or makes it. It is safe for concurrent use.
type keyValue struct {
	conn   *Conn
	name   string
	kind   string        // of its values
	limits *Limits       // nil: whatever the bucket has
	again  chan struct{} // asks the watch to start anew; one request is as good as many

	mu   sync.Mutex
	kv   jetstream.KeyValue // nil until first used
	made time.Time          // when the bucket was made, which tells it from one of the same name
}

// Limits bound what a bucket keeps.
type Limits struct {
	// MaxIdle is for how long a value stays that is not put again, 0 for ever.
	MaxIdle time.Duration
	// MaxMemory is the most bytes in a bucket that is kept in memory, 0 is no bound.
	// What is beyond it is refused.
	MaxMemory int64
}

func newKeyValue(c *Conn, name, kind string, limits *Limits) *keyValue {
	return &keyValue{conn: c, name: name, kind: kind, limits: limits, again: make(chan struct{}, 1)}
}

// do runs f on the bucket, and once more on a new one if there is none any more.
func (b *keyValue) do(ctx context.Context, f func(context.Context, jetstream.KeyValue) error) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	kv, err := b.current(ctx)
	if err != nil {
		return err
	}
	err = f(ctx, kv)
	if errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrNoResponders) {
		kv, err = b.open(ctx)
		if err != nil {
			return err
		}
		b.restart()
		err = f(ctx, kv)
	}
	return sendError(err)
}

// current is the bucket as it was last opened.
func (b *keyValue) current(ctx context.Context) (jetstream.KeyValue, error) {
	if !b.conn.Connected() {
		return nil, ErrDisconnected
	}
	b.mu.Lock()
	kv := b.kv
	b.mu.Unlock()
	if kv != nil {
		return kv, nil
	}
	return b.open(ctx)
}

// restart has a running watch start anew.
func (b *keyValue) restart() {
	select {
	case b.again <- struct{}{}:
	default:
	}
}

// open finds the bucket of now or makes it.
func (b *keyValue) open(ctx context.Context) (jetstream.KeyValue, error) {
	if !b.conn.Connected() {
		return nil, ErrDisconnected
	}
	kv, err := b.conn.js.KeyValue(ctx, b.name)
	switch {
	case errors.Is(err, jetstream.ErrBucketNotFound):
		kv, err = b.create(ctx)
		if errors.Is(err, jetstream.ErrBucketExists) { // made by another process meanwhile
			kv, err = b.conn.js.KeyValue(ctx, b.name)
		}
	case err == nil:
		b.adjust(ctx, kv)
	}
	made := time.Time{}
	if err == nil {
		made, err = b.madeAt(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the bucket: %w", jetStreamError(sendError(err)))
	}
	b.mu.Lock()
	b.kv, b.made = kv, made
	b.mu.Unlock()
	return kv, nil
}

// madeAt is when the bucket that there is now was made.
func (b *keyValue) madeAt(ctx context.Context) (time.Time, error) {
	s, err := b.conn.js.Stream(ctx, "KV_"+b.name)
	if err != nil {
		return time.Time{}, err
	}
	return s.CachedInfo().Created, nil
}

// replaced says whether the bucket that was opened is known to be gone.
func (b *keyValue) replaced(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if !b.conn.Connected() {
		return false // what follows a reconnect looks anyway
	}
	b.mu.Lock()
	made := b.made
	b.mu.Unlock()
	now, err := b.madeAt(ctx)
	return errors.Is(err, jetstream.ErrStreamNotFound) || err == nil && !made.IsZero() && !now.Equal(made)
}

// create makes the bucket as the server allows.
func (b *keyValue) create(ctx context.Context) (kv jetstream.KeyValue, err error) {
	config := jetstream.KeyValueConfig{
		Bucket:      b.name,
		Description: "smg: " + b.kind,
		History:     1,
		Storage:     b.conn.storage(),
	}
	if b.limits != nil {
		config.TTL = b.limits.MaxIdle
		if config.Storage == jetstream.MemoryStorage {
			config.MaxBytes = b.limits.MaxMemory
		}
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

// adjust gives a bucket of an earlier time the limit of now. One that cannot be
// changed is used as it is.
func (b *keyValue) adjust(ctx context.Context, kv jetstream.KeyValue) {
	if b.limits == nil {
		return
	}
	status, err := kv.Status(ctx)
	if err == nil {
		config := status.Config()
		if config.TTL == b.limits.MaxIdle {
			return
		}
		config.TTL = b.limits.MaxIdle
		_, err = b.conn.js.UpdateKeyValue(ctx, config)
	}
	if err != nil {
		b.conn.log.Warn("a bucket keeps values for another time than it should", "bucket", b.name, "should", b.limits.MaxIdle, "error", err)
	}
}
