package tokenizer

import "unicode/utf8"

// letters are the code points that stand for bytes in byte-level vocabularies:
// printable Latin-1 stands for itself, the rest for U+0100 and up, in order.
var letters = func() (l [256]rune) {
	n := rune(0x100)
	for b := range l {
		if b >= '!' && b <= '~' || b >= 0xA1 && b != 0xAD {
			l[b] = rune(b)
		} else {
			l[b] = n
			n++
		}
	}
	return l
}()

// spelled are the bytes that letters stand for, -1 for those of none.
var spelled = func() (s [0x144]int16) {
	for i := range s {
		s[i] = -1
	}
	for b, r := range letters {
		s[r] = int16(b)
	}
	return s
}()

// appendSpelled appends the letters for the bytes of s.
func appendSpelled(b []byte, s string) []byte {
	for i := range len(s) {
		b = utf8.AppendRune(b, letters[s[i]])
	}
	return b
}

// appendBytes appends the bytes that token is spelled with; token itself if one
// of its code points is no letter of a byte.
func appendBytes(b []byte, token string) []byte {
	n := len(b)
	for _, r := range token {
		if int(r) >= len(spelled) || spelled[r] < 0 {
			return append(b[:n], token...)
		}
		b = append(b, byte(spelled[r]))
	}
	return b
}
