package kvindex

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"smg/worker"
)

// Errors of a [Source]. Callers branch on them.
var (
	// ErrUnknownParent: blocks were to be chained to one that the worker does not
	// hold.
	ErrUnknownParent = errors.New("the parent block is unknown")
	// ErrUntracked: the worker has been removed, or added anew.
	ErrUntracked = errors.New("the worker is not tracked")
	// ErrBlockSize: a block has another number of tokens than the worker's blocks,
	// or that number is not known.
	ErrBlockSize = errors.New("not a block of the worker's size")
	// ErrRank: not a data-parallel rank from 0 to [MaxRank].
	ErrRank = errors.New("no such rank")
)

// MaxRank is the highest data-parallel rank of a worker.
const MaxRank = 1023

// Bounds limit what an index keeps beyond what workers take back themselves. Both
// are off when 0.
type Bounds struct {
	// TTL is how long a block is kept that is neither stored nor matched.
	TTL time.Duration
	// MaxBlocks is how many blocks may be held; a block counts once for every rank
	// that holds it. [Index.Prune] goes down to nine tenths of it.
	MaxBlocks int
}

func (b Bounds) off() bool { return b.TTL <= 0 && b.MaxBlocks <= 0 }

// Index is which ranks of which workers hold which blocks. It is safe for concurrent
// use. A block with a single holder takes about 40 bytes, another holder of it about
// 20 more.
type Index struct {
	bounds Bounds
	epoch  time.Time // ticks count from here
	stride int       // blocks that a match looks up at a time, at most maxStride

	held atomic.Int64 // (block, rank) pairs, changed under mu

	mu      sync.RWMutex
	parts   [parts]table[block] // by [part] of the chain's hash
	sets    sets
	slots   []*rank // nil: unused, or its rank is gone
	unused  []uint32
	freed   uint64 // slots that were ever given back
	tracked map[worker.ID]*Source
	sizes   []sizeUse
}

// parts is how many tables there are: one grows at a time, while matches wait.
const parts = 256

// block is the last block of a chain. Its key is the chain's hash.
type block struct {
	holders setID
	touched uint32 // tick of the last use, if there are bounds; atomic for matches
}

// sizeUse is a block size that is in use.
type sizeUse struct{ tokens, held int }

// New is an empty index. Now is the time, as in all calls that are told it.
func New(bounds Bounds, now time.Time) *Index {
	return &Index{bounds: bounds, epoch: now, stride: maxStride, tracked: map[worker.ID]*Source{}}
}

// Len is how many blocks are held; a block counts once for every rank that holds it.
func (ix *Index) Len() int { return int(ix.held.Load()) }

// Workers is how many workers are tracked.
func (ix *Index) Workers() int {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	return len(ix.tracked)
}

// Track adds a worker whose blocks have blockSize tokens; 0 if that is not known. If
// the worker is tracked already, it is as if it had been removed first.
func (ix *Index) Track(id worker.ID, blockSize int) *Source {
	src := &Source{ix: ix, id: id, size: max(0, blockSize)}
	ix.mu.Lock()
	old := ix.tracked[id]
	ix.tracked[id] = src
	ix.mu.Unlock()
	if old != nil {
		old.Drop()
	}
	return src
}

// Untrack removes a worker and its blocks. From now on its Source refuses
// everything.
func (ix *Index) Untrack(id worker.ID) {
	ix.mu.RLock()
	src := ix.tracked[id]
	ix.mu.RUnlock()
	if src != nil {
		src.Drop()
	}
}

// tick is a time as blocks are stamped with it. Ticks start anew every 13 years;
// they are compared by their difference.
func (ix *Index) tick(now time.Time) uint32 { return uint32(now.Sub(ix.epoch) / tick) }

const tick = 100 * time.Millisecond

// chunk is how many blocks are changed while matches wait.
const chunk = 64

// part is the table that a chain's hash lies in, and its key there. The low bits
// choose, since tables are ordered by the high ones.
func (ix *Index) part(prefix uint64) (*table[block], uint64) {
	return &ix.parts[prefix%parts], min(prefix, vacant-1)
}

// hold notes that r holds a chain, and says whether it is news. ix.mu is held.
func (ix *Index) hold(r *rank, prefix uint64, stamp uint32) bool {
	t, key := ix.part(prefix)
	b, found := t.put(key)
	if !found || int32(stamp-b.touched) > 0 {
		b.touched = stamp
	}
	switch {
	case !found:
		b.holders = r.alone
		ix.sets.retain(r.alone)
	case ix.sets.has(b.holders, r.slot):
		return false
	default:
		b.holders = ix.sets.toggle(b.holders, r.slot)
	}
	return true
}

// unhold notes that r does not hold a chain, and says whether it is news. ix.mu is
// held.
func (ix *Index) unhold(r *rank, prefix uint64) bool {
	t, key := ix.part(prefix)
	b := t.find(key)
	if b == nil || !ix.sets.has(b.holders, r.slot) {
		return false
	}
	if b.holders = ix.sets.toggle(b.holders, r.slot); b.holders == 0 {
		t.take(key)
		t.fit() // what goes is a matter of engine's hashes: any key
	}
	return true
}

// count adds to what is held in blocks of the given size. ix.mu is held.
func (ix *Index) count(size, change int) {
	if change == 0 {
		return
	}
	ix.held.Add(int64(change))
	for i := range ix.sizes {
		if u := &ix.sizes[i]; u.tokens == size {
			if u.held += change; u.held == 0 {
				*u = ix.sizes[len(ix.sizes)-1]
				ix.sizes = ix.sizes[:len(ix.sizes)-1]
			}
			return
		}
	}
	ix.sizes = append(ix.sizes, sizeUse{size, change})
}

// seat gives r a slot. ix.mu is held.
func (ix *Index) seat(r *rank) {
	if n := len(ix.unused); n > 0 {
		r.slot, ix.unused = ix.unused[n-1], ix.unused[:n-1]
		ix.slots[r.slot] = r
	} else {
		r.slot = uint32(len(ix.slots))
		ix.slots = append(ix.slots, r)
	}
	r.alone = ix.sets.one(r.slot)
}

// unseat takes the slot of r, which holds nothing, back. ix.mu is held.
func (ix *Index) unseat(r *rank) {
	ix.sets.release(r.alone)
	ix.slots[r.slot] = nil
	ix.unused = append(ix.unused, r.slot)
	ix.freed++
}
