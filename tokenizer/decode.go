package tokenizer

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"smg/tokenizer/regex"
)

// sink takes what a decoder makes. It is given whole tokens, or, once a decoder
// has fused them, parts of the one text.
type sink interface {
	put(s string)
	end()
}

// decoder is one step of the way from tokens to text. open makes the state of one
// decoding: fused says that parts of one text come in. The result says whether
// parts of one text come out.
type decoder interface {
	open(next sink, fused bool) (sink, bool)
}

// text is where decoded text ends up.
type text struct {
	b     []byte
	space bool // a space between tokens: there is no decoder
	some  bool
}

func (t *text) put(s string) {
	if t.space && t.some {
		t.b = append(t.b, ' ')
	}
	t.some = true
	t.b = append(t.b, s...)
}

func (t *text) end() {}

// take is what came since the last take.
func (t *text) take() string {
	if len(t.b) == 0 {
		return ""
	}
	s := string(t.b)
	t.b = t.b[:0]
	return s
}

// chain opens all decoders, the first one first.
func chain(dec []decoder, out sink, eager bool) sink {
	// Whether tokens are fused is known from the front, sinks are linked from the back.
	fused := make([]bool, len(dec)+1)
	for i, d := range dec {
		_, fused[i+1] = d.open(nil, fused[i])
	}
	for i, d := range slices.Backward(dec) {
		out, _ = d.open(out, fused[i])
		if b, ok := out.(*byteFallback); ok {
			b.eager = eager
		}
	}
	return out
}

// Decode is the text of ids. Ids that are not known give nothing; with skipSpecial
// special tokens give nothing either.
func (t *Tokenizer) Decode(ids []uint32, skipSpecial bool) string {
	out := &text{space: len(t.dec) == 0}
	in := chain(t.dec, out, false)
	for _, id := range ids {
		if s, ok := t.shown(id, skipSpecial); ok {
			in.put(s)
		}
	}
	in.end()
	return out.take()
}

func (t *Tokenizer) shown(id uint32, skipSpecial bool) (string, bool) {
	s, ok := t.Token(id)
	if !ok || skipSpecial && t.added.special[s] {
		return "", false
	}
	return s, true
}

// perToken is a decoder that looks at each token alone.
type perToken func(token string) string

func (d perToken) open(next sink, fused bool) (sink, bool) {
	if fused {
		return &gather{next: next, whole: d}, true
	}
	return perTokenSink{d, next}, false
}

type perTokenSink struct {
	do   perToken
	next sink
}

func (s perTokenSink) put(token string) { s.next.put(s.do(token)) }
func (s perTokenSink) end()             { s.next.end() }

// gather is for decoders that must see a fused text whole.
type gather struct {
	next  sink
	whole func(string) string
	b     strings.Builder
}

func (s *gather) put(part string) { s.b.WriteString(part) }

func (s *gather) end() {
	s.next.put(s.whole(s.b.String()))
	s.next.end()
}

// decReplace puts content in place of what a pattern matches.
type decReplace struct {
	plain   string
	pattern *regex.Regexp
	content string
}

func (d *decReplace) open(next sink, fused bool) (sink, bool) {
	if fused && d.pattern == nil && utf8.RuneCountInString(d.plain) == 1 {
		return perTokenSink{d.replace, next}, true // characters come whole
	}
	return perToken(d.replace).open(next, fused)
}

func (d *decReplace) replace(token string) string {
	if d.pattern == nil {
		if d.plain == "" {
			return token
		}
		return strings.ReplaceAll(token, d.plain, d.content)
	}
	spans, err := d.pattern.Split(nil, token)
	if err != nil {
		return token
	}
	var b strings.Builder
	for _, s := range spans {
		if s.Match {
			b.WriteString(d.content)
		} else {
			b.WriteString(token[s.Start:s.End])
		}
	}
	return b.String()
}

// decFuse makes one text of all tokens.
type decFuse struct{}

func (decFuse) open(next sink, _ bool) (sink, bool) { return next, true }

// decStrip takes a character away from both ends of a token, up to so many times.
type decStrip struct {
	content     string
	start, stop int
}

func (d decStrip) open(next sink, fused bool) (sink, bool) {
	if fused {
		return &stripSink{d: d, next: next, left: d.start}, true
	}
	return perTokenSink{d.strip, next}, false
}

func (d decStrip) strip(token string) string {
	for range d.start {
		short, ok := strings.CutPrefix(token, d.content)
		if !ok {
			break
		}
		token = short
	}
	for range d.stop {
		short, ok := strings.CutSuffix(token, d.content)
		if !ok {
			break
		}
		token = short
	}
	return token
}

// stripSink strips a fused text: at once at its start, and what may be its end
// waits for more.
type stripSink struct {
	d    decStrip
	next sink
	left int // still to be taken away at the start
	held int // characters that wait
}

func (s *stripSink) put(part string) {
	for s.left > 0 && part != "" {
		short, ok := strings.CutPrefix(part, s.d.content)
		if !ok {
			s.left = 0
			break
		}
		part = short
		s.left--
	}
	if part == "" {
		return
	}
	n := 0
	rest := part
	for {
		short, ok := strings.CutSuffix(rest, s.d.content)
		if !ok {
			break
		}
		rest = short
		n++
	}
	if rest == "" {
		n += s.held
	} else {
		s.next.put(strings.Repeat(s.d.content, s.held) + rest)
	}
	// No more than stop of them will go.
	if more := n - s.d.stop; more > 0 {
		s.next.put(strings.Repeat(s.d.content, more))
		n = s.d.stop
	}
	s.held = n
}

func (s *stripSink) end() { s.next.end() }

// decMetaspace turns the mark of spaces into spaces, but for the first token's.
type decMetaspace struct {
	mark string
	keep bool // the first token's are spaces too
}

func (d decMetaspace) open(next sink, fused bool) (sink, bool) {
	return &metaspaceSink{d: d, next: next, fused: fused}, fused
}

type metaspaceSink struct {
	d     decMetaspace
	next  sink
	fused bool
	some  bool
}

func (s *metaspaceSink) put(token string) {
	space := " "
	if !s.d.keep && (s.fused || !s.some) {
		space = ""
	}
	s.some = true
	s.next.put(strings.ReplaceAll(token, s.d.mark, space))
}

func (s *metaspaceSink) end() { s.next.end() }

// decWordPiece joins tokens that go on, and sets others apart.
type decWordPiece struct {
	prefix string
	clean  bool
}

func (d decWordPiece) open(next sink, fused bool) (sink, bool) {
	if fused {
		return &gather{next: next, whole: d.first}, true
	}
	return &wordPieceSink{d: d, next: next}, false
}

func (d decWordPiece) first(token string) string {
	if d.clean {
		token = cleanUp(token)
	}
	return token
}

type wordPieceSink struct {
	d    decWordPiece
	next sink
	some bool
}

func (s *wordPieceSink) put(token string) {
	if s.some {
		if rest, ok := strings.CutPrefix(token, s.d.prefix); ok {
			token = rest
		} else {
			token = " " + token
		}
	}
	s.some = true
	s.next.put(s.d.first(token))
}

func (s *wordPieceSink) end() { s.next.end() }

// cleanUp takes away the spaces before punctuation and English endings. The steps
// follow each other: one may make what the next one looks for.
func cleanUp(s string) string {
	for _, r := range [...][2]string{
		{" .", "."},
		{" ?", "?"},
		{" !", "!"},
		{" ,", ","},
		{" ' ", "'"},
		{" n't", "n't"},
		{" 'm", "'m"},
		{" do not", " don't"},
		{" 's", "'s"},
		{" 've", "'ve"},
		{" 're", "'re"},
	} {
		s = strings.ReplaceAll(s, r[0], r[1])
	}
	return s
}

// decBPE turns the suffix of words into spaces, but for the last token's.
type decBPE string

func (d decBPE) open(next sink, fused bool) (sink, bool) {
	return &bpeSink{suffix: string(d), next: next, fused: fused}, fused
}

type bpeSink struct {
	suffix string
	next   sink
	fused  bool
	last   string
	some   bool
}

func (s *bpeSink) put(token string) {
	if s.fused {
		s.last += token
		s.some = true
		return
	}
	if s.some {
		s.next.put(strings.ReplaceAll(s.last, s.suffix, " "))
	}
	s.last, s.some = token, true
}

func (s *bpeSink) end() {
	if s.some {
		s.next.put(strings.ReplaceAll(s.last, s.suffix, ""))
	}
	s.next.end()
}

// decCTC drops repeated tokens and padding.
type decCTC struct {
	pad, delimiter string
	clean          bool
}

func (d decCTC) open(next sink, fused bool) (sink, bool) {
	if fused {
		return &gather{next: next, whole: d.one}, true
	}
	return &ctcSink{d: d, next: next}, false
}

func (d decCTC) one(token string) string {
	if d.pad != "" {
		token = strings.ReplaceAll(token, d.pad, "")
	}
	if d.clean {
		token = cleanUp(token)
		if d.delimiter != "" {
			token = strings.ReplaceAll(token, d.delimiter, " ")
		}
	}
	return token
}

type ctcSink struct {
	d    decCTC
	next sink
	last string
	some bool
}

func (s *ctcSink) put(token string) {
	if s.some && token == s.last {
		return
	}
	s.last, s.some = token, true
	if token = s.d.one(token); token != "" {
		s.next.put(token)
	}
}

func (s *ctcSink) end() { s.next.end() }

// decByteFallback makes characters of tokens like <0x41>.
type decByteFallback struct{}

func (decByteFallback) open(next sink, fused bool) (sink, bool) {
	if fused {
		return &gather{next: next, whole: oneByte}, true
	}
	return &byteFallback{next: next}, false
}

func oneByte(s string) string {
	b, ok := byteToken(s)
	switch {
	case !ok:
		return s
	case b < utf8.RuneSelf:
		return string(rune(b))
	}
	return replacement
}

func byteToken(s string) (byte, bool) {
	if len(s) != 6 || s[:3] != "<0x" || s[5] != '>' {
		return 0, false
	}
	v, err := strconv.ParseUint(s[3:5], 16, 8)
	return byte(v), err == nil
}

// byteFallback gathers a run of bytes. The reference shows the run as text only if
// all of it is UTF-8, and else one U+FFFD for each byte. Where text is wanted as it
// comes (eager), whole characters go on at once, so that only what follows them in
// a broken run becomes U+FFFD.
type byteFallback struct {
	next  sink
	run   []byte
	eager bool
}

func (s *byteFallback) put(token string) {
	b, ok := byteToken(token)
	if !ok {
		s.flush()
		s.next.put(token)
		return
	}
	s.run = append(s.run, b)
	if s.eager && utf8.Valid(s.run) {
		s.next.put(string(s.run))
		s.run = s.run[:0]
	}
}

func (s *byteFallback) flush() {
	if len(s.run) == 0 {
		return
	}
	if utf8.Valid(s.run) {
		s.next.put(string(s.run))
	} else {
		for range s.run {
			s.next.put(replacement)
		}
	}
	s.run = s.run[:0]
}

func (s *byteFallback) end() {
	s.flush()
	s.next.end()
}

// decByteLevel makes bytes of the letters for them, and text of the bytes.
type decByteLevel struct{}

func (decByteLevel) open(next sink, fused bool) (sink, bool) {
	if fused {
		return &gather{next: next, whole: func(s string) string {
			return ValidUTF8(string(appendBytes(nil, s)))
		}}, true
	}
	return &byteLevel{next: next}, true
}

type byteLevel struct {
	next sink
	b    []byte // begins a character, if anything
}

func (s *byteLevel) put(token string) {
	s.b = appendBytes(s.b, token)
	n := len(s.b) - unfinished(s.b)
	if n == 0 {
		return
	}
	s.next.put(ValidUTF8(string(s.b[:n])))
	s.b = append(s.b[:0], s.b[n:]...)
}

func (s *byteLevel) end() {
	if len(s.b) > 0 {
		s.next.put(ValidUTF8(string(s.b)))
		s.b = nil
	}
	s.next.end()
}
