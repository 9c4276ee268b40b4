package record

import (
	"encoding/binary"
	"unicode/utf8"

	"github.com/zeebo/xxh3"
)

// A prompt is told in blocks: small ones first, since short prompts are to be told
// apart too. These are part of the format.
const (
	smallTokens = 16
	smallBlocks = 64 // of so many tokens; all others are large
	largeTokens = 64
	// CharsPerToken is how many characters of a text count as a token.
	CharsPerToken = 4
	// DigestBytes is the length of a block's digest.
	DigestBytes = 8
)

// BlockEnd is where block i ends, in tokens of the prompt. In a text it is
// [CharsPerToken] times as many characters. The last block of a prompt may be
// shorter.
func BlockEnd(i int) int {
	small := min(i+1, smallBlocks)
	return smallTokens*small + largeTokens*(i+1-small)
}

// BlockOf is the block that holds the token with this index.
func BlockOf(token int) int {
	const border = smallTokens * smallBlocks
	if token < border {
		return token / smallTokens
	}
	return smallBlocks + (token-border)/largeTokens
}

// Blocks is how many blocks a prompt of so many tokens has.
func Blocks(tokens int) int {
	if tokens <= 0 {
		return 0
	}
	return BlockOf(tokens-1) + 1
}

// textBlocks is how many blocks a text of so many characters has.
func textBlocks(chars int) int { return Blocks((chars + CharsPerToken - 1) / CharsPerToken) }

// DigestText appends the digests of a text's blocks to buf and counts the text's
// characters. A digest is the XXH3 of its block, seeded with the digest before it, or
// 0: equal digests are equal texts up to there.
func DigestText(buf []byte, text string) (digests []byte, chars int) {
	seed := uint64(0)
	for block := 0; text != ""; block++ {
		end, n := runes(text, CharsPerToken*BlockEnd(block)-chars)
		seed = xxh3.HashStringSeed(text[:end], seed)
		buf = binary.LittleEndian.AppendUint64(buf, seed)
		text = text[end:]
		chars += n
	}
	return buf, chars
}

// DigestIDs appends the digests of the blocks of token ids to buf: as those of text,
// over the ids as four bytes each, little endian.
func DigestIDs(buf []byte, ids []uint32) []byte {
	seed, done := uint64(0), 0
	block := make([]byte, 0, 4*largeTokens)
	for i := 0; done < len(ids); i++ {
		end := min(BlockEnd(i), len(ids))
		block = block[:0]
		for _, id := range ids[done:end] {
			block = binary.LittleEndian.AppendUint32(block, id)
		}
		seed = xxh3.HashSeed(block, seed)
		buf = binary.LittleEndian.AppendUint64(buf, seed)
		done = end
	}
	return buf
}

// runes is the length in bytes of the first n characters of s, or of all if there are
// fewer, and how many they are.
func runes(s string, n int) (bytes, count int) {
	for count < n && bytes < len(s) {
		if left := s[bytes:]; n-count >= 8 && len(left) >= 8 && plain(left) {
			bytes, count = bytes+8, count+8
			continue
		}
		size := 1
		if s[bytes] >= utf8.RuneSelf {
			_, size = utf8.DecodeRuneInString(s[bytes:])
		}
		bytes, count = bytes+size, count+1
	}
	return bytes, count
}

// plain says whether the first eight bytes of s are characters of their own.
func plain(s string) bool {
	_ = s[7]
	word := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
	return word&0x8080808080808080 == 0
}
