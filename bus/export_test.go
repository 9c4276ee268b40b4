package bus

import (
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// MarksFor sets how long the marks of deletions stay.
func (b *Bucket[K, V]) MarksFor(d time.Duration) { b.markedFor = d }

// Marks is how many marks this process knows.
func (b *Bucket[K, V]) Marks() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.marks)
}

// JetStream is the connection's own.
func (c *Conn) JetStream() jetstream.JetStream { return c.js }
