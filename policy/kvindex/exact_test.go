package kvindex

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// exact holds the cases that a jump search over (position, content) gets wrong. Each
// is tried with landing positions before, at and behind the place in question.
func exact(t *testing.T) {
	prompt := count(1, 40) // ten blocks of four
	foreign := count(500, 4)
	tests := []struct {
		name   string
		fill   func(t *testing.T, ix *Index)
		tokens []uint32
		want   []string
	}{
		{
			// As many hold the block jumped to as were active, but not the same ones.
			name: "a newcomer hides a drop-out",
			fill: func(t *testing.T, ix *Index) {
				must(t, ix.Track(workerID(1), 4).Store(0, blocks(4, 1, prompt...), start))
				must(t, ix.Track(workerID(2), 4).Store(0, blocks(4, 1, prompt[:16]...), start))
				w3 := ix.Track(workerID(3), 4)
				must(t, w3.Store(0, blocks(4, 1, prompt...), start))
				must(t, w3.Remove(0, []uint64{1, 2, 3, 4, 5}))
			},
			tokens: prompt,
			want:   []string{"w1:10", "w2:4"},
		},
		{
			// Only one prefix is known for the content at that position.
			name: "right content behind a foreign beginning",
			fill: func(t *testing.T, ix *Index) {
				w1 := ix.Track(workerID(1), 4)
				must(t, w1.Store(0, blocks(4, 1, prompt...), start))
				must(t, w1.Store(0, blocks(4, 100, foreign...), start))
			},
			tokens: slices.Concat(foreign, prompt[4:]),
			want:   []string{"w1:1"},
		},
		{
			name: "a gap left by a removal",
			fill: func(t *testing.T, ix *Index) {
				w1 := ix.Track(workerID(1), 4)
				must(t, w1.Store(0, blocks(4, 1, prompt...), start))
				must(t, w1.Remove(0, []uint64{5}))
			},
			tokens: prompt,
			want:   []string{"w1:4"},
		},
		{
			name: "a gap in one worker's chain, none in another's",
			fill: func(t *testing.T, ix *Index) {
				for i := range 20 { // too many for a list
					src := ix.Track(workerID(i+1), 4)
					must(t, src.Store(0, blocks(4, 1, prompt...), start))
					must(t, src.Remove(0, []uint64{uint64(min(2+i, 11))}))
				}
			},
			tokens: prompt,
			want: []string{
				"w1:1", "w2:2", "w3:3", "w4:4", "w5:5", "w6:6", "w7:7", "w8:8", "w9:9",
				"w10:10", "w11:10", "w12:10", "w13:10", "w14:10", "w15:10", "w16:10", "w17:10", "w18:10", "w19:10", "w20:10",
			},
		},
		{
			name: "every rank for itself",
			fill: func(t *testing.T, ix *Index) {
				w1 := ix.Track(workerID(1), 4)
				must(t, w1.Store(0, blocks(4, 1, prompt[:8]...), start))
				must(t, w1.Store(1, blocks(4, 1, prompt...), start))
				must(t, w1.Store(3, blocks(4, 1, prompt...), start))
				must(t, w1.Remove(3, []uint64{2}))
			},
			tokens: prompt,
			want:   []string{"w1:2", "w1.1:10", "w1.3:1"},
		},
		{
			name: "every worker in its own block size",
			fill: func(t *testing.T, ix *Index) {
				must(t, ix.Track(workerID(1), 4).Store(0, blocks(4, 1, prompt...), start))
				must(t, ix.Track(workerID(2), 8).Store(0, blocks(8, 1, prompt...), start))
				must(t, ix.Track(workerID(3), 16).Store(0, blocks(16, 1, prompt[:16]...), start))
			},
			tokens: prompt,
			want:   []string{"w1:10", "w2:5", "w3:1"},
		},
		{
			name: "a new block size drops the old blocks",
			fill: func(t *testing.T, ix *Index) {
				w1 := ix.Track(workerID(1), 4)
				must(t, w1.Store(0, blocks(4, 1, prompt...), start))
				must(t, w1.SetBlockSize(8))
				must(t, w1.Store(0, blocks(8, 1, prompt[:16]...), start))
				must(t, w1.SetBlockSize(8))
			},
			tokens: prompt,
			want:   []string{"w1:2"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ix := New(Bounds{}, start)
			tt.fill(t, ix)
			check(t, ix)
			for stride := 1; stride <= 12; stride++ {
				ix.stride = stride
				if diff := cmp.Diff(tt.want, matched(ix, tt.tokens)); diff != "" {
					t.Errorf("stride %d (-want +got):\n%s", stride, diff)
				}
			}
		})
	}
}
