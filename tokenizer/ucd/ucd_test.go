package ucd

import (
	"strings"
	"testing"
	"unicode"
)

// Go's tables are a few versions older or newer; what both know of must agree
// but for the handful of code points that Unicode corrected.
func TestCategoriesAgreeWithGo(t *testing.T) {
	differ, seen := 0, 0
	for i, name := range strings.Fields(Names) {
		table := unicode.Categories[name]
		if i == 0 || table == nil {
			continue
		}
		check := func(lo, hi, stride uint32) {
			for r := lo; r <= hi; r += stride {
				seen++
				if CategoryOf(rune(r)) != Category(i) {
					differ++
				}
			}
		}
		for _, r := range table.R16 {
			check(uint32(r.Lo), uint32(r.Hi), uint32(r.Stride))
		}
		for _, r := range table.R32 {
			check(r.Lo, r.Hi, r.Stride)
		}
	}
	if seen < 200_000 {
		t.Errorf("only %d code points were looked at", seen)
	}
	if differ > 50 {
		t.Errorf("%d code points have another category than Go says", differ)
	}
}

func TestSpace(t *testing.T) {
	for r := range rune(0x10000) {
		if got, want := Space(r), unicode.Is(unicode.White_Space, r); got != want {
			t.Errorf("Space(%U) = %v, want %v", r, got, want)
		}
	}
}

func TestFlags(t *testing.T) {
	tests := []struct {
		name string
		r    rune
		has  Flags
		not  Flags
	}{
		{"letter", 'a', Word | Alphabetic | RegexWord, Numeric | Punctuation | NonStarter | Extends},
		{"half", '½', Numeric, Punctuation | Word},
		{"comma", ',', Punctuation | PosixPunct, Word},
		{"acute", 0x301, NonStarter | Nonspacing | Combining | Extends, Decomposes},
		{"e acute", 'é', Decomposes | Composes | DecomposesCompat, NonStarter},
		{"ligature", 'ﬁ', DecomposesCompat, Decomposes},
		{"han", '中', Han | Word, Punctuation},
		{"copyright", '©', Pictographic, Word},
		{"joiner", 0x200D, Extends | Other, NonStarter},
		{"null", 0, Other, Word},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := FlagsOf(tt.r)
			if f&tt.has != tt.has || f&tt.not != 0 {
				t.Errorf("FlagsOf(%U) = %b, want all of %b and none of %b", tt.r, f, tt.has, tt.not)
			}
		})
	}
}

func TestLower(t *testing.T) {
	var b strings.Builder
	for _, r := range "AÉΣЖİẞ中" {
		WriteLower(&b, r)
	}
	if got, want := b.String(), "aéσжi̇ß中"; got != want {
		t.Errorf("lower case is %q, want %q", got, want)
	}
}

func TestScript(t *testing.T) {
	if Script('a') == Script('я') || Script('a') != Script('z') {
		t.Error("Latin and Cyrillic letters must have numbers of their own")
	}
	if Script(' ') != 0 {
		t.Errorf("Script(' ') = %d, want 0", Script(' '))
	}
	if Script('中') != Script('カ') {
		t.Error("Han and Katakana are one to UnicodeScripts")
	}
}
