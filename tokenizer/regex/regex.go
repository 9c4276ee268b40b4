// Package regex runs the regular expressions of tokenizer files as Oniguruma,
// which the reference tokenizers use, would: backtracking, with look-around,
// possessive repeats and Unicode properties, over UTF-8. Go's own package has no
// look-around, and other libraries have other Unicode tables, so they split text
// elsewhere.
//
// Back-references, calls, conditionals, absent groups, \R, \X and \K are refused.
// Two things differ: without regard to case, one letter never stands for several (ß
// for ss), and the pairs of letters are those of Go's Unicode version.
package regex

import (
	"errors"
	"fmt"
	"sync"
	"unicode/utf8"
)

// ErrCostly says that a pattern took far more steps than the text has bytes.
var ErrCostly = errors.New("the pattern takes too many steps on this text")

// Regexp is a compiled pattern. It is safe for concurrent use.
type Regexp struct {
	prog     []inst
	slots    int
	machines sync.Pool
}

// Span is a piece of a text, in bytes, and whether the pattern matched it.
type Span struct {
	Start, End int
	Match      bool
}

// Compile reads a pattern. Its errors say where and what in the pattern is wrong.
func Compile(pattern string) (*Regexp, error) {
	n, err := parse(pattern)
	if err != nil {
		return nil, fmt.Errorf("regular expression %.200q: %w", pattern, err)
	}
	re := &Regexp{}
	c := compiler{re: re}
	if err := c.node(n); err != nil {
		return nil, fmt.Errorf("regular expression %.200q: %w", pattern, err)
	}
	c.emit(inst{op: opMatch})
	re.machines.New = func() any { return &machine{re: re, slots: make([]int, re.slots)} }
	return re, nil
}

// Split appends to spans the matches in text and what is between them, in order.
// The only error is ErrCostly.
func (re *Regexp) Split(spans []Span, text string) ([]Span, error) {
	m := re.machines.Get().(*machine)
	defer re.machines.Put(m)
	m.start(text)
	prev := 0 // end of the span before
	at := 0   // where to look on
	last := -1
	for at <= len(text) {
		end := m.match(0, at)
		if m.steps < 0 {
			return spans, ErrCostly
		}
		if end < 0 {
			at += width(text, at)
			continue
		}
		if end == at && end == last { // no empty match right behind another
			at += width(text, at)
			continue
		}
		if prev < at {
			spans = append(spans, Span{prev, at, false})
		}
		spans = append(spans, Span{at, end, true})
		prev, at, last = end, end, end
	}
	if prev < len(text) {
		spans = append(spans, Span{prev, len(text), false})
	}
	return spans, nil
}

// width is the length of the code point at i, at least 1.
func width(s string, i int) int {
	if i >= len(s) || s[i] < utf8.RuneSelf {
		return 1
	}
	_, n := utf8.DecodeRuneInString(s[i:])
	return n
}
