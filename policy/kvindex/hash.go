package kvindex

import (
	"encoding/binary"
	"unsafe"

	"github.com/zeebo/xxh3"
)

// seed is that of all hashes of this package.
const seed = 1337

// ContentHash is the hash of one block's tokens, wherever it stands: XXH3-64 over
// their ids, 4 bytes each, little-endian.
func ContentHash(tokens []uint32) uint64 {
	if !littleEndian() {
		b := make([]byte, 0, 4*len(tokens))
		for _, t := range tokens {
			b = binary.LittleEndian.AppendUint32(b, t)
		}
		return xxh3.HashSeed(b, seed)
	}
	// Copying the tokens out takes twice as long as hashing them.
	return xxh3.HashSeed(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(tokens))), 4*len(tokens)), seed)
}

func littleEndian() bool { return binary.NativeEndian.Uint16([]byte{1, 0}) == 1 }

// PrefixHash is the hash of a chain that ends with a block of the given content,
// behind a chain whose hash is parent. The hash of a chain of one block is the
// block's [ContentHash].
func PrefixHash(parent, content uint64) uint64 {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], parent)
	binary.LittleEndian.PutUint64(b[8:], content)
	return xxh3.HashSeed(b[:], seed)
}

// AppendPrefixes appends the hash of every chain that starts at the first token and
// ends with a full block of blockSize tokens, the shortest first. An incomplete
// block at the end has no hash, and with a block size below 1 there are none.
func AppendPrefixes(prefixes []uint64, tokens []uint32, blockSize int) []uint64 {
	if blockSize < 1 {
		return prefixes
	}
	var c chain
	for ; len(tokens) >= blockSize; tokens = tokens[blockSize:] {
		prefixes = append(prefixes, c.extend(tokens[:blockSize]))
	}
	return prefixes
}

// chain hashes a chain block by block. The zero chain has no blocks yet.
type chain struct {
	prefix uint64
	begun  bool
}

// extend is the hash of the chain with one more block.
func (c *chain) extend(block []uint32) uint64 {
	content := ContentHash(block)
	if c.begun {
		content = PrefixHash(c.prefix, content)
	}
	c.prefix, c.begun = content, true
	return content
}
