package ingress

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

// buffers is the memory for request bodies: bounded as a whole, and used again for
// bodies of a size that would otherwise keep the garbage collector busy.
type buffers struct {
	left atomic.Int64 // of --max-buffered-bytes-total
	// free has buffers of minPooled << i bytes.
	free [pooledSizes]sync.Pool
}

const (
	minPooled   = 8 << 10
	pooledSizes = 8 // up to 1 MiB
)

// reserve takes n bytes of the budget, if they are left.
func (b *buffers) reserve(n int64) bool {
	if b.left.Add(-n) >= 0 {
		return true
	}
	b.left.Add(n)
	return false
}

func (b *buffers) release(n int64) { b.left.Add(n) }

// get is an empty buffer with room for n bytes or more.
func (b *buffers) get(n int64) []byte {
	class := sizeClass(n)
	if n <= minPooled/2 || class >= pooledSizes {
		return make([]byte, 0, n)
	}
	if p, ok := b.free[class].Get().(*[]byte); ok {
		return (*p)[:0]
	}
	return make([]byte, 0, minPooled<<class)
}

// put takes a buffer of get back that nobody refers to any more.
func (b *buffers) put(p []byte) {
	class := sizeClass(int64(cap(p)))
	if class < pooledSizes && cap(p) == minPooled<<class {
		kept := p // moves to the heap here alone
		b.free[class].Put(&kept)
	}
}

// sizeClass is the smallest i with n <= minPooled << i.
func sizeClass(n int64) int {
	return bits.Len64(uint64(max(n-1, 0) / minPooled))
}
