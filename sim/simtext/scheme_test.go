package simtext

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestVocabulary: no two pieces have one token, so that an answer's text can be made of
// its tokens.
func TestVocabulary(t *testing.T) {
	of := map[Token]string{EOS: eosPiece}
	for piece, id := range vocabulary() {
		if other, taken := of[id]; taken {
			t.Errorf("%q and %q are both token %d", other, piece, id)
		}
		if of[id] = piece; id >= VocabSize {
			t.Errorf("%q is token %d, beyond the vocabulary", piece, id)
		}
	}
}

func TestBytes(t *testing.T) {
	of := map[Token]string{}
	for piece, id := range vocabulary() {
		of[id] = piece
	}
	text := func(tokens []Token) (s string) {
		for _, id := range tokens {
			s += of[id]
		}
		return s
	}
	const prompt = "<|user|>\nGrüße, 世界!\x00\xff"
	tokens := Bytes.Tokenize(prompt)
	if len(tokens) != len(prompt) || text(tokens) != prompt {
		t.Errorf("%d tokens are %q", len(tokens), text(tokens))
	}
	w := Bytes.NewWriter(Lengths{Min: 50, Max: 400})
	for seed := range int64(50) {
		a := w.Answer(tokens, Sampling{Temperature: 1, TopP: 1, Seed: seed, MaxTokens: 500})
		if got := text(a.Tokens); got != a.Text() {
			t.Fatalf("the tokens are %q, and the text %q", got, a.Text())
		}
	}
}

func TestWriteTokenizer(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	if err := WriteTokenizer(dir); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Model struct {
			Vocab map[string]Token `json:"vocab"`
		} `json:"model"`
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	want := map[string]Token{"a": byteBase + 'a', "Ġ": byteBase + ' ', "Ċ": byteBase + '\n', "Ā": byteBase, "ÿ": byteBase + 255, "Ġthe": vocabulary()[" the"], "The": vocabulary()["The"], "ĠZÃ¼rich": vocabulary()[" Zürich"]}
	got := map[string]Token{}
	for piece := range want {
		got[piece] = file.Model.Vocab[piece]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("vocabulary (-want +got):\n%s", diff)
	}
	if len(file.Model.Vocab) != len(vocabulary()) {
		t.Errorf("%d pieces, want %d", len(file.Model.Vocab), len(vocabulary()))
	}
	if err := WriteTokenizer("/dev/null/x"); err == nil {
		t.Error("a folder that cannot be made is no error")
	}
}
