package worker

import (
	"encoding/binary"

	"github.com/zeebo/xxh3"
	"lukechampine.com/blake3"
)

// Key is a routing key as it travels and is kept: hashed, never the key itself.
// The zero Key means that the request has none.
type Key struct {
	Sum   [16]byte // first 16 bytes of BLAKE3
	Short uint64   // XXH3
}

// HashKey is the Key of a non-empty string.
func HashKey(key string) Key {
	sum := blake3.Sum256([]byte(key))
	k := Key{Short: xxh3.HashString(key)}
	copy(k.Sum[:], sum[:])
	return k
}

// None says that there is no key.
func (k Key) None() bool { return k == Key{} }

// Position is the key's place on a hash ring.
func (k Key) Position() uint64 { return binary.LittleEndian.Uint64(k.Sum[:8]) }

// Keys are the keys that a request can be routed by. Which of them are looked for
// depends on what the policies read.
type Keys struct {
	RID          Key // of the body's rid without its turn, with sticky sessions alone
	Header       Key // the first valid routing-key header, as it was sent
	Conversation Key // Header without its turn, with sticky sessions alone
	Pinned       Key // X-SMG-Routing-Key of whatever length, for policy manual
	Implicit     Key // Authorization, X-Forwarded-For or Cookie
}

// Sticky is the key that sticky sessions pin.
func (k *Keys) Sticky() Key { return first(k.RID, k.Conversation) }

// Manual is the key that policy manual pins.
func (k *Keys) Manual() Key { return first(k.RID, k.Pinned) }

// Hashed is the key that policy consistent_hashing places.
func (k *Keys) Hashed() Key { return first(k.RID, k.Header, k.Implicit) }

// Counted is what the calls in flight of a worker are told apart by, or 0. It says
// nothing of the model: [Scoped] does.
func (k *Keys) Counted() uint64 {
	return first(k.RID, k.Conversation, k.Header, k.Pinned).Short
}

// Any is a key that the request has, the one that names its session best.
func (k *Keys) Any() Key { return first(k.RID, k.Conversation, k.Pinned, k.Header, k.Implicit) }

func first(keys ...Key) Key {
	for _, k := range keys {
		if !k.None() {
			return k
		}
	}
	return Key{}
}

// Scoped is a counted key within a model, so that the same key of two models is
// two. It is 0 for no key.
func Scoped(model string, counted uint64) uint64 {
	if counted == 0 {
		return 0
	}
	return max(1, counted^xxh3.HashStringSeed(model, 1))
}
