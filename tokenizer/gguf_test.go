package tokenizer

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"slices"
	"sort"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// ggufWriter makes files for tests.
type ggufWriter struct {
	b    bytes.Buffer
	keys uint64
}

func (w *ggufWriter) num(v any) { binary.Write(&w.b, binary.LittleEndian, v) }

func (w *ggufWriter) str(s string) {
	w.num(uint64(len(s)))
	w.b.WriteString(s)
}

func (w *ggufWriter) put(key string, v any) {
	w.keys++
	w.str(key)
	switch v := v.(type) {
	case string:
		w.num(uint32(ggufString))
		w.str(v)
	case bool:
		w.num(uint32(ggufBool))
		w.num(v)
	case uint32:
		w.num(uint32(ggufU32))
		w.num(v)
	case uint64:
		w.num(uint32(ggufU64))
		w.num(v)
	case []string:
		w.num(uint32(ggufArray))
		w.num(uint32(ggufString))
		w.num(uint64(len(v)))
		for _, s := range v {
			w.str(s)
		}
	case []float32:
		w.list(ggufF32, len(v), v)
	case []int32:
		w.list(ggufI32, len(v), v)
	case []byte:
		w.list(ggufU8, len(v), v)
	}
}

func (w *ggufWriter) list(of, n int, v any) {
	w.num(uint32(ggufArray))
	w.num(uint32(of))
	w.num(uint64(n))
	w.num(v)
}

func (w *ggufWriter) file() []byte {
	var head bytes.Buffer
	head.WriteString(ggufMagic)
	binary.Write(&head, binary.LittleEndian, uint32(3))
	binary.Write(&head, binary.LittleEndian, uint64(0))
	binary.Write(&head, binary.LittleEndian, w.keys)
	return append(head.Bytes(), w.b.Bytes()...)
}

// vocabOf are the tokens of a recorded tokenizer by id, and their types.
func vocabOf(t *testing.T, k *kind) (tokens []string, types []int32, file modelFile) {
	var d document
	if err := json.Unmarshal(k.Tokenizer, &d); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(d.Model, &file); err != nil {
		t.Fatal(err)
	}
	for id := range uint32(k.tokenizer.Size()) {
		s, _ := k.tokenizer.Token(id)
		kind := int32(1)
		switch {
		case k.tokenizer.Special(id):
			kind = ggufControl
		case len(s) == 6 && strings.HasPrefix(s, "<0x"):
			kind = ggufByte
		}
		tokens, types = append(tokens, s), append(types, kind)
	}
	return tokens, types, file
}

func build(t *testing.T, w *ggufWriter) *Tokenizer {
	t.Helper()
	g, err := ReadGGUF(bytes.NewReader(w.file()))
	if err != nil {
		t.Fatal(err)
	}
	tok, err := g.Tokenizer()
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// A byte-level vocabulary in a GGUF file gives the ids of its tokenizer.json.
func TestGGUFByteLevel(t *testing.T) {
	for name, pre := range map[string]string{
		"gpt2": "gpt-2", "llama3": "llama-bpe", "o200k": "gpt-4o", "deepseek3": "deepseek-v3", "deepseek_coder": "deepseek-coder", "starcoder": "starcoder",
	} {
		t.Run(name, func(t *testing.T) {
			k := goldenKind(t, name)
			tokens, types, file := vocabOf(t, k)
			var pairs [][2]string
			if err := json.Unmarshal(file.Merges, &pairs); err != nil {
				t.Fatal(err)
			}
			merges := make([]string, len(pairs))
			for i, p := range pairs {
				merges[i] = p[0] + " " + p[1]
			}
			w := &ggufWriter{}
			w.put("general.architecture", "test")
			w.put("test.context_length", uint32(4096))
			w.put("test.other", []float32{1, 2, 3})
			w.put("tokenizer.ggml.model", "gpt2")
			w.put("tokenizer.ggml.pre", pre)
			w.put("tokenizer.ggml.tokens", tokens)
			w.put("tokenizer.ggml.token_type", types)
			w.put("tokenizer.ggml.merges", merges)
			w.put("tokenizer.ggml.add_bos_token", false)
			w.put("tokenizer.chat_template", "{{ messages }}")
			tok := build(t, w)
			for i, text := range goldenTexts(t) {
				got, err := tok.Encode(text, true)
				if err != nil || !slices.Equal(got, k.IDs[i]) {
					t.Errorf("text %d %.60q: %.200v (%v), want %.200v", i, text, got, err, k.IDs[i])
				}
				if a, b := tok.Decode(got, true), k.tokenizer.Decode(got, true); a != b {
					t.Errorf("text %d is decoded to %.60q, want %.60q", i, a, b)
				}
			}
		})
	}
}

// naive is SentencePiece's BPE, as its paper has it: join the pair with the best
// score, the first of equals, until none is left.
func naive(text string, ids map[string]int, scores []float32, g *GGUF) (out []int) {
	var parts []string
	for _, r := range text {
		parts = append(parts, string(r))
	}
	for {
		best, at := float32(0), -1
		for i := 0; i+1 < len(parts); i++ {
			if id, ok := ids[parts[i]+parts[i+1]]; ok && g.plain(id) && (at < 0 || scores[id] > best) {
				best, at = scores[id], i
			}
		}
		if at < 0 {
			break
		}
		parts[at] += parts[at+1]
		parts = slices.Delete(parts, at+1, at+2)
	}
	for _, p := range parts {
		if id, ok := ids[p]; ok && g.plain(id) {
			out = append(out, id)
			continue
		}
		for i := range len(p) {
			out = append(out, ids["<0x"+strings.ToUpper(string("0123456789abcdef"[p[i]>>4])+string("0123456789abcdef"[p[i]&15]))+">"])
		}
	}
	return out
}

func TestGGUFSentencePiece(t *testing.T) {
	k := goldenKind(t, "llama2")
	tokens, types, _ := vocabOf(t, k)
	types[0] = ggufUnknown
	// Longer tokens come later; many have equal scores.
	order := make([]int, len(tokens))
	for i := range order {
		order[i] = i
	}
	sort.SliceStable(order, func(a, b int) bool { return len(tokens[order[a]]) < len(tokens[order[b]]) })
	scores := make([]float32, len(tokens))
	ids := map[string]int{}
	for rank, id := range order {
		scores[id] = -float32(rank / 7)
		ids[tokens[id]] = id
	}
	w := &ggufWriter{}
	w.put("tokenizer.ggml.model", "llama")
	w.put("tokenizer.ggml.tokens", tokens)
	w.put("tokenizer.ggml.scores", scores)
	w.put("tokenizer.ggml.token_type", types)
	w.put("tokenizer.ggml.bos_token_id", uint32(1))
	w.put("tokenizer.ggml.eos_token_id", uint32(2))
	w.put("tokenizer.ggml.unknown_token_id", ^uint32(0)) // none
	tok := build(t, w)
	file, err := ReadGGUF(bytes.NewReader(w.file()))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"bos_token": "<s>", "eos_token": "</s>"}, file.Named()); diff != "" {
		t.Error(diff)
	}
	g := &GGUF{Types: types}
	for i, text := range goldenTexts(t) {
		if len(text) > 400 || !utf8.ValidString(text) || strings.Contains(text, "s>") || text == "" {
			continue
		}
		got, err := tok.Encode(text, true)
		if err != nil {
			t.Fatal(err)
		}
		want := []uint32{1}
		for _, id := range naive(strings.ReplaceAll("▁"+text, " ", "▁"), ids, scores, g) {
			want = append(want, uint32(id))
		}
		if !slices.Equal(got, want) {
			t.Errorf("text %d %.60q: %.200v, want %.200v", i, text, got, want)
		}
		if back := tok.Decode(got, true); back != text && !strings.Contains(text, "▁") {
			t.Errorf("text %d: %.60q comes back as %.60q", i, text, back)
		}
	}
}

func TestGGUFUnigram(t *testing.T) {
	k := goldenKind(t, "t5")
	m := k.tokenizer.model.(*unigram)
	scores := make([]float32, len(m.scores))
	for i, s := range m.scores {
		scores[i] = float32(s)
	}
	tokens, types, _ := vocabOf(t, k)
	var d struct {
		Normalizer struct {
			Charsmap string `json:"precompiled_charsmap"`
		}
	}
	if err := json.Unmarshal(k.Tokenizer, &d); err != nil {
		t.Fatal(err)
	}
	blob, err := base64.StdEncoding.DecodeString(d.Normalizer.Charsmap)
	if err != nil {
		t.Fatal(err)
	}
	w := &ggufWriter{}
	w.put("tokenizer.ggml.model", "t5")
	w.put("tokenizer.ggml.tokens", tokens)
	w.put("tokenizer.ggml.scores", scores)
	w.put("tokenizer.ggml.token_type", types)
	w.put("tokenizer.ggml.unknown_token_id", uint32(m.unk))
	w.put("tokenizer.ggml.eos_token_id", uint32(2))
	w.put("tokenizer.ggml.precompiled_charsmap", blob)
	w.put("tokenizer.ggml.remove_extra_whitespaces", false)
	tok := build(t, w)
	differ := 0
	texts := goldenTexts(t)
	for i, text := range texts {
		got, err := tok.Encode(text, false)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, k.IDs[i]) {
			differ++ // scores of half the precision: ties fall otherwise
		}
	}
	if differ > len(texts)/50 {
		t.Errorf("%d of %d texts differ", differ, len(texts))
	}
}

func TestGGUFWordPiece(t *testing.T) {
	k := goldenKind(t, "bert")
	tokens, types, _ := vocabOf(t, k)
	for i, s := range tokens {
		if types[i] != 1 {
			continue
		}
		if rest, ok := strings.CutPrefix(s, "##"); ok {
			tokens[i] = rest
		} else {
			tokens[i] = "▁" + s
		}
	}
	w := &ggufWriter{}
	w.put("tokenizer.ggml.model", "bert")
	w.put("tokenizer.ggml.tokens", tokens)
	w.put("tokenizer.ggml.token_type", types)
	w.put("tokenizer.ggml.unknown_token_id", uint32(0))
	w.put("tokenizer.ggml.cls_token_id", uint32(1))
	w.put("tokenizer.ggml.seperator_token_id", uint32(2))
	tok := build(t, w)
	for i, text := range goldenTexts(t) {
		got, err := tok.Encode(text, true)
		if want := slices.Concat([]uint32{1}, k.IDs[i], []uint32{2}); err != nil || !slices.Equal(got, want) {
			t.Errorf("text %d %.60q: %.200v (%v), want %.200v", i, text, got, err, want)
		}
	}
}

func TestGGUFRefused(t *testing.T) {
	file := func(put func(w *ggufWriter)) []byte {
		w := &ggufWriter{}
		put(w)
		return w.file()
	}
	good := file(func(w *ggufWriter) {
		w.put("tokenizer.ggml.model", "gpt2")
		w.put("tokenizer.ggml.pre", "gpt-2")
		w.put("tokenizer.ggml.tokens", []string{"a", "b", "ab"})
		w.put("tokenizer.ggml.merges", []string{"a b"})
	})
	for n := range good {
		if _, err := ReadGGUF(bytes.NewReader(good[:n])); err == nil {
			t.Errorf("%d of %d bytes are taken", n, len(good))
		}
	}
	huge := slices.Clone(good)
	binary.LittleEndian.PutUint64(huge[16:], 1<<60)
	if _, err := ReadGGUF(bytes.NewReader(huge)); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("2^60 keys: %v", err)
	}
	tests := []struct {
		name string
		put  func(w *ggufWriter)
		want string
	}{
		{"no tokens", func(w *ggufWriter) { w.put("tokenizer.ggml.model", "gpt2") }, "tokens"},
		{"no model", func(w *ggufWriter) { w.put("tokenizer.ggml.tokens", []string{"a"}) }, "model is missing"},
		{"another model", func(w *ggufWriter) {
			w.put("tokenizer.ggml.tokens", []string{"a"})
			w.put("tokenizer.ggml.model", "rwkv")
		}, "rwkv"},
		{"another split", func(w *ggufWriter) {
			w.put("tokenizer.ggml.tokens", []string{"a"})
			w.put("tokenizer.ggml.model", "gpt2")
			w.put("tokenizer.ggml.pre", "unheard-of")
		}, "unheard-of"},
		{"merge of nothing", func(w *ggufWriter) {
			w.put("tokenizer.ggml.tokens", []string{"a"})
			w.put("tokenizer.ggml.model", "gpt2")
			w.put("tokenizer.ggml.pre", "gpt-2")
			w.put("tokenizer.ggml.merges", []string{"a", "b"})
		}, "merges[0]"},
		{"no scores", func(w *ggufWriter) {
			w.put("tokenizer.ggml.tokens", []string{"a"})
			w.put("tokenizer.ggml.model", "llama")
		}, "scores"},
		{"scores for others", func(w *ggufWriter) {
			w.put("tokenizer.ggml.tokens", []string{"a"})
			w.put("tokenizer.ggml.scores", []float32{1, 2})
			w.put("tokenizer.ggml.model", "llama")
		}, "2 scores"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g, err := ReadGGUF(bytes.NewReader(file(tt.put)))
			if err == nil {
				_, err = g.Tokenizer()
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one about %q", err, tt.want)
			}
		})
	}
}
