package worker

import (
	"encoding/binary"

	"github.com/zeebo/xxh3"
	"lukechampine.com/blake3"
)

// KeySource says where a routing key came from.
type KeySource uint8

// The sources of a key.
const (
	NoKey       KeySource = iota
	KeyHeader             // a routing-key header
	KeyImplicit           // Authorization, X-Forwarded-For or Cookie
)

// Key is a routing key as it travels and is kept: hashed, never the key itself.
// The zero Key means that the request has none.
type Key struct {
	Source KeySource
	Sum    [16]byte // first 16 bytes of BLAKE3
	Short  uint64   // XXH3
}

// HashKey is the Key of a non-empty string.
func HashKey(source KeySource, key string) Key {
	sum := blake3.Sum256([]byte(key))
	k := Key{Source: source, Short: xxh3.HashString(key)}
	copy(k.Sum[:], sum[:])
	return k
}

// Position is the key's place on a hash ring.
func (k Key) Position() uint64 { return binary.LittleEndian.Uint64(k.Sum[:8]) }
