package radix

import (
	"hash/maphash"
	"strings"
	"testing"
	"unsafe"
)

func TestSizesOfStructs(t *testing.T) {
	if got := unsafe.Sizeof(node{}); got > 72 {
		t.Errorf("a node has %d bytes", got)
	}
	if got := unsafe.Sizeof(hold{}); got > 40 {
		t.Errorf("a hold has %d bytes", got)
	}
}

// colliding gives pages one of four keys, below all nodes the same.
type colliding struct{ pages }

func (colliding) key(_ uint32, s string) uint64 { return uint64((s[0] | s[3]) & 3) }

// TestCollisionIsMismatch: pages with the same digest are told apart by their
// tokens, and by what they follow.
func TestCollisionIsMismatch(t *testing.T) {
	f := &Tokens{page: tokenBytes}
	f.init(colliding{pages{size: tokenBytes, seed: maphash.MakeSeed()}}, 1000)
	tests := []struct {
		name   string
		tokens []uint32
		before int // matched
		after  int
	}{
		{"known to the root itself", []uint32{1}, 0, 1},
		{"in the table", []uint32{2, 7}, 0, 2},
		{"no place left", []uint32{6, 7}, 0, 0},
		{"known to its parent itself", []uint32{1, 5}, 1, 2},
		{"in the table too", []uint32{1, 3}, 1, 2},
		{"another parent's place", []uint32{1, 2, 7}, 1, 1},
	}
	var p Place
	for _, tt := range tests {
		if f.Match(&p, 0, tt.tokens); p.Matched != tt.before {
			t.Errorf("%s: matched %d of another", tt.name, p.Matched)
		}
		f.Insert(&p, [16]byte{1})
		if f.Match(&p, 0, tt.tokens); p.Matched != tt.after {
			t.Errorf("%s: matched %d, want %d", tt.name, p.Matched, tt.after)
		}
		if err := f.Check(); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	f.Evict(0)
	if got := f.Stats(); got != (Stats{}) {
		t.Errorf("left: %+v", got)
	}
}

func TestCommonAndStarts(t *testing.T) {
	for n := range 700 {
		a := strings.Repeat("é", 350)
		b := a[:n] + "x" + a[n:]
		if got := common(a, b); got != n {
			t.Errorf("common at %d: %d", n, got)
		}
		if got := common(a, a[:n]); got != n {
			t.Errorf("common of %d: %d", n, got)
		}
		mixed := a[:n] + strings.Repeat("a", n) + strings.Repeat("世😀", n/3) + "\x80\xff"
		want := 0
		for i := range len(mixed) {
			if !continues(mixed[i]) {
				want++
			}
		}
		if got := starts(mixed); got != want {
			t.Errorf("starts of %d bytes: %d, want %d", len(mixed), got, want)
		}
	}
}
