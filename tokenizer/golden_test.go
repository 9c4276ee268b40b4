package tokenizer

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

var recorded = flag.String("recorded", "testdata", "folder of recorded tokenizers and texts")

// kind is a tokenizer of the reference, and what the reference makes of the texts
// (test/tokenizer/record.py).
type kind struct {
	Tokenizer json.RawMessage   `json:"tokenizer"`
	IDs       [][]uint32        `json:"ids"`     // null: refused
	Special   [][][]uint32      `json:"special"` // before and after, with special tokens
	Decoded   []*string         `json:"decoded"` // hashes; null: the reference fails
	Skipped   []*string         `json:"skipped"`
	Sequences []json.RawMessage `json:"sequences"` // ids and their text
	name      string
	tokenizer *Tokenizer
}

func readGolden(tb testing.TB, path string, v any) {
	tb.Helper()
	f, err := os.Open(path)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		tb.Fatal(err)
	}
	if err := json.NewDecoder(z).Decode(v); err != nil {
		tb.Fatalf("%s: %v", path, err)
	}
}

// goldenTexts are the texts: valid ones, and byte strings that need not be.
func goldenTexts(tb testing.TB) []string {
	var g struct{ Texts, Bytes []string }
	readGolden(tb, filepath.Join(*recorded, "texts.json.gz"), &g)
	for _, b := range g.Bytes {
		raw, err := base64.StdEncoding.DecodeString(b)
		if err != nil {
			tb.Fatal(err)
		}
		g.Texts = append(g.Texts, string(raw))
	}
	return g.Texts
}

// kinds are those that a test has read; they are not changed.
var kinds sync.Map

func goldenKind(tb testing.TB, name string) *kind {
	if k, ok := kinds.Load(name); ok {
		return k.(*kind)
	}
	k := &kind{name: name}
	readGolden(tb, filepath.Join(*recorded, "kind_"+name+".json.gz"), k)
	t, err := Parse(k.Tokenizer)
	if err != nil {
		tb.Fatalf("%s: %v", name, err)
	}
	k.tokenizer = t
	kinds.Store(name, k)
	return k
}

func goldenNames(tb testing.TB) []string {
	paths, err := filepath.Glob(filepath.Join(*recorded, "kind_*.json.gz"))
	if err != nil || len(paths) < 20 {
		tb.Fatalf("%d recorded tokenizers (%v), want at least 20", len(paths), err)
	}
	names := make([]string, len(paths))
	for i, p := range paths {
		names[i] = strings.TrimSuffix(strings.TrimPrefix(filepath.Base(p), "kind_"), ".json.gz")
	}
	return names
}

func shortHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])[:12]
}

// Every id is that of the reference, on every text.
func TestEncodeIsTheReferences(t *testing.T) {
	texts := goldenTexts(t)
	for _, name := range goldenNames(t) {
		t.Run(name, func(t *testing.T) {
			k := goldenKind(t, name)
			wrong := 0
			for i, text := range texts {
				ids, err := k.tokenizer.Encode(text, false)
				if (err != nil) != (k.IDs[i] == nil) {
					t.Errorf("text %d %.60q: error %v, the reference refused: %v", i, text, err, k.IDs[i] == nil)
					continue
				}
				if err != nil {
					continue
				}
				if !slices.Equal(ids, k.IDs[i]) {
					if wrong++; wrong <= 5 {
						at := 0
						for at < len(ids) && at < len(k.IDs[i]) && ids[at] == k.IDs[i][at] {
							at++
						}
						t.Errorf("text %d %.80q: %d ids, want %d; from %d on %s, want %s", i, text, len(ids), len(k.IDs[i]), at,
							show(k.tokenizer, ids, at), show(k.tokenizer, k.IDs[i], at))
					}
					continue
				}
				with, err := k.tokenizer.Encode(text, true)
				want := slices.Concat(k.Special[i][0], k.IDs[i], k.Special[i][1])
				if err != nil || !slices.Equal(with, want) {
					if wrong++; wrong <= 5 {
						t.Errorf("text %d %.60q with special tokens: %.200v (%v), want %.200v", i, text, with, err, want)
					}
				}
			}
			if wrong > 0 {
				t.Errorf("%d of %d texts differ", wrong, len(texts))
			}
		})
	}
}

func show(t *Tokenizer, ids []uint32, at int) string {
	var b strings.Builder
	for _, id := range ids[at:min(at+8, len(ids))] {
		s, _ := t.Token(id)
		b.WriteString("[" + s + "]")
	}
	return b.String()
}

func TestDecodeIsTheReferences(t *testing.T) {
	texts := goldenTexts(t)
	for _, name := range goldenNames(t) {
		t.Run(name, func(t *testing.T) {
			k := goldenKind(t, name)
			wrong := 0
			check := func(what string, i int, got string, want *string) {
				if want != nil && shortHash(got) != *want {
					if wrong++; wrong <= 5 {
						t.Errorf("%s of text %d %.60q is %.120q", what, i, texts[i], got)
					}
				}
			}
			for i := range texts {
				ids := k.IDs[i]
				if ids == nil {
					continue
				}
				both := slices.Concat(k.Special[i][0], ids, k.Special[i][1])
				if len(ids) == 0 {
					ids = []uint32{1}
				}
				if len(both) == 0 {
					both = []uint32{1}
				}
				check("decoding", i, k.tokenizer.Decode(ids, false), k.Decoded[i])
				check("decoding without special tokens", i, k.tokenizer.Decode(both, true), k.Skipped[i])
			}
			for _, raw := range k.Sequences {
				var ids []uint32
				var want string
				if err := json.Unmarshal(raw, &[]any{&ids, &want}); err != nil {
					t.Fatal(err)
				}
				if got := k.tokenizer.Decode(ids, false); got != want {
					if wrong++; wrong <= 5 {
						t.Errorf("Decode(%v) = %q, want %q (%s)", ids, got, want, show(k.tokenizer, ids, 0))
					}
				}
			}
			if wrong > 0 {
				t.Errorf("%d differ", wrong)
			}
		})
	}
}
