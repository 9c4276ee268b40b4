package recorded

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"smg/record"
)

// told is the ask of a text, as digests or whole.
func told(text string, whole bool) *record.Select {
	s := &record.Select{Chars: int64(utf8.RuneCountInString(text))}
	s.Text, s.Seen = record.DigestText(nil, text)
	if whole {
		s.Text, s.WholeText = nil, text
	}
	return s
}

// common is how many elements a and b begin with that are equal.
func common[T comparable](a, b []T) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// border is how much of n tokens is in whole blocks.
func border(n int) int {
	end := 0
	for i := 0; record.BlockEnd(i) <= n; i++ {
		end = record.BlockEnd(i)
	}
	return end
}

// TestPromptsShareWhatTheyShared: made-up texts are as long as those recorded, and
// begin alike as far as those did, in whole blocks; engines find as much.
func TestPromptsShareWhatTheyShared(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		alphabet := rapid.SampledFrom([]string{"ab", "日本"}).Draw(t, "alphabet")
		part := func(name string, most int) string {
			seed := rapid.StringOfN(rapid.RuneFrom([]rune(alphabet)), 1, 40, -1).Draw(t, name)
			return strings.Repeat(seed, rapid.IntRange(0, most/40).Draw(t, name+" times"))
		}
		head := part("head", 12_000)
		a, b := head+part("a", 3_000), head+part("b", 3_000)
		pa, pb := promptOf(told(a, false)), promptOf(told(b, false))
		ta, tb := pa.appendText(nil), pb.appendText(nil)
		if len(ta) != utf8.RuneCountInString(a) {
			t.Fatalf("a text of %d characters became one of %d", utf8.RuneCountInString(a), len(ta))
		}
		shared := common([]rune(a), []rune(b))
		if a == b {
			if string(ta) != string(tb) {
				t.Fatal("equal texts have become different")
			}
			return
		}
		// Two words of a block may agree by chance, at the rate of one in 32,768.
		want := record.CharsPerToken * border(shared/record.CharsPerToken)
		if got := common(ta, tb); got < want || got > want+8 {
			t.Fatalf("%d characters are shared, want those %d of %d that are in whole blocks", got, want, shared)
		}
		const size = 16
		wantBlocks := want / record.CharsPerToken / size
		if got := common(pa.blocks(size), pb.blocks(size)); got != wantBlocks {
			t.Fatalf("engines share %d blocks, want %d", got, wantBlocks)
		}
	})
}

func TestWholePromptsAreUsedAsTheyAre(t *testing.T) {
	text := strings.Repeat("what was said ", 100)
	whole, digests := promptOf(told(text, true)), promptOf(told(text, false))
	if got := string(whole.appendText(nil)); got != text {
		t.Errorf("text %q", got)
	}
	if diff := cmp.Diff(digests.blocks(16), whole.blocks(16)); diff != "" {
		t.Errorf("blocks of digests and of the whole prompt differ:\n%s", diff)
	}
	ids := []uint32{5, 6, 7, 8}
	w := promptOf(&record.Select{Seen: 4, Tokens: 4, WholeIDs: ids})
	d := promptOf(&record.Select{Seen: 4, Tokens: 4, IDs: record.DigestIDs(nil, ids)})
	if diff := cmp.Diff(ids, w.appendIDs(nil)); diff != "" {
		t.Errorf("ids (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(w.blocks(2), d.blocks(2)); diff != "" || len(w.blocks(2)) != 2 || len(d.appendIDs(nil)) != 4 {
		t.Errorf("blocks of ids:\n%s", diff)
	}
}

func TestBlocksOfEngines(t *testing.T) {
	long := strings.Repeat("x", 4*2000)
	of := func(change func(s *record.Select)) prompt {
		s := told(long, false)
		change(s)
		return promptOf(s)
	}
	plain := of(func(*record.Select) {})
	for _, tt := range []struct {
		name   string
		p      prompt
		size   int
		blocks int
		shared int // with plain
	}{
		{"small blocks", plain, 16, 125, 125},
		{"blocks larger than digests", plain, 512, 3, 3},
		{"only what was told", of(func(s *record.Select) { s.Chars = 1 << 20 }), 16, 125, 125},
		{"another partition", of(func(s *record.Select) { s.Space = "x" }), 16, 125, 0},
		{"nothing was told", promptOf(&record.Select{Credit: 1024}), 16, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.p.blocks(tt.size)
			if len(got) != tt.blocks || common(got, plain.blocks(tt.size)) != tt.shared {
				t.Errorf("%d blocks, %d shared, want %d and %d", len(got), common(got, plain.blocks(tt.size)), tt.blocks, tt.shared)
			}
			slices.Sort(got)
			if n := len(slices.Compact(slices.Clone(got))); n != len(got) {
				t.Errorf("%d different blocks of %d", n, len(got))
			}
		})
	}
}
