package ingress

import (
	"fmt"
	"testing"
)

func TestBuffers(t *testing.T) {
	var b buffers
	for _, tt := range []struct {
		n       int64
		wantCap int
	}{
		{0, 0}, {1, 1}, {4096, 4096}, {4097, 8192}, {8192, 8192}, {8193, 16384}, {64 << 10, 64 << 10}, {1 << 20, 1 << 20}, {1<<20 + 1, 1<<20 + 1},
	} {
		t.Run(fmt.Sprint(tt.n), func(t *testing.T) {
			for range 3 { // new, and used again
				p := b.get(tt.n)
				if len(p) != 0 || int64(cap(p)) < tt.n || cap(p) < tt.wantCap {
					t.Fatalf("length %d, capacity %d", len(p), cap(p))
				}
				b.put(append(p, make([]byte, tt.n)...))
			}
		})
	}
	b.left.Store(10)
	if !b.reserve(10) || b.reserve(1) {
		t.Error("the budget is not kept")
	}
	if b.release(10); b.left.Load() != 10 {
		t.Errorf("%d bytes are left", b.left.Load())
	}
}

func TestLongEventsTakeOfTheBudget(t *testing.T) {
	var b buffers
	b.left.Store(1000)
	f := framer{budget: &b}
	piece := make([]byte, freeEvent)
	for i := range piece {
		piece[i] = 'x'
	}
	f.add(piece)
	if _, ok := f.next(); ok || f.raw || b.left.Load() != 1000 {
		t.Fatalf("raw %v, %d left", f.raw, b.left.Load())
	}
	f.add(piece[:600])
	if _, ok := f.next(); ok || f.raw || b.left.Load() != 400 {
		t.Fatalf("raw %v, %d left", f.raw, b.left.Load())
	}
	f.add(piece[:600])
	if e, ok := f.next(); !ok || !f.raw || len(e) != freeEvent+1200 {
		t.Errorf("%d bytes, raw %v: there is no room for more", len(e), f.raw)
	}
	f.release()
	if left := b.left.Load(); left != 1000 {
		t.Errorf("%d left", left)
	}
}
