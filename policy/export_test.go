package policy

import (
	"fmt"
	"testing"
	"time"

	"github.com/zeebo/xxh3"
	"smg/policy/kvindex"

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
	b, err := NewBookOn(Config{Policy: name}, p, deps)
	if err != nil {
		panic(err)
	}
	return b
}

// NewBookOn is a book of cfg whose default is p.
func NewBookOn(cfg Config, p Policy, deps Deps) (*Book, error) {
	b, err := newBook(cfg, deps)
	if err != nil {
		return nil, err
	}
	b.fallback = newChapter(cfg.Policy, p)
	if cfg.Sticky.On {
		err = b.fallback.stick(cfg, b.deps)
	}
	return b, err
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
	_, _ = pool.Peek(&worker.Ask{}, func(v *worker.View) int {
		var room [2]int32
		two.pair(v, v.Candidates(), &room)
		a, b = int(room[0]), int(room[1])
		return -1
	})
	return a, b
}

// TreeTokens and TreeChars are the sizes of a model's trees under cache_aware.
func TreeTokens(p Policy, model string) int { return p.(*cacheAware).model(model).tokens.Stats().Units }

func TreeChars(p Policy, model string) int { return p.(*cacheAware).model(model).text.Stats().Units }

// CacheModels is how many models cache_aware remembers.
func CacheModels(p Policy) int {
	c := p.(*cacheAware)
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.models)
}

// Placements is how many heads of a model the hash index has.
func Placements(p Policy, model string) int {
	heads, _ := PlacedAt(p, model)
	return heads
}

// PlacedAt is how many heads the hash index has, and at how many workers.
func PlacedAt(p Policy, model string) (heads, holders int) {
	x := p.(*cacheAware).model(model).placements
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, all := range x.heads {
		holders += len(all)
	}
	return len(x.heads), holders
}

// StoreBlocks has a worker's engine say that it holds a chain of blocks.
func StoreBlocks(t testing.TB, p Policy, model string, id worker.ID, size int, ids []uint32) {
	t.Helper()
	src := p.(*cacheAware).Events(model).Track(id, size)
	var blocks []kvindex.Block
	for i := 0; i+size <= len(ids); i += size {
		blocks = append(blocks, kvindex.Block{Hash: uint64(i) + 1, Tokens: ids[i : i+size]})
	}
	if err := src.Store(0, blocks, time.Now()); err != nil {
		t.Fatal(err)
	}
}

// inView runs a function over the view of a pool.
func inView(pool *worker.Pool, run func(v *worker.View)) {
	_, _ = pool.Peek(&worker.Ask{Now: time.Date(2026, 8, 1, 13, 0, 0, 0, time.UTC)}, func(v *worker.View) int {
		run(v)
		return -1
	})
}

// DecayedScores is what overlap decay makes of the scores of the first workers.
func DecayedScores(p Policy, pool *worker.Pool, scores []float64, blocks float64) []float64 {
	h := holdersOf(scores)
	inView(pool, func(v *worker.View) { p.(*cacheAware).best(v, h, blocks) })
	return h.scaled
}

// DrawnHolder is who is drawn of the first workers by their scores.
func DrawnHolder(p Policy, pool *worker.Pool, scores []float64) (drawn int) {
	c := p.(*cacheAware)
	inView(pool, func(v *worker.View) {
		group := c.best(v, holdersOf(scores), 1)
		drawn = int(group[c.intN(len(group))])
	})
	return drawn
}

func holdersOf(scores []float64) *holders {
	h := &holders{score: scores}
	for i := range scores {
		h.index = append(h.index, int32(i))
	}
	return h
}

// CacheSettings are those that a cache_aware policy goes by.
func CacheSettings(p Policy) CacheAwareConfig {
	c := p.(*cacheAware)
	return CacheAwareConfig{Threshold: float64(float32(c.threshold)), MaxTreeSize: c.treeSize, Balance: c.balance}
}

// Ticked says whether a cache_aware policy was told of an instant.
func Ticked(p Policy, at time.Time) bool {
	c := p.(*cacheAware)
	c.mu.RLock()
	defer c.mu.RUnlock()
	return !c.due.Before(at)
}

// EventBlocks is how many blocks the event index of a model holds.
func EventBlocks(p Policy, model string) int { return p.(*cacheAware).model(model).events.Len() }

// PinsOf is where the keys of a book go.
func PinsOf(b *Book) map[worker.PinKey][2]worker.ID {
	p := b.deps.pins
	p.mu.Lock()
	defer p.mu.Unlock()
	all := map[worker.PinKey][2]worker.ID{}
	for key, e := range p.keys {
		all[key] = e.workers
	}
	return all
}

// PinQueue is how many pins wait to be stored, and how many keys to be forgotten.
func PinQueue(s SharedPins) (waiting, gone int) {
	p := s.pins
	p.mu.Lock()
	defer p.mu.Unlock()
	for e := p.shared.queue.copied.behind; e != &p.shared.queue; e = e.copied.behind {
		waiting++
	}
	return waiting, len(p.shared.gone)
}
