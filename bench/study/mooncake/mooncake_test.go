package mooncake

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestRead(t *testing.T) {
	tests := []struct {
		name  string
		trace string
		want  []Line
		says  string // in the error
	}{
		{
			name: "two",
			trace: `{"timestamp": 0, "input_length": 513, "output_length": 500, "hash_ids": [0, 1]}

{"timestamp": 3000, "input_length": 512, "output_length": 1, "hash_ids": [7], "more": true}`,
			want: []Line{{0, 513, 500, []uint64{0, 1}}, {3000, 512, 1, []uint64{7}}},
		},
		{name: "empty", says: "empty"},
		{name: "not JSON", trace: "{}\nno", says: "line 1"},
		{name: "no output", trace: `{"input_length": 1, "hash_ids": [1]}`, says: "line 1 of the trace: a request of 1 tokens and an answer of 0"},
		{name: "too few blocks", trace: `{"input_length": 513, "output_length": 1, "hash_ids": [1]}`, says: "1 blocks for 513 tokens"},
		{
			name: "back in time",
			trace: `{"timestamp": 5, "input_length": 1, "output_length": 1, "hash_ids": [1]}
{"timestamp": 4, "input_length": 1, "output_length": 1, "hash_ids": [1]}`,
			says: "line 2 of the trace: timestamp 4",
		},
		{name: "a line without end", trace: strings.Repeat("x", maxLine+1), says: "reading the trace"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Read(strings.NewReader(tt.trace))
			if tt.says == "" && err != nil || tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)) {
				t.Errorf("error %v, want %q", err, tt.says)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"timestamp": 0, "input_length": 513, "output_length": 500, "hash_ids": [0, 1]}`))
	f.Add([]byte("{}\n\n"))
	f.Fuzz(func(t *testing.T, trace []byte) {
		lines, err := Read(bytes.NewReader(trace))
		if (err == nil) != (len(lines) > 0) {
			t.Fatalf("%d lines, error %v", len(lines), err)
		}
		for i := range lines {
			l := &lines[i]
			if len(l.Full()) > len(l.Blocks) || l.Conversation(Common(lines)) != l.Blocks[min(Common(lines), len(l.Blocks)-1)] {
				t.Fatalf("line %d: %+v", i, l)
			}
		}
	})
}

func TestPrompts(t *testing.T) {
	line := func(input int, blocks ...uint64) *Line { return &Line{Input: input, Output: 1, Blocks: blocks} }
	a, b, c := line(1000, 0, 1), line(1024, 0, 1), line(1024, 0, 2)
	common := func(x, y *Line) (tokens, chars int) {
		tx, ty := x.Tokens(nil), y.Tokens(nil)
		for tokens < min(len(tx), len(ty)) && tx[tokens] == ty[tokens] {
			tokens++
		}
		sx, sy := x.Text(nil, 1<<20), y.Text(nil, 1<<20)
		for chars < min(len(sx), len(sy)) && sx[chars] == sy[chars] {
			chars++
		}
		return tokens, chars
	}
	if got := len(a.Tokens(nil)); got != 1000 {
		t.Errorf("%d tokens, want 1000", got)
	}
	if got := len(a.Text(nil, 1<<20)); got != 4000 {
		t.Errorf("%d characters, want 4000", got)
	}
	if got := len(a.Text(nil, 2500)); got != 2500 {
		t.Errorf("%d characters, want 2500", got)
	}
	if tokens, chars := common(a, b); tokens != 1000 || chars != 4000 {
		t.Errorf("a prefix shares %d tokens and %d characters, want all 1000 and 4000", tokens, chars)
	}
	// A word may be shared by chance, and letters more often.
	if tokens, chars := common(b, c); tokens < 512 || tokens > 514 || chars < 2048 || chars > 2056 {
		t.Errorf("prompts that part after a block share %d tokens and %d characters, want about 512 and 2048", tokens, chars)
	}
	if got, want := string(line(2, 3).Text([]byte("> "), 8)), "> "; !strings.HasPrefix(got, want) || len(got) != 10 || got[5] != ' ' || got[9] != ' ' {
		t.Errorf("text %q, want two words of three letters behind %q", got, want)
	}
}

// TestBlocksDiffer: no block is another one shifted, so that trees and hashes of any
// page size see sharing only where there is some.
func TestBlocksDiffer(t *testing.T) {
	seen := map[[8]uint32]uint64{}
	for id := range uint64(500) {
		tokens := (&Line{Input: BlockSize, Blocks: []uint64{id}}).Tokens(nil)
		for at := range len(tokens) - 8 {
			key := [8]uint32(tokens[at:])
			if other, there := seen[key]; there {
				t.Fatalf("blocks %d and %d share eight tokens", other, id)
			}
			seen[key] = id
		}
	}
}

func TestPromptsAreAsTheirBlocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		blocks := rapid.SliceOfN(rapid.Uint64(), 1, 4).Draw(t, "blocks")
		l := &Line{Input: (len(blocks)-1)*BlockSize + rapid.IntRange(1, BlockSize).Draw(t, "rest"), Blocks: blocks}
		limit := rapid.IntRange(0, 3*BlockSize*CharsPerToken).Draw(t, "limit")
		tokens, text := l.Tokens(nil), l.Text(nil, limit)
		if len(tokens) != l.Input || len(text) != min(limit/CharsPerToken, l.Input)*CharsPerToken {
			t.Fatalf("%d tokens and %d characters of %d tokens, limit %d", len(tokens), len(text), l.Input, limit)
		}
		again := (&Line{Input: l.Input, Blocks: slices.Clone(blocks)}).Tokens(nil)
		if !slices.Equal(tokens, again) {
			t.Fatal("equal ids give different tokens")
		}
	})
}

func TestConversation(t *testing.T) {
	tests := []struct {
		name   string
		blocks [][]uint64
		common int
		want   []uint64
	}{
		{"nothing in common", [][]uint64{{1, 2}, {3, 4}}, 0, []uint64{1, 3}},
		{"a system prompt", [][]uint64{{1, 2, 3}, {1, 4, 5}, {1, 2, 6}}, 1, []uint64{2, 4, 2}},
		{"one that has nothing else", [][]uint64{{1, 2, 3}, {1, 2}}, 2, []uint64{3, 2}},
		{"one alone", [][]uint64{{1, 2}}, 2, []uint64{2}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var lines []Line
			for _, b := range tt.blocks {
				lines = append(lines, Line{Input: len(b) * BlockSize, Blocks: b})
			}
			common := Common(lines)
			if common != tt.common {
				t.Errorf("%d blocks in common, want %d", common, tt.common)
			}
			for i := range lines {
				if got := lines[i].Conversation(common); got != tt.want[i] {
					t.Errorf("line %d belongs to %d, want %d", i, got, tt.want[i])
				}
			}
		})
	}
}
