package kvindex

import (
	"math/bits"
	"slices"
)

// setID names a set of slots in a [sets]. The zero setID is the empty set.
type setID uint32

// maxFew is how many members a set has that is kept as a list.
const maxFew = 16

// set is an immutable set of slots. What it looks like depends on its members alone.
type set struct {
	few   []uint32 // the members in ascending order, while there are few
	words []uint64 // else a bit for every slot, without zero words at the end
	n     int
	hash  uint64 // sum over the members

	refs int
	next setID // another set with this hash
}

func (s *set) has(slot uint32) bool {
	if s.words != nil {
		w := int(slot / 64)
		return w < len(s.words) && s.words[w]&(1<<(slot%64)) != 0
	}
	return slices.Contains(s.few, slot)
}

// members yields the members in ascending order.
func (s *set) members(yield func(slot uint32) bool) {
	for _, slot := range s.few {
		if !yield(slot) {
			return
		}
	}
	for w, word := range s.words {
		for ; word != 0; word &= word - 1 {
			if !yield(uint32(w*64 + bits.TrailingZeros64(word))) {
				return
			}
		}
	}
}

// within says whether every member of s is one of t, which has no fewer.
func (s *set) within(t *set) bool {
	if s.words == nil {
		for _, slot := range s.few {
			if !t.has(slot) {
				return false
			}
		}
		return true
	}
	if len(s.words) > len(t.words) {
		return false
	}
	for w, word := range s.words {
		if word&^t.words[w] != 0 {
			return false
		}
	}
	return true
}

// sets are the distinct sets of holders, each kept once: the blocks of a prompt that
// many workers hold mostly have the same holders, and a block then needs no more
// than a setID. A set lives as long as something refers to it. The zero sets are
// ready for use, not concurrently.
type sets struct {
	all    []set // by ID; the first is the empty set
	unused []setID
	byHash map[uint64]setID

	// The last change made. What changes is mostly a run of blocks with the same
	// holders.
	last struct {
		from, to setID
		slot     uint32
	}
}

func (s *sets) has(id setID, slot uint32) bool { return s.all[id].has(slot) }

// one is the set of a slot alone, with a reference to it.
func (s *sets) one(slot uint32) setID {
	if s.all == nil {
		s.all, s.byHash = make([]set, 1), map[uint64]setID{}
	}
	id := s.changed(0, slot)
	s.all[id].refs++
	return id
}

// retain counts one more reference to a set.
func (s *sets) retain(id setID) { s.all[id].refs++ }

// toggle replaces a reference to a set by one to the set with slot put in or taken
// out, whichever is possible.
func (s *sets) toggle(id setID, slot uint32) setID {
	to := s.last.to
	if s.last.from != id || s.last.slot != slot || to == 0 {
		to = s.changed(id, slot)
		s.last.from, s.last.to, s.last.slot = id, to, slot
	}
	if to != 0 {
		s.all[to].refs++
	}
	s.release(id)
	return to
}

// changed is the set that toggle makes. If it is new, it has no references yet.
func (s *sets) changed(id setID, slot uint32) setID {
	old := &s.all[id]
	share := spread(uint64(slot) + 1) // of the hash
	adds, hash, n := !old.has(slot), old.hash+share, old.n+1
	if !adds {
		hash, n = old.hash-share, old.n-1
	}
	if n == 0 {
		return 0
	}
	first := s.byHash[hash]
	for at := first; at != 0; at = s.all[at].next {
		have := &s.all[at]
		if have.n == n && have.has(slot) == adds && (adds && old.within(have) || !adds && have.within(old)) {
			return at
		}
	}
	made := set{n: n, hash: hash, next: first}
	made.few, made.words = old.copied(slot, adds)
	if k := len(s.unused); k > 0 {
		id, s.unused = s.unused[k-1], s.unused[:k-1]
		s.all[id] = made
	} else {
		id = setID(len(s.all))
		s.all = append(s.all, made)
	}
	s.byHash[hash] = id
	return id
}

// copied is the members with slot added or removed.
func (s *set) copied(slot uint32, adds bool) (few []uint32, words []uint64) {
	at, word, bit := 0, int(slot/64), uint64(1)<<(slot%64)
	if s.words == nil {
		at, _ = slices.BinarySearch(s.few, slot)
	}
	switch {
	case adds && s.n < maxFew:
		return slices.Concat(s.few[:at], []uint32{slot}, s.few[at:]), nil
	case adds && s.n == maxFew:
		words = make([]uint64, max(int(s.few[s.n-1]/64), word)+1)
		for _, member := range s.few {
			words[member/64] |= 1 << (member % 64)
		}
		words[word] |= bit
		return nil, words
	case adds:
		words = make([]uint64, max(len(s.words), word+1))
		copy(words, s.words)
		words[word] |= bit
		return nil, words
	case s.n <= maxFew:
		return slices.Concat(s.few[:at], s.few[at+1:]), nil
	case s.n == maxFew+1:
		few = make([]uint32, 0, maxFew)
		for member := range s.members {
			if member != slot {
				few = append(few, member)
			}
		}
		return few, nil
	}
	words = slices.Clone(s.words)
	words[word] &^= bit
	for words[len(words)-1] == 0 {
		words = words[:len(words)-1]
	}
	return nil, words
}

// release drops a reference to a set.
func (s *sets) release(id setID) {
	if id == 0 {
		return
	}
	gone := &s.all[id]
	if gone.refs--; gone.refs > 0 {
		return
	}
	if id == s.last.from || id == s.last.to {
		s.last.to = 0
	}
	if first := s.byHash[gone.hash]; first != id {
		for s.all[first].next != id {
			first = s.all[first].next
		}
		s.all[first].next = gone.next
	} else if gone.next != 0 {
		s.byHash[gone.hash] = gone.next
	} else {
		delete(s.byHash, gone.hash)
	}
	*gone = set{}
	s.unused = append(s.unused, id)
}
