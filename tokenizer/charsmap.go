package tokenizer

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"smg/tokenizer/ucd"
)

// charsmap is SentencePiece's table of replacements: a double array that leads
// from bytes to places in a text, where what replaces them stands up to a zero.
type charsmap struct {
	units []uint32
	text  string
}

func newCharsmap(blob []byte) (*charsmap, error) {
	if len(blob) < 4 {
		return nil, errors.New("precompiled_charsmap is too short")
	}
	n := int(uint32(blob[0]) | uint32(blob[1])<<8 | uint32(blob[2])<<16 | uint32(blob[3])<<24)
	blob = blob[4:]
	if n < 4 || n > len(blob) {
		return nil, fmt.Errorf("precompiled_charsmap: a table of %d bytes in %d", n, len(blob))
	}
	m := &charsmap{units: make([]uint32, n/4)}
	for i := range m.units {
		b := blob[4*i:]
		m.units[i] = uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
	}
	m.text = string(blob[4*(n/4):])
	if !utf8.ValidString(m.text) {
		return nil, errors.New("precompiled_charsmap: replacements are not UTF-8")
	}
	return m, nil
}

func decodeCharsmap(s string) (*charsmap, error) {
	blob, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return nil, fmt.Errorf("precompiled_charsmap: %w", err)
	}
	return newCharsmap(blob)
}

func offset(unit uint32) uint32 { return unit >> 10 << (unit & (1 << 9) >> 6) }

// replace is what the shortest known beginning of s stands for. Places outside the
// table, which only a broken one has, are no match.
func (m *charsmap) replace(s string) (string, bool) {
	at := offset(m.units[0])
	for i := range len(s) {
		c := uint32(s[i])
		if c == 0 {
			break
		}
		at ^= c
		if at >= uint32(len(m.units)) {
			return "", false
		}
		unit := m.units[at]
		if unit&(1<<31|0xFF) != c {
			return "", false
		}
		at ^= offset(unit)
		if unit>>8&1 == 1 {
			if at >= uint32(len(m.units)) {
				return "", false
			}
			from := m.units[at] &^ (1 << 31)
			if from > uint32(len(m.text)) {
				return "", false
			}
			to, _, _ := strings.Cut(m.text[from:], "\x00")
			if !utf8.ValidString(to) {
				return "", false
			}
			return to, true
		}
	}
	return "", false
}

func (m *charsmap) normalize(text string, lead int) (string, int, error) {
	var b strings.Builder
	b.Grow(len(text))
	for text != "" {
		n := clusterLen(text)
		cluster := text[:n]
		text = text[n:]
		if n < 6 {
			if to, ok := m.replace(cluster); ok {
				b.WriteString(to)
				continue
			}
		}
		for i, r := range cluster {
			c := cluster[i : i+utf8.RuneLen(r)]
			if to, ok := m.replace(c); ok {
				c = to
			}
			b.WriteString(c)
		}
	}
	return b.String(), lead, nil
}

// clusterLen is the length of the grapheme cluster that s begins with. It is exact
// for clusters of up to five bytes, and the charsmap takes longer ones apart; so
// Hangul, flags and conjuncts need no rules here.
func clusterLen(s string) int {
	r, n := utf8.DecodeRuneInString(s)
	if r == '\r' && strings.HasPrefix(s[1:], "\n") {
		return 2
	}
	if breaks(r) {
		return n
	}
	picture := ucd.Is(r, ucd.Pictographic)
	for n < len(s) {
		next, size := utf8.DecodeRuneInString(s[n:])
		switch {
		case breaks(next):
			return n
		case ucd.Is(next, ucd.Extends), prepends(r):
		case picture && r == 0x200D && ucd.Is(next, ucd.Pictographic):
		default:
			return n
		}
		picture = picture && ucd.Is(next, ucd.Extends) || ucd.Is(next, ucd.Pictographic)
		r = next
		n += size
	}
	return n
}

// breaks reports whether r stands alone: controls, and separators of lines.
func breaks(r rune) bool {
	if r < 0x20 || r == 0x7F {
		return true
	}
	switch ucd.CategoryOf(r) {
	case ucd.Cc, ucd.Zl, ucd.Zp:
		return true
	case ucd.Cf:
		return !ucd.Is(r, ucd.Extends) && !prepends(r)
	}
	return false
}

// prepends reports whether r belongs to the letter behind it.
func prepends(r rune) bool {
	if r < 0x600 {
		return false
	}
	switch {
	case r <= 0x605, r == 0x6DD, r == 0x70F, r == 0x890, r == 0x891, r == 0x8E2, r == 0xD4E, r == 0x110BD, r == 0x110CD,
		r == 0x111C2, r == 0x111C3, r == 0x113D1, r == 0x1193F, r == 0x11941, r >= 0x11A84 && r <= 0x11A89, r == 0x11D46, r == 0x11F02:
		return true
	}
	return false
}
