package tokenreply

// Piece is what an engine has said of one choice since the piece before.
type Piece struct {
	Index  int // among the choices of its prompt
	Tokens []uint32
	// Prompt and Cached are how many tokens the prompt has, 0 where that is not said, and
	// how many of them were in the cache.
	Prompt, Cached int
	// Output is of Tokens, Input of the prompt's. Both are nil where they are not told.
	Output, Input *Logprobs

	// Of the last piece of a choice: why it ended (stop, length, abort, or what the engine
	// calls it), and at what, if it was stopped.
	Done      bool
	Finish    string
	StopToken *uint32
	StopText  string
}

// Logprobs are of consecutive tokens. Values are natural logarithms; NaN is none, as of a
// prompt's first token. Top and Asked are empty or as long as Tokens.
type Logprobs struct {
	Tokens []uint32
	Values []float32
	Top    [][]TokenLogprob
	Asked  [][]TokenLogprob // of [Wanted.Asked]
}

// TokenLogprob is the probability of a token.
type TokenLogprob struct {
	Token uint32
	Value float32
}

// place is what is told of the token at place i; tops and asked may be nil.
func (l *Logprobs) place(i int) (value float32, tops, asked []TokenLogprob) {
	if i < len(l.Top) {
		tops = l.Top[i]
	}
	if i < len(l.Asked) {
		asked = l.Asked[i]
	}
	return l.Values[i], tops, asked
}

// len is of how many tokens something is told. It can be called on nil.
func (l *Logprobs) len() int {
	if l == nil {
		return 0
	}
	return min(len(l.Tokens), len(l.Values))
}

// Vocabulary makes text of tokens. It is safe for concurrent use. Tokens that it does not
// know give no text.
type Vocabulary interface {
	// Stream begins to make the text of tokens that follow each other; with skipSpecial,
	// special ones give none.
	Stream(skipSpecial bool) Detokenizer
	// Text is a token alone, as it is written. Where the vocabulary knows, it is the token's
	// own bytes, be they only a part of a character.
	Text(token uint32) string
}

// Detokenizer makes text of tokens that follow each other: whole characters only.
type Detokenizer interface {
	// Push is the text that is certain with these tokens, often "". It does not keep them.
	Push(tokens ...uint32) string
	// End is the text that has waited for more. Nothing follows it.
	End() string
}
