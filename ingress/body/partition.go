package body

import (
	"encoding/binary"

	"github.com/zeebo/xxh3"
)

// Partitioner returns a hash that names the part of an engine's prefix cache which a
// request may share, the same in every process; 0 for the part that requests share
// which name none. Nothing else is kept of the fields.
//
// An empty string, null and anything but a string count as absent. A list, as engines
// take it for a batch, stands for its first element, like the token ids of a batch.
type Partitioner func(b *Body) uint64

var (
	_ Partitioner = Partition
	_ Partitioner = PartitionGenerate
)

// Partition hashes cache_salt, extra_key and lora_path.
func Partition(b *Body) uint64 {
	return partition(b, KeyCacheSalt, KeyExtraKey, KeyLoRAPath)
}

// PartitionGenerate hashes lora_id too.
func PartitionGenerate(b *Body) uint64 {
	return partition(b, KeyCacheSalt, KeyExtraKey, KeyLoRAPath, KeyLoRAID)
}

func partition(b *Body, keys ...Key) uint64 {
	// Name, length and hash of each field: the same text in another field, or split
	// over two, is something else.
	var buf [128]byte
	id := buf[:0]
	for _, k := range keys {
		if text, _ := stringText(first(b.Value(k))); len(text) > 0 {
			id = append(id, k.String()...)
			id = append(id, 0)
			id = binary.LittleEndian.AppendUint64(id, uint64(len(text)))
			id = binary.LittleEndian.AppendUint64(id, xxh3.Hash(text))
		}
	}
	if len(id) == 0 {
		return 0
	}
	return max(xxh3.Hash(id), 1) // 0 is taken
}
