package tokenizer

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

// What comes in parts is what Decode makes of all ids, and no part is half a
// character; where byte tokens are no text, whole characters may have been shown.
func TestStream(t *testing.T) {
	texts := goldenTexts(t)
	for _, name := range goldenNames(t) {
		t.Run(name, func(t *testing.T) {
			k := goldenKind(t, name)
			rnd := rand.New(rand.NewPCG(1, 2))
			sequences := k.IDs
			for range 200 {
				ids := make([]uint32, rnd.IntN(20))
				for i := range ids {
					ids[i] = uint32(rnd.IntN(k.tokenizer.Size() + 2))
				}
				sequences = append(sequences, ids)
			}
			for i, ids := range sequences {
				skip := i%2 == 0
				s := k.tokenizer.Stream(skip)
				var got strings.Builder
				put := func(part string) {
					if !utf8.ValidString(part) {
						t.Fatalf("sequence %d: a part %q is not whole characters", i, part)
					}
					got.WriteString(part)
				}
				for rest := ids; len(rest) > 0; {
					n := 1 + rnd.IntN(min(3, len(rest)))
					put(s.Push(rest[:n]...))
					rest = rest[n:]
				}
				put(s.End())
				want := k.tokenizer.Decode(ids, skip)
				if got.String() == want {
					continue
				}
				if i < len(texts) || !strings.Contains(want, replacement) || !fallsBack(k.tokenizer) {
					t.Errorf("sequence %d: parts make %.200q, the whole is %.200q", i, got.String(), want)
				}
			}
		})
	}
}

func fallsBack(t *Tokenizer) bool {
	for _, d := range t.dec {
		if _, ok := d.(decByteFallback); ok {
			return true
		}
	}
	return false
}

// Text comes with the token that completes it, not later.
func TestStreamIsPrompt(t *testing.T) {
	for _, name := range []string{"gpt2", "llama2", "gemma", "mistral", "t5", "bert", "added"} {
		k := goldenKind(t, name)
		ids, err := k.tokenizer.Encode("some words, then 👍 and more words", false)
		if err != nil {
			t.Fatal(err)
		}
		s := k.tokenizer.Stream(false)
		shown := ""
		for i, id := range ids {
			shown += s.Push(id)
			whole := k.tokenizer.Decode(ids[:i+1], false)
			if i > 0 && !strings.Contains(whole, replacement) && len(whole)-len(shown) > 1 {
				t.Errorf("%s: %q is shown after %d ids of %q", name, shown, i+1, whole)
			}
		}
	}
}
