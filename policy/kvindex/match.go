package kvindex

import (
	"math/bits"
	"sync/atomic"
	"time"

	"smg/worker"
)

// Score is how much of a prompt a rank of a worker holds.
type Score struct {
	Worker worker.ID
	Rank   int
	// Blocks is how many blocks it holds without a gap from the first on; at least 1.
	Blocks int
	// BlockSize is how many tokens a block of this worker has.
	BlockSize int
}

// maxStride is how many blocks are hashed and looked up at a time: what is hashed
// for nothing when a match ends, and how long changes may have to wait.
const maxStride = 64

// firstStride is how many blocks are looked up first; then it is as many as before in
// all. Most of what is not held is not held from the first block on.
const firstStride = 8

// Match appends the score of every rank that holds the first block of a prompt, in
// no order, each in its worker's block size. Blocks matched count as used. It
// allocates nothing but space for scores, while ranks have fewer than 16,384 slots
// and workers no more than four block sizes.
func (ix *Index) Match(tokens []uint32, now time.Time, scores []Score) []Score {
	if ix.held.Load() == 0 {
		return scores
	}
	var sizes [4]int
	ix.mu.RLock()
	used := sizes[:0]
	for _, u := range ix.sizes {
		used = append(used, u.tokens)
	}
	ix.mu.RUnlock()
	m := match{ix: ix, touch: !ix.bounds.off(), stamp: ix.tick(now), scores: scores}
	for _, size := range used {
		for begin := len(m.scores); !m.run(tokens, size); {
			m.scores = m.scores[:begin]
		}
	}
	return m.scores
}

// match is one walk along a prompt.
type match struct {
	ix     *Index
	touch  bool
	stamp  uint32
	scores []Score

	size  int
	chain chain
	at    int    // blocks hashed
	depth int    // blocks that somebody holds
	same  setID  // the holders of the block before, in this stride
	freed uint64 // of the index, when the walk began

	// Who holds everything so far: a list of few, or bits if there are too many. They
	// are parts of arrays, not slices, or a match would not stay on the stack.
	few   int
	list  [maxFew]uint32
	words int
	room  [256]uint64
	large []uint64 // in place of room, if that is too small
}

// bits is the words of those who hold everything so far; none while they are a list.
func (m *match) bits() []uint64 {
	if m.words > len(m.room) {
		return m.large[:m.words]
	}
	return m.room[:m.words]
}

// run scores the workers whose blocks have size tokens. What is looked up in one
// stride is true at one time, between strides workers may come and go. If a slot may
// have been given to another worker in the meantime, run gives up and says no.
func (m *match) run(tokens []uint32, size int) bool {
	m.size, m.chain, m.at, m.depth, m.few, m.words = size, chain{}, 0, 0, 0, 0
	for {
		if going, valid := m.advance(tokens); !going || !valid {
			return valid
		}
	}
}

// advance goes one stride further.
func (m *match) advance(tokens []uint32) (going, valid bool) {
	var prefixes [maxStride]uint64
	left := tokens[m.at*m.size:]
	n := min(m.ix.stride, max(firstStride, m.at), len(left)/m.size)
	for i := range prefixes[:n] {
		prefixes[i] = m.chain.extend(left[i*m.size : (i+1)*m.size])
	}
	m.ix.mu.RLock()
	defer m.ix.mu.RUnlock()
	if m.at == 0 {
		m.freed = m.ix.freed
	}
	if m.freed != m.ix.freed {
		return false, false
	}
	m.at += n
	if going = m.follow(prefixes[:n]); going && len(left)-n*m.size < m.size {
		m.end()
		going = false
	}
	return going, true
}

// follow goes along some blocks and says whether anybody holds them all. ix.mu is
// held.
func (m *match) follow(prefixes []uint64) bool {
	m.same = 0
	for _, prefix := range prefixes {
		t, key := m.ix.part(prefix)
		b := t.find(key)
		if b == nil {
			m.end()
			return false
		}
		if b.holders != m.same {
			holders := &m.ix.sets.all[b.holders]
			if m.depth == 0 {
				m.start(holders)
			} else if !m.narrow(holders) {
				return false
			}
			m.same = b.holders
		}
		m.depth++
		if m.touch && int32(m.stamp-atomic.LoadUint32(&b.touched)) > 0 {
			atomic.StoreUint32(&b.touched, m.stamp)
		}
	}
	return true
}

func (m *match) start(holders *set) {
	m.few, m.words = copy(m.list[:], holders.few), len(holders.words)
	if m.words > len(m.room) {
		m.large = make([]uint64, m.words)
	}
	copy(m.bits(), holders.words)
}

// narrow scores those who do not hold this block, and says whether others do.
func (m *match) narrow(holders *set) bool {
	active := m.bits()
	switch {
	case m.words == 0:
		kept := 0
		for _, slot := range m.list[:m.few] {
			if holders.has(slot) {
				m.list[kept] = slot
				kept++
			} else {
				m.score(slot)
			}
		}
		m.few = kept
		return kept > 0
	case holders.words == nil: // no more than a few are left
		for _, slot := range holders.few {
			if w := int(slot / 64); w < len(active) && active[w]&(1<<(slot%64)) != 0 {
				active[w] &^= 1 << (slot % 64)
				m.list[m.few] = slot
				m.few++
			}
		}
		for w, word := range active {
			m.scoreWord(w, word)
		}
		m.words = 0
		return m.few > 0
	}
	var left uint64
	for w, word := range active {
		var hold uint64
		if w < len(holders.words) {
			hold = holders.words[w]
		}
		m.scoreWord(w, word&^hold)
		active[w] = word & hold
		left |= active[w]
	}
	return left != 0
}

// end scores those who hold everything so far.
func (m *match) end() {
	for _, slot := range m.list[:m.few] {
		m.score(slot)
	}
	for w, word := range m.bits() {
		m.scoreWord(w, word)
	}
}

func (m *match) scoreWord(w int, word uint64) {
	for ; word != 0; word &= word - 1 {
		m.score(uint32(w*64 + bits.TrailingZeros64(word)))
	}
}

func (m *match) score(slot uint32) {
	r := m.ix.slots[slot]
	if r.src.gone || r.src.size != m.size {
		return
	}
	m.scores = append(m.scores, Score{Worker: r.src.id, Rank: r.number, Blocks: m.depth, BlockSize: m.size})
}
