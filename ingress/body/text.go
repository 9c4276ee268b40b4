package body

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

const (
	lanes     = 0x0101010101010101
	highBits  = lanes * 0x80
	ctrlFlip  = lanes * 0x02
	ctrlLimit = lanes * 0x21
	backslash = lanes * '\\'
)

// special marks, in the high bit of each of the eight bytes of w, those that
// end a run of plain string text: quote, backslash and control characters.
// Marks above the lowest one may be wrong (the subtractions borrow), the lowest
// never is. One comparison finds both quote and control characters, because
// flipping bit 1 moves the quote to 0x20 and leaves 0x00-0x1f below it.
func special(w uint64) uint64 {
	q := (w ^ ctrlFlip) - ctrlLimit
	e := w ^ backslash
	return (q&^w | (e-lanes)&^e) & highBits
}

// plainRun returns the index of the first byte at or after i that is a quote, a
// backslash or a control character, or len(data). seen has a high bit set if
// and only if a byte on the way was not ASCII.
func plainRun(data []byte, i int) (end int, seen uint64) {
	// Most strings, and most runs between escapes, are short.
	if i+8 <= len(data) {
		w := binary.LittleEndian.Uint64(data[i:])
		if m := special(w); m != 0 {
			return firstSpecial(i, w, m, 0)
		}
		seen = w
		i += 8
	}
	for i+32 <= len(data) {
		c := data[i : i+32 : i+32]
		w0, w1 := binary.LittleEndian.Uint64(c), binary.LittleEndian.Uint64(c[8:])
		w2, w3 := binary.LittleEndian.Uint64(c[16:]), binary.LittleEndian.Uint64(c[24:])
		if special(w0)|special(w1)|special(w2)|special(w3) != 0 {
			break
		}
		seen |= w0 | w1 | w2 | w3
		i += 32
	}
	for i+8 <= len(data) {
		w := binary.LittleEndian.Uint64(data[i:])
		if m := special(w); m != 0 {
			return firstSpecial(i, w, m, seen)
		}
		seen |= w
		i += 8
	}
	for ; i < len(data); i++ {
		c := data[i]
		if c == '"' || c == '\\' || c < ' ' {
			break
		}
		seen |= uint64(c)
	}
	return i, seen & highBits
}

// firstSpecial ends a run inside the word w at i, whose marks are m.
func firstSpecial(i int, w, m, seen uint64) (end int, high uint64) {
	k := bits.TrailingZeros64(m) // eight times the index, plus 7
	return i + k>>3, (seen | w&(1<<(k&^7)-1)) & highBits
}

// sameKey tells whether the raw key (without quotes) spells name.
func sameKey(raw []byte, escaped bool, name string) bool {
	if !escaped {
		return string(raw) == name
	}
	// An escape is one to six times as long as what it stands for.
	if len(raw) < len(name) || len(raw) > 6*len(name) {
		return false
	}
	var buf [64]byte
	return string(appendUnescaped(buf[:0], raw)) == name
}

// indexByte is bytes.IndexByte, faster where c is near.
func indexByte(in []byte, c byte) int {
	if len(in) >= 8 {
		x := binary.LittleEndian.Uint64(in) ^ lanes*uint64(c)
		if m := (x - lanes) &^ x & highBits; m != 0 {
			return bits.TrailingZeros64(m) >> 3
		}
	}
	return bytes.IndexByte(in, c)
}

// characters counts the Unicode scalars of valid UTF-8: the bytes that continue none.
func characters(in []byte) int {
	n := len(in)
	for len(in) >= 64 {
		c := in[:64:64]
		w0, w1 := binary.LittleEndian.Uint64(c), binary.LittleEndian.Uint64(c[8:])
		w2, w3 := binary.LittleEndian.Uint64(c[16:]), binary.LittleEndian.Uint64(c[24:])
		w4, w5 := binary.LittleEndian.Uint64(c[32:]), binary.LittleEndian.Uint64(c[40:])
		w6, w7 := binary.LittleEndian.Uint64(c[48:]), binary.LittleEndian.Uint64(c[56:])
		if (w0|w1|w2|w3|w4|w5|w6|w7)&highBits != 0 {
			sum := continued(w0) + continued(w1) + continued(w2) + continued(w3) +
				continued(w4) + continued(w5) + continued(w6) + continued(w7)
			n -= int(sum * lanes >> 56) // adds the eight bytes of sum, at most 64
		}
		in = in[64:]
	}
	for _, c := range in {
		if !utf8.RuneStart(c) {
			n--
		}
	}
	return n
}

// continued is w with each byte that continues a character replaced by 1, all
// others by 0.
func continued(w uint64) uint64 { return w &^ (w << 1) & highBits >> 7 }

// AppendString appends s to dst as a JSON string, with quotes. Bytes that are
// not UTF-8 become U+FFFD.
func AppendString(dst []byte, s string) []byte {
	const digits = "0123456789abcdef"
	dst = append(dst, '"')
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ':
			dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		case c < utf8.RuneSelf:
			dst = append(dst, c)
		default:
			r, size := utf8.DecodeRuneInString(s[i:])
			dst = utf8.AppendRune(dst, r)
			i += size
			continue
		}
		i++
	}
	return append(dst, '"')
}
