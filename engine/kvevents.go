package engine

import "errors"

// How a stream of KV-cache events ends for a reason of its own.
var (
	// ErrNoEvents: the engine publishes none.
	ErrNoEvents = errors.New("the engine publishes no KV-cache events")
	// ErrEventsLost: the engine has no more what the reader has not seen. Its present
	// state has to be asked for.
	ErrEventsLost = errors.New("KV-cache events were lost")
)

// KVBatch is what happened to the cache of one data-parallel rank, under the rank's own
// number.
type KVBatch struct {
	Seq    uint64
	Rank   int
	Events []KVEvent
}

// KVEvent is one change: blocks that are stored, or hashes that are not any more, or
// else nothing is.
type KVEvent struct {
	Stored  []KVBlock
	Removed []uint64
	Cleared bool

	// Of Stored: the first block is chained to the one with the hash Parent, if Chained.
	Chained bool
	Parent  uint64
}

// KVBlock is one block of tokens.
type KVBlock struct {
	Hash   uint64 // the engine's, the same bits whether it is signed or not
	Tokens []uint32
	Size   int // of tokens, as the engine says; 0 if it does not
}
