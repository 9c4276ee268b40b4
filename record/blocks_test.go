package record

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestBlocks(t *testing.T) {
	for i, end := range map[int]int{0: 16, 1: 32, 63: 1024, 64: 1088, 65: 1152, 1071: 65536} {
		if got := BlockEnd(i); got != end {
			t.Errorf("block %d ends at %d, want %d", i, got, end)
		}
	}
	for token := range 5000 {
		i := BlockOf(token)
		if token >= BlockEnd(i) || i > 0 && token < BlockEnd(i-1) {
			t.Fatalf("token %d is said to lie in block %d", token, i)
		}
	}
	for tokens, want := range map[int]int{0: 0, 1: 1, 16: 1, 17: 2, 1024: 64, 1025: 65, 65536: 1072} {
		if got := Blocks(tokens); got != want {
			t.Errorf("%d tokens have %d blocks, want %d", tokens, got, want)
		}
	}
}

func TestDigestText(t *testing.T) {
	long := strings.Repeat("The quick brown fox. ", 500)
	wide := strings.Repeat("日本語のテキスト", 500)
	broken := strings.Repeat("a\xff\xc3", 200)
	for _, tt := range []struct {
		name, a, b string
		shared     int // blocks, from the begin
	}{
		{"equal", long, long, textBlocks(len(long))},
		{"nothing", "", long, 0},
		{"other at once", "x" + long, long, 0},
		{"one goes on", long[:200], long, 3},
		{"the last block is begun", long[:64+10], long[:64+11], 1},
		{"a late difference", long[:5000] + "!" + long[5001:], long, 64 + (5000-4096)/256},
		{"characters, not bytes", wide[:3*64] + "!", wide, 1},
		{"not UTF-8", broken, broken, textBlocks(600)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, chars := DigestText(nil, tt.a)
			b, _ := DigestText(nil, tt.b)
			if want := utf8.RuneCountInString(tt.a); chars != want {
				t.Errorf("%d characters, want %d", chars, want)
			}
			if want := DigestBytes * textBlocks(chars); len(a) != want {
				t.Errorf("%d bytes of digests, want %d", len(a), want)
			}
			if got := common(a, b); got != tt.shared {
				t.Errorf("%d blocks are shared, want %d", got, tt.shared)
			}
		})
	}
}

// common is how many digests a and b begin with that are equal. What comes after the
// first difference must differ for ever.
func common(a, b []byte) int {
	n, apart := 0, false
	for i := 0; i+DigestBytes <= min(len(a), len(b)); i += DigestBytes {
		equal := string(a[i:i+DigestBytes]) == string(b[i:i+DigestBytes])
		if equal && apart {
			return -1
		}
		if apart = !equal; !apart {
			n++
		}
	}
	return n
}

func TestDigestIDs(t *testing.T) {
	ids := make([]uint32, 3000)
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range ids {
		ids[i] = rng.Uint32()
	}
	other := append(append([]uint32{}, ids[:1500]...), ids[1501:]...)
	for _, tt := range []struct {
		name   string
		a, b   []uint32
		shared int
	}{
		{"equal", ids, ids, Blocks(3000)},
		{"one goes on", ids[:40], ids, 2},
		{"one is missing", other, ids, 64 + (1500-1024)/64},
		{"none", nil, ids, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, b := DigestIDs(nil, tt.a), DigestIDs(nil, tt.b)
			if want := DigestBytes * Blocks(len(tt.a)); len(a) != want {
				t.Errorf("%d bytes of digests, want %d", len(a), want)
			}
			if got := common(a, b); got != tt.shared {
				t.Errorf("%d blocks are shared, want %d", got, tt.shared)
			}
		})
	}
}

// TestDigestsStay: files are compared over versions of the program, so digests are
// part of the format.
func TestDigestsStay(t *testing.T) {
	text, _ := DigestText(nil, strings.Repeat("0123456789abcdef", 5))
	ids := DigestIDs(nil, []uint32{1, 2, 3})
	got := []string{fmt.Sprintf("%x", text), fmt.Sprintf("%x", ids)}
	want := []string{"02a33e93ae1d841e2827ad46989edfab", "48ea2b332974bf6b"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func BenchmarkDigestText(b *testing.B) {
	for _, size := range []int{1 << 10, 16 << 10, 256 << 10} {
		for name, unit := range map[string]string{"ascii": "The quick brown ", "wide": "日本語のテキ.."} {
			text := strings.Repeat(unit, size/len(unit)+1)[:size]
			b.Run(fmt.Sprintf("%s/bytes=%d", name, size), func(b *testing.B) {
				buf := make([]byte, 0, 16<<10)
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					DigestText(buf, text)
				}
			})
		}
	}
}
