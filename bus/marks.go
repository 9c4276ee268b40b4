package bus

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// mark is what a deletion has left in the bucket.
type mark struct {
	revision uint64
	made     time.Time
}

const (
	// markedFor is how long a mark stays: whoever is cut off for longer may put again what
	// was deleted meanwhile.
	markedFor = 24 * time.Hour
	// sweepAtOnce is how many old marks go with one deletion at most: more than it makes,
	// so that they become fewer.
	sweepAtOnce = 8
	sweepWithin = 500 * time.Millisecond
	// minTold is how many keys a watch knows before it looks for those to be forgotten.
	minTold = 64
)

// sweep removes marks that are old, or a bucket would hold one of every key that was ever
// stored. b.mu is held.
func (b *Bucket[K, V]) sweep(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, sweepWithin)
	defer cancel()
	var stream jetstream.Stream
	swept := 0
	for k, m := range b.marks {
		if b.unswept || swept == sweepAtOnce {
			return
		}
		if time.Since(m.made) < b.markedFor {
			continue
		}
		swept++
		err := error(nil)
		if stream == nil {
			stream, err = b.kv.conn.js.Stream(ctx, "KV_"+b.table.Bucket)
		}
		if err == nil {
			// Nothing beyond the mark: the key may have been put again.
			err = stream.Purge(ctx, jetstream.WithPurgeSubject("$KV."+b.table.Bucket+"."+b.table.FormatKey(k)), jetstream.WithPurgeSequence(m.revision+1))
		}
		if err != nil {
			if b.kv.conn.Connected() && !errors.Is(err, jetstream.ErrStreamNotFound) {
				b.unswept = true // until the next connection, since each try costs time
				b.kv.conn.log.Warn("old marks of deletions cannot be removed from a bucket", "bucket", b.table.Bucket, "error", err,
					"hint", "let this user publish to $JS.API.STREAM.PURGE.KV_"+b.table.Bucket)
			}
			return
		}
		delete(b.marks, k)
	}
}

// forgotten drops from told what was deleted and has no mark any more that could tell
// of it again. Those that are old are taken to be swept by whoever deletes.
func (b *Bucket[K, V]) forgotten(told map[K]state) {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.marks, func(_ K, m mark) bool { return time.Since(m.made) > 2*b.markedFor })
	maps.DeleteFunc(told, func(k K, was state) bool {
		_, marked := b.marks[k]
		return was.deleted && !marked
	})
}
