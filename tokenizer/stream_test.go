package tokenizer

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

// What comes in parts is what Decode makes of all ids, and no part is half a
// character; where byte tokens are no text, whole characters may have been shown.
func TestStream(t *testing.T) {
	texts := goldenTexts(t)
	for _, name := range goldenNames(t) {
		t.Run(name, func(t *testing.T) {
			k := goldenKind(t, name)
			rnd := rand.New(rand.NewPCG(1, 2))
			sequences := k.IDs
			for range 200 {
				ids := make([]uint32, rnd.IntN(20))
				for i := range ids {
					ids[i] = uint32(rnd.IntN(k.tokenizer.Size() + 2))
				}
				sequences = append(sequences, ids)
			}
			for i, ids := range sequences {
				skip := i%2 == 0
				s := k.tokenizer.Stream(skip)
				var got strings.Builder
				put := func(part string) {
					if !utf8.ValidString(part) {
						t.Fatalf("sequence %d: a part %q is not whole characters", i, part)
					}
					got.WriteString(part)
				}
				for rest := ids; len(rest) > 0; {
					n := 1 + rnd.IntN(min(3, len(rest)))
					put(s.Push(rest[:n]...))
					rest = rest[n:]
				}
				put(s.End())
				want := k.tokenizer.Decode(ids, skip)
				if got.String() == want {
					continue
				}
				if i < len(texts) || !strings.Contains(want, replacement) || !fallsBack(k.tokenizer) {
					t.Errorf("sequence %d: parts make %.200q, the whole is %.200q", i, got.String(), want)
				}
			}
		})
	}
}

func fallsBack(t *Tokenizer) bool {
	for _, d := range t.dec {
		if _, ok := d.(decByteFallback); ok {
			return true
		}
	}
	return false
}

// Text comes with the token that completes it, not later.
func TestStreamIsPrompt(t *testing.T) {
	for _, name := range []string{"gpt2", "llama2", "gemma", "mistral", "t5", "bert", "added"} {
		k := goldenKind(t, name)
		ids, err := k.tokenizer.Encode("some words, then 👍 and more words", false)
		if err != nil {
			t.Fatal(err)
		}
		s := k.tokenizer.Stream(false)
		shown := ""
		for i, id := range ids {
			shown += s.Push(id)
			whole := k.tokenizer.Decode(ids[:i+1], false)
			if i > 0 && !strings.Contains(whole, replacement) && len(whole)-len(shown) > 1 {
				t.Errorf("%s: %q is shown after %d ids of %q", name, shown, i+1, whole)
			}
		}
	}
}

func TestStopper(t *testing.T) {
	tests := []struct {
		name    string
		stops   []string
		include bool
		text    string
		want    string
		stop    string
	}{
		{name: "none", text: "some text", want: "some text"},
		{name: "not there", stops: []string{"END"}, text: "EN, ENDE is not here: EEN", want: "EN, ", stop: "END"},
		{name: "never", stops: []string{"STOP"}, text: "STO STO STO", want: "STO STO STO"},
		{name: "at once", stops: []string{"a"}, text: "abc", want: "", stop: "a"},
		{name: "included", stops: []string{"\n\n"}, include: true, text: "one\n\ntwo", want: "one\n\n", stop: "\n\n"},
		{name: "overlapping beginnings", stops: []string{"aab"}, text: "aaaab", want: "aa", stop: "aab"},
		{name: "first to end wins", stops: []string{"abcd", "bc"}, text: "xabcd", want: "xa", stop: "bc"},
		{name: "longest of the same end", stops: []string{"c", "abc"}, text: "xabc", want: "x", stop: "abc"},
		{name: "falls to a shorter one", stops: []string{"abx", "b"}, text: "ab", want: "a", stop: "b"},
		{name: "characters", stops: []string{"。"}, text: "你好。再见", want: "你好", stop: "。"},
		{name: "half of another character", stops: []string{"中"}, text: "丮丯中", want: "丮丯", stop: "中"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for size := 1; size <= len(tt.text); size++ {
				s, err := NewStopper(tt.stops, tt.include)
				if err != nil {
					t.Fatal(err)
				}
				var got strings.Builder
				for rest := tt.text; rest != ""; {
					n := min(size, len(rest))
					part, over := s.Push(rest[:n])
					got.WriteString(part)
					if rest = rest[n:]; over {
						break
					}
					longest := 0
					seen := tt.text[:len(tt.text)-len(rest)]
					for _, stop := range tt.stops {
						for k := 1; k < len(stop); k++ {
							if strings.HasSuffix(seen, stop[:k]) {
								longest = max(longest, k)
							}
						}
					}
					if held := len(seen) - got.Len(); held != longest {
						t.Errorf("by %d: %d bytes of %q are held back, want %d", size, held, seen, longest)
					}
				}
				got.WriteString(s.End())
				stop, _ := s.Matched()
				if got.String() != tt.want || stop != tt.stop {
					t.Errorf("by %d: %q stopped by %q, want %q by %q", size, got.String(), stop, tt.want, tt.stop)
				}
			}
		})
	}
	for _, bad := range [][]string{{""}, {"a", ""}, make([]string, maxStops+1), {strings.Repeat("a", maxStopBytes+1)}} {
		if _, err := NewStopper(bad, false); err == nil {
			t.Errorf("%d stop strings are taken", len(bad))
		}
	}
}

func TestAnswer(t *testing.T) {
	k := goldenKind(t, "gpt2")
	end, _ := k.tokenizer.ID("<|im_end|>")
	ids, err := k.tokenizer.Encode("The answer is 42. Then 👍 more.<|im_end|>tail", false)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		out  Output
		want string
		stop string
		id   uint32
		byID bool
	}{
		{name: "all", out: Output{}, want: "The answer is 42. Then 👍 more.<|im_end|>tail"},
		{name: "special tokens skipped", out: Output{SkipSpecial: true}, want: "The answer is 42. Then 👍 more.tail"},
		{name: "stop id", out: Output{StopIDs: []uint32{end}}, want: "The answer is 42. Then 👍 more.", id: end, byID: true},
		{name: "stop id shown", out: Output{StopIDs: []uint32{end}, IncludeStop: true}, want: "The answer is 42. Then 👍 more.<|im_end|>", id: end, byID: true},
		{name: "stop string across tokens", out: Output{Stops: []string{"2. The"}}, want: "The answer is 4", stop: "2. The"},
		{name: "stop string shown", out: Output{Stops: []string{"👍"}, IncludeStop: true}, want: "The answer is 42. Then 👍", stop: "👍"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, err := k.tokenizer.Answer(tt.out)
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			for _, id := range ids {
				part, over := a.Push(id)
				got.WriteString(part)
				if over {
					break
				}
			}
			got.WriteString(a.End())
			stop, id, byID, ok := a.Stopped()
			if got.String() != tt.want || stop != tt.stop || id != tt.id || byID != tt.byID || ok != (byID || stop != "") {
				t.Errorf("%q stopped by %q or %d (%v, %v), want %q by %q or %d (%v)", got.String(), stop, id, byID, ok, tt.want, tt.stop, tt.id, tt.byID)
			}
			if part, over := a.Push(ids[0]); part != "" || !over {
				t.Errorf("behind the end comes %q", part)
			}
		})
	}
}
