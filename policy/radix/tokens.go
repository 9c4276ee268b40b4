package radix

import (
	"hash/maphash"
	"unsafe"
)

// tokenBytes is the size of a token in an edge.
const tokenBytes = 4

// Tokens is a forest of trees over token ids. Its unit is the token; paths consist
// of whole pages.
type Tokens struct {
	Forest
	page int // bytes
}

// NewTokens is an empty forest of at most budget tokens, in pages of page tokens.
func NewTokens(page, budget int) *Tokens {
	return newTokens(pages{size: page * tokenBytes, seed: maphash.MakeSeed()}, budget)
}

func newTokens(k pages, budget int) *Tokens {
	t := &Tokens{page: k.size}
	t.init(k, budget)
	return t
}

// Match finds the longest prefix of tokens in a namespace, in whole pages, and who
// holds it. p.Input counts all tokens, those of an unfinished last page too. The
// tokens must stay as they are until p is done with.
func (t *Tokens) Match(p *Place, namespace uint64, tokens []uint32) {
	// The bytes of the tokens as they lie in memory: comparing and copying them is
	// then one instruction for many, and both kinds of forest share their code.
	input := unsafe.String((*byte)(unsafe.Pointer(unsafe.SliceData(tokens))), len(tokens)*tokenBytes)
	t.match(p, namespace, input[:len(input)/t.page*t.page])
	p.Input = len(tokens)
}

// pages is the kind of [Tokens].
type pages struct {
	size int // bytes
	seed maphash.Seed
}

func (k pages) cut(_, _ string, n int) int { return n / k.size * k.size }

func (k pages) units(s string) int { return len(s) / tokenBytes }

func (k pages) key(parent uint32, s string) uint64 {
	const spread = 0x9e3779b97f4a7c15 // so that the same page has other keys elsewhere
	return maphash.String(k.seed, s[:k.size]) + uint64(parent)*spread
}
