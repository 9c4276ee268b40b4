package tokenizer

import (
	"hash/maphash"
	"strings"
	"sync/atomic"
)

const (
	maxCached = 256     // bytes of a word that is worth keeping
	cacheSize = 1 << 14 // words kept, at most
)

// wordCache keeps the ids of words. Each word has one place, which the latest
// that wants it takes; so it needs no lock and has a bound.
type wordCache struct {
	seed  maphash.Seed
	slots []atomic.Pointer[cachedWord]
}

type cachedWord struct {
	word string
	ids  []uint32
}

func newWordCache() wordCache {
	return wordCache{seed: maphash.MakeSeed(), slots: make([]atomic.Pointer[cachedWord], cacheSize)}
}

// find is the ids of word, nil if it is not kept, and the place it would have.
func (c *wordCache) find(word string) ([]uint32, int) {
	at := int(maphash.String(c.seed, word) & (cacheSize - 1))
	if e := c.slots[at].Load(); e != nil && e.word == word {
		return e.ids, at
	}
	return nil, at
}

func (c *wordCache) keep(at int, word string, ids []uint32) {
	if len(ids) == 0 {
		return
	}
	c.slots[at].Store(&cachedWord{word: strings.Clone(word), ids: append([]uint32(nil), ids...)})
}
