package ingress

import (
	"maps"
	"sync"
	"sync/atomic"
)

// table is the series of a metric, by what tells them apart. It only grows: a series
// that is there is found without a lock and without an allocation. It is safe for
// concurrent use.
type table[K comparable, V any] struct {
	// made makes a series, and says whether it is kept: where keys are more than there
	// are series, it is not.
	made func(K) (v V, kept bool)

	mu  sync.Mutex
	all atomic.Pointer[map[K]V] // copied to add
}

func newTable[K comparable, V any](made func(K) (v V, kept bool)) *table[K, V] {
	t := &table[K, V]{made: made}
	t.all.Store(&map[K]V{})
	return t
}

// of is the series of k.
func (t *table[K, V]) of(k K) V {
	if v, ok := (*t.all.Load())[k]; ok {
		return v
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	v, kept := t.made(k)
	if kept {
		next := maps.Clone(*t.all.Load())
		next[k] = v
		t.all.Store(&next)
	}
	return v
}
