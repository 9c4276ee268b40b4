package bus

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// changeTries bounds how often a change is asked for anew because of others' writes.
const changeTries = 4

// operationHeader marks what stands for a deletion in the stream of a bucket.
const operationHeader = "KV-Operation"

// Change stores what change makes of what is stored under k: another value, or nil to
// delete it. old is nil if there is none, or none that can be read, and is change's own.
// What others write meanwhile is never lost: change is asked anew for what they wrote,
// a few times, and then the error is [ErrConflict]. An error of change is returned as it
// is, and nothing is stored; after any other error the change may be stored or not.
func (b *Bucket[K, V]) Change(ctx context.Context, k K, change func(old *V) (*V, error)) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for try := 1; ; try++ {
		var refused error
		removed := false
		err := b.kv.do(ctx, func(ctx context.Context, kv jetstream.KeyValue) error {
			var err error
			refused, err = b.change(ctx, kv, k, func(old *V) (*V, error) {
				v, err := change(old)
				removed = v == nil && err == nil
				return v, err
			})
			return err
		})
		switch {
		case refused != nil:
			return refused
		case err == nil:
			if removed {
				b.sweep(ctx)
			}
			return nil
		case !isConflict(err):
			return fmt.Errorf("changing %s in %s: %w", b.table.FormatKey(k), b.table.Bucket, err)
		case try == changeTries:
			return fmt.Errorf("changing %s in %s: %w", b.table.FormatKey(k), b.table.Bucket, ErrConflict)
		}
	}
}

// change is one try; refused is the error of change. b.mu is held.
func (b *Bucket[K, V]) change(ctx context.Context, kv jetstream.KeyValue, k K, change func(*V) (*V, error)) (refused, err error) {
	key := b.table.FormatKey(k)
	var old *V
	after := uint64(0)
	switch e, err := kv.Get(ctx, key); {
	case errors.Is(err, jetstream.ErrKeyNotFound) || errors.Is(err, jetstream.ErrKeyDeleted):
	case err != nil:
		return nil, err
	default:
		after = e.Revision()
		old, _ = b.table.Decode(k, e.Value()) // one that cannot be read is none
	}
	v, err := change(old)
	if err != nil {
		return err, nil
	}
	if v == nil {
		if after == 0 {
			return nil, nil
		}
		if err := kv.Delete(ctx, key, jetstream.LastRevision(after)); err != nil {
			return nil, err
		}
		delete(b.own, k)
		return nil, nil
	}
	data, err := b.table.Append(nil, v)
	if err != nil {
		return err, nil
	}
	revision := uint64(0)
	if after == 0 {
		revision, err = kv.Create(ctx, key, data)
	} else {
		revision, err = kv.Update(ctx, key, data, after)
	}
	if err == nil {
		b.own[k] = written{data, revision}
	}
	return nil, err
}

// Deleted says whether somebody has deleted what was stored under k. That the bucket has
// no k is none: it may be a new bucket, which is going to be filled again.
func (b *Bucket[K, V]) Deleted(ctx context.Context, k K) (deleted bool, err error) {
	key := b.table.FormatKey(k)
	err = b.kv.do(ctx, func(ctx context.Context, kv jetstream.KeyValue) error {
		stream, err := b.kv.conn.js.Stream(ctx, "KV_"+kv.Bucket())
		if err != nil {
			return err
		}
		last, err := stream.GetLastMsgForSubject(ctx, "$KV."+kv.Bucket()+"."+key)
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
			deleted = false
		case err != nil:
			return err
		default:
			deleted = last.Header.Get(operationHeader) != ""
		}
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("looking for %s in %s: %w", key, b.table.Bucket, err)
	}
	return deleted, nil
}

// overtaken remembers what somebody else has put in place of what this process had:
// that is what is put again, should the bucket lose it.
func (b *Bucket[K, V]) overtaken(k K, data []byte, revision uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.marks, k)
	if w, ok := b.own[k]; ok && w.revision < revision {
		b.own[k] = written{data, revision}
	}
}
