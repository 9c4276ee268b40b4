package worker

import "github.com/zeebo/xxh3"

// PinKey is a routing key within a model as replicas of a selector know it: hashes
// alone.
type PinKey struct {
	Model uint64   // XXH3 of the model's id
	Sum   [16]byte // of the [Key], zero for none
}

// PinKeyOf is a key within the model of that canonical id.
func PinKeyOf(model string, key Key) PinKey {
	return PinKey{Model: xxh3.HashString(model), Sum: key.Sum}
}

// None says that there is no key.
func (k PinKey) None() bool { return k.Sum == [16]byte{} }

// Pin is where the calls of a key go, as one replica tells the others.
type Pin struct {
	Key PinKey
	// Workers are one or two, in the order in which they are asked for; a zero id is
	// nobody.
	Workers [2]ID
	// Replica is the one that says so.
	Replica ReplicaID
}
