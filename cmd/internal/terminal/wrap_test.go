package terminal

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestWrap: help on a terminal breaks between words, beneath its column.
func TestWrap(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		width      int
		want       string
	}{
		{"no terminal", "one two three", 0, "one two three"},
		{"short", "a b\n\n  c\n", 5, "a b\n\n  c\n"},
		{"column", "  --a N  one two three four\n", 19, "  --a N  one two\n         three four\n"},
		{"no room beneath the column", "  --a-long-name N  one two three\n", 20, "  --a-long-name N\n      one two three\n"},
		{"prose", "one two three four five\n", 14, "one two three\nfour five\n"},
		{"a word is not broken", "  http://a-long-name.example/path x\n", 10, "  http://a-long-name.example/path\n  x\n"},
		{"no newline at the end", "one two", 4, "one\ntwo"},
		{"letters, not bytes", "ää öö üü\n", 8, "ää öö üü\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Wrap(tt.text, tt.width)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
