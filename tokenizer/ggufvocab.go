package tokenizer

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"smg/tokenizer/regex"
	"smg/tokenizer/ucd"
)

// Tokenizer builds the tokenizer that a GGUF file describes, by the kinds that
// llama.cpp knows: llama (SentencePiece BPE), gpt2 (byte-level BPE), t5 (Unigram) and
// bert (WordPiece). Files carry no normalizer for gpt2: text is taken as it is.
func (g *GGUF) Tokenizer() (*Tokenizer, error) {
	if g.JSON != "" {
		t, err := Parse([]byte(g.JSON))
		if err != nil {
			return nil, fmt.Errorf("tokenizer.huggingface.json: %w", err)
		}
		return t, nil
	}
	if len(g.Tokens) == 0 {
		return nil, errors.New("tokenizer.ggml.tokens: there are none")
	}
	if g.Scores != nil && len(g.Scores) != len(g.Tokens) || g.Types != nil && len(g.Types) != len(g.Tokens) {
		return nil, fmt.Errorf("%d tokens have %d scores and %d types", len(g.Tokens), len(g.Scores), len(g.Types))
	}
	// Files say -1 where they mean none.
	for _, id := range []**uint32{&g.BOS, &g.EOS, &g.Unknown, &g.CLS, &g.SEP} {
		if *id != nil && int64(**id) >= int64(len(g.Tokens)) {
			*id = nil
		}
	}
	t := &Tokenizer{words: newWordCache()}
	t.state.New = func() any { return new(state) }
	var bos, eos bool // what is added unless the file says
	var err error
	switch g.Model {
	case "llama":
		bos, err = true, g.sentencePiece(t)
	case "gpt2":
		bos, err = g.byteLevel(t)
	case "t5":
		eos, err = true, g.unigram(t)
	case "bert":
		err = g.wordPiece(t)
	case "":
		err = errors.New("tokenizer.ggml.model is missing")
	default:
		err = fmt.Errorf("tokenizer.ggml.model %.40q is not known", g.Model)
	}
	if err != nil {
		return nil, err
	}
	if t.post == nil {
		t.post = []postPiece{{text: true}}
	}
	if g.AddBOS != nil {
		bos = *g.AddBOS
	}
	if g.AddEOS != nil {
		eos = *g.AddEOS
	}
	if bos && g.BOS != nil {
		t.post = append([]postPiece{{ids: []uint32{*g.BOS}}}, t.post...)
	}
	if eos && g.EOS != nil {
		t.post = append(t.post, postPiece{ids: []uint32{*g.EOS}})
	}
	return t, t.finish(g.addedTokens())
}

// Named are the tokens that chat templates name, bos_token and the like.
func (g *GGUF) Named() map[string]string {
	named := map[string]string{}
	for name, id := range map[string]*uint32{
		"bos_token": g.BOS, "eos_token": g.EOS, "unk_token": g.Unknown, "cls_token": g.CLS, "sep_token": g.SEP,
	} {
		if id != nil && int64(*id) < int64(len(g.Tokens)) {
			named[name] = g.Tokens[*id]
		}
	}
	return named
}

func (g *GGUF) kind(i int) int32 {
	if g.Types == nil {
		return 1
	}
	return g.Types[i]
}

// plain reports whether text can become token i: not a control token and the like.
func (g *GGUF) plain(i int) bool {
	switch g.kind(i) {
	case ggufUnknown, ggufControl, ggufUnused, ggufByte:
		return false
	}
	return true
}

func (g *GGUF) addedTokens() []addedToken {
	var out []addedToken
	for i, token := range g.Tokens {
		if k := g.kind(i); k == ggufControl || k == ggufUser {
			out = append(out, addedToken{Content: token, Special: k == ggufControl})
		}
	}
	return out
}

// vocab is the vocabulary; of equal tokens the first one counts.
func (g *GGUF) vocab() vocab {
	v := vocab{ids: make(map[string]uint32, len(g.Tokens)), tokens: make(map[uint32]string, len(g.Tokens))}
	for i, token := range g.Tokens {
		v.tokens[uint32(i)] = token
		if _, ok := v.ids[token]; !ok {
			v.ids[token] = uint32(i)
		}
	}
	return v
}

const mark = "▁"

// sentencePiece merges the pair whose whole has the best score, the first of equals.
// So the rank of a pair is that of its whole's score.
func (g *GGUF) sentencePiece(t *Tokenizer) error {
	if g.Scores == nil {
		return errors.New("tokenizer.ggml.scores is missing")
	}
	m := &bpe{vocab: g.vocab(), unk: 0, hasUnk: true, unkToken: "<unk>", merges: newTable(2 * len(g.Tokens))}
	if g.Unknown != nil {
		m.unk = *g.Unknown
	}
	m.finish(true)
	order := make([]float32, 0, len(g.Scores))
	for i, s := range g.Scores {
		if math.IsNaN(float64(s)) {
			return fmt.Errorf("tokenizer.ggml.scores[%d] is not a number", i)
		}
		order = append(order, -s)
	}
	slices.Sort(order)
	for i, token := range g.Tokens {
		if !g.plain(i) || m.ids[token] != uint32(i) || len(token) > maxAdded {
			continue
		}
		score := -g.Scores[i]
		rank := sort.Search(len(order), func(k int) bool { return order[k] >= score })
		for at := range token {
			if at == 0 {
				continue
			}
			left, ok := m.ids[token[:at]]
			if !ok || !g.plain(int(left)) {
				continue
			}
			if right, ok := m.ids[token[at:]]; ok && g.plain(int(right)) {
				m.merges.set(pairKey(left, right), uint32(rank), uint32(i))
			}
		}
	}
	t.model = m
	replace := normReplace{plain: " ", content: mark}
	t.norm = replace
	t.dec = []decoder{&decReplace{plain: mark, content: " "}, decByteFallback{}, decFuse{}}
	if g.SpacePrefix == nil || *g.SpacePrefix {
		t.norm = normSequence{normPrepend(mark), replace}
		t.dec = append(t.dec, decStrip{content: " ", start: 1})
	}
	return nil
}

// byteLevel is the BPE of GPT-2 and of nearly all models since. It tells whether the
// beginning-of-text token comes by default.
func (g *GGUF) byteLevel(t *Tokenizer) (bos bool, err error) {
	w, ok := splits[g.Pre]
	if !ok {
		return false, fmt.Errorf("tokenizer.ggml.pre %.40q is not known: give the model's tokenizer.json instead", g.Pre)
	}
	for _, p := range w.patterns {
		re, err := regex.Compile(p)
		if err != nil {
			return false, err
		}
		t.pre = append(t.pre, &preSplit{pattern: re, behavior: isolated})
	}
	t.pre = append(t.pre, &preByteLevel{})
	t.dec = []decoder{decByteLevel{}}
	m := &bpe{vocab: g.vocab(), ignoreMerges: w.whole, merges: newTable(len(g.Merges))}
	m.finish(false)
	for i, line := range g.Merges {
		_, n := utf8.DecodeRuneInString(line)
		at := strings.IndexByte(line[min(n, len(line)):], ' ')
		if at < 0 {
			return false, fmt.Errorf("tokenizer.ggml.merges[%d]: %.80q is not two tokens", i, line)
		}
		at += n
		if err := m.merge(line[:at], line[at+1:], uint32(i)); err != nil {
			return false, fmt.Errorf("tokenizer.ggml.merges[%d]: %w", i, err)
		}
	}
	t.model = m
	return w.bos, nil
}

func (g *GGUF) unigram(t *Tokenizer) error {
	if g.Scores == nil {
		return errors.New("tokenizer.ggml.scores is missing")
	}
	unk := 2
	if g.Unknown != nil {
		unk = int(*g.Unknown)
	}
	scores := make([]float64, len(g.Scores))
	list := make([]string, len(g.Tokens))
	for i, s := range g.Scores {
		scores[i] = float64(s)
		list[i] = g.Tokens[i]
	}
	m, err := newUnigram(list, scores, unk, false)
	if err != nil {
		return err
	}
	t.model = m
	var seq normSequence
	if len(g.Charsmap) > 0 {
		c, err := newCharsmap(g.Charsmap)
		if err != nil {
			return err
		}
		seq = append(seq, c)
	}
	if g.TrimSpaces == nil || *g.TrimSpaces {
		runs, err := regex.Compile(" {2,}")
		if err != nil {
			return err
		}
		seq = append(seq, normReplace{pattern: runs, content: " "}, normStrip{left: true, right: true})
	}
	t.norm = seq
	scheme := prependNever
	if g.SpacePrefix == nil || *g.SpacePrefix {
		scheme = prependAlways
	}
	t.pre = []preTokenizer{&preMetaspace{mark: mark, scheme: scheme, cut: true}}
	t.dec = []decoder{decMetaspace{mark: mark, keep: scheme == prependNever}}
	return nil
}

// wordPiece has tokens that begin a word with the mark of a space, others without.
func (g *GGUF) wordPiece(t *Tokenizer) error {
	v := vocab{ids: make(map[string]uint32, len(g.Tokens)), tokens: make(map[uint32]string, len(g.Tokens))}
	unk := "[UNK]"
	for i, token := range g.Tokens {
		if g.kind(i) == 1 {
			if begins, ok := strings.CutPrefix(token, mark); ok {
				token = begins
			} else {
				token = "##" + token
			}
		}
		if g.Unknown != nil && *g.Unknown == uint32(i) {
			unk = token
		}
		v.tokens[uint32(i)] = token
		if _, ok := v.ids[token]; !ok {
			v.ids[token] = uint32(i)
		}
	}
	t.model = &wordPiece{vocab: v, unk: unk, prefix: "##", most: 100}
	t.norm = normBert{clean: true, chinese: true, accents: true, lower: true}
	t.pre = []preTokenizer{preRunes{in: ucd.Space, behavior: removed}, preRunes{in: isPunctuation, behavior: isolated}}
	t.dec = []decoder{decWordPiece{prefix: "##", clean: true}}
	t.post = []postPiece{{text: true}}
	first, last := g.CLS, g.SEP
	if first == nil {
		first = g.BOS
	}
	if last == nil {
		last = g.EOS
	}
	if first != nil && last != nil {
		t.post = around(t.post, *first, *last)
		g.AddBOS, g.AddEOS = new(bool), new(bool) // they are there
	}
	return nil
}
