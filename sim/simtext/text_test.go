package simtext

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func pieces(text string) []string {
	var out []string
	for len(text) > 0 {
		n := piece(text)
		out = append(out, text[:n])
		text = text[n:]
	}
	return out
}

func TestPieces(t *testing.T) {
	tests := []struct {
		name, text string
		want       []string
	}{
		{name: "words take the space before them", text: "a bc  d", want: []string{"a", " bc", " ", " d"}},
		{name: "long words are cut", text: "incomprehensible", want: []string{"incompre", "hensible"}},
		{name: "characters stay whole", text: "aaaaaaaéé", want: []string{"aaaaaaa", "éé"}},
		{name: "punctuation stands alone", text: "x, y.\n", want: []string{"x", ",", " y", ".", "\n"}},
		{name: "markers", text: "<|user|>hi<|No|>", want: []string{"<|user|>", "hi", "<", "|", "No", "|", ">"}},
		{name: "a marker without a name", text: "<||>", want: []string{"<", "|", "|", ">"}},
		{name: "stray continuation bytes", text: strings.Repeat("\x80", 9), want: []string{strings.Repeat("\x80", 8), "\x80"}},
		{name: "a space at the end", text: "a ", want: []string{"a", " "}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, pieces(tc.text)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPiecesLoseNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		got := pieces(text)
		if strings.Join(got, "") != text {
			t.Fatalf("%q became %q", text, got)
		}
		for _, p := range got {
			if utf8.ValidString(text) && !utf8.ValidString(p) {
				t.Fatalf("%q splits a character", p)
			}
		}
	})
}

func drawSampling(t *rapid.T) Sampling {
	return Sampling{
		Temperature: rapid.SampledFrom([]float64{0, 0.7}).Draw(t, "temperature"),
		Seed:        rapid.Int64().Draw(t, "seed"),
		Choice:      rapid.IntRange(0, 3).Draw(t, "choice"),
		MaxTokens:   rapid.IntRange(0, 120).Draw(t, "max"),
		MinTokens:   rapid.IntRange(0, 20).Draw(t, "min"),
		IgnoreEOS:   rapid.Bool().Draw(t, "ignore_eos"),
		Stop:        rapid.SliceOfN(rapid.SampledFrom([]string{"a", ".", "the ", "e t", "\n", ""}), 0, 2).Draw(t, "stop"),
		KeepStop:    rapid.Bool().Draw(t, "keep"),
	}
}

func TestAnswerProperties(t *testing.T) {
	w := NewWriter(Lengths{Min: 5, Max: 60})
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "prompt")
		prompt := Tokenize(text)
		s := drawSampling(t)
		a := w.Answer(prompt, s)
		if diff := cmp.Diff(a, w.Answer(slices.Clone(prompt), s)); diff != "" {
			t.Fatalf("not a function of its input: %s", diff)
		}
		if len(a.Tokens) > s.MaxTokens || len(a.Deltas) != len(a.Tokens) {
			t.Fatalf("%d tokens, %d deltas, at most %d", len(a.Tokens), len(a.Deltas), s.MaxTokens)
		}
		for _, stop := range s.Stop {
			if stop != "" && !s.KeepStop && s.MinTokens == 0 && strings.Contains(a.Text(), stop) {
				t.Fatalf("%q contains the stop %q", a.Text(), stop)
			}
		}
		if s.KeepStop && a.StopString != "" && !strings.HasSuffix(a.Text(), a.StopString) {
			t.Fatalf("%q does not end with the stop %q", a.Text(), a.StopString)
		}
		for _, d := range a.Deltas {
			if !utf8.ValidString(d) && len(s.Stop) == 0 {
				t.Fatalf("delta %q splits a character", d)
			}
		}
		if a.StopString == "" && a.Finish == FinishLength && len(a.Tokens) != s.MaxTokens {
			t.Fatalf("length after %d of %d tokens", len(a.Tokens), s.MaxTokens)
		}
		// What the engine cached for prompt and answer must be found again
		// when both come back as one text.
		if a.StopString == "" {
			all := append(slices.Clone(prompt), a.Tokens...)
			if again := Tokenize(text + a.Text()); text == "" || strings.HasSuffix(text, "\n") {
				if diff := cmp.Diff(all, again); text != "" && diff != "" {
					t.Fatalf("%q: %s", a.Text(), diff)
				}
			}
		}
	})
}

func TestShorterAnswersArePrefixes(t *testing.T) {
	w := NewWriter(Lengths{Min: 50, Max: 60})
	prompt := Tokenize("tell me a story")
	whole := w.Answer(prompt, Sampling{MaxTokens: 1000})
	if whole.Finish != FinishStop || whole.StopToken != EOS {
		t.Errorf("finish %q %d, want a natural end", whole.Finish, whole.StopToken)
	}
	for n := range len(whole.Tokens) {
		part := w.Answer(prompt, Sampling{MaxTokens: n})
		if part.Finish != FinishLength || !strings.HasPrefix(whole.Text(), part.Text()) {
			t.Fatalf("at %d: %q (%s) is no prefix of %q", n, part.Text(), part.Finish, whole.Text())
		}
	}
}

func TestChoices(t *testing.T) {
	w := NewWriter(Lengths{Min: 20, Max: 20})
	prompt := Tokenize("hello")
	text := func(s Sampling) string { s.MaxTokens = 20; return w.Answer(prompt, s).Text() }
	if text(Sampling{Choice: 0, Seed: 1}) != text(Sampling{Choice: 1, Seed: 2}) {
		t.Error("greedy choices differ")
	}
	hot := Sampling{Temperature: 1, Seed: 1}
	other := hot
	other.Choice = 1
	if text(hot) == text(other) {
		t.Error("sampled choices are equal")
	}
	other = hot
	other.Seed = 2
	if text(hot) == text(other) {
		t.Error("the seed has no influence")
	}
}

// TestGolden pins the answers: recordings of other programs depend on them.
func TestGolden(t *testing.T) {
	prompt, err := FlattenChat([]Message{{Role: "user", Content: json.RawMessage(`"Hello"`)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := NewWriter(Lengths{Min: 16, Max: 160}).Answer(Tokenize(prompt), Sampling{MaxTokens: 12}).Text()
	const want = "Night the thought look take élan city. Near find stone them"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestFlattenChat(t *testing.T) {
	tests := []struct {
		name     string
		messages string
		tools    string
		want     string
		wantErr  string
	}{
		{
			name:     "plain",
			messages: `[{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"}]`,
			want:     "<|system|>\nBe brief.\n<|user|>\nHi\n<|assistant|>\n",
		},
		{
			name:     "parts and null",
			messages: `[{"role":"assistant","content":null},{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]`,
			want:     "<|assistant|>\n\n<|user|>\na\nb\n<|assistant|>\n",
		},
		{
			name:     "tools and calls",
			messages: `[{"role":"assistant","content":"x","tool_calls":[{ "id": "1" }]}]`,
			tools:    `[ {"type": "function"} ]`,
			want:     "<|tools|>\n[{\"type\":\"function\"}]\n<|assistant|>\nx\n[{\"id\":\"1\"}]\n<|assistant|>\n",
		},
		{name: "no role", messages: `[{"content":"x"}]`, wantErr: "messages[0]: role is missing"},
		{name: "content of a wrong type", messages: `[{"role":"user","content":7}]`, wantErr: "must be a string or a list"},
		{name: "part without type", messages: `[{"role":"user","content":[{}]}]`, wantErr: "content[0]: type is missing"},
		{name: "text part without text", messages: `[{"role":"user","content":[{"type":"text"}]}]`, wantErr: "text is missing"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			var messages []Message
			if err := json.Unmarshal([]byte(tc.messages), &messages); err != nil {
				t.Fatal(err)
			}
			got, err := FlattenChat(messages, json.RawMessage(tc.tools))
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Fatalf("error %v, want %q", err, tc.wantErr)
				}
				return
			}
			if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
				t.Error(err, diff)
			}
		})
	}
	media := func(url string) string {
		text, err := FlattenChat([]Message{{Role: "user", Content: json.RawMessage(`[{"type":"image_url","image_url":{"url":"` + url + `"}}]`)}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	if a, b := media("x"), media("y"); a == b || !strings.Contains(a, "<|media|>") {
		t.Errorf("media parts %q, %q", a, b)
	}
}

func TestBlockHashes(t *testing.T) {
	a := Tokenize("one two three four five six seven eight nine")
	whole := BlockHashes(4, a)
	if len(whole) != 2 {
		t.Fatalf("%d full blocks of 9 tokens, want 2", len(whole))
	}
	if diff := cmp.Diff(whole, BlockHashes(4, a[:3], a[3:])); diff != "" {
		t.Errorf("parts change the hashes: %s", diff)
	}
	b := slices.Clone(a)
	b[0]++
	if other := BlockHashes(4, b); other[1] == whole[1] {
		t.Error("the second block does not cover the first")
	}
}

func TestEmbedding(t *testing.T) {
	a, b := Embedding(Tokenize("a"), 64), Embedding(Tokenize("b"), 64)
	if cmp.Equal(a, b) || !cmp.Equal(a, Embedding(Tokenize("a"), 64)) {
		t.Error("not a function of the prompt")
	}
	norm := 0.0
	for _, x := range a {
		norm += float64(x) * float64(x)
	}
	if norm < 0.999 || norm > 1.001 {
		t.Errorf("norm %v, want 1", norm)
	}
}

func TestHashID(t *testing.T) {
	if a := HashID("e", 1); len(a) != 32 || a == HashID("e", 2) || a == HashID("f", 1) || a != HashID("e", 1) {
		t.Errorf("bad id %q", a)
	}
}

func TestVocabularyIsOneTokenEach(t *testing.T) {
	for _, w := range words() {
		for _, p := range []string{w, " " + w, capitalise(w), " " + capitalise(w)} {
			if got := pieces(p); len(got) != 1 {
				t.Errorf("%q is %d tokens", p, len(got))
			}
		}
	}
}

func BenchmarkTokenize32K(b *testing.B) {
	text := strings.Repeat("the quick brown fox jumps over ", 1000)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		Tokenize(text)
	}
}

func BenchmarkAnswer128(b *testing.B) {
	w := NewWriter(Lengths{Min: 16, Max: 160})
	prompt := Tokenize("hello there")
	b.ReportAllocs()
	for b.Loop() {
		w.Answer(prompt, Sampling{MaxTokens: 128, IgnoreEOS: true})
	}
}

func TestMediaHash(t *testing.T) {
	hashes := func(content string) (out []string) {
		t.Helper()
		media, err := MediaOf([]Message{{Role: "user", Content: json.RawMessage(content)}})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range media {
			out = append(out, m.Hash())
		}
		return out
	}
	same := hashes(`[
		{"type":"image_url","image_url":{"url":"http://h/a"}},
		{"image_url": {"detail":"high","url":"http:\/\/h\/a"}, "type": "image_url"},
		{"type":"image_url","image_url":"http://h/a"}]`)
	if len(same) != 3 || same[0] != same[1] || same[1] != same[2] {
		t.Errorf("equal content, hashes %q", same)
	}
	other := hashes(`[{"type":"text","text":"x"},{"type":"video_url","video_url":{"url":"http://h/a"}},{"type":"image_url","image_url":{"url":"http://h/b"}}]`)
	if len(other) != 2 || other[0] == same[0] || other[1] == same[0] {
		t.Errorf("different content, hashes %q", other)
	}
	if sound := hashes(`[{"type":"input_audio","input_audio":{"data":"YQ==","format":"wav"}}]`); len(sound) != 1 {
		t.Errorf("hashes %q", sound)
	}
	if none := hashes(`"text"`); none != nil {
		t.Errorf("hashes of text: %q", none)
	}
	for _, bad := range []string{`[{"type":"image_url"}]`, `[{"type":"image_url","image_url":7}]`, `[{"type":"input_audio"}]`, `[7]`} {
		if _, err := MediaOf([]Message{{Content: json.RawMessage(bad)}}); err == nil {
			t.Errorf("%s is read", bad)
		}
	}
}
