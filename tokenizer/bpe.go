package tokenizer

import (
	"fmt"
	"slices"
	"unicode/utf8"
)

// bpe is byte-pair encoding: a word begins as its characters, and pairs are merged
// in the order in which they were learnt.
type bpe struct {
	vocab
	merges       *table // pair to rank and merged token
	unk          uint32
	hasUnk       bool
	unkToken     string // named but not in the vocabulary: an error when it is needed
	prefix       string // of characters that do not begin a word
	suffix       string // of the last one
	fuse         bool   // one unknown token for a run of them
	ignoreMerges bool   // a word of the vocabulary is taken whole
	fallback     *[256]int64
	runes        [0x400]int64 // ids of single characters, -1: none
}

// finish prepares what encode looks up, behind the fields.
func (m *bpe) finish(byteFallback bool) {
	for r := range m.runes {
		m.runes[r] = -1
		if id, ok := m.ids[string(rune(r))]; ok {
			m.runes[r] = int64(id)
		}
	}
	if byteFallback {
		m.fallback = m.byteTokens()
	}
}

// merge makes rank the order in which left and right become one token.
func (m *bpe) merge(left, right string, rank uint32) error {
	a, ok := m.ids[left]
	if !ok {
		return fmt.Errorf("%.80q is not in the vocabulary", left)
	}
	b, ok := m.ids[right]
	if !ok {
		return fmt.Errorf("%.80q is not in the vocabulary", right)
	}
	if len(right) < len(m.prefix) {
		return fmt.Errorf("%.80q is shorter than continuing_subword_prefix", right)
	}
	whole := left + right[len(m.prefix):]
	id, ok := m.ids[whole]
	if !ok {
		return fmt.Errorf("%.80q, of %.80q and %.80q, is not in the vocabulary", whole, left, right)
	}
	m.merges.set(pairKey(a, b), rank, id)
	return nil
}

type bpeState struct {
	symbols []symbol
	ranks   []uint32
	heap    []uint64 // rank and position of what can be merged, least first
	news    []uint32
	buf     []byte
}

type symbol struct {
	id         uint32
	prev, next int32
	gone       bool
}

func (m *bpe) encode(st *state, word string) error {
	if m.ignoreMerges {
		if id, ok := m.ids[word]; ok {
			st.ids = append(st.ids, id)
			return nil
		}
	}
	b := &st.bpe
	b.symbols = b.symbols[:0]
	if err := m.start(b, word); err != nil {
		return err
	}
	if len(b.symbols) <= 48 {
		m.mergeShort(b)
	} else {
		m.mergeLong(b)
	}
	for _, s := range b.symbols {
		if !s.gone {
			st.ids = append(st.ids, s.id)
		}
	}
	return nil
}

func (b *bpeState) add(id uint32) { b.symbols = append(b.symbols, symbol{id: id}) }

// start fills symbols with the characters of word.
func (m *bpe) start(b *bpeState, word string) error {
	plain := m.prefix == "" && m.suffix == ""
	unknown := 0 // characters of an unknown token that is still to be added
	for i := 0; i < len(word); {
		n := 1
		id := int64(-1)
		if c := word[i]; c < utf8.RuneSelf && plain {
			id = m.runes[c]
		} else {
			var r rune
			r, n = utf8.DecodeRuneInString(word[i:])
			switch {
			case plain && int(r) < len(m.runes):
				id = m.runes[r]
			case plain:
				if got, ok := m.ids[word[i:i+n]]; ok {
					id = int64(got)
				}
			default:
				b.buf = b.buf[:0]
				if i > 0 {
					b.buf = append(b.buf, m.prefix...)
				}
				b.buf = append(b.buf, word[i:i+n]...)
				if i+n == len(word) {
					b.buf = append(b.buf, m.suffix...)
				}
				if got, ok := m.ids[string(b.buf)]; ok {
					id = int64(got)
				}
			}
		}
		part := word[i : i+n]
		i += n
		if id >= 0 {
			if unknown > 0 {
				b.add(m.unk)
				unknown = 0
			}
			b.add(uint32(id))
			continue
		}
		if m.fallback != nil {
			if !plain {
				part = string(b.buf)
			}
			if m.addBytes(b, part) {
				continue
			}
		}
		if m.unkToken == "" {
			continue
		}
		if !m.hasUnk {
			return fmt.Errorf("the token for unknown words, %.80q, is not in the vocabulary", m.unkToken)
		}
		if unknown > 0 && !m.fuse {
			b.add(m.unk)
			unknown = 0
		}
		unknown++
	}
	if unknown > 0 {
		b.add(m.unk)
	}
	return nil
}

// addBytes adds the tokens of the bytes of part, if each has one.
func (m *bpe) addBytes(b *bpeState, part string) bool {
	for i := range len(part) {
		if m.fallback[part[i]] < 0 {
			return false
		}
	}
	for i := range len(part) {
		b.add(uint32(m.fallback[part[i]]))
	}
	return true
}

const noRank = ^uint32(0)

func (m *bpe) rank(a, b uint32) (rank, id uint32) {
	rank, id, ok := m.merges.get(pairKey(a, b))
	if !ok {
		return noRank, 0
	}
	return rank, id
}

// mergeShort looks for the first of the best pairs over and over.
func (m *bpe) mergeShort(b *bpeState) {
	s := b.symbols
	ranks, news := b.ranks[:0], b.news[:0]
	for i := 0; i+1 < len(s); i++ {
		r, id := m.rank(s[i].id, s[i+1].id)
		ranks, news = append(ranks, r), append(news, id)
	}
	b.ranks, b.news = ranks, news
	for len(s) > 1 {
		best := 0
		for i, r := range ranks {
			if r < ranks[best] {
				best = i
			}
		}
		if ranks[best] == noRank {
			break
		}
		s[best].id = news[best]
		s = slices.Delete(s, best+1, best+2)
		ranks = slices.Delete(ranks, best, best+1)
		news = slices.Delete(news, best, best+1)
		if best > 0 {
			ranks[best-1], news[best-1] = m.rank(s[best-1].id, s[best].id)
		}
		if best < len(ranks) {
			ranks[best], news[best] = m.rank(s[best].id, s[best+1].id)
		}
	}
	b.symbols = s
}

// mergeLong keeps the pairs in a heap, so that a word of n characters takes n log n steps.
func (m *bpe) mergeLong(b *bpeState) {
	s := b.symbols
	for i := range s {
		s[i].prev, s[i].next = int32(i-1), int32(i+1)
	}
	s[len(s)-1].next = -1
	b.heap = b.heap[:0]
	for i := 0; i+1 < len(s); i++ {
		if r, _ := m.rank(s[i].id, s[i+1].id); r != noRank {
			b.heap = append(b.heap, pairKey(r, uint32(i)))
		}
	}
	slices.Sort(b.heap) // sorted is a heap
	for len(b.heap) > 0 {
		top := b.pop()
		at := int32(uint32(top))
		cur := &s[at]
		if cur.gone || cur.next < 0 {
			continue
		}
		right := &s[cur.next]
		r, id := m.rank(cur.id, right.id)
		if r != uint32(top>>32) { // what stands here has changed
			continue
		}
		cur.id = id
		right.gone = true
		cur.next = right.next
		if cur.next >= 0 {
			s[cur.next].prev = at
			if r, _ := m.rank(cur.id, s[cur.next].id); r != noRank {
				b.push(pairKey(r, uint32(at)))
			}
		}
		if cur.prev >= 0 {
			if r, _ := m.rank(s[cur.prev].id, cur.id); r != noRank {
				b.push(pairKey(r, uint32(cur.prev)))
			}
		}
	}
}

func (b *bpeState) push(v uint64) {
	b.heap = append(b.heap, v)
	i := len(b.heap) - 1
	for i > 0 {
		up := (i - 1) / 2
		if b.heap[up] <= v {
			break
		}
		b.heap[i] = b.heap[up]
		i = up
	}
	b.heap[i] = v
}

func (b *bpeState) pop() uint64 {
	h := b.heap
	top, v := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	b.heap = h
	i := 0
	for {
		k := 2*i + 1
		if k >= len(h) {
			break
		}
		if k+1 < len(h) && h[k+1] < h[k] {
			k++
		}
		if h[k] >= v {
			break
		}
		h[i] = h[k]
		i = k
	}
	if len(h) > 0 {
		h[i] = v
	}
	return top
}
