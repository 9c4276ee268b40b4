package kvindex

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func stored(seq uint64, first uint64, size int, tokens ...uint32) *Batch {
	return &Batch{Seq: seq, Events: []Event{{Kind: Stored, Blocks: blocks(size, first, tokens...), BlockSize: size}}}
}

// at is where a worker's only rank has been read to.
func at(seq uint64) []Cursor { return []Cursor{{Seq: seq}} }

func batchesInOrder(t *testing.T) {
	t.Run("stale batches are skipped", feedStale)
	t.Run("a gap reconnects from the last good batch", feedGap)
	t.Run("a gap that stays loses the events", feedLostForGood)
	t.Run("back-off", feedBackoff)
	t.Run("block size of the first batch", feedBlockSize)
	t.Run("out of range and data loss start over", feedLost)
	t.Run("unimplemented stops for good", feedUnimplemented)
	t.Run("removed worker", feedRemoved)
	t.Run("removed and cleared", feedEvents)
	t.Run("ranks", feedRanks)
	t.Run("each rank counts by itself", feedRankNumbers)
	t.Run("a gap of one rank of several", feedRankGap)
	t.Run("a gap where nothing is replayed", feedNoReplay)
	t.Run("0 is a number", feedZero)
	t.Run("bad blocks are told", feedBadBlocks)
}

// steps compares what a feed wants with what it should, in turn.
func steps(t *testing.T, got []Step, want ...Step) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}

func feedStale(t *testing.T) {
	ix := New(Bounds{}, start)
	f := NewFeed(ix, workerID(1), ByNumber)
	begin := f.Begin()
	f.Connected()
	steps(t, []Step{
		begin,
		f.Apply(stored(40, 1, 4, count(1, 4)...), start), // any number may be the first
		f.Apply(stored(40, 2, 4, count(100, 4)...), start),
		f.Apply(stored(39, 3, 4, count(200, 4)...), start),
		f.Apply(stored(41, 4, 4, count(300, 4)...), start),
		f.Ended(EndOther),
	}, Step{Do: Connect}, Step{Do: Read}, Step{Do: Read}, Step{Do: Read}, Step{Do: Read},
		Step{Do: Connect, From: at(41), After: 100 * time.Millisecond})
	if ix.Len() != 2 || len(matched(ix, count(100, 4))) > 0 || len(matched(ix, count(200, 4))) > 0 {
		t.Errorf("%d blocks, want those of two batches", ix.Len())
	}
}

func feedGap(t *testing.T) {
	ix := New(Bounds{}, start)
	f := NewFeed(ix, workerID(1), ByNumber)
	f.Connected()
	got := []Step{f.Apply(stored(5, 1, 4, count(1, 4)...), start), f.Apply(stored(7, 7, 4, count(700, 4)...), start)}
	if ix.Len() != 1 {
		t.Errorf("%d blocks: a batch behind a gap is applied", ix.Len())
	}
	f.Connected()
	got = append(got,
		f.Apply(stored(6, 6, 4, count(600, 4)...), start),
		f.Apply(stored(7, 7, 4, count(700, 4)...), start),
		f.Apply(stored(9, 9, 4, count(900, 4)...), start),
	)
	steps(t, got, Step{Do: Read}, Step{Do: Connect, From: at(5)}, Step{Do: Read}, Step{Do: Read}, Step{Do: Connect, From: at(7)})
	if ix.Len() != 3 {
		t.Errorf("%d blocks, want 3", ix.Len())
	}
}

func feedLostForGood(t *testing.T) {
	ix := New(Bounds{}, start)
	f := NewFeed(ix, workerID(1), ByNumber)
	f.Connected()
	got := []Step{f.Apply(stored(5, 1, 4, count(1, 4)...), start), f.Apply(stored(9, 2, 4, count(9, 4)...), start)}
	f.Connected()
	got = append(got, f.Apply(stored(9, 2, 4, count(9, 4)...), start))
	if ix.Len() != 0 {
		t.Errorf("%d blocks although changes of them were lost", ix.Len())
	}
	f.Connected()
	got = append(got, f.Apply(stored(9, 2, 4, count(9, 4)...), start), f.Apply(stored(10, 2, 4, count(9, 4)...), start), f.Apply(stored(12, 2, 4, count(9, 4)...), start))
	steps(t, got, Step{Do: Read}, Step{Do: Connect, From: at(5)}, Step{Do: Connect, After: 100 * time.Millisecond},
		Step{Do: Read}, Step{Do: Read}, Step{Do: Connect, From: at(10)})
}

func feedBackoff(t *testing.T) {
	ix := New(Bounds{}, start)
	f := NewFeed(ix, workerID(1), ByNumber)
	f.Connected()
	f.Apply(stored(5, 1, 4, count(1, 4)...), start)
	var got []int
	for range 11 {
		step := f.Ended(EndOther)
		if step.Do != Connect || !slices.Equal(step.From, at(5)) {
			t.Errorf("step %+v, want to connect from 5", step)
		}
		got = append(got, int(step.After.Milliseconds()))
	}
	if diff := cmp.Diff([]int{100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000}, got); diff != "" {
		t.Errorf("waits in ms (-want +got):\n%s", diff)
	}
	f.Connected()
	steps(t, []Step{f.Ended(EndOther)}, Step{Do: Connect, From: at(5), After: 100 * time.Millisecond})
	if ix.Len() != 1 {
		t.Errorf("%d blocks: a broken stream must keep them", ix.Len())
	}
}

func feedBlockSize(t *testing.T) {
	ix := New(Bounds{}, start)
	f := NewFeed(ix, workerID(1), ByNumber)
	f.Connected()
	f.Apply(&Batch{Seq: 1, Events: []Event{
		{Kind: Removed, Hashes: []uint64{1}}, // has no size to teach
		{Kind: Stored},
		{Kind: Stored, Blocks: blocks(4, 1, count(1, 8)...)}, // by its number of tokens
	}}, start)
	if f.src.BlockSize() != 4 || ix.Len() != 2 {
		t.Errorf("block size %d, %d blocks", f.src.BlockSize(), ix.Len())
	}
	step := f.Apply(stored(2, 11, 8, count(1, 8)...), start)
	if !errors.Is(step.Err, ErrBlockSize) || step.Do != Read || ix.Len() != 2 {
		t.Errorf("another size in mid-stream: %+v, %d blocks", step, ix.Len())
	}

	f.Ended(EndOther)
	f.Connected()
	f.Apply(stored(3, 21, 4, count(1, 12)...), start)
	if ix.Len() != 3 {
		t.Errorf("%d blocks after a connection with the same size, want 3", ix.Len())
	}
	f.Ended(EndOther)
	f.Connected() // the engine was started anew
	f.Apply(stored(4, 31, 8, count(1, 16)...), start)
	want := []Score{{Worker: workerID(1), Blocks: 2, BlockSize: 8}}
	if diff := cmp.Diff(want, ix.Match(count(1, 16), start, nil)); diff != "" {
		t.Errorf("after a connection with another size (-want +got):\n%s", diff)
	}
}

func feedLost(t *testing.T) {
	ix := New(Bounds{}, start)
	f := NewFeed(ix, workerID(1), ByNumber)
	f.Connected()
	f.Apply(stored(5, 1, 4, count(1, 4)...), start)
	other := NewFeed(ix, workerID(2), ByNumber)
	other.Apply(stored(5, 1, 4, count(1, 4)...), start)

	got := []Step{f.Ended(EndLost)}
	if diff := cmp.Diff([]string{"w2:1"}, matched(ix, count(1, 4))); diff != "" {
		t.Errorf("blocks (-want +got):\n%s", diff)
	}
	// An engine that says so again and again is not asked again and again.
	got = append(got, f.Ended(EndLost), f.Ended(EndLost))
	f.Connected()
	got = append(got, f.Ended(EndLost))
	f.Connected()
	got = append(got, f.Apply(stored(2, 1, 4, count(1, 4)...), start), f.Apply(stored(3, 2, 4, count(1, 4)...), start), f.Ended(EndLost))
	const ms = time.Millisecond
	steps(t, got, Step{Do: Connect}, Step{Do: Connect, After: 100 * ms}, Step{Do: Connect, After: 200 * ms},
		Step{Do: Connect, After: 400 * ms}, Step{Do: Read}, Step{Do: Read}, Step{Do: Connect})
}

func feedUnimplemented(t *testing.T) {
	ix := New(Bounds{}, start)
	f := NewFeed(ix, workerID(1), ByNumber)
	f.Apply(stored(5, 1, 4, count(1, 4)...), start)
	stop := Step{Do: Stop}
	steps(t, []Step{
		f.Ended(EndUnimplemented), f.Begin(), f.Apply(stored(6, 2, 4, count(1, 4)...), start),
		f.Ended(EndOther), f.Ended(EndLost), f.Ended(EndUnimplemented), f.Close(),
	}, stop, stop, stop, stop, stop, stop, stop)
	if ix.Len() != 0 {
		t.Errorf("%d blocks", ix.Len())
	}
}

func feedRemoved(t *testing.T) {
	ix := New(Bounds{}, start)
	f := NewFeed(ix, workerID(1), ByNumber)
	f.Apply(stored(5, 1, 4, count(1, 4)...), start)
	ix.Untrack(workerID(1))
	g := NewFeed(ix, workerID(1), ByNumber) // the worker is back
	g.Apply(stored(1, 1, 4, count(1, 8)...), start)
	stop := Step{Do: Stop}
	steps(t, []Step{f.Apply(stored(6, 2, 4, count(1, 4)...), start), f.Begin(), f.Close()}, stop, stop, stop)

	h := NewFeed(ix, workerID(2), ByNumber)
	h.Apply(stored(5, 1, 4, count(1, 4)...), start)
	ix.Untrack(workerID(2))
	steps(t, []Step{h.Ended(EndLost)}, stop)
	if diff := cmp.Diff([]string{"w1:2"}, matched(ix, count(1, 8))); diff != "" {
		t.Errorf("blocks of the new feed (-want +got):\n%s", diff)
	}
}

func feedEvents(t *testing.T) {
	ix := New(Bounds{}, start)
	f := NewFeed(ix, workerID(1), ByNumber)
	f.Apply(stored(1, 1, 4, count(1, 16)...), start)
	tests := []struct {
		event Event
		left  int
	}{
		{Event{Kind: Removed, Hashes: []uint64{4, 9}}, 3},
		{Event{Kind: Stored, Chained: true, Parent: 3, Blocks: blocks(4, 14, count(13, 8)...)}, 5},
		{Event{Kind: 99}, 5},
		{Event{Kind: Cleared}, 0},
	}
	for i, tt := range tests {
		step := f.Apply(&Batch{Seq: uint64(i + 2), Events: []Event{tt.event}}, start)
		if step.Do != Read || step.Err != nil || ix.Len() != tt.left {
			t.Errorf("event %d: %+v, %d blocks, want %d", i, step, ix.Len(), tt.left)
		}
	}
}

func feedRanks(t *testing.T) {
	ix := New(Bounds{}, start)
	f := NewFeed(ix, workerID(1), ByNumber)
	one := []Event{{Kind: Stored, Blocks: blocks(4, 1, count(1, 8)...)}}
	for _, rank := range []int{0, 3, MaxRank + 1, -1} {
		step := f.Apply(&Batch{Seq: 4, Rank: rank, Events: one}, start)
		if bad := rank != 0 && rank != 3; step.Do != Read || errors.Is(step.Err, ErrRank) != bad {
			t.Errorf("rank %d: %+v", rank, step)
		}
	}
	f.Apply(&Batch{Seq: 5, Rank: 3, Events: []Event{{Kind: Removed, Hashes: []uint64{2}}}}, start)
	if diff := cmp.Diff([]string{"w1:2", "w1.3:1"}, matched(ix, count(1, 8))); diff != "" {
		t.Errorf("ranks (-want +got):\n%s", diff)
	}
}

// ofRank is a batch with a block of the rank's own.
func ofRank(rank int, seq uint64) *Batch {
	b := stored(seq, seq, 4, count(int(seq)*1000+rank*100, 4)...)
	b.Rank = rank
	return b
}

// A stream of several ranks is no gap at every turn, and stale is what its own rank
// has had.
func feedRankNumbers(t *testing.T) {
	for _, resume := range []Resume{ByNumber, ByRank, Never} {
		ix := New(Bounds{}, start)
		f := NewFeed(ix, workerID(1), resume)
		f.Connected()
		read := Step{Do: Read}
		steps(t, []Step{
			f.Apply(ofRank(0, 7), start), f.Apply(ofRank(1, 40), start), f.Apply(ofRank(0, 8), start), f.Apply(ofRank(1, 41), start),
			f.Apply(ofRank(1, 8), start), // rank 1 is far behind that
		}, read, read, read, read, read)
		if ix.Len() != 4 {
			t.Errorf("%d blocks, want 4", ix.Len())
		}
	}
}

func feedRankGap(t *testing.T) {
	const ms = time.Millisecond
	read := Step{Do: Read}
	t.Run("one number cannot say where", func(t *testing.T) {
		ix := New(Bounds{}, start)
		f := NewFeed(ix, workerID(1), ByNumber)
		f.Connected()
		steps(t, []Step{f.Apply(ofRank(0, 7), start), f.Apply(ofRank(1, 40), start), f.Apply(ofRank(0, 9), start)}, read, read, Step{Do: Connect})
		if ix.Len() != 0 {
			t.Errorf("%d blocks, want none", ix.Len())
		}
		f.Connected()
		// An engine that leaves gaps all the time is not asked all the time.
		steps(t, []Step{f.Apply(ofRank(0, 9), start), f.Apply(ofRank(1, 41), start), f.Apply(ofRank(0, 11), start)}, read, read, Step{Do: Connect, After: 100 * ms})
		f.Connected()
		steps(t, []Step{f.Apply(ofRank(0, 9), start), f.Apply(ofRank(1, 41), start), f.Ended(EndOther)}, read, read, Step{Do: Connect, After: 100 * ms})
		if ix.Len() != 0 {
			t.Errorf("%d blocks, want none", ix.Len())
		}
	})
	t.Run("by rank", func(t *testing.T) {
		ix := New(Bounds{}, start)
		f := NewFeed(ix, workerID(1), ByRank)
		f.Connected()
		from := []Cursor{{0, 7}, {1, 40}}
		steps(t, []Step{f.Apply(ofRank(1, 40), start), f.Apply(ofRank(0, 7), start), f.Apply(ofRank(0, 9), start)}, read, read, Step{Do: Connect, From: from})
		f.Connected()
		steps(t, []Step{f.Apply(ofRank(1, 41), start), f.Apply(ofRank(0, 9), start)}, read, read) // they are lost
		if diff := cmp.Diff([]string{"w1:1"}, matched(ix, count(9000, 4))); diff != "" {
			t.Errorf("blocks (-want +got):\n%s", diff)
		}
		if ix.Len() != 3 || len(matched(ix, count(7000, 4))) != 0 {
			t.Errorf("%d blocks, want two of rank 1 and the new one of rank 0", ix.Len())
		}
		steps(t, []Step{f.Ended(EndOther)}, Step{Do: Connect, From: []Cursor{{0, 9}, {1, 41}}, After: 100 * ms})
	})
}

func feedNoReplay(t *testing.T) {
	ix := New(Bounds{}, start)
	f := NewFeed(ix, workerID(1), Never)
	f.Connected()
	read := Step{Do: Read}
	steps(t, []Step{f.Apply(ofRank(0, 7), start), f.Apply(ofRank(1, 40), start), f.Apply(ofRank(0, 9), start)}, read, read, read)
	if ix.Len() != 2 || len(matched(ix, count(7000, 4))) != 0 || len(matched(ix, count(9000, 4))) != 1 {
		t.Errorf("%d blocks, want that of rank 1 and the new one of rank 0", ix.Len())
	}
	ix.Untrack(workerID(1))
	steps(t, []Step{f.Apply(ofRank(0, 11), start)}, Step{Do: Stop})
}

func feedZero(t *testing.T) {
	for _, resume := range []Resume{ByNumber, ByRank} {
		ix := New(Bounds{}, start)
		f := NewFeed(ix, workerID(1), resume)
		f.Connected()
		read := Step{Do: Read}
		steps(t, []Step{f.Apply(ofRank(0, 0), start), f.Apply(ofRank(0, 0), start)}, read, read)
		if ix.Len() != 1 {
			t.Errorf("%d blocks, want 1", ix.Len())
		}
		want := Step{Do: Connect, From: at(0), After: 100 * time.Millisecond}
		if resume == ByNumber {
			want.From = nil // 0 asks for everything
		}
		steps(t, []Step{f.Ended(EndOther)}, want)
	}
}

func feedBadBlocks(t *testing.T) {
	ix := New(Bounds{}, start)
	f := NewFeed(ix, workerID(1), ByNumber)
	empty := []Event{{Kind: Stored, Blocks: []Block{{Hash: 1}}}}
	if step := f.Apply(&Batch{Seq: 1, Events: empty}, start); step.Do != Read || !errors.Is(step.Err, ErrBlockSize) {
		t.Errorf("a block without tokens: %+v", step)
	}
	// What follows in the batch counts all the same.
	mixed := []Event{
		{Kind: Stored, Blocks: blocks(4, 1, count(1, 8)...)},
		{Kind: Stored, Blocks: blocks(5, 11, count(1, 5)...)},
		{Kind: Removed, Hashes: []uint64{2}},
	}
	if step := f.Apply(&Batch{Seq: 2, Events: mixed}, start); step.Do != Read || !errors.Is(step.Err, ErrBlockSize) || ix.Len() != 1 {
		t.Errorf("a block of another size: %+v, %d blocks", step, ix.Len())
	}
}

// FuzzFeed lets bytes decide what an engine sends. Whatever it is, the feed says
// something that can be done, and the index stays sound.
func FuzzFeed(f *testing.F) {
	f.Add([]byte{0, 1, 3, 1, 2, 3, 1, 2, 0, 2, 4, 2})
	f.Add([]byte{3, 9, 1, 1, 1, 1, 1, 5, 5, 5, 2, 2, 2, 0, 0, 0, 4, 4})
	f.Fuzz(func(t *testing.T, data []byte) {
		ix := New(Bounds{TTL: 30 * time.Second, MaxBlocks: 40}, start)
		ix.stride = 3
		feeds := []*Feed{NewFeed(ix, workerID(1), ByNumber), NewFeed(ix, workerID(2), ByRank)}
		now := start
		next := func() uint64 {
			if len(data) == 0 {
				return 0
			}
			b := data[0]
			data = data[1:]
			return uint64(b)
		}
		var prompt []uint32
		for len(data) > 0 {
			now = now.Add(time.Duration(next()%16) * time.Second)
			feed := feeds[next()%2]
			var step Step
			switch op := next() % 16; op {
			case 0:
				step = feed.Ended(End(next() % 4))
			case 1:
				feed.Connected()
				step = feed.Begin()
			case 2:
				ix.Prune(now)
				continue
			case 3:
				ix.Untrack(workerID(int(next()%2) + 1))
				continue
			case 4:
				step = feed.Close()
				feeds[next()%2] = NewFeed(ix, workerID(int(next()%2)+1), Resume(next()%3))
			default:
				b := &Batch{Seq: next() % 3, Rank: int(next()%4) - 1}
				if c := feed.ranks[b.Rank]; c != nil {
					b.Seq += c.last
				}
				for range next() % 4 {
					e := Event{Kind: EventKind(next() % 5), BlockSize: int(next()%4) - 1, Chained: next()%2 == 0, Parent: next() % 16}
					size := next() % 4
					for range next() % 5 {
						block := Block{Hash: next() % 16}
						for range size {
							block.Tokens = append(block.Tokens, uint32(next()%2))
						}
						if len(prompt) < 32 {
							prompt = append(prompt, block.Tokens...)
						}
						e.Blocks = append(e.Blocks, block)
						e.Hashes = append(e.Hashes, block.Hash)
					}
					b.Events = append(b.Events, e)
				}
				step = feed.Apply(b, now)
			}
			if step.Do < Read || step.Do > Stop || step.After < 0 || step.After > lastWait || len(step.From) > len(feed.ranks) {
				t.Fatalf("step %+v", step)
			}
			for _, s := range ix.Match(prompt, now, nil) {
				if s.Blocks < 1 || s.Blocks*s.BlockSize > len(prompt) || s.Rank < 0 {
					t.Fatalf("score %+v of %d tokens", s, len(prompt))
				}
			}
		}
		check(t, ix)
	})
}
