package regex

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode/utf8"
)

// recorded are patterns, and hashes of what the reference matches in each text.
type recorded struct {
	Texts    []string
	Patterns []json.RawMessage
}

func read(tb testing.TB) (texts []string, patterns []string, want [][]string) {
	f, err := os.Open("../testdata/patterns.json.gz")
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		tb.Fatal(err)
	}
	var g recorded
	if err := json.NewDecoder(z).Decode(&g); err != nil {
		tb.Fatal(err)
	}
	for _, raw := range g.Patterns {
		var p string
		var hashes []string
		if err := json.Unmarshal(raw, &[]any{&p, &hashes}); err != nil {
			tb.Fatal(err)
		}
		patterns, want = append(patterns, p), append(want, hashes)
	}
	return g.Texts, patterns, want
}

// Every match is where the reference has it.
func TestMatchesAreTheReferences(t *testing.T) {
	texts, patterns, want := read(t)
	if len(patterns) < 60 {
		t.Fatalf("%d patterns", len(patterns))
	}
	for i, p := range patterns {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			re, err := Compile(p)
			if (err != nil) != (want[i] == nil) {
				t.Fatalf("%q: %v; the reference knows it: %v", p, err, want[i] != nil)
			}
			if err != nil {
				return
			}
			for j, text := range texts {
				spans, err := re.Split(nil, text)
				if err != nil {
					t.Errorf("%q in %.60q: %v", p, text, err)
					continue
				}
				var b strings.Builder
				for _, s := range spans {
					if s.Match && s.Start < s.End {
						if b.Len() > 0 {
							b.WriteByte('|')
						}
						from := utf8.RuneCountInString(text[:s.Start])
						fmt.Fprintf(&b, "%d-%d", from, from+utf8.RuneCountInString(text[s.Start:s.End]))
					}
				}
				sum := sha256.Sum256([]byte(b.String()))
				if hex.EncodeToString(sum[:])[:12] != want[i][j] {
					t.Errorf("%q in %.100q matches %.200s", p, text, b.String())
				}
			}
		})
	}
}

func TestSplit(t *testing.T) {
	tests := []struct{ name, pattern, text, want string }{
		{"between and around", `\d+`, "a12b3", "a [12] b [3]"},
		{"nothing", `x`, "abc", "abc"},
		{"no text", `x*`, "", "[]"},
		{"empty matches", `x*`, "axb", "[] a [x] b []"},
		{"look ahead", `\s+(?!\S)|\s+`, "a   b", "a [  ] [ ] b"},
		{"possessive", `a?+a`, "aa a", "[aa]  a"},
		{"word in brackets", `[\w]+`, "a²", "[a] ²"},
		{"word", `\w+`, "a²", "[a²]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			re, err := Compile(tt.pattern)
			if err != nil {
				t.Fatal(err)
			}
			spans, err := re.Split(nil, tt.text)
			if err != nil {
				t.Fatal(err)
			}
			var parts []string
			for _, s := range spans {
				part := tt.text[s.Start:s.End]
				if s.Match {
					part = "[" + part + "]"
				}
				parts = append(parts, part)
			}
			if got := strings.Join(parts, " "); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	for pattern, want := range map[string]string{
		"(": "without a )", ")": "without a (", "[a": "without a ]", "*": "nothing to repeat", "a{2000}": "repeat", `\1`: `\1`, `\p{Nope}`: "Nope", `\pL`: "without {",
		"(?P=x)": "group", `\`: "backslash", `\x{110000}`: "code point", "[b-a]": "range", `(?<=a*)b`: "look-behind",
		strings.Repeat("(", 200): "deep", strings.Repeat("[", 200): "deep", strings.Repeat("a", maxPattern+1): "longer", "((((a{99}){99}){99}){99})": "too large", "\xff": "UTF-8",
		`\R`: `\R`, "(*FAIL)": "callouts", "(?z)": "(?z",
	} {
		if _, err := Compile(pattern); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: error %v, want one about %q", pattern, err, want)
		}
	}
}

// A pattern that explodes ends with an error, not with the day.
func TestCostly(t *testing.T) {
	re, err := Compile(`(a+)+(a+)+(a+)+b`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := re.Split(nil, strings.Repeat("a", 3000)); !errors.Is(err, ErrCostly) {
		t.Errorf("error %v, want %v", err, ErrCostly)
	}
	if spans, err := re.Split(nil, "aaab"); err != nil || len(spans) != 1 {
		t.Errorf("%v, %v behind it", spans, err)
	}
}

func FuzzRegexp(f *testing.F) {
	_, patterns, _ := read(f)
	for _, p := range patterns {
		f.Add(p, "It's a  test\n\n of ΑΒΓ 123 中文 👍\u0301")
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if len(pattern) > 200 || len(text) > 100 || !utf8.ValidString(text) {
			return
		}
		re, err := Compile(pattern)
		if err != nil {
			return
		}
		spans, err := re.Split(nil, text)
		if err != nil {
			return
		}
		at := 0
		for _, s := range spans {
			if s.Start != at || s.End < s.Start || !utf8.ValidString(text[s.Start:s.End]) {
				t.Fatalf("%q in %q: spans %v have gaps or cut characters", pattern, text, spans)
			}
			at = s.End
		}
		if at != len(text) {
			t.Fatalf("%q in %q: spans %v end at %d", pattern, text, spans, at)
		}
	})
}
