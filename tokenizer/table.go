package tokenizer

import "math/bits"

// table is a map from numbers to pairs of numbers, made for being read: open
// addressing, half full at most.
type table struct {
	keys  []uint64 // key+1, 0: free
	first []uint32
	other []uint32
	shift uint
	n     int
}

func newTable(n int) *table {
	size := 16
	for size < 2*n {
		size *= 2
	}
	return &table{
		keys: make([]uint64, size), first: make([]uint32, size), other: make([]uint32, size),
		shift: 64 - uint(bits.TrailingZeros(uint(size))),
	}
}

func (t *table) slot(key uint64) int {
	i := int(key * 0x9E3779B97F4A7C15 >> t.shift)
	for t.keys[i] != 0 && t.keys[i] != key+1 {
		if i++; i == len(t.keys) {
			i = 0
		}
	}
	return i
}

// get is the pair of key.
func (t *table) get(key uint64) (first, other uint32, ok bool) {
	i := t.slot(key)
	return t.first[i], t.other[i], t.keys[i] != 0
}

// set gives key a pair, in place of the one it has.
func (t *table) set(key uint64, first, other uint32) {
	if 2*t.n >= len(t.keys) {
		t.grow()
	}
	i := t.slot(key)
	if t.keys[i] == 0 {
		t.n++
	}
	t.keys[i], t.first[i], t.other[i] = key+1, first, other
}

func (t *table) grow() {
	old := *t
	*t = *newTable(len(old.keys))
	for i, k := range old.keys {
		if k != 0 {
			t.set(k-1, old.first[i], old.other[i])
		}
	}
}

func pairKey(a, b uint32) uint64 { return uint64(a)<<32 | uint64(b) }
