package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"smg/tokenizer/regex"
	"smg/tokenizer/ucd"
)

// gpt2Pattern is how ByteLevel splits words.
const gpt2Pattern = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

// pattern is a string or a regular expression.
type pattern struct {
	String *string
	Regex  *string
}

func (p pattern) compile() (plain string, re *regex.Regexp, err error) {
	switch {
	case p.String != nil && p.Regex == nil:
		return *p.String, nil, nil
	case p.Regex != nil && p.String == nil:
		re, err = regex.Compile(*p.Regex)
		return "", re, err
	}
	return "", nil, errors.New("pattern is neither a String nor a Regex")
}

func loadNormalizer(raw json.RawMessage, depth int) (normalizer, error) {
	if absent(raw) {
		return nil, nil
	}
	s, err := readStep(raw, depth)
	if err != nil {
		return nil, err
	}
	var f struct {
		StripLeft     bool    `json:"strip_left"`
		StripRight    bool    `json:"strip_right"`
		Prepend       string  `json:"prepend"`
		Pattern       pattern `json:"pattern"`
		Content       string  `json:"content"`
		Charsmap      string  `json:"precompiled_charsmap"`
		CleanText     *bool   `json:"clean_text"`
		HandleChinese *bool   `json:"handle_chinese_chars"`
		StripAccents  *bool   `json:"strip_accents"`
		Lowercase     *bool   `json:"lowercase"`
	}
	if s.Type != "Sequence" {
		if err := s.fields(&f); err != nil {
			return nil, err
		}
	}
	switch s.Type {
	case "Sequence":
		var seq normSequence
		err := s.each("normalizers", func(raw json.RawMessage) error {
			n, err := loadNormalizer(raw, depth+1)
			if err == nil && n == nil {
				err = errors.New("is null")
			}
			seq = append(seq, n)
			return err
		})
		return seq, err
	case "NFC":
		return normForm{compose: true}, nil
	case "NFD":
		return normForm{}, nil
	case "NFKC":
		return normForm{compat: true, compose: true}, nil
	case "NFKD":
		return normForm{compat: true}, nil
	case "Lowercase":
		return normLowercase{}, nil
	case "Strip":
		return normStrip{f.StripLeft, f.StripRight}, nil
	case "StripAccents":
		return normFilter(stripAccents), nil
	case "Nmt":
		return normFilter(nmt), nil
	case "Prepend":
		return normPrepend(f.Prepend), nil
	case "ByteLevel":
		return normBytes{}, nil
	case "Replace":
		n := normReplace{content: f.Content}
		n.plain, n.pattern, err = f.Pattern.compile()
		return n, err
	case "Precompiled":
		return decodeCharsmap(f.Charsmap)
	case "BertNormalizer":
		on := func(b *bool) bool { return b == nil || *b }
		n := normBert{clean: on(f.CleanText), chinese: on(f.HandleChinese), lower: on(f.Lowercase)}
		n.accents = n.lower
		if f.StripAccents != nil {
			n.accents = *f.StripAccents
		}
		return n, nil
	}
	return nil, s.unknown()
}

// sequence appends the steps of a member of s that is a list of them.
func sequence[T any](s *step, member string, out []T, depth int, load func([]T, json.RawMessage, int) ([]T, error)) ([]T, error) {
	err := s.each(member, func(raw json.RawMessage) (err error) {
		out, err = load(out, raw, depth+1)
		if err == nil && len(out) > maxSteps {
			err = fmt.Errorf("more than %d", maxSteps)
		}
		return err
	})
	return out, err
}

func loadPreTokenizers(out []preTokenizer, raw json.RawMessage, depth int) ([]preTokenizer, error) {
	if absent(raw) {
		return out, nil
	}
	s, err := readStep(raw, depth)
	if err != nil {
		return nil, err
	}
	if s.Type == "Sequence" {
		return sequence(&s, "pretokenizers", out, depth, loadPreTokenizers)
	}
	var f struct {
		AddPrefixSpace *bool   `json:"add_prefix_space"`
		UseRegex       *bool   `json:"use_regex"`
		Pattern        pattern `json:"pattern"`
		Behavior       string  `json:"behavior"`
		Invert         bool    `json:"invert"`
		Individual     bool    `json:"individual_digits"`
		Delimiter      string  `json:"delimiter"`
		Length         *int    `json:"length"`
		Replacement    string  `json:"replacement"`
		Scheme         *string `json:"prepend_scheme"`
		Split          *bool   `json:"split"`
	}
	if err := s.fields(&f); err != nil {
		return nil, err
	}
	how := isolated
	if f.Behavior != "" {
		var ok bool
		if how, ok = behaviors[f.Behavior]; !ok {
			return nil, fmt.Errorf("%s: behavior %.40q is not known", s.Type, f.Behavior)
		}
	}
	var p preTokenizer
	switch s.Type {
	case "ByteLevel":
		b := &preByteLevel{prefixSpace: f.AddPrefixSpace == nil || *f.AddPrefixSpace}
		if f.UseRegex == nil || *f.UseRegex {
			b.pattern, err = regex.Compile(gpt2Pattern)
		}
		p = b
	case "Split":
		t := &preSplit{behavior: how, invert: f.Invert}
		t.plain, t.pattern, err = f.Pattern.compile()
		p = t
	case "Whitespace":
		p = preWhitespace{}
	case "WhitespaceSplit":
		p = preRunes{in: ucd.Space, behavior: removed}
	case "BertPreTokenizer":
		return append(out, preRunes{in: ucd.Space, behavior: removed}, preRunes{in: isPunctuation, behavior: isolated}), nil
	case "Punctuation":
		p = preRunes{in: isPunctuation, behavior: how}
	case "Digits":
		p = preRunes{in: isNumeric, behavior: contiguous}
		if f.Individual {
			p = preRunes{in: isNumeric, behavior: isolated}
		}
	case "CharDelimiterSplit", "Delimiter":
		r, n := utf8.DecodeRuneInString(f.Delimiter)
		if n == 0 || n != len(f.Delimiter) {
			return nil, fmt.Errorf("%s: delimiter %.40q is not one character", s.Type, f.Delimiter)
		}
		p = preRunes{in: func(c rune) bool { return c == r }, behavior: removed}
	case "UnicodeScripts":
		p = preScripts{}
	case "FixedLength":
		n := preFixed(5)
		if f.Length != nil {
			n = preFixed(*f.Length)
		}
		if n < 1 {
			return nil, fmt.Errorf("FixedLength: length %d is less than 1", n)
		}
		p = n
	case "Metaspace":
		p, err = loadMetaspace(f.Replacement, f.Scheme, f.AddPrefixSpace, f.Split)
	default:
		return nil, s.unknown()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Type, err)
	}
	return append(out, p), nil
}

// loadMetaspace reads what is the same for the pre-tokenizer and the decoder.
func loadMetaspace(mark string, scheme *string, prefixSpace, split *bool) (*preMetaspace, error) {
	how := "always"
	if scheme != nil {
		how = *scheme
	}
	if prefixSpace != nil && !*prefixSpace {
		if scheme != nil && how != "never" {
			return nil, fmt.Errorf("add_prefix_space is false and prepend_scheme %q", how)
		}
		how = "never"
	}
	return newMetaspace(mark, how, split == nil || *split)
}

func loadPost(post []postPiece, raw json.RawMessage, depth int) ([]postPiece, error) {
	if absent(raw) {
		return post, nil
	}
	s, err := readStep(raw, depth)
	if err != nil {
		return nil, err
	}
	pair := func(key string) (uint32, error) {
		var m map[string]json.RawMessage
		if err := s.fields(&m); err != nil {
			return 0, err
		}
		var v []json.RawMessage
		if err := json.Unmarshal(m[key], &v); err != nil || len(v) != 2 {
			return 0, fmt.Errorf("%s: %s is not a token and an id", s.Type, key)
		}
		var id uint32
		if err := json.Unmarshal(v[1], &id); err != nil {
			return 0, fmt.Errorf("%s: %s: %w", s.Type, key, err)
		}
		return id, nil
	}
	switch s.Type {
	case "Sequence":
		err := s.each("processors", func(raw json.RawMessage) (err error) {
			post, err = loadPost(post, raw, depth+1)
			return err
		})
		return post, err
	case "ByteLevel":
		return post, nil // it only moves offsets
	case "BertProcessing", "RobertaProcessing":
		if len(post) > 1 {
			return nil, fmt.Errorf("%s follows a processor that adds tokens", s.Type)
		}
		cls, err := pair("cls")
		if err != nil {
			return nil, err
		}
		sep, err := pair("sep")
		if err != nil {
			return nil, err
		}
		return around(post, cls, sep), nil
	case "TemplateProcessing":
		if len(post) > 1 {
			return nil, fmt.Errorf("%s follows a processor that adds tokens", s.Type)
		}
		return loadTemplate(&s)
	}
	return nil, s.unknown()
}

func loadTemplate(s *step) ([]postPiece, error) {
	var f struct {
		Single []struct {
			Sequence     *struct{ ID string }
			SpecialToken *struct{ ID string }
		} `json:"single"`
		SpecialTokens map[string]struct {
			IDs []uint32 `json:"ids"`
		} `json:"special_tokens"`
	}
	if err := s.fields(&f); err != nil {
		return nil, err
	}
	if len(f.Single) > maxSteps {
		return nil, fmt.Errorf("%s: single has more than %d parts", s.Type, maxSteps)
	}
	var post []postPiece
	for i, p := range f.Single {
		switch {
		case p.Sequence != nil && p.Sequence.ID == "A":
			post = append(post, postPiece{text: true})
		case p.SpecialToken != nil:
			token, ok := f.SpecialTokens[p.SpecialToken.ID]
			if !ok {
				return nil, fmt.Errorf("%s: single[%d]: %.80q is none of special_tokens", s.Type, i, p.SpecialToken.ID)
			}
			post = append(post, postPiece{ids: token.IDs})
		default:
			return nil, fmt.Errorf("%s: single[%d] is neither the text nor a special token", s.Type, i)
		}
	}
	return post, nil
}

func loadDecoders(out []decoder, raw json.RawMessage, depth int) ([]decoder, error) {
	if absent(raw) {
		return out, nil
	}
	s, err := readStep(raw, depth)
	if err != nil {
		return nil, err
	}
	if s.Type == "Sequence" {
		return sequence(&s, "decoders", out, depth, loadDecoders)
	}
	// Content is a string for Replace and a character for Strip; both are strings.
	var f struct {
		Pattern        pattern `json:"pattern"`
		Content        string  `json:"content"`
		Start          int     `json:"start"`
		Stop           int     `json:"stop"`
		Prefix         string  `json:"prefix"`
		Cleanup        bool    `json:"cleanup"`
		Suffix         string  `json:"suffix"`
		Pad            string  `json:"pad_token"`
		Delimiter      string  `json:"word_delimiter_token"`
		Replacement    string  `json:"replacement"`
		Scheme         *string `json:"prepend_scheme"`
		AddPrefixSpace *bool   `json:"add_prefix_space"`
	}
	if err := s.fields(&f); err != nil {
		return nil, err
	}
	var d decoder
	switch s.Type {
	case "ByteLevel":
		d = decByteLevel{}
	case "ByteFallback":
		d = decByteFallback{}
	case "Fuse":
		d = decFuse{}
	case "Replace":
		r := &decReplace{content: f.Content}
		r.plain, r.pattern, err = f.Pattern.compile()
		d = r
	case "Strip":
		if utf8.RuneCountInString(f.Content) != 1 || f.Start < 0 || f.Stop < 0 || f.Start > maxFile || f.Stop > maxFile {
			return nil, fmt.Errorf("%s: content is not one character, or start or stop is no length", s.Type)
		}
		d = decStrip{content: f.Content, start: f.Start, stop: f.Stop}
	case "Metaspace":
		var m *preMetaspace
		if m, err = loadMetaspace(f.Replacement, f.Scheme, f.AddPrefixSpace, nil); err == nil {
			d = decMetaspace{mark: m.mark, keep: m.scheme == prependNever}
		}
	case "WordPiece":
		d = decWordPiece{prefix: f.Prefix, clean: f.Cleanup}
	case "BPEDecoder":
		d = decBPE(f.Suffix)
	case "CTC":
		d = decCTC{pad: f.Pad, delimiter: f.Delimiter, clean: f.Cleanup}
	default:
		return nil, s.unknown()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Type, err)
	}
	return append(out, d), nil
}
