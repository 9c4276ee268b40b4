package kvindex

import (
	"math"
	"math/bits"
)

// table maps evenly spread 64-bit keys to values. It is open addressing in key
// order: a key's home is proportional to the key, and a slot never holds a smaller
// key than the slots before it. So a missing key is recognised as soon as a found
// one, tables are filled to seven eighths, growing them is one pass over memory, and
// a walk that stops at a key goes on behind it, whatever has changed.
//
// The zero table is empty. It is not safe for concurrent use.
type table[V any] struct {
	slots []slot[V] // the homes and a tail; the last slot stays vacant
	homes uint64
	n     int
}

type slot[V any] struct {
	key   uint64
	value V
}

// vacant is the key of slots without one. It is the largest, which ends a search.
const vacant = math.MaxUint64

// spread makes an evenly spread key of any number, one for one but for one pair.
func spread(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	x ^= x >> 31
	return min(x, vacant-1)
}

func (t *table[V]) home(key uint64) int {
	home, _ := bits.Mul64(key, t.homes)
	return int(home)
}

// at is the first slot from key's home on whose key is not smaller. The table has
// slots.
func (t *table[V]) at(key uint64) int {
	i := t.home(key)
	for t.slots[i].key < key {
		i++
	}
	return i
}

// find is the value of a key, or nil. It is valid until the table changes.
func (t *table[V]) find(key uint64) *V {
	if t.n == 0 {
		return nil
	}
	if s := &t.slots[t.at(key)]; s.key == key {
		return &s.value
	}
	return nil
}

// put is the value of a key, which it adds with the zero value if it is missing, and
// whether it was there. It is valid until the table changes.
func (t *table[V]) put(key uint64) (value *V, found bool) {
	if uint64(t.n) >= t.homes-t.homes/8 {
		t.resize(t.homes+t.homes/8+8, 0)
	}
	for {
		i := t.at(key)
		if t.slots[i].key == key {
			return &t.slots[i].value, true
		}
		end := i
		for t.slots[end].key != vacant {
			end++
		}
		if end == len(t.slots)-1 { // keys crowd at the end: more homes would not help
			t.resize(t.homes, 2*(uint64(len(t.slots))-t.homes))
			continue
		}
		copy(t.slots[i+1:end+1], t.slots[i:end])
		t.slots[i] = slot[V]{key: key}
		t.n++
		return &t.slots[i].value, false
	}
}

// take removes a key and returns its value. Whoever has taken many lets the table
// [table.fit].
func (t *table[V]) take(key uint64) (value V, found bool) {
	if t.n == 0 {
		return value, false
	}
	i := t.at(key)
	if t.slots[i].key != key {
		return value, false
	}
	value = t.slots[i].value
	end := i + 1
	for t.slots[end].key != vacant && t.home(t.slots[end].key) < end {
		end++
	}
	copy(t.slots[i:end-1], t.slots[i+1:end])
	t.slots[end-1] = slot[V]{key: vacant}
	t.n--
	return value, true
}

// fit gives memory back that a table does not need any more. It must not be called
// while keys are taken in their order: for as long as only small keys are gone, the
// others stand closer than their number says.
func (t *table[V]) fit() {
	switch n := uint64(t.n); {
	case n == 0:
		*t = table[V]{}
	case t.homes > 64 && n < t.homes/2:
		t.resize(n+n/3, 0)
	}
}

// resize moves everything to a table with that many homes, which is more than n, and
// a tail of at least that many slots.
func (t *table[V]) resize(homes, tail uint64) {
	old := t.slots
	t.homes = homes
	for tail = max(tail, 16+min(homes/8, 48)); ; tail *= 2 {
		if t.slots = make([]slot[V], homes+tail); t.fill(old) {
			return
		}
	}
}

// fill lays the slots of a smaller or larger table out in t's, which are new.
func (t *table[V]) fill(old []slot[V]) bool {
	next := 0
	for i := range old {
		if old[i].key == vacant {
			continue
		}
		home := max(t.home(old[i].key), next)
		if home >= len(t.slots)-1 {
			return false
		}
		for ; next < home; next++ {
			t.slots[next].key = vacant
		}
		t.slots[home] = old[i]
		next = home + 1
	}
	for ; next < len(t.slots); next++ {
		t.slots[next].key = vacant
	}
	return true
}

// walk appends up to cap(into)-len(into) slots with keys of at least from, in
// ascending order.
func (t *table[V]) walk(from uint64, into []slot[V]) []slot[V] {
	if t.n == 0 {
		return into
	}
	for i := t.at(from); i < len(t.slots) && len(into) < cap(into); i++ {
		if t.slots[i].key != vacant {
			into = append(into, t.slots[i])
		}
	}
	return into
}
