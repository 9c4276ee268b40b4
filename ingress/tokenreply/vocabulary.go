package tokenreply

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
