package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
)

// What a file may have at most.
const (
	maxFile   = 512 << 20 // bytes
	maxAdded  = 4096      // bytes of an added token
	maxAddeds = 1 << 20   // added tokens
	maxSteps  = 100       // normalizers and the like in a sequence, and how deep sequences nest
)

// Open loads the tokenizer of a model: a tokenizer.json or GGUF file, or a folder
// that has a tokenizer.json.
func Open(path string) (*Tokenizer, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, "tokenizer.json")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening tokenizer: %w", err)
	}
	defer f.Close()
	var magic [4]byte
	if n, _ := io.ReadFull(f, magic[:]); n == 4 && string(magic[:]) == ggufMagic {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
		g, err := ReadGGUF(f)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		t, err := g.Tokenizer()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return t, nil
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxFile)
	}
	t, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// document is a tokenizer.json.
type document struct {
	Version       *string         `json:"version"`
	AddedTokens   []addedToken    `json:"added_tokens"`
	Normalizer    json.RawMessage `json:"normalizer"`
	PreTokenizer  json.RawMessage `json:"pre_tokenizer"`
	PostProcessor json.RawMessage `json:"post_processor"`
	Decoder       json.RawMessage `json:"decoder"`
	Model         json.RawMessage `json:"model"`
}

// Parse loads the content of a tokenizer.json. The error names the field that is wrong.
func Parse(data []byte) (*Tokenizer, error) {
	var d document
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, fmt.Errorf("no tokenizer.json: %w", err)
	}
	if d.Version != nil && *d.Version != "1.0" {
		return nil, fmt.Errorf("version %.40q is not known", *d.Version)
	}
	if len(d.AddedTokens) > maxAddeds {
		return nil, fmt.Errorf("added_tokens: %d are more than %d", len(d.AddedTokens), maxAddeds)
	}
	t := &Tokenizer{words: newWordCache()}
	t.state.New = func() any { return new(state) }
	var err error
	if t.model, err = loadModel(d.Model); err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	if t.norm, err = loadNormalizer(d.Normalizer, 0); err != nil {
		return nil, fmt.Errorf("normalizer: %w", err)
	}
	if t.pre, err = loadPreTokenizers(nil, d.PreTokenizer, 0); err != nil {
		return nil, fmt.Errorf("pre_tokenizer: %w", err)
	}
	if t.post, err = loadPost([]postPiece{{text: true}}, d.PostProcessor, 0); err != nil {
		return nil, fmt.Errorf("post_processor: %w", err)
	}
	if t.dec, err = loadDecoders(nil, d.Decoder, 0); err != nil {
		return nil, fmt.Errorf("decoder: %w", err)
	}
	return t, t.finish(d.AddedTokens)
}

// finish adds tokens, once all else stands.
func (t *Tokenizer) finish(added []addedToken) (err error) {
	// The last step spells words in the letters for bytes. It waits until a word is
	// not in the cache.
	for i, p := range t.pre {
		if b, ok := p.(*preByteLevel); ok {
			last := i == len(t.pre)-1
			b.spell, t.spell = !last, last
		}
	}
	t.added, err = newAddedVocab(added, t.model, t.norm)
	return err
}

// step is any normalizer, pre-tokenizer, post-processor or decoder: a type and fields.
type step struct {
	Type string `json:"type"`
	raw  json.RawMessage
}

func readStep(raw json.RawMessage, depth int) (step, error) {
	if depth > maxSteps {
		return step{}, errors.New("nested too deeply")
	}
	s := step{raw: raw}
	if err := json.Unmarshal(raw, &s); err != nil {
		return s, err
	}
	if s.Type == "" {
		return s, errors.New("type is missing")
	}
	return s, nil
}

// fields reads the fields of a step into v.
func (s *step) fields(v any) error {
	if err := json.Unmarshal(s.raw, v); err != nil {
		return fmt.Errorf("%s: %w", s.Type, err)
	}
	return nil
}

func (s *step) unknown() error { return fmt.Errorf("type %.80q is not known", s.Type) }

func absent(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// each calls f for the steps of a sequence, found under key.
func (s *step) each(key string, f func(raw json.RawMessage) error) error {
	var m map[string]json.RawMessage
	if err := s.fields(&m); err != nil {
		return err
	}
	var list []json.RawMessage
	if err := json.Unmarshal(m[key], &list); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	if len(list) > maxSteps {
		return fmt.Errorf("%s: %d are more than %d", key, len(list), maxSteps)
	}
	for i, raw := range list {
		if err := f(raw); err != nil {
			return fmt.Errorf("%s[%d]: %w", key, i, err)
		}
	}
	return nil
}

// modelFile is any model; which fields it has depends on the kind.
type modelFile struct {
	Type         string          `json:"type"`
	Vocab        json.RawMessage `json:"vocab"`
	Merges       json.RawMessage `json:"merges"`
	Dropout      *float64        `json:"dropout"`
	UnkToken     *string         `json:"unk_token"`
	UnkID        *int            `json:"unk_id"`
	Prefix       *string         `json:"continuing_subword_prefix"`
	Suffix       *string         `json:"end_of_word_suffix"`
	FuseUnk      bool            `json:"fuse_unk"`
	ByteFallback bool            `json:"byte_fallback"`
	IgnoreMerges bool            `json:"ignore_merges"`
	MaxChars     *int            `json:"max_input_chars_per_word"`
}

func loadModel(raw json.RawMessage) (model, error) {
	if absent(raw) {
		return nil, errors.New("is missing")
	}
	var f modelFile
	if err := json.Unmarshal(raw, &f); err != nil {
		return nil, err
	}
	kind := f.Type
	if kind == "" { // files of old versions: tell by the fields
		switch {
		case !absent(f.Merges):
			kind = "BPE"
		case f.MaxChars != nil || f.Prefix != nil:
			kind = "WordPiece"
		case strings.HasPrefix(strings.TrimSpace(string(f.Vocab)), "["):
			kind = "Unigram"
		default:
			kind = "WordLevel"
		}
	}
	switch kind {
	case "Unigram":
		return f.unigram()
	case "BPE", "WordPiece", "WordLevel":
	default:
		return nil, fmt.Errorf("type %.80q is not known", kind)
	}
	var ids map[string]uint32
	if err := json.Unmarshal(f.Vocab, &ids); err != nil {
		return nil, fmt.Errorf("vocab: %w", err)
	}
	if len(ids) == 0 && kind != "BPE" {
		return nil, errors.New("vocab is empty")
	}
	switch kind {
	case "WordPiece":
		return f.wordPiece(ids)
	case "WordLevel":
		m := &wordLevel{vocab: newVocab(ids), unk: "<unk>"}
		if f.UnkToken != nil {
			m.unk = *f.UnkToken
		}
		return m, nil
	}
	return f.bpe(ids)
}

func (f *modelFile) wordPiece(ids map[string]uint32) (model, error) {
	m := &wordPiece{vocab: newVocab(ids), unk: "[UNK]", prefix: "##", most: 100}
	if f.UnkToken != nil {
		m.unk = *f.UnkToken
	}
	if f.Prefix != nil {
		m.prefix = *f.Prefix
	}
	if f.MaxChars != nil {
		m.most = *f.MaxChars
	}
	if m.most < 0 || m.most > 10000 {
		return nil, fmt.Errorf("max_input_chars_per_word: %d is not 0 to 10000", m.most)
	}
	return m, nil
}

func (f *modelFile) unigram() (model, error) {
	var list [][]json.RawMessage
	if err := json.Unmarshal(f.Vocab, &list); err != nil {
		return nil, fmt.Errorf("vocab: %w", err)
	}
	tokens, scores := make([]string, len(list)), make([]float64, len(list))
	for i, e := range list {
		if len(e) != 2 {
			return nil, fmt.Errorf("vocab[%d]: not a token and a score", i)
		}
		if err := json.Unmarshal(e[0], &tokens[i]); err != nil {
			return nil, fmt.Errorf("vocab[%d]: %w", i, err)
		}
		var err error
		if scores[i], err = parseScore(e[1]); err != nil {
			return nil, fmt.Errorf("vocab[%d]: %w", i, err)
		}
	}
	unk := -1
	if f.UnkID != nil {
		if unk = *f.UnkID; unk < 0 {
			return nil, fmt.Errorf("unk_id %d is negative", unk)
		}
	}
	return newUnigram(tokens, scores, unk, f.ByteFallback)
}

func (f *modelFile) bpe(ids map[string]uint32) (model, error) {
	if f.Dropout != nil && *f.Dropout != 0 {
		return nil, fmt.Errorf("dropout %v would make ids a matter of chance", *f.Dropout)
	}
	m := &bpe{vocab: newVocab(ids), fuse: f.FuseUnk, ignoreMerges: f.IgnoreMerges}
	if f.Prefix != nil {
		m.prefix = *f.Prefix
	}
	if f.Suffix != nil {
		m.suffix = *f.Suffix
	}
	if f.UnkToken != nil {
		m.unkToken = *f.UnkToken
		m.unk, m.hasUnk = m.ids[m.unkToken]
		if m.unkToken == "" && m.hasUnk {
			return nil, errors.New("unk_token is empty")
		}
	}
	m.finish(f.ByteFallback)
	return m, f.loadMerges(m)
}

// loadMerges reads merges, which are pairs or, in older files, two words in a string.
func (f *modelFile) loadMerges(m *bpe) error {
	var pairs [][2]string
	if err := json.Unmarshal(f.Merges, &pairs); err != nil {
		var lines []string
		if json.Unmarshal(f.Merges, &lines) != nil {
			return fmt.Errorf("merges: %w", err)
		}
		pairs = make([][2]string, 0, len(lines))
		for i, line := range lines {
			if strings.HasPrefix(line, "#version") {
				continue
			}
			left, right, ok := strings.Cut(line, " ")
			if !ok || strings.Contains(right, " ") {
				return fmt.Errorf("merges[%d]: %.80q is not two tokens", i, line)
			}
			pairs = append(pairs, [2]string{left, right})
		}
	}
	if len(pairs) >= math.MaxUint32 {
		return errors.New("merges: too many")
	}
	m.merges = newTable(len(pairs))
	for i, p := range pairs {
		if err := m.merge(p[0], p[1], uint32(i)); err != nil {
			return fmt.Errorf("merges[%d]: %w", i, err)
		}
	}
	return nil
}
