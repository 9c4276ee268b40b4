package kvindex

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// model is an index as one would write it without a thought for cost: for every
// worker and rank, which chain stands behind which engine's hash.
type model struct {
	workers map[int]*modelWorker
	touched map[string]int // chain → tick of the last use
	hashes  map[string]uint64
}

type modelWorker struct {
	size  int
	ranks map[int]map[uint64]string
}

// path is a chain as text, of which no two are alike.
func path(parent string, block []uint32) string { return parent + fmt.Sprint(block) }

func (w *modelWorker) holds(rank int, chain string) bool {
	for _, held := range w.ranks[rank] {
		if held == chain {
			return true
		}
	}
	return false
}

func (m *model) len() int {
	n := 0
	for _, w := range m.workers {
		for _, held := range w.ranks {
			chains := map[string]bool{}
			for _, chain := range held {
				chains[chain] = true
			}
			n += len(chains)
		}
	}
	return n
}

func (m *model) store(w, rank int, parent string, bs []Block, tick int) {
	if m.workers[w].ranks[rank] == nil {
		m.workers[w].ranks[rank] = map[uint64]string{}
	}
	for _, b := range bs {
		var c chain
		if parent != "" {
			c = chain{m.hashes[parent], true}
		}
		parent = path(parent, b.Tokens)
		m.workers[w].ranks[rank][b.Hash] = parent
		m.touched[parent] = tick
		m.hashes[parent] = c.extend(b.Tokens)
	}
}

func (m *model) match(tokens []uint32, tick int) []Score {
	var scores []Score
	for n, w := range m.workers {
		for rank := range w.ranks {
			depth, chain := 0, ""
			for rest := tokens; w.size > 0 && len(rest) >= w.size; rest = rest[w.size:] {
				chain = path(chain, rest[:w.size])
				if !w.holds(rank, chain) {
					break
				}
				m.touched[chain] = tick
				depth++
			}
			if depth > 0 {
				scores = append(scores, Score{workerID(n), rank, depth, w.size})
			}
		}
	}
	slices.SortFunc(scores, compareScores)
	return scores
}

func (m *model) dump() map[heldBy]map[uint64]bool {
	all := map[heldBy]map[uint64]bool{}
	for n, w := range m.workers {
		for rank, held := range w.ranks {
			for _, chain := range held {
				by := heldBy{n, rank}
				if all[by] == nil {
					all[by] = map[uint64]bool{}
				}
				all[by][m.hashes[chain]] = true
			}
		}
	}
	return all
}

// prune takes over what an index kept after a prune, and says what was wrong with it:
// which of several equally old blocks go is the index's choice.
func (m *model) prune(kept map[heldBy]map[uint64]bool, bounds Bounds, tickNow int) string {
	before, eligible, gone := m.len(), 0, 0
	youngestGone, oldestKept := 1<<30, 0
	for n, w := range m.workers {
		for rank, held := range w.ranks {
			seen := map[string]bool{}
			for hash, chain := range held {
				age := tickNow - m.touched[chain]
				expired := bounds.TTL > 0 && age > int(bounds.TTL/tick)
				stays := kept[heldBy{n, rank}][m.hashes[chain]]
				switch {
				case expired && stays:
					return fmt.Sprintf("%s stays at the age of %d ticks", chain, age)
				case !expired && !stays && age <= int(spared/tick):
					return fmt.Sprintf("%s goes at the age of %d ticks", chain, age)
				case !seen[chain] && !stays:
					gone++
					youngestGone = min(youngestGone, age)
				case !seen[chain]:
					oldestKept = max(oldestKept, age)
				}
				if !seen[chain] && (expired || age > int(spared/tick)) {
					eligible++
				}
				seen[chain] = true
				if !stays {
					delete(held, hash)
				}
			}
		}
	}
	expired := 0
	if bounds.TTL > 0 {
		expired = gone // checked above: all that had to go, and then the ceiling
	}
	want := 0
	if bounds.MaxBlocks > 0 && before > bounds.MaxBlocks {
		want = min(eligible, before-bounds.MaxBlocks*9/10)
	}
	switch {
	case gone < want || gone > max(want, expired):
		return fmt.Sprintf("%d of %d go, want %d", gone, before, want)
	case youngestGone < oldestKept:
		return fmt.Sprintf("one of %d ticks goes, one of %d stays", youngestGone, oldestKept)
	}
	return ""
}

// TestIndexProperty compares an index with the model. There are few tokens, hashes
// and block sizes, so that chains are shared, replaced and cut.
func TestIndexProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fleet := rapid.SampledFrom([]int{1, 3, 30}).Draw(t, "fleet")
		bounds := Bounds{
			TTL:       time.Duration(rapid.SampledFrom([]int{0, 0, 5, 60}).Draw(t, "ttl")) * time.Second,
			MaxBlocks: rapid.SampledFrom([]int{0, 0, 10, 50}).Draw(t, "ceiling"),
		}
		now, ticks := start, 0
		ix := New(bounds, start)
		ix.stride = rapid.SampledFrom([]int{1, 3, 64}).Draw(t, "stride")
		m := &model{workers: map[int]*modelWorker{}, touched: map[string]int{}, hashes: map[string]uint64{}}
		sources := map[int]*Source{}
		track := func(n, size int) {
			sources[n] = ix.Track(workerID(n), size)
			m.workers[n] = &modelWorker{size: size, ranks: map[int]map[uint64]string{}}
		}
		sizes := rapid.SampledFrom([]int{1, 1, 2, 3})
		for n := range fleet {
			track(n, sizes.Draw(t, "size"))
		}
		tokens := rapid.SliceOfN(rapid.Uint32Range(1, 2), 0, 12)
		hash := rapid.Uint64Max(20)
		drawBlocks := func(t *rapid.T, size int) []Block {
			var bs []Block
			for rest := tokens.Draw(t, "tokens"); len(rest) >= size; rest = rest[size:] {
				bs = append(bs, Block{Hash: hash.Draw(t, "hash"), Tokens: rest[:size]})
			}
			return bs
		}
		someone := func(t *rapid.T) (int, int) {
			return rapid.IntRange(0, fleet-1).Draw(t, "worker"), rapid.SampledFrom([]int{0, 0, 1, 5}).Draw(t, "rank")
		}
		t.Repeat(map[string]func(*rapid.T){
			"store": func(t *rapid.T) {
				n, rank := someone(t)
				bs := drawBlocks(t, m.workers[n].size)
				must(t, sources[n].Store(rank, bs, now))
				m.store(n, rank, "", bs, ticks)
			},
			"everybody stores": func(t *rapid.T) {
				prompt, first := tokens.Draw(t, "tokens"), hash.Draw(t, "first hash")
				from := rapid.IntRange(0, fleet-1).Draw(t, "from")
				for n := from; n < fleet; n++ {
					bs := blocks(m.workers[n].size, first, prompt...)
					must(t, sources[n].Store(0, bs, now))
					m.store(n, 0, "", bs, ticks)
				}
			},
			"extend": func(t *rapid.T) {
				n, rank := someone(t)
				bs, parent := drawBlocks(t, m.workers[n].size), hash.Draw(t, "parent")
				err := sources[n].Extend(rank, parent, bs, now)
				chain, known := m.workers[n].ranks[rank][parent]
				if known == errors.Is(err, ErrUnknownParent) || known && err != nil {
					t.Fatalf("Extend behind %d, known %t: %v", parent, known, err)
				}
				if known {
					m.store(n, rank, chain, bs, ticks)
				}
			},
			"remove": func(t *rapid.T) {
				n, rank := someone(t)
				hashes := rapid.SliceOfN(hash, 1, 4).Draw(t, "hashes")
				must(t, sources[n].Remove(rank, hashes))
				for _, h := range hashes {
					delete(m.workers[n].ranks[rank], h)
				}
			},
			"clear": func(t *rapid.T) {
				n, rank := someone(t)
				must(t, sources[n].Clear(rank))
				delete(m.workers[n].ranks, rank)
			},
			"new block size": func(t *rapid.T) {
				n, _ := someone(t)
				size := sizes.Draw(t, "size")
				must(t, sources[n].SetBlockSize(size))
				if w := m.workers[n]; w.size != size {
					w.size, w.ranks = size, map[int]map[uint64]string{}
				}
			},
			"replace": func(t *rapid.T) {
				n, _ := someone(t)
				if rapid.Bool().Draw(t, "removed") {
					ix.Untrack(workerID(n))
				}
				track(n, sizes.Draw(t, "size"))
			},
			"time": func(*rapid.T) {
				d := rapid.SampledFrom([]int{1, 10, 30, 200}).Draw(t, "ticks")
				ticks += d
				now = now.Add(time.Duration(d) * tick)
			},
			"prune": func(t *rapid.T) {
				before := ix.Len()
				gone := ix.Prune(now)
				if wrong := m.prune(ix.dump(), bounds, ticks); wrong != "" {
					t.Fatal(wrong)
				}
				if before-gone != ix.Len() {
					t.Fatalf("%d of %d go, %d are left", gone, before, ix.Len())
				}
			},
			"match": func(t *rapid.T) {
				prompt := tokens.Draw(t, "tokens")
				got := ix.Match(prompt, now, nil)
				slices.SortFunc(got, compareScores)
				if diff := cmp.Diff(m.match(prompt, ticks), got); diff != "" {
					t.Fatalf("scores of %v (-want +got):\n%s", prompt, diff)
				}
			},
			"": func(t *rapid.T) {
				if ix.Len() != m.len() {
					t.Fatalf("%d blocks, want %d", ix.Len(), m.len())
				}
				if diff := cmp.Diff(m.dump(), ix.dump()); diff != "" {
					t.Fatalf("held (-want +got):\n%s", diff)
				}
				check(t, ix)
			},
		})
	})
}
