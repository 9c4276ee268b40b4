package tokenizer

import (
	"fmt"
	"unicode/utf8"
)

// wordPiece takes the longest token that a word begins with, and again what remains.
type wordPiece struct {
	vocab
	unk    string
	prefix string // of tokens that do not begin a word
	most   int    // characters of a word; longer ones are unknown
}

func (m *wordPiece) encode(st *state, word string) error {
	if utf8.RuneCountInString(word) > m.most {
		return m.unknown(st)
	}
	first := len(st.ids)
	for start := 0; start < len(word); {
		st.bpe.buf = st.bpe.buf[:0]
		if start > 0 {
			st.bpe.buf = append(st.bpe.buf, m.prefix...)
		}
		extra := len(st.bpe.buf)
		st.bpe.buf = append(st.bpe.buf, word[start:]...)
		end := len(word)
		for end > start {
			if id, ok := m.ids[string(st.bpe.buf[:extra+end-start])]; ok {
				st.ids = append(st.ids, id)
				break
			}
			_, n := utf8.DecodeLastRuneInString(word[start:end])
			end -= n
		}
		if end == start {
			st.ids = st.ids[:first]
			return m.unknown(st)
		}
		start = end
	}
	return nil
}

func (m *wordPiece) unknown(st *state) error {
	id, ok := m.ids[m.unk]
	if !ok {
		return fmt.Errorf("the token for unknown words, %.80q, is not in the vocabulary", m.unk)
	}
	st.ids = append(st.ids, id)
	return nil
}

// wordLevel has a token for each word it knows.
type wordLevel struct {
	vocab
	unk string
}

func (m *wordLevel) encode(st *state, word string) error {
	id, ok := m.ids[word]
	if !ok {
		if id, ok = m.ids[m.unk]; !ok {
			return fmt.Errorf("%.80q is not in the vocabulary, nor is the token for unknown words, %.80q", word, m.unk)
		}
	}
	st.ids = append(st.ids, id)
	return nil
}
