package kvindex

import (
	"fmt"
	"sync"
	"time"

	"smg/worker"
)

// Block is one block of tokens in an engine's cache.
type Block struct {
	// Hash is the engine's name for the block, the same number of bits whether the
	// engine writes it signed or not.
	Hash uint64
	// Tokens are the block's token ids.
	Tokens []uint32
}

// Source is what one worker says of its blocks, from [Index.Track] until the worker
// is removed. Changes of one worker must come in order; otherwise it is safe for
// concurrent use.
type Source struct {
	ix *Index
	id worker.ID

	mu    sync.Mutex
	ranks []*rank // by number, nil if it has not stored anything

	// Written under both locks.
	size int
	gone bool
}

// rank is one data-parallel rank of a worker: a cache of its own.
type rank struct {
	src    *Source
	number int
	slot   uint32 // of the index, for as long as the rank lives
	alone  setID  // the set of slot

	// Under src.mu. A chain's hash is here as often as engine's hashes stand for it,
	// and the rank holds the chain for as long as that is once or more.
	prefixes table[uint64]     // engine's hash, spread → hash of the chain
	more     map[uint64]uint32 // hash of the chain → how often beyond once
}

// Store notes that a rank holds a chain of blocks that begins a prompt. A block whose
// engine's hash is known already is the one of this chain from now on. With
// [ErrBlockSize] the blocks before the one in question are stored; the other errors
// are [ErrRank] and [ErrUntracked].
func (s *Source) Store(rank int, blocks []Block, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.rank(rank)
	if err != nil {
		return err
	}
	return s.store(r, chain{}, blocks, now)
}

// Extend is [Source.Store] of a chain that goes on behind the block whose engine's
// hash is parent. If the rank does not hold it, that is [ErrUnknownParent].
func (s *Source) Extend(rank int, parent uint64, blocks []Block, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.rank(rank)
	if err != nil {
		return err
	}
	prefix := r.prefixes.find(spread(parent))
	if prefix == nil {
		return ErrUnknownParent
	}
	return s.store(r, chain{*prefix, true}, blocks, now)
}

// Remove notes that a rank does not hold these blocks any more. What is chained to
// them stays, out of reach until they are back. Unknown hashes are no error; a worker
// that is not tracked is [ErrUntracked].
func (s *Source) Remove(rank int, hashes []uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return ErrUntracked
	}
	if r := s.known(rank); r != nil {
		s.remove(r, hashes)
	}
	return nil
}

// Clear notes that a rank holds nothing. The error is [ErrUntracked] or nil.
func (s *Source) Clear(rank int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return ErrUntracked
	}
	if r := s.known(rank); r != nil {
		s.clear(r)
	}
	return nil
}

// ClearAll is [Source.Clear] of every rank.
func (s *Source) ClearAll() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return ErrUntracked
	}
	s.clearAll()
	return nil
}

// SetBlockSize says how many tokens the worker's blocks have from now on; 0 if that
// is not known. If it was another number, the worker's blocks are dropped: an engine
// does not change its block size but by starting anew.
func (s *Source) SetBlockSize(tokens int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	tokens = max(0, tokens)
	switch {
	case s.gone:
		return ErrUntracked
	case s.size == tokens:
		return nil
	}
	s.clearAll()
	s.ix.mu.Lock()
	s.size = tokens
	s.ix.mu.Unlock()
	return nil
}

// BlockSize is how many tokens the worker's blocks have, 0 if that is not known.
func (s *Source) BlockSize() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size
}

// Drop removes the worker and its blocks, unless it has been added anew: then only
// what this Source stored.
func (s *Source) Drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return
	}
	ix := s.ix
	ix.mu.Lock()
	s.gone = true // no match sees it any more
	if ix.tracked[s.id] == s {
		delete(ix.tracked, s.id)
	}
	ix.mu.Unlock()

	s.clearAll()
	ix.mu.Lock()
	for _, r := range s.ranks {
		if r != nil {
			ix.unseat(r)
		}
	}
	ix.mu.Unlock()
	s.ranks = nil
}

// known is a rank that has stored something, or nil.
func (s *Source) known(number int) *rank {
	if number < 0 || number >= len(s.ranks) {
		return nil
	}
	return s.ranks[number]
}

// rank is a rank that is about to store something.
func (s *Source) rank(number int) (*rank, error) {
	switch {
	case s.gone:
		return nil, ErrUntracked
	case number < 0 || number > MaxRank:
		return nil, fmt.Errorf("%w: %d", ErrRank, number)
	}
	if r := s.known(number); r != nil {
		return r, nil
	}
	for len(s.ranks) <= number {
		s.ranks = append(s.ranks, nil)
	}
	r := &rank{src: s, number: number}
	s.ix.mu.Lock()
	s.ix.seat(r)
	s.ix.mu.Unlock()
	s.ranks[number] = r
	return r, nil
}

// store extends a chain. Everything is worked out before matches have to wait.
func (s *Source) store(r *rank, c chain, blocks []Block, now time.Time) error {
	var changes [chunk]struct {
		prefix, old uint64
		known, same bool // the engine's hash was known, as that of this chain
	}
	stamp := s.ix.tick(now)
	for len(blocks) > 0 {
		n := 0
		for ; n < min(len(blocks), chunk) && s.size > 0 && len(blocks[n].Tokens) == s.size; n++ {
			ch := &changes[n]
			ch.prefix = c.extend(blocks[n].Tokens)
			var at *uint64
			at, ch.known = r.prefixes.put(spread(blocks[n].Hash))
			ch.same, ch.old = ch.known && *at == ch.prefix, *at
			*at = ch.prefix
		}
		s.ix.mu.Lock()
		news := 0
		for i := range changes[:n] {
			ch := &changes[i]
			if ch.known && !ch.same && r.forget(ch.old) && s.ix.unhold(r, ch.old) {
				news--
			}
			switch {
			case s.ix.hold(r, ch.prefix, stamp):
				news++
			case !ch.same:
				r.repeat(ch.prefix)
			}
		}
		s.ix.count(s.size, news)
		s.ix.mu.Unlock()
		if n < min(len(blocks), chunk) {
			return fmt.Errorf("%w: %d tokens, not %d", ErrBlockSize, len(blocks[n].Tokens), s.size)
		}
		blocks = blocks[n:]
	}
	return nil
}

func (s *Source) remove(r *rank, hashes []uint64) {
	var gone [chunk]uint64
	for len(hashes) > 0 {
		n, of := 0, min(len(hashes), chunk)
		for _, hash := range hashes[:of] {
			if prefix, found := r.prefixes.take(spread(hash)); found && r.forget(prefix) {
				gone[n] = prefix
				n++
			}
		}
		s.drop(r, gone[:n])
		hashes = hashes[of:]
	}
	r.prefixes.fit()
}

// drop takes chains, at most a chunk of them, from a rank.
func (s *Source) drop(r *rank, prefixes []uint64) {
	s.ix.mu.Lock()
	defer s.ix.mu.Unlock()
	news := 0
	for _, prefix := range prefixes {
		if s.ix.unhold(r, prefix) {
			news--
		}
	}
	s.ix.count(s.size, news)
}

func (s *Source) clearAll() {
	for _, r := range s.ranks {
		if r != nil {
			s.clear(r)
		}
	}
}

func (s *Source) clear(r *rank) {
	var room [chunk]slot[uint64]
	var prefixes [chunk]uint64
	for from := uint64(0); ; {
		some := r.prefixes.walk(from, room[:0])
		if len(some) == 0 {
			break
		}
		for i := range some {
			prefixes[i] = some[i].value
		}
		s.drop(r, prefixes[:len(some)])
		from = some[len(some)-1].key + 1
	}
	r.prefixes, r.more = table[uint64]{}, nil
}

// repeat notes one more engine's hash for a chain.
func (r *rank) repeat(prefix uint64) {
	if r.more == nil {
		r.more = map[uint64]uint32{}
	}
	r.more[prefix]++
}

// forget notes that an engine's hash does not stand for a chain any more, and says
// whether it was the last that did.
func (r *rank) forget(prefix uint64) bool {
	switch n := r.more[prefix]; n {
	case 0:
		return true
	case 1:
		delete(r.more, prefix)
	default:
		r.more[prefix] = n - 1
	}
	return false
}
