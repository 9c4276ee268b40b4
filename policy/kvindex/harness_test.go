package kvindex

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"smg/worker"
)

// start is the time at which tests begin.
var start = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func workerID(n int) worker.ID {
	var id worker.ID
	binary.BigEndian.PutUint32(id[:], uint32(n))
	return id
}

func number(id worker.ID) int { return int(binary.BigEndian.Uint32(id[:])) }

// blocks cuts tokens into blocks whose engine's hashes count from first on.
func blocks(size int, first uint64, tokens ...uint32) []Block {
	var bs []Block
	for ; len(tokens) >= size; tokens = tokens[size:] {
		bs = append(bs, Block{Hash: first + uint64(len(bs)), Tokens: tokens[:size]})
	}
	return bs
}

// count is the numbers from first on, n of them.
func count(first, n int) []uint32 {
	tokens := make([]uint32, n)
	for i := range tokens {
		tokens[i] = uint32(first + i)
	}
	return tokens
}

// matched lists the scores of a prompt as "w1:3" or, of other ranks than 0, "w1.2:3".
func matched(ix *Index, tokens []uint32) []string {
	scores := ix.Match(tokens, start, nil)
	slices.SortFunc(scores, compareScores)
	list := []string{}
	for _, s := range scores {
		rank := ""
		if s.Rank != 0 {
			rank = fmt.Sprintf(".%d", s.Rank)
		}
		list = append(list, fmt.Sprintf("w%d%s:%d", number(s.Worker), rank, s.Blocks))
	}
	return list
}

func compareScores(a, b Score) int {
	return cmp.Or(cmp.Compare(number(a.Worker), number(b.Worker)), cmp.Compare(a.Rank, b.Rank))
}

// tester is a testing.TB or a rapid.T.
type tester interface {
	Helper()
	Errorf(format string, args ...any)
	Fatal(args ...any)
}

func must(t tester, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// heldBy is a rank of a worker.
type heldBy struct{ worker, rank int }

// dump is what every rank holds, by hash of the chain.
func (ix *Index) dump() map[heldBy]map[uint64]bool {
	all := map[heldBy]map[uint64]bool{}
	for id, src := range ix.tracked {
		for _, r := range src.ranks {
			if r == nil || r.prefixes.n == 0 {
				continue
			}
			held := map[uint64]bool{}
			for _, s := range r.prefixes.slots {
				if s.key != vacant {
					held[s.value] = true
				}
			}
			all[heldBy{number(id), r.number}] = held
		}
	}
	return all
}

// check reports what does not fit together in an index that is at rest.
func check(t tester, ix *Index) {
	t.Helper()
	refs := map[setID]int{}
	for i, r := range ix.slots {
		if r != nil {
			refs[r.alone]++
			if int(r.slot) != i || ix.tracked[r.src.id] != r.src || r.src.gone {
				t.Errorf("slot %d is that of nobody", i)
			}
		}
	}
	held := 0
	for i := range ix.parts {
		checkTable(t, &ix.parts[i])
		for _, s := range ix.parts[i].slots {
			if s.key == vacant {
				continue
			}
			refs[s.value.holders]++
			members := ix.sets.all[s.value.holders]
			held += members.n
			for member := range members.members {
				r := ix.slots[member]
				if r == nil || !slices.ContainsFunc(r.prefixes.slots, func(s2 slot[uint64]) bool { return s2.key != vacant && s2.value == s.key }) {
					t.Errorf("slot %d holds %#x without knowing", member, s.key)
				}
			}
		}
	}
	bySize := map[int]int{}
	for _, src := range ix.tracked {
		for _, r := range src.ranks {
			if r == nil {
				continue
			}
			checkTable(t, &r.prefixes)
			times := map[uint64]uint32{}
			for _, s := range r.prefixes.slots {
				if s.key != vacant {
					times[s.value]++
				}
			}
			for prefix, n := range times {
				part, key := ix.part(prefix)
				if b := part.find(key); b == nil || !ix.sets.has(b.holders, r.slot) {
					t.Errorf("slot %d knows %#x without holding it", r.slot, prefix)
				}
				if r.more[prefix] != n-1 {
					t.Errorf("%#x is there %d times more, not %d", prefix, n-1, r.more[prefix])
				}
			}
			for prefix, n := range r.more {
				if n == 0 || times[prefix] != n+1 {
					t.Errorf("%#x is there %d times, more says %d", prefix, times[prefix], n)
				}
			}
			if len(times) > 0 {
				bySize[src.size] += len(times)
			}
		}
	}
	if held != ix.Len() {
		t.Errorf("Len is %d, there are %d", ix.Len(), held)
	}
	for _, u := range ix.sizes {
		if bySize[u.tokens] != u.held {
			t.Errorf("%d blocks of %d tokens, there are %d", u.held, u.tokens, bySize[u.tokens])
		}
		delete(bySize, u.tokens)
	}
	if len(bySize) > 0 {
		t.Errorf("blocks are not counted: %v", bySize)
	}
	checkSets(t, &ix.sets, refs)
}

func checkTable[V any](t tester, tab *table[V]) {
	n, last := 0, uint64(0)
	for i, s := range tab.slots {
		if s.key == vacant {
			continue
		}
		if n++; s.key < last || tab.home(s.key) > i {
			t.Errorf("key %#x is out of order", s.key)
		}
		for at := tab.home(s.key); at < i; at++ {
			if tab.slots[at].key == vacant {
				t.Errorf("key %#x is out of reach", s.key)
			}
		}
		last = s.key
	}
	if n != tab.n || n > 0 && tab.slots[len(tab.slots)-1].key != vacant {
		t.Errorf("a table of %d says it has %d", n, tab.n)
	}
}

func checkSets(t tester, s *sets, refs map[setID]int) {
	live := 0
	for id := range s.all {
		got := &s.all[id]
		if got.refs != refs[setID(id)] {
			t.Errorf("set %d has %d references, counts %d", id, refs[setID(id)], got.refs)
		}
		if got.refs == 0 {
			continue
		}
		live++
		n, hash := 0, uint64(0)
		for slot := range got.members {
			n++
			hash += spread(uint64(slot) + 1)
		}
		if n != got.n || hash != got.hash || (got.words == nil) != (n <= maxFew) || n > maxFew && got.words[len(got.words)-1] == 0 {
			t.Errorf("set %d of %d says %d, hash %#x says %#x", id, n, got.n, hash, got.hash)
		}
	}
	chained := 0
	for hash, id := range s.byHash {
		for ; id != 0; id = s.all[id].next {
			if chained++; s.all[id].hash != hash || s.all[id].refs == 0 {
				t.Errorf("set %d is filed wrongly", id)
			}
		}
	}
	if chained != live || max(0, len(s.all)-1) != live+len(s.unused) {
		t.Errorf("%d sets live, %d are filed, %d of %d unused", live, chained, len(s.unused), len(s.all))
	}
}
