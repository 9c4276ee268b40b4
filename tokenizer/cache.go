package tokenizer

import (
	"container/list"
	"errors"
	"strings"
	"sync"
)

const (
	cacheLeast    = 64  // bytes of a part of a prompt that is worth keeping
	cacheOverhead = 160 // bytes that keeping a part takes besides text and ids
)

// Cache remembers the ids of parts of prompts: of what lies between special tokens,
// which in a chat is one message. Each part is encoded on its own, so the ids of a
// part are the same in any prompt, and a conversation that grows is encoded from its
// new messages alone; a prompt without special tokens is one part. What was not
// used for longest goes when the parts take too many bytes. It is safe for
// concurrent use.
type Cache struct {
	t    *Tokenizer
	most int64

	mu     sync.Mutex
	parts  map[cacheKey]*list.Element
	recent *list.List // of *cachePart, the latest first
	bytes  int64
	stats  CacheStats
}

// CacheStats count what a Cache was asked for.
type CacheStats struct {
	Hits, Misses       uint64 // parts
	HitBytes           uint64 // of text that was not encoded again
	Parts              int    // kept now
	Bytes              int64  // that they take
	Evicted, Oversized uint64 // parts that had to go; parts too large to keep
}

type cacheKey struct {
	text    string
	atStart bool // the first part may be encoded otherwise
}

type cachePart struct {
	key cacheKey
	ids []uint32
}

func (p *cachePart) size() int64 {
	return int64(len(p.key.text)) + 4*int64(len(p.ids)) + cacheOverhead
}

// NewCache makes a cache of t that takes about so many bytes at most.
func NewCache(t *Tokenizer, bytes int64) (*Cache, error) {
	if bytes <= 0 {
		return nil, errors.New("a tokenizer cache needs room: its bytes must be above 0")
	}
	return &Cache{t: t, most: bytes, parts: map[cacheKey]*list.Element{}, recent: list.New()}, nil
}

// Encode is Tokenizer.Encode with memory.
func (c *Cache) Encode(text string, special bool) ([]uint32, error) {
	return c.t.encode(nil, text, special, c.segment)
}

// Stats are the counts so far.
func (c *Cache) Stats() CacheStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Parts, s.Bytes = len(c.parts), c.bytes
	return s
}

func (c *Cache) segment(t *Tokenizer, st *state, text string, atStart bool) error {
	if len(text) < cacheLeast {
		return t.segment(st, text, atStart)
	}
	key := cacheKey{text, atStart}
	if ids, ok := c.find(key); ok {
		st.ids = append(st.ids, ids...)
		return nil
	}
	n := len(st.ids)
	if err := t.segment(st, text, atStart); err != nil {
		return err
	}
	c.keep(key, st.ids[n:])
	return nil
}

func (c *Cache) find(key cacheKey) ([]uint32, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.parts[key]
	if !ok {
		c.stats.Misses++
		return nil, false
	}
	c.stats.Hits++
	c.stats.HitBytes += uint64(len(key.text))
	c.recent.MoveToFront(e)
	return e.Value.(*cachePart).ids, true
}

func (c *Cache) keep(key cacheKey, ids []uint32) {
	key.text = strings.Clone(key.text) // not the whole prompt
	p := &cachePart{key: key, ids: append([]uint32(nil), ids...)}
	size := p.size()
	c.mu.Lock()
	defer c.mu.Unlock()
	if size > c.most {
		c.stats.Oversized++
		return
	}
	if _, ok := c.parts[key]; ok {
		return // another was faster
	}
	for c.bytes+size > c.most {
		old := c.recent.Remove(c.recent.Back()).(*cachePart)
		delete(c.parts, old.key)
		c.bytes -= old.size()
		c.stats.Evicted++
	}
	c.parts[key] = c.recent.PushFront(p)
	c.bytes += size
}
