package tokenizer

import (
	"strings"
	"unicode/utf8"

	"smg/tokenizer/regex"
	"smg/tokenizer/ucd"
)

// normalizer rewrites text before it is split. lead is how far into the original
// text the first code point lies; only whether it is 0 is looked at.
type normalizer interface {
	normalize(text string, lead int) (string, int, error)
}

type normSequence []normalizer

func (n normSequence) normalize(text string, lead int) (string, int, error) {
	for _, each := range n {
		var err error
		if text, lead, err = each.normalize(text, lead); err != nil {
			return text, lead, err
		}
	}
	return text, lead, nil
}

// normForm is one of the four Unicode normal forms.
type normForm struct{ compat, compose bool }

func (n normForm) normalize(text string, lead int) (string, int, error) {
	return normalForm(text, n.compat, n.compose), lead, nil
}

type normLowercase struct{}

func (normLowercase) normalize(text string, lead int) (string, int, error) {
	return lowercase(text), lead, nil
}

func lowercase(text string) string {
	for i := 0; i < len(text); i++ {
		if c := text[i]; c >= utf8.RuneSelf || c >= 'A' && c <= 'Z' {
			var b strings.Builder
			b.Grow(len(text))
			b.WriteString(text[:i])
			for _, r := range text[i:] {
				ucd.WriteLower(&b, r)
			}
			return b.String()
		}
	}
	return text
}

type normStrip struct{ left, right bool }

func (n normStrip) normalize(text string, lead int) (string, int, error) {
	if n.left {
		short := trimSpaceLeft(text)
		lead += len(text) - len(short)
		text = short
	}
	if n.right {
		text = text[:spaceBefore(text)]
	}
	return text, lead, nil
}

// normFilter drops code points and turns others into one each.
type normFilter func(r rune) rune // -1: drop

func (n normFilter) normalize(text string, lead int) (string, int, error) {
	short := strings.Map(n, text)
	if r, size := utf8.DecodeRuneInString(text); size > 0 && n(r) < 0 {
		lead++
	}
	return short, lead, nil
}

func stripAccents(r rune) rune {
	if ucd.Is(r, ucd.Combining) {
		return -1
	}
	return r
}

// nmt is the clean-up of neural machine translation.
func nmt(r rune) rune {
	switch {
	case r >= 1 && r <= 8, r == 0xB, r >= 0xE && r <= 0x1F, r == 0x7F, r == 0x8F, r == 0x9F:
		return -1
	case r == '\t', r == '\n', r == '\f', r == '\r', r == 0x1680, r >= 0x200B && r <= 0x200F,
		r == 0x2028, r == 0x2029, r == 0x2581, r == 0xFEFF, r == 0xFFFD:
		return ' '
	}
	return r
}

type normPrepend string

func (n normPrepend) normalize(text string, lead int) (string, int, error) {
	if text == "" {
		return text, lead, nil
	}
	return string(n) + text, lead, nil
}

// normReplace puts content in place of what the pattern matches.
type normReplace struct {
	plain   string // if there is no pattern
	pattern *regex.Regexp
	content string
}

func (n normReplace) normalize(text string, lead int) (string, int, error) {
	if n.pattern == nil {
		if n.plain == "" {
			return text, lead, nil
		}
		for rest := text; strings.HasPrefix(rest, n.plain); rest = rest[len(n.plain):] {
			lead += len(n.plain)
			if n.content != "" {
				_, last := utf8.DecodeLastRuneInString(n.plain)
				lead -= last
				break
			}
		}
		return strings.ReplaceAll(text, n.plain, n.content), lead, nil
	}
	spans, err := n.pattern.Split(nil, text)
	if err != nil {
		return text, lead, err
	}
	var b strings.Builder
	for _, s := range spans {
		switch {
		case !s.Match:
			b.WriteString(text[s.Start:s.End])
			continue
		case b.Len() == 0 && s.End > s.Start:
			lead += s.End - s.Start
			if n.content != "" {
				_, last := utf8.DecodeLastRuneInString(text[:s.End])
				lead -= last
			}
		}
		b.WriteString(n.content)
	}
	return b.String(), lead, nil
}

// normBytes spells text in the letters for its bytes.
type normBytes struct{}

func (normBytes) normalize(text string, lead int) (string, int, error) {
	return string(appendSpelled(make([]byte, 0, 2*len(text)), text)), lead, nil
}

// normBert is the clean-up of BERT.
type normBert struct{ clean, chinese, accents, lower bool }

func (n normBert) normalize(text string, lead int) (string, int, error) {
	if n.clean {
		text, lead, _ = normFilter(cleanText).normalize(text, lead)
	}
	if n.chinese {
		text = spaceOut(text)
	}
	if n.accents {
		text = strings.Map(func(r rune) rune {
			if ucd.Is(r, ucd.Nonspacing) {
				return -1
			}
			return r
		}, normalForm(text, false, false))
	}
	if n.lower {
		text = lowercase(text)
	}
	return text, lead, nil
}

func cleanText(r rune) rune {
	switch {
	case r == '\t' || r == '\n' || r == '\r':
		return ' '
	case r == 0 || r == utf8.RuneError || ucd.Is(r, ucd.Other):
		return -1
	case ucd.Space(r):
		return ' '
	}
	return r
}

// spaceOut puts spaces around Chinese characters.
func spaceOut(text string) string {
	if strings.IndexFunc(text, chinese) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if chinese(r) {
			b.WriteByte(' ')
			b.WriteRune(r)
			b.WriteByte(' ')
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func chinese(r rune) bool {
	return r >= 0x3400 && (r >= 0x4E00 && r <= 0x9FFF || r <= 0x4DBF || r >= 0x20000 && r <= 0x2A6DF || r >= 0x2A700 && r <= 0x2B73F ||
		r >= 0x2B740 && r <= 0x2B81F || r >= 0x2B920 && r <= 0x2CEAF || r >= 0xF900 && r <= 0xFAFF || r >= 0x2F800 && r <= 0x2FA1F)
}
