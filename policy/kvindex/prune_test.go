package kvindex

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func prunes(t *testing.T) {
	t.Run("neither stored nor queried within the TTL", pruneTTL)
	t.Run("ceiling", pruneCeiling)
	t.Run("the oldest go", pruneOldest)
	t.Run("the young are spared", pruneSpares)
	t.Run("bounds off", pruneOff)
}

func pruneTTL(t *testing.T) {
	ix := New(Bounds{TTL: 10 * time.Second}, start)
	src := ix.Track(workerID(1), 4)
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	must(t, src.Store(0, blocks(4, 1, count(100, 12)...), start)) // is matched in part
	must(t, src.Store(0, blocks(4, 11, count(200, 8)...), start)) // is stored again in part
	must(t, src.Store(0, blocks(4, 21, count(300, 8)...), start)) // is left alone

	ix.Match(append(count(100, 8), 7, 7, 7, 7), at(5), nil)
	must(t, src.Store(0, blocks(4, 11, count(200, 4)...), at(5)))
	if gone := ix.Prune(at(10)); gone != 0 {
		t.Errorf("%d blocks go that are as old as the TTL", gone)
	}
	if gone := ix.Prune(at(11)); gone != 4 {
		t.Errorf("%d blocks go, want 4", gone)
	}
	want := []string{"w1:2", "w1:1"}
	if diff := cmp.Diff(want, append(matched(ix, count(100, 12)), matched(ix, count(200, 8))...)); diff != "" {
		t.Errorf("what stays (-want +got):\n%s", diff)
	}
	if got := matched(ix, count(300, 8)); len(got) > 0 {
		t.Errorf("what was left alone stays: %v", got)
	}
	check(t, ix)
	if gone := ix.Prune(at(30)); gone != 3 || ix.Len() != 0 {
		t.Errorf("%d blocks go in the end, %d stay", gone, ix.Len())
	}
	check(t, ix)
}

func pruneCeiling(t *testing.T) {
	tests := []struct {
		name  string
		limit int
		held  int
		left  int
	}{
		{"120 of 100", 100, 120, 90},
		{"at the ceiling", 100, 100, 100},
		{"below", 100, 50, 50},
		{"one above", 100, 101, 90},
		{"far above", 7, 1000, 6},
		{"a ceiling of one", 1, 5, 0},
	}
	for _, tt := range tests {
		ix := New(Bounds{MaxBlocks: tt.limit}, start)
		src := ix.Track(workerID(1), 1)
		must(t, src.Store(0, blocks(1, 1, count(1, tt.held)...), start))
		gone := ix.Prune(start.Add(time.Minute))
		if ix.Len() != tt.left || gone != tt.held-tt.left {
			t.Errorf("%s: %d left, %d gone; want %d", tt.name, ix.Len(), gone, tt.left)
		}
		if slots := len(src.ranks[0].prefixes.slots); slots > 2*tt.left+200 {
			t.Errorf("%s: %d slots for %d blocks", tt.name, slots, tt.left)
		}
		check(t, ix)
	}
}

func pruneOldest(t *testing.T) {
	ix := New(Bounds{MaxBlocks: 10}, start)
	w1, w2 := ix.Track(workerID(1), 1), ix.Track(workerID(2), 1)
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	for i := range 6 { // one block each, the last used by a match
		must(t, w1.Store(0, blocks(1, uint64(i+1), uint32(100+i)), at(i)))
		must(t, w2.Store(0, blocks(1, uint64(i+1), uint32(100+i)), at(i)))
	}
	ix.Match([]uint32{100}, at(9), nil)
	ix.Prune(at(20))
	var got []string
	for i := range 6 {
		got = append(got, matched(ix, []uint32{uint32(100 + i)})...)
	}
	// Twelve are held, nine may stay: the second block goes with both its holders, of
	// the third one holder goes.
	if ix.Len() != 9 || len(got) != 9 {
		t.Fatalf("%d blocks, %v match", ix.Len(), got)
	}
	for _, i := range []int{0, 3, 4, 5} {
		if n := len(matched(ix, []uint32{uint32(100 + i)})); n != 2 {
			t.Errorf("block %d has %d holders, it is younger than those that went", i, n)
		}
	}
	check(t, ix)
}

func pruneSpares(t *testing.T) {
	ix := New(Bounds{MaxBlocks: 50}, start)
	src := ix.Track(workerID(1), 1)
	must(t, src.Store(0, blocks(1, 1, count(1, 20)...), start))
	must(t, src.Store(0, blocks(1, 21, count(1001, 100)...), start.Add(9*time.Second)))
	tests := []struct {
		after time.Duration
		left  int
	}{
		{10 * time.Second, 100}, // the young ones
		{10900 * time.Millisecond, 100},
		{11 * time.Second, 100},
		{11100 * time.Millisecond, 45},
	}
	for _, tt := range tests {
		ix.Prune(start.Add(tt.after))
		if ix.Len() != tt.left {
			t.Errorf("%d left after %v, want %d", ix.Len(), tt.after, tt.left)
		}
		check(t, ix)
	}
}

func pruneOff(t *testing.T) {
	ix := New(Bounds{}, start)
	must(t, ix.Track(workerID(1), 1).Store(0, blocks(1, 1, count(1, 1000)...), start))
	if gone := ix.Prune(start.Add(1000 * time.Hour)); gone != 0 || ix.Len() != 1000 {
		t.Errorf("%d go without bounds", gone)
	}
}
