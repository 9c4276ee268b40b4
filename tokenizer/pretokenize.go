package tokenizer

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"smg/tokenizer/regex"
	"smg/tokenizer/ucd"
)

// piece is normalized text on its way to words. atStart says that it begins where
// the whole text does.
type piece struct {
	text    string
	atStart bool
}

func (p piece) cut(from, to int) piece {
	return piece{text: p.text[from:to], atStart: p.atStart && from == 0}
}

// preTokenizer appends the parts of a piece; none of them is empty.
type preTokenizer interface {
	split(st *state, out []piece, p piece) ([]piece, error)
}

// behavior is what becomes of the matches that a piece is split at.
type behavior uint8

const (
	removed behavior = iota
	isolated
	withPrevious
	withNext
	contiguous
)

var behaviors = map[string]behavior{
	"Removed": removed, "Isolated": isolated, "MergedWithPrevious": withPrevious, "MergedWithNext": withNext, "Contiguous": contiguous,
}

// cutAt appends the parts of p that spans and behavior make.
func cutAt(out []piece, p piece, spans []regex.Span, b behavior) []piece {
	put := func(from, to int) {
		if from < to {
			out = append(out, p.cut(from, to))
		}
	}
	switch b {
	case removed:
		for _, s := range spans {
			if !s.Match {
				put(s.Start, s.End)
			}
		}
	case isolated:
		for _, s := range spans {
			put(s.Start, s.End)
		}
	case contiguous, withPrevious:
		last := false // whether the span before was a match
		for i := 0; i < len(spans); {
			start, end := spans[i].Start, spans[i].End
			last = spans[i].Match
			i++
			for i < len(spans) && joins(b, spans[i].Match, last) {
				end, last = spans[i].End, spans[i].Match
				i++
			}
			put(start, end)
		}
	case withNext:
		n := len(out)
		last := false
		for i := len(spans) - 1; i >= 0; {
			start, end := spans[i].Start, spans[i].End
			last = spans[i].Match
			i--
			for i >= 0 && joins(withPrevious, spans[i].Match, last) {
				start, last = spans[i].Start, spans[i].Match
				i--
			}
			put(start, end)
		}
		for i, j := n, len(out)-1; i < j; i, j = i+1, j-1 {
			out[i], out[j] = out[j], out[i]
		}
	}
	return out
}

// joins reports whether a span goes to the one before it.
func joins(b behavior, match, last bool) bool {
	if b == contiguous {
		return match == last
	}
	return match && !last
}

// preRunes splits at code points of a class.
type preRunes struct {
	in func(rune) bool
	behavior
}

func (t preRunes) split(_ *state, out []piece, p piece) ([]piece, error) {
	if t.behavior == withNext {
		return cutAt(out, p, t.spans(p.text), withNext), nil
	}
	start := 0
	last := false
	for i, r := range p.text {
		n := utf8.RuneLen(r)
		match := t.in(r)
		switch t.behavior {
		case removed:
			if match {
				if start < i {
					out = append(out, p.cut(start, i))
				}
				start = i + n
			}
		case isolated:
			if (match || last) && start < i {
				out = append(out, p.cut(start, i))
				start = i
			}
		case contiguous:
			if match != last && start < i {
				out = append(out, p.cut(start, i))
				start = i
			}
		case withPrevious:
			if last && start < i {
				out = append(out, p.cut(start, i))
				start = i
			}
		}
		last = match
	}
	if start < len(p.text) {
		out = append(out, p.cut(start, len(p.text)))
	}
	return out, nil
}

func (t preRunes) spans(text string) []regex.Span {
	var spans []regex.Span
	last := 0
	for i, r := range text {
		if t.in(r) {
			if last < i {
				spans = append(spans, regex.Span{Start: last, End: i})
			}
			last = i + utf8.RuneLen(r)
			spans = append(spans, regex.Span{Start: i, End: last, Match: true})
		}
	}
	if last < len(text) {
		spans = append(spans, regex.Span{Start: last, End: len(text)})
	}
	return spans
}

func isPunctuation(r rune) bool {
	if r < utf8.RuneSelf {
		return r >= '!' && r <= '/' || r >= ':' && r <= '@' || r >= '[' && r <= '`' || r >= '{' && r <= '~'
	}
	return ucd.Is(r, ucd.Punctuation)
}

func isNumeric(r rune) bool {
	if r < utf8.RuneSelf {
		return r >= '0' && r <= '9'
	}
	return ucd.Is(r, ucd.Numeric)
}

// preSplit splits at what a pattern matches, or with invert at what it does not.
type preSplit struct {
	pattern *regex.Regexp
	plain   string // if there is no pattern
	behavior
	invert bool
}

func (t *preSplit) split(st *state, out []piece, p piece) ([]piece, error) {
	spans := st.matches[:0]
	if t.pattern != nil {
		var err error
		if spans, err = t.pattern.Split(spans, p.text); err != nil {
			return out, err
		}
	} else {
		spans = plainSpans(spans, p.text, t.plain)
	}
	st.matches = spans
	if t.invert {
		for i := range spans {
			spans[i].Match = !spans[i].Match
		}
	}
	return cutAt(out, p, spans, t.behavior), nil
}

func plainSpans(spans []regex.Span, text, plain string) []regex.Span {
	at := 0
	for plain != "" {
		i := strings.Index(text[at:], plain)
		if i < 0 {
			break
		}
		if i > 0 {
			spans = append(spans, regex.Span{Start: at, End: at + i})
		}
		at += i + len(plain)
		spans = append(spans, regex.Span{Start: at - len(plain), End: at, Match: true})
	}
	if at < len(text) {
		spans = append(spans, regex.Span{Start: at, End: len(text)})
	}
	return spans
}

// preWhitespace keeps words and runs of what is neither word nor space.
type preWhitespace struct{}

func (preWhitespace) split(_ *state, out []piece, p piece) ([]piece, error) {
	const (
		space = iota
		word
		other
	)
	start, last := 0, space
	for i, r := range p.text {
		class := other
		switch {
		case ucd.Is(r, ucd.Word):
			class = word
		case ucd.Space(r):
			class = space
		}
		if class != last {
			if last != space {
				out = append(out, p.cut(start, i))
			}
			start, last = i, class
		}
	}
	if last != space {
		out = append(out, p.cut(start, len(p.text)))
	}
	return out, nil
}

// preScripts splits where the script changes.
type preScripts struct{}

func (preScripts) split(_ *state, out []piece, p piece) ([]piece, error) {
	start := -1
	last := -1 // script before, -1 at the beginning
	for i, r := range p.text {
		s := int(ucd.Script(r))
		if s != 0 && last != s {
			if start >= 0 {
				out = append(out, p.cut(start, i))
			}
			start = i
		}
		if s != 0 {
			last = s
		}
	}
	if start >= 0 && start < len(p.text) {
		out = append(out, p.cut(start, len(p.text)))
	}
	return out, nil
}

// preFixed cuts pieces of so many code points.
type preFixed int

func (t preFixed) split(_ *state, out []piece, p piece) ([]piece, error) {
	start, n := 0, 0
	for i := range p.text {
		if n == int(t) {
			out = append(out, p.cut(start, i))
			start, n = i, 0
		}
		n++
	}
	return append(out, p.cut(start, len(p.text))), nil
}

// preByteLevel splits like GPT-2, if it has the pattern. What is spelled in the
// letters for bytes comes later, unless more pre-tokenizers follow.
type preByteLevel struct {
	prefixSpace bool
	pattern     *regex.Regexp // nil: no split
	spell       bool
}

func (t *preByteLevel) split(st *state, out []piece, p piece) ([]piece, error) {
	if t.prefixSpace && !strings.HasPrefix(p.text, " ") {
		p.text = " " + p.text
	}
	n := len(out)
	if t.pattern == nil {
		out = append(out, p)
	} else {
		spans, err := t.pattern.Split(st.matches[:0], p.text)
		if err != nil {
			return out, err
		}
		st.matches = spans
		out = cutAt(out, p, spans, isolated)
	}
	if t.spell {
		for i := n; i < len(out); i++ {
			out[i].text = string(appendSpelled(nil, out[i].text))
		}
	}
	return out, nil
}

// prepend says where Metaspace puts its mark before the text.
type prepend uint8

const (
	prependAlways prepend = iota
	prependFirst
	prependNever
)

// preMetaspace marks spaces with a character and splits before each mark.
type preMetaspace struct {
	mark   string
	scheme prepend
	cut    bool
}

func newMetaspace(mark, scheme string, cut bool) (*preMetaspace, error) {
	if r, n := utf8.DecodeRuneInString(mark); r == utf8.RuneError || n != len(mark) {
		return nil, fmt.Errorf("replacement %.20q is not one character", mark)
	}
	m := &preMetaspace{mark: mark, cut: cut}
	switch scheme {
	case "always":
	case "first":
		m.scheme = prependFirst
	case "never":
		m.scheme = prependNever
	default:
		return nil, fmt.Errorf("prepend_scheme %.40q is not always, first or never", scheme)
	}
	return m, nil
}

func (t *preMetaspace) split(_ *state, out []piece, p piece) ([]piece, error) {
	p.text = strings.ReplaceAll(p.text, " ", t.mark)
	if !strings.HasPrefix(p.text, t.mark) && (t.scheme == prependAlways || t.scheme == prependFirst && p.atStart) {
		p.text = t.mark + p.text
	}
	if !t.cut {
		return append(out, p), nil
	}
	// A mark goes to what follows it, but a run of marks is taken apart.
	start, i := 0, 0
	if strings.HasPrefix(p.text, t.mark) {
		i = len(t.mark)
	}
	for i < len(p.text) {
		j := strings.Index(p.text[i:], t.mark)
		if j < 0 {
			break
		}
		out = append(out, p.cut(start, i+j))
		start = i + j
		i = start + len(t.mark)
	}
	return append(out, p.cut(start, len(p.text))), nil
}
