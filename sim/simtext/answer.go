package simtext

import (
	"math"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"
)

// Sampling are the parameters that an answer depends on. At temperature 0
// only the prompt and the limits count, as in greedy decoding.
type Sampling struct {
	Temperature float64
	TopP        float64
	Seed        int64
	Choice      int // 0-based index among the n answers to one prompt

	MaxTokens    int // at most this many, at least 0
	MinTokens    int // no end before this many
	IgnoreEOS    bool
	Stop         []string
	StopTokenIDs []Token
	KeepStop     bool // leave the matched stop string in the text
}

// Lengths bounds how long an answer is when nothing else stops it.
type Lengths struct{ Min, Max int }

// FinishReason says why an answer ends.
type FinishReason string

// The reasons of a complete answer.
const (
	FinishStop   FinishReason = "stop"
	FinishLength FinishReason = "length"
)

// Answer is a complete answer, known before the first token is due.
type Answer struct {
	Tokens []Token
	// Deltas has one entry per token. Joined they are the text. Bytes that
	// belong to a stop string are left out, so a delta may be empty.
	Deltas []string
	Finish FinishReason
	// StopString or StopToken is what the answer stopped at; at its natural
	// end StopToken is EOS.
	StopString string
	StopToken  Token
}

// Text is the whole answer.
func (a Answer) Text() string { return strings.Join(a.Deltas, "") }

// Writer composes answers. It is immutable and safe for concurrent use.
type Writer struct {
	lengths Lengths
	plain   []piecePair // " word"
	capital []piecePair // " Word"
	marks   map[string]Token
}

type piecePair struct {
	spaced, bare     string
	spacedID, bareID Token
}

// NewWriter returns a Writer whose answers have natural lengths within l, of hashed
// tokens.
func NewWriter(l Lengths) *Writer { return Hashed.NewWriter(l) }

// NewWriter returns a Writer whose answers have natural lengths within l.
func (s Scheme) NewWriter(l Lengths) *Writer {
	w := &Writer{lengths: l, marks: map[string]Token{}}
	id := s.ids()
	for _, word := range words() {
		w.plain = append(w.plain, pair(word, id))
		w.capital = append(w.capital, pair(capitalise(word), id))
	}
	for _, m := range []string{".", ",", "\n"} {
		w.marks[m] = id(m)
	}
	return w
}

func pair(word string, id func(string) Token) piecePair {
	return piecePair{spaced: " " + word, bare: word, spacedID: id(" " + word), bareID: id(word)}
}

func capitalise(word string) string {
	if c := word[0]; c >= 'a' && c <= 'z' {
		return string(c-'a'+'A') + word[1:]
	}
	return word
}

// splitmix is the SplitMix64 generator: tiny, seedable by any number, and the
// same on every platform.
type splitmix uint64

func (s *splitmix) next() uint64 {
	*s += 0x9E3779B97F4A7C15
	z := uint64(*s)
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

func (s *splitmix) below(n int) int { return int(s.next() % uint64(n)) }

// key folds everything that chooses the words into one number.
func key(prompt []Token, s Sampling) uint64 {
	h := hashTokens(prompt)
	if s.Temperature == 0 {
		return h
	}
	mix := splitmix(h)
	for _, v := range []uint64{
		math.Float64bits(s.Temperature), math.Float64bits(s.TopP), uint64(s.Seed), uint64(s.Choice),
	} {
		mix = splitmix(mix.next() ^ v)
	}
	return mix.next()
}

// Answer composes the answer to prompt. A smaller MaxTokens yields a prefix of
// the same answer.
func (w *Writer) Answer(prompt []Token, s Sampling) Answer {
	rng := splitmix(key(prompt, s))
	natural := w.lengths.Min + rng.below(w.lengths.Max-w.lengths.Min+1)
	natural = max(natural, s.MinTokens)
	limit := s.MaxTokens
	if !s.IgnoreEOS {
		limit = min(limit, natural)
	}

	a := Answer{Finish: FinishLength}
	if !s.IgnoreEOS && natural <= s.MaxTokens {
		a.Finish, a.StopToken = FinishStop, EOS
	}
	var text []byte
	ends := make([]int, 0, max(limit, 0)) // text length after each token
	st := prose{bare: len(prompt) == 0 || prompt[len(prompt)-1] == w.marks["\n"], capital: true}
	for len(a.Tokens) < limit {
		piece, id := w.next(&rng, &st)
		a.Tokens = append(a.Tokens, id)
		text = append(text, piece...)
		ends = append(ends, len(text))
		if len(a.Tokens) < s.MinTokens {
			continue
		}
		if stop, cut := s.stopAt(text, len(piece), id); cut >= 0 {
			a.Finish, a.StopString, a.StopToken = FinishStop, stop, 0
			if stop == "" {
				a.StopToken = id
			}
			text = text[:cut]
			break
		}
	}
	a.Deltas = make([]string, len(a.Tokens))
	whole, from := string(text), 0
	for i, end := range ends {
		end = min(end, len(whole))
		a.Deltas[i] = whole[from:end]
		from = end
	}
	return a
}

// stopAt looks for a stop in text, whose last n bytes are new and come from
// token id. It returns the stop string, if it is one, and the length that the
// text is to be cut to, or -1.
func (s Sampling) stopAt(text []byte, n int, id Token) (string, int) {
	found, at := "", -1
	for _, stop := range s.Stop {
		if stop == "" {
			continue
		}
		from := max(len(text)-n-len(stop)+1, 0)
		if i := strings.Index(string(text[from:]), stop); i >= 0 && (at < 0 || from+i < at) {
			found, at = stop, from+i
		}
	}
	if at >= 0 {
		if s.KeepStop {
			at += len(found)
		}
		return found, at
	}
	if slices.Contains(s.StopTokenIDs, id) {
		return "", len(text) - n
	}
	return "", -1
}

// prose is where in a sentence the writer is.
type prose struct {
	bare      bool // no space before the next word
	capital   bool
	sinceStop int // words since the last full stop
}

func (w *Writer) next(rng *splitmix, st *prose) (string, Token) {
	r := rng.next()
	switch {
	case st.sinceStop == 0 && !st.bare && r%8 == 0:
		st.bare = true
		return "\n", w.marks["\n"]
	case st.sinceStop >= 6 && r%6 == 0 || st.sinceStop >= 16:
		st.sinceStop, st.capital = 0, true
		return ".", w.marks["."]
	case st.sinceStop == 4 && r%5 == 0:
		st.sinceStop++
		return ",", w.marks[","]
	}
	list := w.plain
	if st.capital {
		list = w.capital
	}
	p := list[(r>>8)%uint64(len(list))]
	bare := st.bare
	st.bare, st.capital = false, false
	st.sinceStop++
	if bare {
		return p.bare, p.bareID
	}
	return p.spaced, p.spacedID
}

// Embedding returns a unit vector that depends on the prompt alone.
func Embedding(prompt []Token, dimensions int) []float32 {
	rng := splitmix(hashTokens(prompt))
	v := make([]float64, dimensions)
	norm := 0.0
	for i := range v {
		v[i] = float64(rng.next()>>11)/(1<<53)*2 - 1
		norm += v[i] * v[i]
	}
	out := make([]float32, dimensions)
	for i := range v {
		out[i] = float32(v[i] / math.Sqrt(norm))
	}
	return out
}

// HashID returns 32 hex digits that depend on seed and n, for request ids that
// are the same in every run.
func HashID(seed string, n uint64) string {
	const digits = "0123456789abcdef"
	rng := splitmix(xxh3.HashString(seed) ^ n*0x9E3779B97F4A7C15)
	out := make([]byte, 0, 32)
	for range 2 {
		for v, i := rng.next(), 0; i < 16; i++ {
			out = append(out, digits[v&15])
			v >>= 4
		}
	}
	return string(out)
}
