package kvindex

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestPolicies runs the numbered cases of the specification.
func TestPolicies(t *testing.T) {
	cases := []struct {
		name string
		run  func(t *testing.T)
	}{
		{"KI-1 leading blocks", leadingBlocks},
		{"KI-2 strides", strides},
		{"KI-3 removed blocks and gaps", removedBlocks},
		{"KI-4 chained to a parent", chained},
		{"KI-5 same content under another prefix", sameContent},
		{"KI-6 stored twice and after pruning", storedTwice},
		{"KI-7 cleared and removed workers", clearedWorkers},
		{"KI-8 full blocks only", fullBlocks},
		{"KI-9 prune", prunes},
		{"KI-10 vectors", vectors},
		{"KI-11 batches in order", batchesInOrder},
		{"W-10 exact where a jump search is not", exact},
	}
	for _, tt := range cases {
		t.Run(tt.name, tt.run)
	}
}

func leadingBlocks(t *testing.T) {
	ix := New(Bounds{}, start)
	must(t, ix.Track(workerID(1), 4).Store(0, blocks(4, 1, count(1, 12)...), start))
	tests := []struct {
		name   string
		tokens []uint32
		want   []string
	}{
		{"all three", count(1, 12), []string{"w1:3"}},
		{"the first two", count(1, 8), []string{"w1:2"}},
		{"two and a foreign one", slices.Concat(count(1, 8), count(900, 4)), []string{"w1:2"}},
		{"a foreign one first", slices.Concat(count(900, 4), count(5, 8)), []string{}},
		{"more than is held", count(1, 100), []string{"w1:3"}},
		{"an incomplete block at the end", count(1, 11), []string{"w1:2"}},
		{"nothing", nil, []string{}},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, matched(ix, tt.tokens)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
	want := []Score{{Worker: workerID(7)}, {Worker: workerID(1), Blocks: 3, BlockSize: 4}}
	if diff := cmp.Diff(want, ix.Match(count(1, 12), start, want[:1])); diff != "" {
		t.Errorf("scores behind others (-want +got):\n%s", diff)
	}
}

func strides(t *testing.T) {
	tests := []struct {
		name   string
		stride int
		held   []int // blocks of w1, w2, …
		want   []string
	}{
		{"three drop out in turn", 3, []int{12, 7, 4}, []string{"w1:12", "w2:7", "w3:4"}},
		{"two drop out", 4, []int{10, 6}, []string{"w1:10", "w2:6"}},
		{"a multiple of the stride", 4, []int{20}, []string{"w1:20"}},
		{"on the border", 4, []int{8, 4}, []string{"w1:8", "w2:4"}},
		{"one by one", 1, []int{3, 2, 3, 1}, []string{"w1:3", "w2:2", "w3:3", "w4:1"}},
		{"the usual stride", maxStride, []int{200, 64, 63, 65, 128}, []string{"w1:200", "w2:64", "w3:63", "w4:65", "w5:128"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ix := New(Bounds{}, start)
			ix.stride = tt.stride
			for i, n := range tt.held {
				must(t, ix.Track(workerID(i+1), 2).Store(0, blocks(2, 1, count(1, 2*n)...), start))
			}
			longest := slices.Max(tt.held)
			for _, prompt := range []int{longest, longest + 1, longest + 100} {
				if diff := cmp.Diff(tt.want, matched(ix, count(1, 2*prompt))); diff != "" {
					t.Errorf("of %d blocks (-want +got):\n%s", prompt, diff)
				}
			}
		})
	}
}

func removedBlocks(t *testing.T) {
	ix := New(Bounds{}, start)
	src := ix.Track(workerID(1), 4)
	must(t, src.Store(0, blocks(4, 1, count(1, 20)...), start))
	steps := []struct {
		name   string
		hashes []uint64
		left   int
		want   []string
	}{
		{"unknown", []uint64{77}, 5, []string{"w1:5"}},
		{"the last", []uint64{5}, 4, []string{"w1:4"}},
		{"the last again", []uint64{5}, 4, []string{"w1:4"}},
		{"a parent", []uint64{2}, 3, []string{"w1:1"}},
		{"twice at once", []uint64{3, 3}, 2, []string{"w1:1"}},
		{"the first", []uint64{1}, 1, []string{}},
	}
	for _, tt := range steps {
		must(t, src.Remove(0, tt.hashes))
		if diff := cmp.Diff(tt.want, matched(ix, count(1, 20))); diff != "" || ix.Len() != tt.left {
			t.Errorf("%s: %d left, want %d (-want +got):\n%s", tt.name, ix.Len(), tt.left, diff)
		}
	}
	must(t, src.Store(0, blocks(4, 1, count(1, 12)...), start))
	if diff := cmp.Diff([]string{"w1:4"}, matched(ix, count(1, 20))); diff != "" {
		t.Errorf("with the gap filled (-want +got):\n%s", diff)
	}
	check(t, ix)
}

func chained(t *testing.T) {
	ix := New(Bounds{}, start)
	src := ix.Track(workerID(1), 4)
	must(t, src.Store(0, blocks(4, 1, count(1, 8)...), start))
	must(t, src.Extend(0, 2, blocks(4, 3, count(9, 8)...), start))
	if diff := cmp.Diff([]string{"w1:4"}, matched(ix, count(1, 16))); diff != "" {
		t.Errorf("behind the parent (-want +got):\n%s", diff)
	}
	if got := matched(ix, count(9, 8)); len(got) > 0 {
		t.Errorf("what was chained matches as a beginning: %v", got)
	}

	unknown := blocks(4, 50, count(100, 4)...)
	other := ix.Track(workerID(2), 4)
	tests := []struct {
		name string
		err  error
		want error
	}{
		{"unknown parent", src.Extend(0, 99, unknown, start), ErrUnknownParent},
		{"another worker's block", other.Extend(0, 1, unknown, start), ErrUnknownParent},
		{"another rank's block", src.Extend(1, 1, unknown, start), ErrUnknownParent},
		{"a rank below 0", src.Store(-1, unknown, start), ErrRank},
		{"a rank too high", src.Extend(MaxRank+1, 1, unknown, start), ErrRank},
		{"the highest rank", src.Store(MaxRank, nil, start), nil},
	}
	for _, tt := range tests {
		if !errors.Is(tt.err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, tt.err, tt.want)
		}
	}
	ix.Untrack(workerID(2))
	ix.Untrack(workerID(3)) // never was
	untracked := []error{
		other.Store(0, unknown, start), other.Extend(0, 1, unknown, start), other.Remove(0, nil),
		other.Clear(0), other.ClearAll(), other.SetBlockSize(8),
	}
	for i, err := range untracked {
		if !errors.Is(err, ErrUntracked) {
			t.Errorf("call %d of a worker that is not tracked: %v", i, err)
		}
	}
	if ix.Len() != 4 {
		t.Errorf("%d blocks, want 4", ix.Len())
	}

	f := NewFeed(ix, workerID(3), ByNumber)
	step := f.Apply(&Batch{Seq: 1, Events: []Event{{Kind: Stored, Chained: true, Parent: 99, Blocks: unknown}}}, start)
	if diff := cmp.Diff(Step{Do: Read}, step); diff != "" {
		t.Errorf("feed with an unknown parent (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"w3:1"}, matched(ix, count(100, 4))); diff != "" {
		t.Errorf("an unknown parent's child begins a prompt (-want +got):\n%s", diff)
	}
	check(t, ix)
}

func sameContent(t *testing.T) {
	a, b, same := count(1, 4), count(5, 4), count(9, 4)
	ix := New(Bounds{}, start)
	must(t, ix.Track(workerID(1), 4).Store(0, blocks(4, 1, slices.Concat(a, same)...), start))
	must(t, ix.Track(workerID(2), 4).Store(0, blocks(4, 1, slices.Concat(b, same)...), start))
	third := ix.Track(workerID(3), 4)
	must(t, third.Store(0, blocks(4, 1, slices.Concat(a, same)...), start))
	must(t, third.Store(0, blocks(4, 11, slices.Concat(b, same)...), start))
	must(t, third.Remove(0, []uint64{12})) // under b
	tests := []struct {
		name   string
		tokens []uint32
		want   []string
	}{
		{"under a", slices.Concat(a, same), []string{"w1:2", "w3:2"}},
		{"under b", slices.Concat(b, same), []string{"w2:2", "w3:1"}},
		{"alone", same, []string{}},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, matched(ix, tt.tokens)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
	check(t, ix)
}

func storedTwice(t *testing.T) {
	ix := New(Bounds{TTL: time.Minute}, start)
	src := ix.Track(workerID(1), 4)
	three := blocks(4, 1, count(1, 12)...)
	later := start.Add(time.Hour)
	steps := []struct {
		name string
		do   func() error
		left int
	}{
		{"store", func() error { return src.Store(0, three, start) }, 3},
		{"store again", func() error { return src.Store(0, three, start) }, 3},
		{"under other hashes", func() error { return src.Store(0, blocks(4, 11, count(1, 12)...), start) }, 3},
		{"remove some of those", func() error { return src.Remove(0, []uint64{12, 13}) }, 3},
		{"remove two for good", func() error { return src.Remove(0, []uint64{3, 2}) }, 1},
		{"store once more", func() error { return src.Store(0, three, start) }, 3},
		{"prune", func() error { ix.Prune(later); return nil }, 0},
		{"remove what was pruned", func() error { return src.Remove(0, []uint64{1, 2, 3, 11}) }, 0},
		{"store after the prune", func() error { return src.Store(0, three, later) }, 3},
		{"prune what is new", func() error { ix.Prune(later); return nil }, 3},
		{"remove one", func() error { return src.Remove(0, []uint64{3}) }, 2},
	}
	for _, tt := range steps {
		must(t, tt.do())
		if ix.Len() != tt.left {
			t.Errorf("%s: %d blocks, want %d", tt.name, ix.Len(), tt.left)
		}
		check(t, ix)
	}
	if diff := cmp.Diff([]string{"w1:2"}, matched(ix, count(1, 12))); diff != "" {
		t.Errorf("at the end (-want +got):\n%s", diff)
	}
}

func clearedWorkers(t *testing.T) {
	ix := New(Bounds{}, start)
	var sources []*Source
	for i := 1; i <= 3; i++ {
		src := ix.Track(workerID(i), 4)
		must(t, src.Store(0, blocks(4, 1, count(1, 12)...), start))
		must(t, src.Store(2, blocks(4, 1, count(1, 8)...), start))
		sources = append(sources, src)
	}
	prompt := count(1, 12)
	must(t, sources[0].Clear(2))
	must(t, sources[0].Clear(1)) // has never stored anything
	if diff := cmp.Diff([]string{"w1:3", "w2:3", "w2.2:2", "w3:3", "w3.2:2"}, matched(ix, prompt)); diff != "" {
		t.Errorf("one rank cleared (-want +got):\n%s", diff)
	}
	must(t, sources[1].ClearAll())
	if diff := cmp.Diff([]string{"w1:3", "w3:3", "w3.2:2"}, matched(ix, prompt)); diff != "" || ix.Len() != 8 {
		t.Errorf("a worker cleared, %d blocks left (-want +got):\n%s", ix.Len(), diff)
	}
	must(t, sources[1].Store(0, blocks(4, 1, prompt...), start))
	check(t, ix)

	ix.Untrack(workerID(2))
	again := ix.Track(workerID(2), 4)
	ix.Track(workerID(4), 4)
	if err := sources[1].Store(0, blocks(4, 1, prompt...), start); !errors.Is(err, ErrUntracked) {
		t.Errorf("a removed worker stores: %v", err)
	}
	if diff := cmp.Diff([]string{"w1:3", "w3:3", "w3.2:2"}, matched(ix, prompt)); diff != "" {
		t.Errorf("a worker removed and back (-want +got):\n%s", diff)
	}
	must(t, again.Store(0, blocks(4, 1, prompt[:8]...), start))
	sources[1].Drop() // of the one before
	if diff := cmp.Diff([]string{"w1:3", "w2:2", "w3:3", "w3.2:2"}, matched(ix, prompt)); diff != "" {
		t.Errorf("back and filled (-want +got):\n%s", diff)
	}
	ix.Track(workerID(1), 4) // as if removed
	if diff := cmp.Diff([]string{"w2:2", "w3:3", "w3.2:2"}, matched(ix, prompt)); diff != "" {
		t.Errorf("a worker tracked anew (-want +got):\n%s", diff)
	}
	for i := range 4 {
		ix.Untrack(workerID(i + 1))
	}
	if ix.Len() != 0 || len(ix.sizes) != 0 {
		t.Errorf("%d blocks of nobody", ix.Len())
	}
	check(t, ix)
}

func fullBlocks(t *testing.T) {
	tests := []struct {
		name         string
		tokens, size int
		want         int
	}{
		{"ten by four", 10, 4, 2},
		{"three by four", 3, 4, 0},
		{"no block size", 10, 0, 0},
		{"a negative block size", 10, -1, 0},
		{"blocks of one", 10, 1, 10},
		{"no tokens", 0, 4, 0},
	}
	for _, tt := range tests {
		if got := len(AppendPrefixes(nil, count(1, tt.tokens), tt.size)); got != tt.want {
			t.Errorf("%s: %d hashes, want %d", tt.name, got, tt.want)
		}
	}

	// Without a block size nothing can be stored: that is the warning.
	ix := New(Bounds{}, start)
	unsized := ix.Track(workerID(1), 0)
	if err := unsized.Store(0, blocks(4, 1, count(1, 8)...), start); !errors.Is(err, ErrBlockSize) {
		t.Errorf("stored without a block size: %v", err)
	}
	odd := append(blocks(4, 1, count(1, 8)...), Block{Hash: 3, Tokens: count(9, 3)}, Block{Hash: 4, Tokens: count(12, 4)})
	if err := ix.Track(workerID(2), 4).Store(0, odd, start); !errors.Is(err, ErrBlockSize) {
		t.Errorf("an odd block is stored: %v", err)
	}
	if diff := cmp.Diff([]string{"w2:2"}, matched(ix, count(1, 20))); diff != "" || ix.Len() != 2 {
		t.Errorf("up to the odd block, %d held (-want +got):\n%s", ix.Len(), diff)
	}
	check(t, ix)

	long := count(1, 65536)
	prefixes := make([]uint64, 0, len(long))
	for _, size := range []int{1, 16, 64, 1024, 65536} {
		if n := testing.AllocsPerRun(5, func() { AppendPrefixes(prefixes, long, size) }); n != 0 {
			t.Errorf("hashing 64k tokens in blocks of %d allocates %v times", size, n)
		}
	}
}

func vectors(t *testing.T) {
	a, b := ContentHash([]uint32{1, 2, 3, 4}), ContentHash([]uint32{5, 6, 7, 8})
	want := []uint64{0xcb38e4d7fb2dca5c, 0xe8d3ec39b907b74c, 0x44a2b2379d6d3c3d}
	if diff := cmp.Diff(want, []uint64{a, b, PrefixHash(a, b)}); diff != "" {
		t.Errorf("hashes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]uint64{a, PrefixHash(a, b)}, AppendPrefixes(nil, count(1, 8), 4)); diff != "" {
		t.Errorf("chain (-want +got):\n%s", diff)
	}

	// Engines write hashes as signed numbers.
	signed := []int64{-1, -9223372036854775808, 0}
	three := blocks(4, 0, count(1, 12)...)
	var hashes []uint64
	for i, h := range signed {
		three[i].Hash = uint64(h)
		hashes = append(hashes, uint64(h))
	}
	ix := New(Bounds{}, start)
	src := ix.Track(workerID(1), 4)
	must(t, src.Store(0, three, start))
	must(t, src.Extend(0, hashes[2], blocks(4, 7, count(13, 4)...), start))
	if diff := cmp.Diff([]string{"w1:4"}, matched(ix, count(1, 16))); diff != "" {
		t.Errorf("behind negative hashes (-want +got):\n%s", diff)
	}
	must(t, src.Remove(0, hashes[1:2]))
	if diff := cmp.Diff([]string{"w1:1"}, matched(ix, count(1, 16))); diff != "" {
		t.Errorf("without the second (-want +got):\n%s", diff)
	}
}
