package ucd

import (
	"strings"
	"testing"
	"unicode"
)

// Go's tables are a few versions older or newer; what both know of must agree
// but for the handful of code points that Unicode corrected.
func TestCategoriesAgreeWithGo(t *testing.T) {
	differ := 0
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if r >= 0xD800 && r < 0xE000 {
			continue
		}
		name := ""
		for n, table := range unicode.Categories {
			if len(n) == 2 && n != "LC" && n != "Cn" && unicode.Is(table, r) {
				name = n
			}
		}
		if name == "" {
			continue
		}
		if got := strings.Fields(Names)[CategoryOf(r)]; got != name {
			differ++
		}
	}
	if differ > 50 {
		t.Errorf("%d code points have another category than Go says", differ)
	}
}

func TestSpace(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
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
