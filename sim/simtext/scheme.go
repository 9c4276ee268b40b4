package simtext

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"unicode/utf8"
)

// Scheme is how text and tokens belong together.
type Scheme uint8

// The schemes. Hashed tokens are pieces of words, see [Tokenize], which no file can
// list. With Bytes each byte of a prompt is a token, while answers are made of words as
// before: that can be written down as a tokenizer, see [WriteTokenizer].
const (
	Hashed Scheme = iota
	Bytes
)

// byteBase is the token of byte 0; the others follow, and then the words of answers.
const byteBase Token = 16

// Tokenize returns the tokens of a prompt.
func (s Scheme) Tokenize(text string) []Token {
	if s == Hashed {
		return Tokenize(text)
	}
	ids := make([]Token, len(text))
	for i := range len(text) {
		ids[i] = byteBase + Token(text[i])
	}
	return ids
}

// ids says which token a piece of an answer is.
func (s Scheme) ids() func(piece string) Token {
	if s == Hashed {
		return pieceID
	}
	all := vocabulary()
	return func(piece string) Token { return all[piece] }
}

// vocabulary are the pieces that have a token with [Bytes]: bytes, and then what answers
// are made of, one by one, since hashes can meet.
func vocabulary() map[string]Token {
	all := map[string]Token{}
	for b := range 256 {
		all[string([]byte{byte(b)})] = byteBase + Token(b)
	}
	next := byteBase + 256
	for _, word := range words() {
		for _, piece := range []string{word, " " + word, capitalise(word), " " + capitalise(word)} {
			if _, known := all[piece]; !known {
				all[piece] = next
				next++
			}
		}
	}
	return all
}

// eosPiece is how EOS is called in the tokenizer.
const eosPiece = "<|eos|>"

// ChatTemplate makes of messages of text what [FlattenChat] makes of them.
const ChatTemplate = `{%- for m in messages -%}` +
	`{{- '<|' + m['role'] + '|>\n' -}}` +
	`{%- if m['content'] is string -%}{{- m['content'] -}}` +
	`{%- elif m['content'] -%}{%- for p in m['content'] -%}{%- if not loop.first -%}{{- '\n' -}}{%- endif -%}{{- p['text'] -}}{%- endfor -%}{%- endif -%}` +
	`{{- '\n' -}}{%- endfor -%}` +
	`{%- if add_generation_prompt -%}{{- '<|assistant|>\n' -}}{%- endif -%}`

// WriteTokenizer writes the tokenizer of [Bytes] into a folder, which is made if it is
// not there: tokenizer.json and tokenizer_config.json, as models have them.
func WriteTokenizer(dir string) error {
	pieces := map[string]Token{}
	for piece, id := range vocabulary() {
		pieces[byteLevel(piece)] = id
	}
	byteLevelPart := map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}
	files := map[string]any{
		"tokenizer.json": map[string]any{
			"version": "1.0", "truncation": nil, "padding": nil, "normalizer": nil, "post_processor": nil,
			"added_tokens": []any{map[string]any{
				"id": EOS, "content": eosPiece, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true,
			}},
			"pre_tokenizer": byteLevelPart, "decoder": byteLevelPart,
			"model": map[string]any{
				"type": "BPE", "dropout": nil, "unk_token": nil, "continuing_subword_prefix": nil, "end_of_word_suffix": nil,
				"fuse_unk": false, "byte_fallback": false, "ignore_merges": false, "vocab": pieces, "merges": []any{},
			},
		},
		"tokenizer_config.json": map[string]any{
			"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": eosPiece, "chat_template": ChatTemplate, "clean_up_tokenization_spaces": false,
		},
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write the tokenizer: %w", err)
	}
	for name, content := range files {
		raw, err := json.MarshalIndent(content, "", " ")
		if err != nil {
			return fmt.Errorf("write the tokenizer: %w", err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), raw, 0o644); err != nil {
			return fmt.Errorf("write the tokenizer: %w", err)
		}
	}
	return nil
}

// byteLevel is a piece in the alphabet of byte-level tokenizers, which have a visible
// character for each byte.
func byteLevel(piece string) string {
	var out []byte
	for i := range len(piece) {
		out = utf8.AppendRune(out, byteRune(piece[i]))
	}
	return string(out)
}

// byteRune is the character of a byte: itself where it is visible in Latin-1, or else the
// next one from U+0100 on.
func byteRune(b byte) rune {
	visible := func(b int) bool { return b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae }
	if visible(int(b)) {
		return rune(b)
	}
	n := rune(0)
	for c := range int(b) {
		if !visible(c) {
			n++
		}
	}
	return 0x100 + n
}
