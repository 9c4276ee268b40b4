package simtext

import (
	"encoding/binary"
	"strings"

	"github.com/zeebo/xxh3"
)

// Token is a token id, below VocabSize.
type Token uint32

const (
	// VocabSize bounds token ids from above.
	VocabSize = 1 << 18
	// EOS is the id reported when an answer ends by itself. No text has it.
	EOS Token = 2

	reserved     = 16 // ids that no text maps to
	maxWordBytes = 8
	maxMarker    = 24
)

// Tokenize cuts text into pieces and returns their ids. A piece is
//
//   - a marker such as <|user|>: lower-case letters, digits and underscores
//     between bars and angle brackets, at most 24 bytes in all; or
//   - up to 8 bytes of a word, with the single space before the word; letters,
//     digits and everything outside ASCII belong to words, and a character is
//     never split; or
//   - one other byte.
//
// The id is a hash of the piece, so no vocabulary is needed, and equal pieces
// have equal ids in every process.
func Tokenize(text string) []Token {
	ids := make([]Token, 0, len(text)/5+1)
	for len(text) > 0 {
		n := piece(text)
		ids = append(ids, pieceID(text[:n]))
		text = text[n:]
	}
	return ids
}

func pieceID(s string) Token {
	return Token(reserved + xxh3.HashString(s)%(VocabSize-reserved))
}

// piece returns the length of the first piece of text, which is not empty.
func piece(text string) int {
	if n := marker(text); n > 0 {
		return n
	}
	start := 0
	if text[0] == ' ' && len(text) > 1 {
		start = 1
	}
	if !isWord(text[start]) {
		return 1
	}
	end := start + 1
	for end < len(text) && end < start+maxWordBytes && isWord(text[end]) {
		end++
	}
	// Step back to the border of a character, if there is one in reach.
	for back := end; back > start && end-back < 4; back-- {
		if back == len(text) || text[back]&0xC0 != 0x80 {
			return back
		}
	}
	return end
}

func marker(text string) int {
	if !strings.HasPrefix(text, "<|") {
		return 0
	}
	head := text[:min(len(text), maxMarker)]
	end := strings.Index(head, "|>")
	if end < 3 {
		return 0
	}
	for _, c := range []byte(head[2:end]) {
		if c != '_' && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return 0
		}
	}
	return end + 2
}

func isWord(c byte) bool {
	return c >= 0x80 || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// BlockHashes returns a hash for every full block of the sequence. Each covers
// its block and everything before it, so equal hashes mean equal prefixes. The
// parts of the sequence are taken one behind the other.
func BlockHashes(blockSize int, parts ...[]Token) []uint64 {
	total := 0
	for _, p := range parts {
		total += len(p)
	}
	hashes := make([]uint64, 0, total/blockSize)
	buf := make([]byte, 8, 8+4*blockSize) // the hash so far, then the block
	for _, part := range parts {
		for _, t := range part {
			buf = binary.LittleEndian.AppendUint32(buf, uint32(t))
			if len(buf) < 8+4*blockSize {
				continue
			}
			h := xxh3.Hash(buf)
			hashes = append(hashes, h)
			buf = binary.LittleEndian.AppendUint64(buf[:0], h)
		}
	}
	return hashes
}

// hashTokens folds tokens into one number.
func hashTokens(tokens []Token) uint64 {
	const chunk = 1024
	h := xxh3.New()
	buf := make([]byte, 0, 4*chunk)
	for i, t := range tokens {
		buf = binary.LittleEndian.AppendUint32(buf, uint32(t))
		if len(buf) == cap(buf) || i == len(tokens)-1 {
			// Writing to a hash cannot fail.
			_, _ = h.Write(buf)
			buf = buf[:0]
		}
	}
	return h.Sum64()
}
