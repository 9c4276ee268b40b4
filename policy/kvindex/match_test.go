package kvindex

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestMatchAllocatesNothing(t *testing.T) {
	for _, bounds := range []Bounds{{}, {TTL: time.Hour}} {
		ix := New(bounds, start)
		prompt := count(1, 65536)
		for n := range 30 {
			must(t, ix.Track(workerID(n), 16).Store(0, blocks(16, 1, prompt[:16*(1+n*140)]...), start))
		}
		must(t, ix.Track(workerID(30), 64).Store(0, blocks(64, 1, prompt...), start))
		now, scores := start, make([]Score, 0, 200)
		if n := testing.AllocsPerRun(20, func() {
			now = now.Add(time.Second)
			scores = ix.Match(prompt, now, scores[:0])
		}); n != 0 {
			t.Errorf("a match of 64k tokens allocates %v times", n)
		}
		if len(scores) != 31 {
			t.Errorf("%d scores, want 31", len(scores))
		}
	}
}

// TestManyHolders goes through a fleet with slots far beyond a list and beyond the
// room that a match has, in which workers drop out one by one.
func TestManyHolders(t *testing.T) {
	const fleet = 300
	ix := New(Bounds{}, start)
	for n := range 17_000 { // one slot each
		src := ix.Track(workerID(n), 1)
		if n%2 == 0 {
			must(t, src.Store(0, blocks(1, 1, 5000), start))
		} else {
			must(t, src.Store(0, nil, start))
		}
	}
	for n := range fleet {
		src := ix.Track(workerID(17_000+n), 1)
		must(t, src.Store(0, blocks(1, 1, count(1, 1+n)...), start))
	}
	var want []string
	for n := range fleet {
		want = append(want, matched(ix, count(1, 1+n))[0])
	}
	got := ix.Match(count(1, fleet), start, nil)
	slices.SortFunc(got, compareScores)
	if len(got) != fleet {
		t.Fatalf("%d scores, want %d", len(got), fleet)
	}
	for n, s := range got {
		if s.Blocks != n+1 || number(s.Worker) != 17_000+n {
			t.Errorf("score %d is %+v", n, s)
		}
	}
	if n := len(matched(ix, []uint32{5000})); n != 8500 {
		t.Errorf("%d hold the other block, want 8500", n)
	}
	if diff := cmp.Diff("w17000:1", want[0]); diff != "" {
		t.Errorf("the first to drop out (-want +got):\n%s", diff)
	}
}

func TestUnknownSizesCostNothing(t *testing.T) {
	ix := New(Bounds{}, start)
	src := ix.Track(workerID(1), 4)
	must(t, src.Store(0, blocks(4, 1, count(1, 8)...), start))
	for size := range 10 { // sizes come and go
		must(t, src.SetBlockSize(size))
		if size > 0 {
			must(t, src.Store(0, blocks(size, 1, count(1, 40)...), start))
			if diff := cmp.Diff([]sizeUse{{size, 40 / size}}, ix.sizes, cmp.AllowUnexported(sizeUse{})); diff != "" {
				t.Errorf("sizes in use (-want +got):\n%s", diff)
			}
		}
	}
	must(t, src.ClearAll())
	if len(ix.sizes) != 0 {
		t.Errorf("sizes of nothing: %v", ix.sizes)
	}
	check(t, ix)
}

// TestMatchDoesNotSeeWhoLeaves stops a removal after its first step.
func TestMatchDoesNotSeeWhoLeaves(t *testing.T) {
	ix := New(Bounds{}, start)
	leaving := ix.Track(workerID(1), 4)
	for _, src := range []*Source{leaving, ix.Track(workerID(2), 4)} {
		must(t, src.Store(0, blocks(4, 1, count(1, 8)...), start))
	}
	leaving.gone = true
	if diff := cmp.Diff([]string{"w2:2"}, matched(ix, count(1, 8))); diff != "" {
		t.Errorf("scores (-want +got):\n%s", diff)
	}
}

// TestMatchTellsSizesApart makes a block of four tokens whose bytes are those that the
// hash of another worker's chain is made of.
func TestMatchTellsSizesApart(t *testing.T) {
	ix := New(Bounds{}, start)
	two := count(1, 4)
	must(t, ix.Track(workerID(1), 2).Store(0, blocks(2, 1, two...), start))
	must(t, ix.Track(workerID(2), 4).Store(0, blocks(4, 1, count(50, 4)...), start))
	a, b := ContentHash(two[:2]), ContentHash(two[2:])
	spelled := []uint32{uint32(a), uint32(a >> 32), uint32(b), uint32(b >> 32)}
	if ContentHash(spelled) != PrefixHash(a, b) {
		t.Fatal("the hashes differ: nothing is tested")
	}
	if got := matched(ix, spelled); len(got) > 0 {
		t.Errorf("%v holds what it never stored", got)
	}
}

// TestMatchNoticesSlotsGivenAway has a worker leave in mid-match, and another get its
// slot that holds what comes next, but not the first block.
func TestMatchNoticesSlotsGivenAway(t *testing.T) {
	prompt := count(1, 32)
	ix := New(Bounds{}, start)
	ix.stride = 4
	must(t, ix.Track(workerID(1), 1).Store(0, blocks(1, 1, prompt...), start))
	must(t, ix.Track(workerID(2), 1).Store(0, blocks(1, 1, prompt...), start))
	m := match{ix: ix, size: 1}
	if going, valid := m.advance(prompt); !going || !valid {
		t.Fatalf("the match ends after a stride: going %t, valid %t", going, valid)
	}
	ix.Untrack(workerID(2))
	src := ix.Track(workerID(3), 1)
	must(t, src.Store(0, blocks(1, 1, prompt...), start))
	must(t, src.Remove(0, []uint64{1}))
	if src.ranks[0].slot != 1 {
		t.Fatal("the slot is not used again: nothing is tested")
	}
	if _, valid := m.advance(prompt); valid {
		t.Error("the match goes on with the slot of another worker")
	}
	if !m.run(prompt, 1) {
		t.Error("the match does not start over")
	}
	if diff := cmp.Diff([]Score{{workerID(1), 0, 32, 1}}, m.scores); diff != "" {
		t.Errorf("scores (-want +got):\n%s", diff)
	}
}
