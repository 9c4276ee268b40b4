package policy

import (
	"encoding/binary"
	"sync"
	"unicode/utf8"

	"github.com/zeebo/xxh3"

	"smg/policy/ring"
)

// charsPerToken is how many characters of text stand for a token.
const charsPerToken = 4

// head is the beginning of a prompt: its place on the ring, and the boundary that
// it reaches to, 0 for the fixed depth.
type head struct {
	position uint64
	level    int
}

// headOf hashes what a prompt begins with, up to one depth after another. Depths are
// in tokens and must not fall. It allocates nothing.
type headOf struct {
	hasher xxh3.Hasher
	tokens []uint32 // that are left to hash
	text   string   // that is left to hash
	depth  int      // hashed already, in tokens
	chars  int      // hashed already, in characters
}

// tokensTo hashes the prompt up to depth tokens, of which it has enough.
func (h *headOf) tokensTo(depth int) uint64 {
	var buf [512]byte
	for n := depth - h.depth; n > 0; {
		part := h.tokens[:min(n, len(buf)/4)]
		for i, id := range part {
			binary.LittleEndian.PutUint32(buf[4*i:], id)
		}
		_, _ = h.hasher.Write(buf[:4*len(part)]) // never fails
		h.tokens = h.tokens[len(part):]
		n -= len(part)
	}
	h.depth = depth
	return h.hasher.Sum64()
}

// textTo hashes the prompt up to so many characters and says whether it has them.
// One that has fewer is hashed whole.
func (h *headOf) textTo(chars int) (sum uint64, whole bool) {
	end, n := runes(h.text, chars-h.chars)
	_, _ = h.hasher.WriteString(h.text[:end]) // never fails
	h.text = h.text[end:]
	h.chars += n
	return h.hasher.Sum64(), h.chars == chars
}

// runes is the length in bytes of the first n characters of s, or of all if there
// are fewer, and how many they are.
func runes(s string, n int) (bytes, count int) {
	if n >= len(s) {
		return len(s), utf8.RuneCountInString(s)
	}
	for bytes < len(s) && count < n {
		if s[bytes] < utf8.RuneSelf {
			bytes++
		} else {
			_, size := utf8.DecodeRuneInString(s[bytes:])
			bytes += size
		}
		count++
	}
	return bytes, count
}

// places finds heads on the ring. The memory for it is used again and again: hashing
// a local array would put that on the heap.
type places struct{ keys sync.Pool }

func newPlaces() *places {
	return &places{sync.Pool{New: func() any { return new([16]byte) }}}
}

// of is where the XXH3 of a head lies on the ring: its 16 hexadecimal digits are the
// ring's key.
func (p *places) of(sum uint64) uint64 {
	const digits = "0123456789abcdef"
	key := p.keys.Get().(*[16]byte)
	defer p.keys.Put(key)
	for i := range key {
		key[i] = digits[sum>>(60-4*i)&15]
	}
	return ring.Position(key[:])
}
