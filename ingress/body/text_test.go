package body

import (
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestCharacters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.RuneFrom([]rune("aé京🌊")), 0, 200, -1).Draw(t, "text")
		if got, want := characters([]byte(text)), utf8.RuneCountInString(text); got != want {
			t.Errorf("%q: %d characters, want %d", text, got, want)
		}
	})
}
