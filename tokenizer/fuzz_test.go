package tokenizer

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

// Any file is refused, or makes a tokenizer that takes any text.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2,"##b":3},"merges":[["a","b"]],"unk_token":"a","byte_fallback":true}}`,
		`{"model":{"type":"BPE","vocab":{"a":0,"##b":1,"ab":2},"merges":["a ##b"],"continuing_subword_prefix":"##","end_of_word_suffix":"</w>"}}`,
		`{"model":{"type":"Unigram","vocab":[["<unk>",0],["a",-1.5],["ab",-2e-3]],"unk_id":0,"byte_fallback":true},"decoder":{"type":"CTC","pad_token":"","word_delimiter_token":"|","cleanup":true}}`,
		`{"model":{"type":"WordPiece","vocab":{"[UNK]":0,"a":1,"##b":2}},"normalizer":{"type":"BertNormalizer"},"pre_tokenizer":{"type":"BertPreTokenizer"},"decoder":{"type":"WordPiece","prefix":"##","cleanup":true}}`,
		`{"model":{"vocab":{"a":0}},"added_tokens":[{"id":5,"content":"<s>","lstrip":true,"rstrip":true,"single_word":true,"special":true}],"post_processor":{"type":"BertProcessing","sep":["a",0],"cls":["a",1]}}`,
		`{"model":{"vocab":{"a":0}},"normalizer":{"type":"Sequence","normalizers":[{"type":"NFKC"},{"type":"Replace","pattern":{"Regex":"\\s+"},"content":""},{"type":"Prepend","prepend":"x"},{"type":"Strip","strip_left":true,"strip_right":true}]}}`,
		`{"model":{"vocab":{"a":0},"unk_token":"a"},"normalizer":{"type":"Precompiled","precompiled_charsmap":"DAAAAAAEAABhAQAAAAAAgGIA"},"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Metaspace","replacement":"▁","prepend_scheme":"first"},{"type":"Digits","individual_digits":true},{"type":"UnicodeScripts"},{"type":"ByteLevel"},{"type":"FixedLength","length":2}]}}`,
		`{"model":{"vocab":{"a":0},"unk_token":"a"},"pre_tokenizer":{"type":"Split","pattern":{"Regex":"(?i:a)+|b"},"behavior":"MergedWithPrevious","invert":true},"decoder":{"type":"Sequence","decoders":[{"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":1},{"type":"Replace","pattern":{"Regex":"a*"},"content":"b"},{"type":"ByteLevel"},{"type":"Metaspace","replacement":"▁"},{"type":"BPEDecoder","suffix":""}]}}`,
	} {
		f.Add([]byte(seed), "A text ab ab▁b<s> 12 \u0301中👍")
	}
	f.Fuzz(func(t *testing.T, file []byte, text string) {
		if len(file) > 4<<10 || len(text) > 200 {
			return
		}
		tok, err := Parse(file)
		if err != nil {
			return
		}
		ids, err := tok.Encode(text, true)
		if err == nil {
			again, err := tok.Encode(text, true)
			if err != nil || len(again) != len(ids) {
				t.Errorf("the second time %d ids (%v), the first time %d", len(again), err, len(ids))
			}
		}
		ids = append(ids, 0, 1, 2, 1<<31)
		whole := tok.Decode(ids, false)
		s := tok.Stream(false)
		var parts strings.Builder
		for _, id := range ids {
			parts.WriteString(s.Push(id))
		}
		parts.WriteString(s.End())
		if parts.String() != whole && !fallsBack(tok) {
			t.Errorf("parts make %q, the whole is %q", parts.String(), whole)
		}
	})
}

func FuzzGGUF(f *testing.F) {
	for _, model := range []string{"gpt2", "llama", "t5", "bert"} {
		w := &ggufWriter{}
		w.put("tokenizer.ggml.model", model)
		w.put("tokenizer.ggml.pre", "qwen2")
		w.put("tokenizer.ggml.tokens", []string{"<unk>", "<s>", "a", "b", "ab", "▁", "<0x41>"})
		w.put("tokenizer.ggml.scores", []float32{0, 0, -1, -2, -3, -4, -5})
		w.put("tokenizer.ggml.token_type", []int32{2, 3, 1, 1, 1, 1, 6})
		w.put("tokenizer.ggml.merges", []string{"a b"})
		w.put("tokenizer.ggml.unknown_token_id", uint32(0))
		w.put("tokenizer.ggml.bos_token_id", uint32(1))
		w.put("general.size", uint64(1))
		f.Add(w.file())
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		g, err := ReadGGUF(bytes.NewReader(file))
		if err != nil {
			return
		}
		tok, err := g.Tokenizer()
		if err != nil {
			return
		}
		ids, err := tok.Encode("ab ab<s> A中", true)
		if err == nil {
			_ = tok.Decode(ids, true)
		}
	})
}

// Byte-level tokens give back any text, and all tokenizers take it.
func FuzzEncode(f *testing.F) {
	for _, text := range goldenTexts(f) {
		if len(text) < 200 {
			f.Add(text)
		}
	}
	exact := map[string]bool{"gpt2": true, "o200k": true, "deepseek3": true, "starcoder": true}
	var kinds []*kind
	for _, name := range []string{"gpt2", "o200k", "deepseek3", "starcoder", "qwen2", "llama2", "t5", "xlmr", "bert", "clip", "added", "albert"} {
		kinds = append(kinds, goldenKind(f, name))
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, k := range kinds {
			ids, err := k.tokenizer.Encode(text, false)
			if err != nil {
				t.Errorf("%s refuses %q: %v", k.name, text, err)
			}
			back := k.tokenizer.Decode(ids, false)
			if !utf8.ValidString(back) {
				t.Errorf("%s: %q is not UTF-8", k.name, back)
			}
			if want := ValidUTF8(text); exact[k.name] && back != want {
				t.Errorf("%s: %q comes back as %q", k.name, want, back)
			}
		}
	})
}
