package jinja

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

type tokenKind uint8

const (
	tokenEnd tokenKind = iota
	tokenData
	tokenOpenVariable // {{
	tokenCloseVariable
	tokenOpenBlock // {%
	tokenCloseBlock
	tokenName
	tokenString
	tokenInteger
	tokenFloat
	tokenOperator
)

type token struct {
	kind tokenKind
	text string // of a string, without quotes and escapes
	line int
}

// lexer splits a source into tokens. It follows the rules for space around tags to the
// letter: prompts hang on them.
type lexer struct {
	source string
	pos    int
	line   int
	// fresh says that what comes next begins a line.
	fresh  bool
	tokens []token
}

// lex splits source. Errors are of type *Error.
func lex(source string) (tokens []token, err error) {
	defer catch(&err)
	source = strings.ReplaceAll(strings.ReplaceAll(source, "\r\n", "\n"), "\r", "\n")
	l := &lexer{source: strings.TrimSuffix(source, "\n"), line: 1, fresh: true}
	for l.pos < len(l.source) {
		l.root()
	}
	l.add(tokenEnd, "")
	return l.tokens, nil
}

func (l *lexer) fail(format string, args ...any) {
	panic(&Error{Line: l.line, Message: fmt.Sprintf(format, args...)})
}

func (l *lexer) add(kind tokenKind, text string) {
	l.tokens = append(l.tokens, token{kind, text, l.line})
}

// skip moves on by n bytes.
func (l *lexer) skip(n int) {
	l.line += strings.Count(l.source[l.pos:l.pos+n], "\n")
	l.pos += n
}

// root reads text up to a tag, and the tag.
func (l *lexer) root() {
	rest := l.source[l.pos:]
	i := nextTag(rest)
	if i < 0 {
		l.add(tokenData, rest)
		l.skip(len(rest))
		return
	}
	kind, n := rest[i+1], 2
	sign := byte(0)
	if len(rest) > i+2 && (rest[i+2] == '-' || rest[i+2] == '+') {
		sign, n = rest[i+2], 3
	}
	l.data(rest[:i], sign, kind != '{')
	l.skip(i + n)
	switch kind {
	case '#':
		l.comment()
	case '{':
		l.add(tokenOpenVariable, "")
		l.code(tokenCloseVariable)
	default:
		if n := rawBegins(l.source[l.pos:]); n > 0 {
			l.skip(n)
			l.raw()
			return
		}
		l.add(tokenOpenBlock, "")
		l.code(tokenCloseBlock)
	}
}

// nextTag is where the next {{, {% or {# begins, -1 if there is none.
func nextTag(s string) int {
	for i := 0; ; i++ {
		j := strings.IndexByte(s[i:], '{')
		if j < 0 || i+j+1 >= len(s) {
			return -1
		}
		i += j
		if c := s[i+1]; c == '{' || c == '%' || c == '#' {
			return i
		}
	}
}

// data adds the text before a tag.
func (l *lexer) data(text string, sign byte, block bool) {
	switch {
	case sign == '-':
		text = strings.TrimRightFunc(text, isSpace)
	case sign != '+' && block:
		if i := strings.LastIndexByte(text, '\n') + 1; (i > 0 || l.fresh) && strings.TrimLeftFunc(text[i:], isSpace) == "" {
			text = text[:i]
		}
	}
	if text != "" {
		l.add(tokenData, text)
	}
}

// leave moves behind a tag whose end has n bytes, and behind the space that goes with it.
func (l *lexer) leave(n int, strip, newline bool) {
	rest := l.source[l.pos+n:]
	switch {
	case strip:
		n += len(rest) - len(strings.TrimLeftFunc(rest, isSpace))
	case newline && strings.HasPrefix(rest, "\n"):
		n++
	}
	l.skip(n)
	l.fresh = l.source[l.pos-1] == '\n'
}

func (l *lexer) comment() {
	rest := l.source[l.pos:]
	i := strings.Index(rest, "#}")
	if i < 0 {
		l.fail("a comment has no end")
	}
	sign := byte(0)
	if i > 0 {
		sign = rest[i-1]
	}
	l.skip(i)
	l.leave(2, sign == '-', sign != '+')
}

// rawBegins is the length of the rest of {% raw %}, 0 if this is none.
func rawBegins(s string) int {
	t := strings.TrimLeftFunc(s, isSpace)
	if !strings.HasPrefix(t, "raw") {
		return 0
	}
	t = strings.TrimLeftFunc(t[3:], isSpace)
	switch {
	case strings.HasPrefix(t, "-%}"):
		t = strings.TrimLeftFunc(t[3:], isSpace)
	case strings.HasPrefix(t, "%}"):
		t = t[2:]
	default:
		return 0
	}
	return len(s) - len(t)
}

// raw reads up to {% endraw %}.
func (l *lexer) raw() {
	l.fresh = l.source[l.pos-1] == '\n'
	from := l.source[l.pos:]
	for i := 0; ; i += 2 {
		j := strings.Index(from[i:], "{%")
		if j < 0 {
			l.fail("{%% raw %%} has no end")
		}
		i += j
		t, sign := from[i+2:], byte(0)
		if t != "" && (t[0] == '-' || t[0] == '+') {
			sign, t = t[0], t[1:]
		}
		t = strings.TrimLeftFunc(t, isSpace)
		if !strings.HasPrefix(t, "endraw") {
			continue
		}
		t = strings.TrimLeftFunc(t[len("endraw"):], isSpace)
		n := 2
		if strings.HasPrefix(t, "-%}") || strings.HasPrefix(t, "+%}") {
			n = 3
		} else if !strings.HasPrefix(t, "%}") {
			continue
		}
		l.data(from[:i], sign, true)
		l.skip(len(from) - len(t))
		l.leave(n, t[0] == '-', t[0] == '%')
		return
	}
}

// operators, longest first.
const (
	operators2 = "// ** == != >= <= "
	operators1 = "+-/*%~[](){}><=.:|,;"
)

// code reads the inside of a tag, up to its end.
func (l *lexer) code(end tokenKind) {
	mark := "%}"
	if end == tokenCloseVariable {
		mark = "}}"
	}
	var open []byte // brackets
	for {
		rest := l.source[l.pos:]
		if rest == "" {
			l.fail("a tag has no end")
		}
		if len(open) == 0 && l.close(rest, mark, end) {
			return
		}
		c, n := utf8.DecodeRuneInString(rest)
		switch {
		case isSpace(c):
			l.skip(n)
		case c >= '0' && c <= '9':
			l.number(rest)
		case wordRune(c):
			n = len(rest) - len(strings.TrimLeftFunc(rest, wordRune))
			l.add(tokenName, rest[:n])
			l.skip(n)
		case c == '\'' || c == '"':
			l.string(rest, byte(c))
		default:
			open = l.operator(rest, open)
		}
	}
}

// close reads the end of a tag if it is here.
func (l *lexer) close(rest, mark string, end tokenKind) bool {
	sign := byte(0)
	if rest[0] == '-' || rest[0] == '+' && end == tokenCloseBlock {
		sign, rest = rest[0], rest[1:]
	}
	if !strings.HasPrefix(rest, mark) {
		return false
	}
	l.add(end, "")
	n := 2
	if sign != 0 {
		n = 3
	}
	l.leave(n, sign == '-', end == tokenCloseBlock && sign == 0)
	return true
}

func (l *lexer) operator(rest string, open []byte) []byte {
	n := 1
	if len(rest) > 1 && strings.Contains(operators2, rest[:2]+" ") {
		n = 2
	} else if strings.IndexByte(operators1, rest[0]) < 0 {
		c, _ := utf8.DecodeRuneInString(rest)
		l.fail("unexpected character %q", c)
	}
	switch c := rest[0]; c {
	case '(':
		open = append(open, ')')
	case '[':
		open = append(open, ']')
	case '{':
		open = append(open, '}')
	case ')', ']', '}':
		if len(open) == 0 || open[len(open)-1] != c {
			l.fail("unexpected %q", c)
		}
		open = open[:len(open)-1]
	}
	l.add(tokenOperator, rest[:n])
	l.skip(n)
	return open
}

// number reads an integer or a fraction.
func (l *lexer) number(rest string) {
	n := digits(rest, 0, isDigit)
	kind := tokenInteger
	if len(rest) > 1 && rest[0] == '0' && strings.IndexByte("xXoObB", rest[1]) >= 0 {
		if m := digits(rest, 2, isHex); m > 2 {
			n = m
		}
	} else if l.pos == 0 || l.source[l.pos-1] != '.' {
		if m := n + 1; n < len(rest) && rest[n] == '.' && m < len(rest) && isDigit(rest[m]) {
			n, kind = digits(rest, m, isDigit), tokenFloat
		}
		if n < len(rest) && (rest[n] == 'e' || rest[n] == 'E') {
			m := n + 1
			if m < len(rest) && (rest[m] == '+' || rest[m] == '-') {
				m++
			}
			if m < len(rest) && isDigit(rest[m]) {
				n, kind = digits(rest, m, isDigit), tokenFloat
			}
		}
	}
	l.add(kind, strings.ReplaceAll(rest[:n], "_", ""))
	l.skip(n)
}

// digits is where the digits from i on end; single underscores may stand between them.
func digits(s string, i int, is func(byte) bool) int {
	for i < len(s) && (is(s[i]) || s[i] == '_' && i+1 < len(s) && is(s[i+1])) {
		i++
	}
	return i
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
func isHex(c byte) bool   { return isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'f' }

func (l *lexer) string(rest string, quote byte) {
	for i := 1; i < len(rest); i++ {
		switch rest[i] {
		case '\\':
			i++
		case quote:
			text := rest[1:i]
			if strings.IndexByte(text, '\\') >= 0 {
				text = l.unescape(text)
			}
			l.add(tokenString, text)
			l.skip(i + 1)
			return
		}
	}
	l.fail("a string has no end")
}

// escapes that stand for one character.
const escapes, escaped = `\'"abfnrtv`, "\\'\"\a\b\f\n\r\t\v"

// unescape is a string without escapes, as in Python.
func (l *lexer) unescape(s string) string {
	var b strings.Builder
	for {
		i := strings.IndexByte(s, '\\')
		if i < 0 || i+1 == len(s) {
			b.WriteString(s)
			return b.String()
		}
		b.WriteString(s[:i])
		c, width := s[i+1], 0
		s = s[i+2:]
		switch c {
		case '\n':
			continue
		case 'x':
			width = 2
		case 'u':
			width = 4
		case 'U':
			width = 8
		case 'N':
			l.fail(`\N in a string is not supported`)
		case '0', '1', '2', '3', '4', '5', '6', '7':
			v, n := int(c-'0'), 0
			for n < 2 && n < len(s) && s[n] >= '0' && s[n] <= '7' {
				v, n = v*8+int(s[n]-'0'), n+1
			}
			b.WriteRune(rune(v))
			s = s[n:]
			continue
		default:
			if j := strings.IndexByte(escapes, c); j >= 0 {
				b.WriteByte(escaped[j])
			} else {
				b.WriteByte('\\')
				b.WriteByte(c)
			}
			continue
		}
		if len(s) < width {
			l.fail(`a \%c in a string is cut off`, c)
		}
		v, err := strconv.ParseUint(s[:width], 16, 32)
		if err != nil || v > unicode.MaxRune {
			l.fail(`\%c%s in a string is no character`, c, s[:width])
		}
		b.WriteRune(rune(v))
		s = s[width:]
	}
}

func wordRune(c rune) bool {
	return c == '_' || unicode.IsLetter(c) || unicode.IsDigit(c) || unicode.Is(unicode.M, c)
}

// isSpace is Python's: Unicode's, and four separators of ASCII.
func isSpace(c rune) bool {
	return unicode.IsSpace(c) || c >= 0x1c && c <= 0x1f
}
