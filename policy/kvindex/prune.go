package kvindex

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sync/atomic"
	"time"
)

// spared is the age below which the ceiling does not touch a block.
const spared = 2 * time.Second

// Prune drops the blocks that the index's [Bounds] do not allow: those that were
// neither stored nor matched for the TTL, and if more than MaxBlocks are held, those
// whose last use is the longest ago, down to nine tenths of that. It returns how many
// went, as [Index.Len] counts them. Ages are measured to 100 ms; in doubt a block stays.
func (ix *Index) Prune(now time.Time) int {
	p := pruning{ix: ix, stamp: ix.tick(now)}
	if ix.bounds.off() || !p.plan() {
		return 0
	}
	ix.mu.RLock()
	sources := slices.Collect(maps.Values(ix.tracked))
	ix.mu.RUnlock()
	for _, s := range sources {
		s.mu.Lock()
		for _, r := range s.ranks {
			if r != nil {
				p.prune(s, r)
			}
		}
		s.mu.Unlock()
	}
	return p.gone
}

// pruning is one pass. It goes through what ranks hold rather than through blocks, so
// that a block's holder forgets the engine's hash too.
type pruning struct {
	ix    *Index
	stamp uint32
	gone  int

	// What is older than age, in ticks rounded up, goes. Of what is just as old, some
	// go: spread evenly over all, so that all workers lose alike, and tables, which
	// are in order of the hashes, are thinned alike everywhere.
	age      int64
	of, some int
	seen     int
}

// plan says whether there is anything to do, and finds out what.
func (p *pruning) plan() bool {
	expires := int64(math.MaxInt64)
	if p.ix.bounds.TTL > 0 {
		expires = int64((p.ix.bounds.TTL + tick - 1) / tick)
	}
	p.age = expires
	excess := 0
	if limit := p.ix.bounds.MaxBlocks; limit > 0 && p.ix.Len() > limit {
		excess = p.ix.Len() - limit/10*9 - limit%10*9/10
	}
	held, expired := p.ages(expires, excess > 0)
	if excess == 0 {
		return expired
	}
	// Counted from the oldest on, until enough would go.
	ages := slices.SortedFunc(maps.Keys(held), func(a, b int64) int { return cmp.Compare(b, a) })
	for _, age := range ages {
		if age <= int64(spared/tick) {
			break
		}
		if excess <= held[age] {
			if age <= p.age {
				p.age, p.of, p.some = age, held[age], excess
			}
			return true
		}
		excess -= held[age]
		p.age = min(p.age, age-1)
	}
	return true
}

// ages counts what is held by age, if that is wanted, and says whether something is
// older than expires.
func (p *pruning) ages(expires int64, wanted bool) (held map[int64]int, expired bool) {
	held = map[int64]int{}
	for i := range p.ix.parts {
		p.ix.mu.RLock()
		for j := range p.ix.parts[i].slots {
			s := &p.ix.parts[i].slots[j]
			if s.key == vacant {
				continue
			}
			age := p.ageOf(&s.value)
			expired = expired || age > expires
			if wanted {
				held[age] += p.ix.sets.all[s.value.holders].n
			}
		}
		p.ix.mu.RUnlock()
	}
	return held, expired
}

// ageOf is in ticks, rounded up. A block may be used while the pass runs.
func (p *pruning) ageOf(b *block) int64 {
	return max(0, int64(int32(p.stamp-atomic.LoadUint32(&b.touched))))
}

// prune goes through what a rank holds. s.mu is held.
func (p *pruning) prune(s *Source, r *rank) {
	var room [chunk]slot[uint64]
	var keys [chunk]uint64
	settled := map[uint64]bool{} // of chains with more than one engine's hash
	for from := uint64(0); ; {
		some := r.prefixes.walk(from, room[:0])
		if len(some) == 0 {
			break
		}
		from = some[len(some)-1].key + 1
		n, news := 0, 0
		p.ix.mu.Lock()
		for i := range some {
			prefix := some[i].value
			goes, known := settled[prefix]
			if !known {
				t, key := p.ix.part(prefix)
				goes = p.goes(t.find(key)) // it is there, as r holds it
				if r.more[prefix] > 0 {
					settled[prefix] = goes
				}
			}
			if !goes {
				continue
			}
			keys[n] = some[i].key
			n++
			if r.forget(prefix) && p.ix.unhold(r, prefix) {
				news--
			}
		}
		p.ix.count(s.size, news)
		p.ix.mu.Unlock()
		p.gone -= news
		for _, key := range keys[:n] {
			r.prefixes.take(key)
		}
	}
	r.prefixes.fit()
}

// goes decides about what a rank holds.
func (p *pruning) goes(b *block) bool {
	age := p.ageOf(b)
	if age != p.age || p.of == 0 {
		return age > p.age
	}
	before := p.seen * p.some / p.of
	p.seen++
	return p.seen*p.some/p.of > before
}
