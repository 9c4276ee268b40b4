package policy

import (
	"fmt"
	"time"

	"github.com/zeebo/xxh3"

	"smg/policy/ring"
	"smg/worker"
)

// Rotations is how many candidate sets a round_robin policy remembers.
func Rotations(p Policy) int {
	r := p.(*roundRobin)
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.sets)
}

// RemembersSet says whether a round_robin policy has a rotation for a set.
func RemembersSet(p Policy, signature uint64) bool {
	r := p.(*roundRobin)
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sets[signature] != nil
}

// NewBookOf is a book whose default is p.
func NewBookOf(name string, p Policy, deps Deps) *Book {
	b := newBook(Config{Policy: name}, deps)
	b.fallback = newChapter(name, p)
	return b
}

// TakeOn is one attempt of consistent_hashing on the ring of members.
func TakeOn(p Policy, members *worker.Members, req *Request, pool *worker.Pool) (taken worker.Taken, stale bool, err error) {
	return p.(*consistentHashing).rings.takeOn(members, &req.Ask, pool, func(circle *ring.Ring, v *worker.View) int {
		return owner(circle, req.Keys.Hashed().Position(), v)
	})
}

// UpperBounds is the bounds of a bucket policy's ranges, nil if a model has none.
func UpperBounds(p Policy, model string) []int64 {
	b := p.(*bucket)
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.models[model]; r != nil {
		return r.upper
	}
	return nil
}

// HeadHash is the XXH3 of a request's deepest head, as prefix_hash prints it.
func HeadHash(p Policy, req *Request) string {
	h := p.(*prefixHash)
	if k := req.Keys.Header; !k.None() {
		return fmt.Sprintf("%016x", k.Short)
	}
	heads := h.heads(req, nil)
	// Which of all sums lies there: the position says it, so compare by it.
	depth := heads[0].level
	if depth == 0 {
		depth = h.cfg.TokenCount
	}
	if len(req.TokenIDs) > 0 {
		whole := headOf{tokens: req.TokenIDs}
		sum := whole.tokensTo(min(depth, len(req.TokenIDs)))
		if h.places.of(sum) != heads[0].position {
			return "not at its place"
		}
		return fmt.Sprintf("%016x", sum)
	}
	end, _ := runes(req.Text, charsPerToken*depth)
	sum := xxh3.HashString(req.Text[:end])
	if h.places.of(sum) != heads[0].position {
		return "not at its place"
	}
	return fmt.Sprintf("%016x", sum)
}

// Pair is two candidates as power_of_two draws them.
func Pair(p Policy, pool *worker.Pool) (a, b int) {
	two := p.(*powerOfTwo)
	_, _ = pool.Peek(nil, time.Time{}, func(v *worker.View) int {
		var room [2]int32
		two.pair(v, v.Candidates(), &room)
		a, b = int(room[0]), int(room[1])
		return -1
	})
	return a, b
}
