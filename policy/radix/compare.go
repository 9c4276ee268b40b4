package radix

import "math/bits"

// common is the length of the longest common prefix in bytes.
func common(a, b string) int {
	const stride = 256 // few enough to look for a difference word by word
	n := min(len(a), len(b))
	i := 0
	for i+stride <= n && a[i:i+stride] == b[i:i+stride] {
		i += stride
	}
	for ; i+8 <= n; i += 8 {
		if x := word(a[i:]) ^ word(b[i:]); x != 0 {
			return i + bits.TrailingZeros64(x)/8
		}
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}

// word is the first 8 bytes of s, little-endian. The compiler makes it one load.
func word(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// continues says whether a byte goes on with a UTF-8 sequence instead of starting
// one.
func continues(b byte) bool { return b&0xc0 == 0x80 }

// starts counts the bytes that do not continue a UTF-8 sequence.
func starts(s string) int {
	const tops, ones, many = 0x8080808080808080, 0x0101010101010101, 64
	n := len(s)
	for ; len(s) >= many; s = s[many:] {
		a, b, c, d := word(s), word(s[8:]), word(s[16:]), word(s[24:])
		e, f, g, h := word(s[32:]), word(s[40:]), word(s[48:]), word(s[56:])
		if (a|b|c|d|e|f|g|h)&tops == 0 {
			continue
		}
		// A continuation has its top bit set and the next one not. They are summed
		// by byte; the product brings the sums together in the top byte.
		sum := a>>7&^(a>>6)&ones + b>>7&^(b>>6)&ones + c>>7&^(c>>6)&ones + d>>7&^(d>>6)&ones +
			e>>7&^(e>>6)&ones + f>>7&^(f>>6)&ones + g>>7&^(g>>6)&ones + h>>7&^(h>>6)&ones
		n -= int(sum * ones >> 56)
	}
	for i := range len(s) {
		if continues(s[i]) {
			n--
		}
	}
	return n
}
