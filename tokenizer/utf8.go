package tokenizer

import (
	"strings"
	"unicode/utf8"
)

const replacement = "\uFFFD"

// ValidUTF8 is text with U+FFFD in place of each maximal part of a character that
// is not there whole, as Unicode recommends and Python and Rust do. Go's own
// functions replace single bytes or whole runs.
func ValidUTF8(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	b.Grow(len(text) + 8)
	for text != "" {
		n := validPrefix(text)
		b.WriteString(text[:n])
		if text = text[n:]; text == "" {
			break
		}
		b.WriteString(replacement)
		text = text[brokenLen(text):]
	}
	return b.String()
}

func validPrefix(s string) int {
	for i := 0; i < len(s); {
		if s[i] < utf8.RuneSelf {
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(s)
}

// brokenLen is how many bytes the broken character at the head of s takes: those
// that could begin a character, at least one. s does not begin with a whole one.
func brokenLen(s string) int {
	n, lo, hi := charLen(s[0])
	if n == 0 {
		return 1
	}
	for i := 1; i < n; i++ {
		if i >= len(s) || s[i] < lo || s[i] > hi {
			return i
		}
		lo, hi = 0x80, 0xBF
	}
	return n
}

// charLen is the length of the character that c leads, and the range of its second byte.
func charLen(c byte) (n int, lo, hi byte) {
	switch {
	case c < 0xC2 || c > 0xF4:
		return 0, 0, 0
	case c < 0xE0:
		return 2, 0x80, 0xBF
	case c == 0xE0:
		return 3, 0xA0, 0xBF
	case c == 0xED:
		return 3, 0x80, 0x9F
	case c < 0xF0:
		return 3, 0x80, 0xBF
	case c == 0xF0:
		return 4, 0x90, 0xBF
	case c == 0xF4:
		return 4, 0x80, 0x8F
	}
	return 4, 0x80, 0xBF
}

// unfinished is how many bytes at the end of b could be the beginning of a
// character whose rest is still to come.
func unfinished(b []byte) int {
	for k := 1; k <= 3 && k <= len(b); k++ {
		c := b[len(b)-k]
		if c < utf8.RuneSelf {
			return 0
		}
		if c >= 0xC0 {
			n, lo, hi := charLen(c)
			if n <= k {
				return 0
			}
			if k > 1 && (b[len(b)-k+1] < lo || b[len(b)-k+1] > hi) {
				return 0
			}
			return k
		}
	}
	return 0
}
