package tokens

import (
	"testing"

	"smg/tokenizer"
)

// mini is the smallest tokenizer.
func mini(t testing.TB) *tokenizer.Tokenizer {
	t.Helper()
	tok, err := tokenizer.Parse([]byte(`{"model":{"type":"WordLevel","vocab":{"a":0,"?":1},"unk_token":"?"}}`))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}
