package body

import (
	"encoding/binary"
	"math"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// appendUnescaped appends the text of the valid string body in (without its
// quotes). Half of a surrogate pair becomes U+FFFD, as in encoding/json.
func appendUnescaped(dst, in []byte) []byte {
	dst, _, _ = appendText(dst, in, math.MaxInt)
	return dst
}

// appendText is appendUnescaped for as much of the text as leaves dst no longer
// than limit bytes, cut between two characters. whole tells whether that is all of
// it. saved is what saving returns.
func appendText(dst, in []byte, limit int) (out []byte, saved int, whole bool) {
	for {
		n := indexByte(in, '\\')
		if n < 0 {
			n = cut(in, limit-len(dst))
			return append(dst, in[:n]...), saved, n == len(in)
		}
		if c := in[n+1]; c != 'u' && n < limit-len(dst) {
			dst = append(append(dst, in[:n]...), short(c))
			in = in[n+2:]
			saved++
			continue
		}
		r, size := unescape(in[n:])
		if n+utf8.RuneLen(r) > limit-len(dst) {
			run := cut(in[:n], limit-len(dst))
			return append(dst, in[:run]...), saved + saving(in), false
		}
		dst = utf8.AppendRune(append(dst, in[:n]...), r)
		in = in[n+size:]
		saved += size - 1
	}
}

// saving returns how many characters the text of the string body in is shorter than
// in itself.
func saving(in []byte) (saved int) {
	for {
		n := indexByte(in, '\\')
		if n < 0 {
			return saved
		}
		size := 2
		if in[n+1] == 'u' {
			_, size = unescape(in[n:])
		}
		in = in[n+size:]
		saved += size - 1
	}
}

// cut returns the length of the longest text of at most n bytes that in begins
// with.
func cut(in []byte, n int) int {
	if n >= len(in) {
		return len(in)
	}
	for n > 0 && !utf8.RuneStart(in[n]) {
		n--
	}
	return n
}

// short returns the character that a backslash and c, which is not u, stand for.
func short(c byte) byte {
	const controls = "\b...\f.......\n...\r.\t" // from b to t
	if c < 'b' {
		return c
	}
	return controls[c-'b']
}

// unescape returns the character that the escape sequence at the beginning of in
// stands for, and the length of the sequence. Both halves of a surrogate pair are
// one sequence.
func unescape(in []byte) (r rune, size int) {
	if in[1] != 'u' {
		return rune(short(in[1])), 2
	}
	r = checkedHex4(in[2:])
	if !utf16.IsSurrogate(r) {
		return r, 6
	}
	if len(in) >= 12 && in[6] == '\\' && in[7] == 'u' {
		if r = utf16.DecodeRune(r, checkedHex4(in[8:])); r != utf8.RuneError {
			return r, 12
		}
	}
	return utf8.RuneError, 6
}

// hex4 returns the value of the four hexadecimal digits that in begins with, or
// -1 if it does not.
func hex4(in []byte) rune {
	if len(in) < 4 {
		return -1
	}
	var r rune
	for _, c := range in[:4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}

// checkedHex4 is hex4 where it is known that there are four digits.
func checkedHex4(in []byte) rune {
	w := bits.ReverseBytes32(binary.LittleEndian.Uint32(in))
	w = w&0x0f0f0f0f + w>>6&0x01010101*9 // letters have bit 6, and a is 1
	w = (w | w>>4) & 0x00ff00ff
	return rune((w | w>>8) & 0xffff)
}
