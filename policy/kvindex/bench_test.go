package kvindex

import (
	"fmt"
	"runtime"
	"testing"
	"time"
)

const (
	million  = 1 << 20
	perChain = 512 // blocks, 8,192 tokens
	perBlock = 16
	other    = million / perChain // the number of the first chain beyond a million blocks
)

// prompts are distinct chains of perChain blocks: n in all, tokens made on the fly.
func promptOf(buf []uint32, n int) []uint32 {
	buf = buf[:0]
	for i := range perChain * perBlock {
		buf = append(buf, uint32(n*perChain*perBlock+i))
	}
	return buf
}

func blocksOf(bs []Block, tokens []uint32, n int) []Block {
	bs = bs[:0]
	for i := range perChain {
		bs = append(bs, Block{Hash: spread(uint64(n*perChain + i + 1)), Tokens: tokens[i*perBlock : (i+1)*perBlock]})
	}
	return bs
}

// filled is an index of a million blocks of as many workers, with a single holder
// each, and beside it how much memory one takes.
func filled(b *testing.B, bounds Bounds, workers int) (*Index, float64) {
	b.Helper()
	var tokens []uint32
	var bs []Block
	before := heap()
	ix := New(bounds, start)
	sources := make([]*Source, workers)
	for i := range sources {
		sources[i] = ix.Track(workerID(i), perBlock)
	}
	for n := range million / perChain {
		tokens = promptOf(tokens, n)
		bs = blocksOf(bs, tokens, n)
		must(b, sources[n%workers].Store(0, bs, start))
	}
	return ix, float64(heap()-before) / float64(ix.Len())
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkStore stores and removes a chain of 512 blocks beside a million others.
func BenchmarkStore(b *testing.B) {
	for _, workers := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			ix, bytes := filled(b, Bounds{}, workers)
			src := ix.Track(workerID(workers), perBlock)
			tokens := promptOf(nil, other)
			bs := blocksOf(nil, tokens, other)
			hashes := make([]uint64, perChain)
			for i := range hashes {
				hashes[i] = bs[i].Hash
			}
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				must(b, src.Store(0, bs, start))
				b.StopTimer()
				must(b, src.Remove(0, hashes))
				b.StartTimer()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*perChain), "ns/block")
			b.ReportMetric(bytes, "B/block")
		})
	}
}

// BenchmarkFill is a million blocks from none, with all growth.
func BenchmarkFill(b *testing.B) {
	for range b.N {
		filled(b, Bounds{}, 16)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*million), "ns/block")
}

func BenchmarkRemove(b *testing.B) {
	ix, _ := filled(b, Bounds{}, 16)
	src := ix.Track(workerID(16), perBlock)
	bs := blocksOf(nil, promptOf(nil, other), other)
	hashes := make([]uint64, perChain)
	for i := range hashes {
		hashes[i] = bs[i].Hash
	}
	b.ResetTimer()
	for range b.N {
		b.StopTimer()
		must(b, src.Store(0, bs, start))
		b.StartTimer()
		must(b, src.Remove(0, hashes))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*perChain), "ns/block")
}

// BenchmarkMatch matches prompts of 512 blocks in an index of a million.
func BenchmarkMatch(b *testing.B) {
	for _, bounded := range []bool{false, true} {
		var bounds Bounds
		if bounded {
			bounds.TTL = time.Hour
		}
		ix, _ := filled(b, bounds, 16)
		shared := promptOf(nil, other)
		bs := blocksOf(nil, shared, other)
		for i := range 1000 {
			must(b, ix.Track(workerID(100+i), perBlock).Store(0, bs, start))
		}
		ragged := promptOf(nil, other+1)
		bs = blocksOf(bs, ragged, other+1)
		for i := range 1000 {
			src := ix.Track(workerID(2000+i), perBlock)
			must(b, src.Store(0, bs[:1+i/2], start))
		}
		prompts := make([][]uint32, 64)
		for i := range prompts {
			prompts[i] = promptOf(nil, i*31)
		}
		foreign := promptOf(nil, other+2)
		long := make([]uint32, 0, 65536)
		for len(long) < cap(long) {
			long = append(long, shared...)
		}
		longBlocks := []Block{}
		for i := range len(long) / perBlock {
			longBlocks = append(longBlocks, Block{Hash: uint64(i), Tokens: long[i*perBlock : (i+1)*perBlock]})
		}
		must(b, ix.Track(workerID(5000), perBlock).Store(0, longBlocks, start))
		scores := make([]Score, 0, 4096)
		run := func(name string, of func(i int) []uint32, want int) {
			b.Run(fmt.Sprintf("%s/bounds=%t", name, bounded), func(b *testing.B) {
				b.ReportAllocs()
				i := 0
				now := start
				for b.Loop() {
					if i++; i%64 == 0 {
						now = now.Add(tick)
					}
					scores = ix.Match(of(i), now, scores[:0])
				}
				if len(scores) != want {
					b.Errorf("%d scores, want %d", len(scores), want)
				}
			})
		}
		run("held", func(i int) []uint32 { return prompts[i%64] }, 1)
		run("foreign", func(int) []uint32 { return foreign }, 0)
		run("1000 holders", func(int) []uint32 { return shared }, 1001)
		run("1000 drop out", func(int) []uint32 { return ragged }, 1000)
		run("64k tokens", func(int) []uint32 { return long }, 1001)
	}
	b.Run("hashing alone", func(b *testing.B) {
		tokens := promptOf(nil, 1)
		prefixes := make([]uint64, 0, perChain)
		for b.Loop() {
			prefixes = AppendPrefixes(prefixes[:0], tokens, perBlock)
		}
	})
}

// BenchmarkMatchWhileStoring is a match with a worker that stores and removes all
// the time.
func BenchmarkMatchWhileStoring(b *testing.B) {
	ix, _ := filled(b, Bounds{}, 16)
	src := ix.Track(workerID(100), perBlock)
	bs := blocksOf(nil, promptOf(nil, other), other)
	hashes := make([]uint64, perChain)
	for i := range hashes {
		hashes[i] = bs[i].Hash
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			default:
				_ = src.Store(0, bs, start)
				_ = src.Remove(0, hashes)
			}
		}
	}()
	prompt := promptOf(nil, 7)
	var scores []Score
	for b.Loop() {
		scores = ix.Match(prompt, start, scores[:0])
	}
	close(done)
	<-ended
}

// BenchmarkPrune drops 150,000 blocks of a million.
func BenchmarkPrune(b *testing.B) {
	for range b.N {
		b.StopTimer()
		ix, _ := filled(b, Bounds{TTL: time.Hour, MaxBlocks: million * 19 / 20}, 16)
		b.StartTimer()
		if ix.Prune(start.Add(time.Minute)) == 0 {
			b.Error("nothing goes")
		}
	}
}
