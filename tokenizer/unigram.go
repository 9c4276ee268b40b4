package tokenizer

import (
	"errors"
	"fmt"
	"math"
	"unicode/utf8"
)

// unknownPenalty is how much worse than the worst token an unknown character is.
const unknownPenalty = 10

// unigram splits a word into the tokens whose scores have the greatest sum.
type unigram struct {
	list     []string
	ids      map[string]uint32
	scores   []float64
	next     *table // node and byte to node and token+1
	unk      int    // -1: none
	unkScore float64
	fallback *[256]int64
}

func newUnigram(list []string, scores []float64, unk int, byteFallback bool) (*unigram, error) {
	if unk >= len(list) {
		return nil, fmt.Errorf("unk_id %d is beyond the %d tokens", unk, len(list))
	}
	m := &unigram{list: list, scores: scores, unk: unk, ids: make(map[string]uint32, len(list)), next: newTable(4 * len(list))}
	lowest := math.Inf(1)
	for i, token := range list {
		m.ids[token] = uint32(i)
		lowest = math.Min(lowest, scores[i])
	}
	m.unkScore = lowest - unknownPenalty
	nodes := uint32(0)
	for token, id := range m.ids {
		node := uint32(0)
		for i := range len(token) {
			key := uint64(node)<<8 | uint64(token[i])
			to, leaf, ok := m.next.get(key)
			if !ok {
				nodes++
				to = nodes
			}
			if i == len(token)-1 {
				leaf = id + 1
			}
			m.next.set(key, to, leaf)
			node = to
		}
	}
	if byteFallback {
		v := vocab{ids: m.ids}
		m.fallback = v.byteTokens()
	}
	return m, nil
}

func (m *unigram) id(token string) (uint32, bool) {
	id, ok := m.ids[token]
	return id, ok
}

func (m *unigram) token(id uint32) (string, bool) {
	if int64(id) >= int64(len(m.list)) {
		return "", false
	}
	return m.list[id], true
}

func (m *unigram) size() int { return len(m.list) }

// bestPath is the best way to reach a place: the token that ends there.
type bestPath struct {
	score float64
	id    int32
	from  int32 // -1: not reached
}

var errNoUnknown = errors.New("a character is not in the vocabulary, which has no unk_id")

func (m *unigram) encode(st *state, word string) error {
	n := len(word)
	if n > math.MaxInt32-1 {
		return errors.New("text is too long")
	}
	if cap(st.best) <= n {
		st.best = make([]bestPath, n+1)
	}
	best := st.best[:n+1]
	for i := range best {
		best[i] = bestPath{from: -1}
	}
	for at := 0; at < n; {
		size := 1
		if word[at] >= utf8.RuneSelf {
			_, size = utf8.DecodeRuneInString(word[at:])
		}
		here := best[at].score
		single := false
		node := uint32(0)
		for i := at; i < n; i++ {
			to, leaf, ok := m.next.get(uint64(node)<<8 | uint64(word[i]))
			if !ok {
				break
			}
			node = to
			if leaf == 0 {
				continue
			}
			b := &best[i+1]
			if s := m.scores[leaf-1] + here; b.from < 0 || s > b.score {
				*b = bestPath{score: s, id: int32(leaf - 1), from: int32(at)}
			}
			single = single || i+1 == at+size
		}
		if !single {
			b := &best[at+size]
			if s := m.unkScore + here; b.from < 0 || s > b.score {
				if m.unk < 0 {
					return errNoUnknown
				}
				*b = bestPath{score: s, id: int32(m.unk), from: int32(at)}
			}
		}
		at += size
	}
	// Back along the best way; runs of unknown characters are one.
	first := len(st.ids)
	for end := n; end > 0; {
		b := best[end]
		from := int(b.from)
		if int(b.id) != m.unk {
			st.ids = append(st.ids, uint32(b.id))
			end = from
			continue
		}
		for from > 0 && int(best[from].id) == m.unk {
			from = int(best[from].from)
		}
		m.unknown(st, word[from:end])
		end = from
	}
	ids := st.ids[first:]
	for i, j := 0, len(ids)-1; i < j; i, j = i+1, j-1 {
		ids[i], ids[j] = ids[j], ids[i]
	}
	return nil
}

// unknown appends the ids for a run of unknown characters, last one first.
func (m *unigram) unknown(st *state, run string) {
	if id, ok := m.ids[run]; ok {
		st.ids = append(st.ids, id)
		return
	}
	if m.fallback != nil {
		known := true
		for i := range len(run) {
			known = known && m.fallback[run[i]] >= 0
		}
		if known {
			for i := len(run) - 1; i >= 0; i-- {
				st.ids = append(st.ids, uint32(m.fallback[run[i]]))
			}
			return
		}
	}
	st.ids = append(st.ids, uint32(m.unk))
}
