package tokenizer

import (
	"fmt"
	"unicode/utf8"

	"smg/tokenizer/ucd"
)

// addedToken is a token that is looked for in the text before words are.
type addedToken struct {
	ID         uint32 `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`
	shown      string // as it is found and decoded: normalized, if it is
}

// addedVocab are the added tokens: those found in the raw text and those found in
// normalized text.
type addedVocab struct {
	ids             map[string]uint32
	tokens          map[uint32]*addedToken
	special         map[string]bool
	raw, normalized finder
}

// span is a part of a text: an added token or not.
type span struct {
	start, end int
	id         uint32
	added      bool
}

// newAddedVocab gives ids as the reference does: a token of the model keeps its
// id there, others are counted on from the model's size, whatever the file says.
func newAddedVocab(tokens []addedToken, m model, n normalizer) (addedVocab, error) {
	v := addedVocab{ids: map[string]uint32{}, tokens: map[uint32]*addedToken{}, special: map[string]bool{}}
	next := uint32(m.size())
	for i := range tokens {
		a := &tokens[i]
		if a.Content == "" {
			continue
		}
		if len(a.Content) > maxAdded {
			return v, fmt.Errorf("added_tokens[%d]: content is longer than %d bytes", i, maxAdded)
		}
		id, ok := v.ids[a.Content]
		if !ok {
			id, ok = m.id(a.Content)
		}
		if !ok {
			id = next
			next++
		}
		a.ID, a.shown = id, a.Content
		if a.Normalized && n != nil {
			s, _, err := n.normalize(a.Content, 0)
			if err != nil {
				return v, fmt.Errorf("added_tokens[%d]: %w", i, err)
			}
			a.shown = s
		}
		v.ids[a.Content] = id
		if a.Special {
			v.special[a.Content] = true
		}
		v.tokens[id] = a
	}
	for id, a := range v.tokens {
		if a.Normalized {
			v.normalized.add(a.shown, id)
		} else {
			v.raw.add(a.Content, id)
		}
	}
	return v, nil
}

// finder finds the longest of some strings at each place, from left to right.
type finder struct {
	next  map[uint64]uint32 // node and byte to node
	ids   map[uint32]uint32 // node to id
	first [256]bool
	nodes uint32
}

func (f *finder) add(s string, id uint32) {
	if s == "" {
		return
	}
	if f.next == nil {
		f.next, f.ids = map[uint64]uint32{}, map[uint32]uint32{}
	}
	node := uint32(0)
	for i := range len(s) {
		key := uint64(node)<<8 | uint64(s[i])
		to, ok := f.next[key]
		if !ok {
			f.nodes++
			to = f.nodes
			f.next[key] = to
		}
		node = to
	}
	f.ids[node] = id
	f.first[s[0]] = true
}

// longest is the end of the longest string that begins at i, or -1.
func (f *finder) longest(text string, i int) (end int, id uint32) {
	end = -1
	node := uint32(0)
	for ; i < len(text); i++ {
		to, ok := f.next[uint64(node)<<8|uint64(text[i])]
		if !ok {
			break
		}
		node = to
		if got, ok := f.ids[node]; ok {
			end, id = i+1, got
		}
	}
	return end, id
}

// find appends the parts of text, in order and without gaps.
func (f *finder) find(v *addedVocab, spans []span, text string) []span {
	at := 0
	for i := 0; i < len(text) && f.next != nil; {
		if !f.first[text[i]] {
			i++
			continue
		}
		end, id := f.longest(text, i)
		if end < 0 {
			i++
			continue
		}
		start := i
		i = end
		a := v.tokens[id]
		if a.SingleWord && (wordBefore(text[:start]) || wordAfter(text[end:])) {
			continue
		}
		if a.LStrip {
			start = max(spaceBefore(text[:start]), at)
		}
		if a.RStrip {
			end = len(text) - len(trimSpaceLeft(text[end:]))
		}
		if at < start {
			spans = append(spans, span{start: at, end: start})
		}
		spans = append(spans, span{start: start, end: end, id: id, added: true})
		at = end
	}
	if at < len(text) {
		spans = append(spans, span{start: at, end: len(text)})
	}
	return spans
}

func wordBefore(s string) bool {
	r, n := utf8.DecodeLastRuneInString(s)
	return n > 0 && ucd.Is(r, ucd.Word)
}

func wordAfter(s string) bool {
	r, n := utf8.DecodeRuneInString(s)
	return n > 0 && ucd.Is(r, ucd.Word)
}

// spaceBefore is where the white space at the end of s begins.
func spaceBefore(s string) int {
	for s != "" {
		r, n := utf8.DecodeLastRuneInString(s)
		if !ucd.Space(r) {
			break
		}
		s = s[:len(s)-n]
	}
	return len(s)
}

func trimSpaceLeft(s string) string {
	for s != "" {
		r, n := utf8.DecodeRuneInString(s)
		if !ucd.Space(r) {
			break
		}
		s = s[n:]
	}
	return s
}
