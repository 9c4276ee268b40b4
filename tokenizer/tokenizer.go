// Package tokenizer turns text into the token ids of a model and ids into text,
// as the Python package tokenizers does for the same tokenizer.json: the ids are
// the same, and so is the text (ADR 20). It reads tokenizer.json and the metadata
// of GGUF files, decodes ids as they come without ever showing half a character,
// and remembers what it encoded before.
//
// A Tokenizer is made once and is then safe for concurrent use. Files are taken
// as hostile: sizes are bounded and errors name the place that is wrong.
package tokenizer

import (
	"fmt"
	"sync"

	"smg/tokenizer/regex"
)

// Tokenizer is one model's vocabulary and rules. Truncation and padding of a file
// are left out: an engine is told of the whole prompt. It is safe for concurrent use.
type Tokenizer struct {
	added addedVocab
	norm  normalizer // nil: text stays as it is
	pre   []preTokenizer
	spell bool // words are spelled in the letters for bytes before the model sees them
	model model
	post  []postPiece
	dec   []decoder
	words wordCache
	state sync.Pool
}

// model splits words into tokens.
type model interface {
	// encode appends the ids of a word, which is not empty.
	encode(st *state, word string) error
	id(token string) (uint32, bool)
	token(id uint32) (string, bool)
	size() int
}

// state is what one Encode needs while it runs.
type state struct {
	ids     []uint32
	pieces  []piece
	spare   []piece
	spans   []span
	matches []regex.Span
	buf     []byte
	bpe     bpeState
	best    []bestPath
}

// Encode is the ids of text. With special, those around it that the model wants
// at the beginning and end of a prompt come with it. Bytes that are no UTF-8 count
// as U+FFFD, one for each maximal part of a character. An error means that the
// vocabulary has no token for an unknown word.
func (t *Tokenizer) Encode(text string, special bool) ([]uint32, error) {
	return t.AppendEncode(nil, text, special)
}

// AppendEncode appends what Encode would return.
func (t *Tokenizer) AppendEncode(ids []uint32, text string, special bool) ([]uint32, error) {
	return t.encode(ids, text, special, (*Tokenizer).segment)
}

// encode splits text at added tokens and encodes what lies between by segment.
func (t *Tokenizer) encode(ids []uint32, text string, special bool, segment func(*Tokenizer, *state, string, bool) error) ([]uint32, error) {
	st := t.state.Get().(*state)
	defer t.giveBack(st)
	st.ids = ids
	text = ValidUTF8(text)
	for i, p := range t.post {
		if special {
			st.ids = append(st.ids, p.ids...)
		}
		if !p.text {
			continue
		}
		if err := t.text(st, text, segment); err != nil {
			return ids, fmt.Errorf("part %d of the prompt's template: %w", i, err)
		}
	}
	return st.ids, nil
}

// giveBack keeps st for the next Encode, unless a huge text made it large.
func (t *Tokenizer) giveBack(st *state) {
	const most = 1 << 16
	st.ids = nil
	if cap(st.best) <= most && cap(st.bpe.symbols) <= most && cap(st.pieces) <= most && cap(st.matches) <= most {
		t.state.Put(st)
	}
}

// text encodes a whole text.
func (t *Tokenizer) text(st *state, text string, segment func(*Tokenizer, *state, string, bool) error) error {
	first := len(st.spans)
	st.spans = t.added.raw.find(&t.added, st.spans, text)
	defer func() { st.spans = st.spans[:first] }()
	for i := first; i < len(st.spans); i++ {
		s := st.spans[i]
		if s.added {
			st.ids = append(st.ids, s.id)
		} else if s.start < s.end {
			if err := segment(t, st, text[s.start:s.end], s.start == 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// segment encodes text between added tokens. atStart says that nothing is before it.
func (t *Tokenizer) segment(st *state, text string, atStart bool) error {
	lead := 0
	if t.norm != nil {
		var err error
		if text, lead, err = t.norm.normalize(text, 0); err != nil {
			return err
		}
	}
	first := len(st.spans)
	st.spans = t.added.normalized.find(&t.added, st.spans, text)
	last := len(st.spans)
	defer func() { st.spans = st.spans[:first] }()
	for i := first; i < last; i++ {
		s := st.spans[i]
		if s.added {
			st.ids = append(st.ids, s.id)
			continue
		}
		if err := t.piece(st, piece{text: text[s.start:s.end], atStart: atStart && lead+s.start == 0}); err != nil {
			return err
		}
	}
	return nil
}

// piece splits normalized text into words and encodes them.
func (t *Tokenizer) piece(st *state, p piece) error {
	if p.text == "" {
		return nil
	}
	st.pieces = append(st.pieces[:0], p)
	for _, pre := range t.pre {
		out := st.spare[:0]
		for _, p := range st.pieces {
			var err error
			if out, err = pre.split(st, out, p); err != nil {
				return err
			}
		}
		st.spare, st.pieces = st.pieces, out
	}
	for _, p := range st.pieces {
		if err := t.word(st, p.text); err != nil {
			return err
		}
	}
	return nil
}

// word appends the ids of a word, from memory if it is a short one seen before.
func (t *Tokenizer) word(st *state, word string) error {
	short := len(word) < maxCached
	var slot int
	if short {
		ids, at := t.words.find(word)
		if ids != nil {
			st.ids = append(st.ids, ids...)
			return nil
		}
		slot = at
	}
	n := len(st.ids)
	spelled := word
	if t.spell {
		st.buf = appendSpelled(st.buf[:0], word)
		spelled = string(st.buf)
	}
	if err := t.model.encode(st, spelled); err != nil {
		return err
	}
	if short {
		t.words.keep(slot, word, st.ids[n:])
	}
	return nil
}

// ID is the id of a token, spelled as in the vocabulary.
func (t *Tokenizer) ID(token string) (uint32, bool) {
	if id, ok := t.added.ids[token]; ok {
		return id, true
	}
	return t.model.id(token)
}

// Token is the spelling of id in the vocabulary.
func (t *Tokenizer) Token(id uint32) (string, bool) {
	if a, ok := t.added.tokens[id]; ok {
		return a.shown, true
	}
	return t.model.token(id)
}

// Special reports whether id is a special token, which Decode can leave out.
func (t *Tokenizer) Special(id uint32) bool {
	s, ok := t.Token(id)
	return ok && t.added.special[s]
}

// Size is how many tokens there are: of the model, and added ones beyond.
func (t *Tokenizer) Size() int {
	n := t.model.size()
	for token := range t.added.ids {
		if _, ok := t.model.id(token); !ok {
			n++
		}
	}
	return n
}
