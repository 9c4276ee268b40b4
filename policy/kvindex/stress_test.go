package kvindex

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestStress has workers store, remove, clear, leave and come back while prompts are
// matched and blocks are pruned. Who stays and holds the prompt is always scored in
// full. Who never held the first block is never scored: not even when it has the slot
// of one that did, and left in mid-match.
func TestStress(t *testing.T) {
	const (
		loyal   = 20 // workers that hold the prompt throughout; too many for a list
		leaving = 4  // workers that hold its first block, and come and go
		late    = 4  // workers that hold all but its first block, and come and go
		busy    = 4  // workers that store and remove other things
		rounds  = 50
	)
	prompt := count(1, 40)
	ix := New(Bounds{TTL: time.Hour, MaxBlocks: 1 << 20}, start)
	ix.stride = 2
	for n := range loyal {
		must(t, ix.Track(workerID(n), 1).Store(0, blocks(1, 1, prompt...), start))
	}
	var rest sync.WaitGroup
	var wrong atomic.Value
	var clock atomic.Int64 // seconds
	now := func() time.Time { return start.Add(time.Duration(clock.Load()) * time.Second) }
	report := func(s Score) { wrong.CompareAndSwap(nil, s) }
	work := func(id int, round func(r *rand.Rand, src *Source) error) {
		rest.Go(func() {
			r := rand.New(rand.NewPCG(uint64(id), 1))
			src := ix.Track(workerID(id), 1)
			for range rounds {
				if err := round(r, src); err != nil {
					t.Errorf("worker %d: %v", id, err)
				}
				if id < loyal+leaving+late {
					ix.Untrack(workerID(id))
					src = ix.Track(workerID(id), 1)
				}
			}
		})
	}
	for n := range leaving {
		work(loyal+n, func(_ *rand.Rand, src *Source) error {
			return src.Store(0, blocks(1, 1, prompt[:1]...), now())
		})
	}
	for n := range late {
		work(loyal+leaving+n, func(_ *rand.Rand, src *Source) error {
			// The parent is elsewhere in the engine's cache; the chains are as if.
			r, err := src.rankForTest()
			if err != nil {
				return err
			}
			return src.storeBehind(r, prompt[:1], blocks(1, 2, prompt[1:]...), now())
		})
	}
	for n := range busy {
		work(loyal+leaving+late+n, func(r *rand.Rand, src *Source) error {
			rank := r.IntN(3)
			first := uint64(r.IntN(1000))
			var hashes []uint64
			for i := range 80 {
				hashes = append(hashes, first+uint64(i))
			}
			bs := blocks(1, first, count(r.IntN(50), 80)...)
			switch r.IntN(8) {
			case 0:
				return src.Clear(rank)
			case 1:
				return src.ClearAll()
			case 2, 3:
				return src.Remove(rank, hashes)
			}
			return src.Store(rank, append(blocks(1, 5000, 7777), bs...), now())
		})
	}
	done := make(chan struct{})
	var readers sync.WaitGroup
	for n := range 3 {
		first := n == 0
		readers.Go(func() {
			var scores []Score
			for {
				select {
				case <-done:
					return
				default:
				}
				seen := 0
				scores = ix.Match(prompt, now(), scores[:0])
				if first {
					clock.Add(60)
				}
				for _, s := range scores {
					n := number(s.Worker)
					switch {
					case n < loyal && s.Blocks == len(prompt):
						seen++
					case n < loyal, n < loyal+leaving && s.Blocks > 1, n >= loyal+leaving:
						report(s)
					}
				}
				if seen != loyal {
					report(Score{Blocks: -seen})
				}
			}
		})
	}
	readers.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				ix.Prune(now())
			}
		}
	})
	rest.Wait()
	close(done)
	readers.Wait()
	if s := wrong.Load(); s != nil {
		t.Errorf("score %+v", s)
	}
	check(t, ix)
}

// rankForTest is the source's rank 0, about to store something.
func (s *Source) rankForTest() (*rank, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rank(0)
}

// storeBehind stores blocks behind others that are not held.
func (s *Source) storeBehind(r *rank, missing []uint32, bs []Block, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var c chain
	c.extend(missing)
	return s.store(r, c, bs, now)
}
