package tokenreply

import (
	"math"
	"strconv"
	"unicode/utf8"
)

// appendString appends s as a JSON string. Like the engines, it leaves <, > and & alone.
func appendString[S string | []byte](dst []byte, s S) []byte {
	return append(appendEscaped(append(dst, '"'), s), '"')
}

// appendEscaped appends what stands between the quotes of a JSON string.
func appendEscaped[S string | []byte](dst []byte, s S) []byte {
	const hex = "0123456789abcdef"
	clean := 0 // what is before needs no more look
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c < utf8.RuneSelf {
			if c >= 0x20 && c != '"' && c != '\\' && c != 0x7f {
				continue
			}
			dst = append(dst, s[clean:i]...)
			clean = i + 1
			switch c {
			case '"', '\\':
				dst = append(dst, '\\', c)
			case '\n':
				dst = append(dst, '\\', 'n')
			case '\r':
				dst = append(dst, '\\', 'r')
			case '\t':
				dst = append(dst, '\\', 't')
			default:
				dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			}
			continue
		}
		r, n := decodeRune(s[i:])
		if r == utf8.RuneError && n == 1 {
			dst = append(dst, s[clean:i]...)
			clean = i + 1
			dst = append(dst, "\ufffd"...)
		}
		i += n - 1
	}
	return append(dst, s[clean:]...)
}

func decodeRune[S string | []byte](s S) (rune, int) {
	var b [utf8.UTFMax]byte
	return utf8.DecodeRune(b[:copy(b[:], s)])
}

// leastLogprob stands for what is too small for JSON.
const leastLogprob = -9999

// appendLogprob appends a probability, which is none if it is NaN.
func appendLogprob(dst []byte, v float32) []byte {
	if v != v {
		return append(dst, "null"...)
	}
	return appendNumber(dst, v)
}

// appendNumber appends a probability where there must be one.
func appendNumber(dst []byte, v float32) []byte {
	f := max(float64(v), leastLogprob)
	switch {
	case v != v:
		f = leastLogprob
	case math.IsInf(f, 1):
		f = 0
	}
	form := byte('f')
	if abs := math.Abs(f); abs != 0 && abs < 1e-6 {
		form = 'e'
	}
	return strconv.AppendFloat(dst, f, form, -1, 32)
}

// appendItem appends the comma between the items of a list.
func appendItem(dst []byte) []byte {
	if len(dst) > 0 {
		dst = append(dst, ',')
	}
	return dst
}
