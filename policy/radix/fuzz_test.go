package radix_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"smg/policy/radix"
)

// unitsOf splits text as Text does, valid UTF-8 or not.
func unitsOf(text string) []string {
	var units []string
	for i := range len(text) {
		if i > 0 && text[i]&0xc0 == 0x80 {
			units[len(units)-1] += text[i : i+1]
		} else {
			units = append(units, text[i:i+1])
		}
	}
	return units
}

// FuzzText inserts any bytes and looks for them again.
func FuzzText(f *testing.F) {
	f.Add("hello\nhello world\nhelp")
	f.Add("你好世界\n你好吗\n\xe4\xbd\n\xe4\xbd\xa0")
	f.Add("a\x80\x80\x80\x80\na\x80\x80\x80\x81\na\x80\na\nb\x80")
	f.Add("\x80\n\x80\x80\n\x81a")
	f.Fuzz(func(t *testing.T, lines string) {
		tree := radix.NewText(roomy)
		texts := strings.Split(lines, "\n")
		for i, text := range texts {
			query := unitsOf(text)
			best := 0
			for _, other := range texts[:i] {
				u, n := unitsOf(other), 0
				for n < min(len(u), len(query)) && u[n] == query[n] {
					n++
				}
				best = max(best, n)
			}
			got := look(tree, text)
			if valid := utf8.ValidString(lines); got.Input != len(query) || got.Matched > best || valid && (got.Matched != best || got.Input != utf8.RuneCountInString(text)) {
				t.Fatalf("%q: %+v, want %d of %d", text, got, best, len(query))
			}
			put(tree, text, i%3)
			if got := look(tree, text); utf8.ValidString(lines) && got.Matched != got.Input {
				t.Fatalf("%q after the insert: %+v", text, got)
			}
		}
		sound(t, &tree.Forest)
		tree.Evict(tree.Stats().Units / 2)
		sound(t, &tree.Forest)
		tree.Evict(0)
		if tree.Stats() != (radix.Stats{}) {
			t.Fatalf("left: %+v", tree.Stats())
		}
	})
}

// FuzzTokens inserts any tokens and looks for them again.
func FuzzTokens(f *testing.F) {
	f.Add(uint8(1), "abc\nabd")
	f.Add(uint8(4), "aaaabbbb\naaaabbbc\naaa")
	f.Fuzz(func(t *testing.T, page uint8, lines string) {
		size := int(page%16) + 1
		tree := radix.NewTokens(size, roomy)
		var p radix.Place
		for i, line := range strings.Split(lines, "\n") {
			tokens := pagesOf(line, 1)
			whole := len(tokens) / size * size
			tree.Match(&p, 0, tokens)
			if p.Matched > whole || p.Matched%size != 0 || p.Input != len(tokens) {
				t.Fatalf("%v: matched %d of %d", tokens, p.Matched, p.Input)
			}
			tree.Insert(&p, id(i%3))
			if tree.Match(&p, 0, tokens); p.Matched != whole {
				t.Fatalf("%v after the insert: matched %d", tokens, p.Matched)
			}
		}
		sound(t, &tree.Forest)
	})
}
