package regex

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"smg/tokenizer/ucd"
)

// Limits for patterns of files that nobody checked.
const (
	maxPattern = 64 << 10
	maxNest    = 100
	maxRepeat  = 1000
)

type kind uint8

const (
	kEmpty  kind = iota
	kSet         // one code point of set
	kSeq         // subs one after the other
	kAlt         // one of subs
	kRepeat      // subs[0], min to max times
	kGroup       // subs[0], never tried again (atomic)
	kLook        // subs[0] ahead or behind, or not
	kAssert      // assertion
)

type node struct {
	kind       kind
	subs       []*node
	set        *set
	min, max   int // max -1: any number
	lazy       bool
	possessive bool
	behind     bool
	negate     bool
	assertion  byte // the letter after the backslash, or ^ or $
}

// parser reads Oniguruma's own syntax.
type parser struct {
	s    string
	i    int
	nest int
	fold bool // (?i)
	dot  bool // (?m): a dot is any code point
	free bool // (?x)
}

func parse(pattern string) (*node, error) {
	if len(pattern) > maxPattern {
		return nil, fmt.Errorf("longer than %d bytes", maxPattern)
	}
	if !utf8.ValidString(pattern) {
		return nil, errors.New("not UTF-8")
	}
	p := &parser{s: pattern}
	n, err := p.alternation()
	if err != nil {
		return nil, fmt.Errorf("at byte %d: %w", p.i, err)
	}
	if p.i < len(p.s) {
		return nil, fmt.Errorf("at byte %d: a ) without a (", p.i)
	}
	return n, nil
}

func (p *parser) more() bool { return p.i < len(p.s) }

func (p *parser) peek(prefix string) bool { return strings.HasPrefix(p.s[p.i:], prefix) }

func (p *parser) take(prefix string) bool {
	if !p.peek(prefix) {
		return false
	}
	p.i += len(prefix)
	return true
}

func (p *parser) rune() rune {
	r, n := utf8.DecodeRuneInString(p.s[p.i:])
	p.i += n
	return r
}

func (p *parser) alternation() (*node, error) {
	if p.nest++; p.nest > maxNest {
		return nil, errors.New("nested too deeply")
	}
	fold, dot, free := p.fold, p.dot, p.free
	defer func() {
		p.nest--
		p.fold, p.dot, p.free = fold, dot, free // options end with their group
	}()
	alt := &node{kind: kAlt}
	for {
		seq, err := p.sequence()
		if err != nil {
			return nil, err
		}
		alt.subs = append(alt.subs, seq)
		if !p.take("|") {
			break
		}
	}
	if len(alt.subs) == 1 {
		return alt.subs[0], nil
	}
	return alt, nil
}

func (p *parser) sequence() (*node, error) {
	seq := &node{kind: kSeq}
	for p.more() && !p.peek("|") && !p.peek(")") {
		if p.free && p.skipped() {
			continue
		}
		n, err := p.atom()
		if err != nil {
			return nil, err
		}
		if n == nil {
			continue
		}
		if n, err = p.repeats(n); err != nil {
			return nil, err
		}
		seq.subs = append(seq.subs, n)
	}
	return seq, nil
}

// skipped passes over white space and comments of free-form patterns.
func (p *parser) skipped() bool {
	c := p.s[p.i]
	switch {
	case c == '#':
		for p.more() && p.s[p.i] != '\n' {
			p.i++
		}
		return true
	case c == ' ' || c >= '\t' && c <= '\r':
		p.i++
		return true
	}
	return false
}

func (p *parser) repeats(n *node) (*node, error) {
	for p.more() {
		lo, hi, exact := 0, -1, false
		start := p.i
		interval := false
		switch p.s[p.i] {
		case '*':
			p.i++
		case '+':
			lo = 1
			p.i++
		case '?':
			hi = 1
			p.i++
		case '{':
			var ok bool
			if lo, hi, exact, ok = p.interval(); !ok {
				p.i = start
				return n, nil // a brace that is only a brace
			}
			interval = true
		default:
			return n, nil
		}
		if lo > maxRepeat || hi > maxRepeat || hi >= 0 && lo > hi {
			return nil, fmt.Errorf("a repeat of %d to %d times, where %d is the most", lo, hi, maxRepeat)
		}
		if n.kind == kAssert || n.kind == kLook {
			return nil, errors.New("nothing to repeat")
		}
		r := &node{kind: kRepeat, subs: []*node{n}, min: lo, max: hi}
		switch {
		case !exact && p.take("?"):
			r.lazy = true
		case !interval && p.take("+"):
			r.possessive = true
		}
		n = r
	}
	return n, nil
}

// interval reads {n}, {n,}, {n,m} or {,m}.
func (p *parser) interval() (lo, hi int, exact, ok bool) {
	end := strings.IndexByte(p.s[p.i:], '}')
	if end < 0 {
		return 0, 0, false, false
	}
	body := p.s[p.i+1 : p.i+end]
	first, second, comma := strings.Cut(body, ",")
	lo, hi = 0, -1
	var err error
	if first != "" {
		if lo, err = strconv.Atoi(first); err != nil || first[0] == '+' || first[0] == '-' {
			return 0, 0, false, false
		}
	}
	if second != "" {
		if hi, err = strconv.Atoi(second); err != nil || second[0] == '+' || second[0] == '-' {
			return 0, 0, false, false
		}
	}
	if first == "" && second == "" {
		return 0, 0, false, false
	}
	if !comma {
		hi = lo
	}
	p.i += end + 1
	return lo, hi, !comma, true
}

func (p *parser) atom() (*node, error) {
	switch c := p.s[p.i]; c {
	case '(':
		p.i++
		return p.group()
	case '[':
		p.i++
		s, err := p.class(0)
		if err != nil {
			return nil, err
		}
		return &node{kind: kSet, set: s.finish()}, nil
	case '.':
		p.i++
		s := &set{pairs: []rune{'\n', '\n'}, negate: true}
		if p.dot {
			s = &set{pairs: []rune{0, unicode.MaxRune}}
		}
		return &node{kind: kSet, set: s.finish()}, nil
	case '^', '$':
		p.i++
		return &node{kind: kAssert, assertion: c}, nil
	case '*', '+', '?':
		return nil, errors.New("nothing to repeat")
	case '\\':
		p.i++
		if p.more() && strings.IndexByte("AzZbB", p.s[p.i]) >= 0 {
			p.i++
			return &node{kind: kAssert, assertion: p.s[p.i-1]}, nil
		}
		s, r, err := p.escape()
		if err != nil {
			return nil, err
		}
		if s != nil {
			return &node{kind: kSet, set: s.finish()}, nil
		}
		return p.literal(r), nil
	}
	return p.literal(p.rune()), nil
}

func (p *parser) literal(r rune) *node {
	return &node{kind: kSet, set: (&set{pairs: []rune{r, r}, fold: p.fold}).finish()}
}

func (p *parser) group() (*node, error) {
	n := &node{}
	switch {
	case p.take("?:"):
	case p.take("?>"):
		n.kind = kGroup
	case p.take("?="):
		n.kind = kLook
	case p.take("?!"):
		n.kind, n.negate = kLook, true
	case p.take("?<="):
		n.kind, n.behind = kLook, true
	case p.take("?<!"):
		n.kind, n.behind, n.negate = kLook, true, true
	case p.take("?#"):
		end := strings.IndexByte(p.s[p.i:], ')')
		if end < 0 {
			return nil, errors.New("a comment without an end")
		}
		p.i += end + 1
		return nil, nil
	case p.take("?<"), p.take("?P<"):
		end := strings.IndexByte(p.s[p.i:], '>')
		if end < 0 {
			return nil, errors.New("a name without an end")
		}
		p.i += end + 1
	case p.peek("?"):
		p.i++
		return p.options()
	case p.peek("*"):
		return nil, errors.New("callouts are not known")
	}
	sub, err := p.alternation()
	if err != nil {
		return nil, err
	}
	if !p.take(")") {
		return nil, errors.New("a ( without a )")
	}
	if n.kind == kEmpty {
		return sub, nil
	}
	n.subs = []*node{sub}
	return n, nil
}

// options reads (?imx-imx) and (?imx-imx:...), behind the question mark.
func (p *parser) options() (*node, error) {
	fold, dot, free := p.fold, p.dot, p.free
	on := true
	for p.more() {
		c := p.s[p.i]
		p.i++
		switch c {
		case '-':
			on = false
		case 'i':
			fold = on
		case 'm':
			dot = on
		case 'x':
			free = on
		case ':', ')':
			before := [3]bool{p.fold, p.dot, p.free}
			p.fold, p.dot, p.free = fold, dot, free
			if c == ')' {
				// The rest of the group, with all its alternatives.
				return p.alternation()
			}
			sub, err := p.alternation()
			p.fold, p.dot, p.free = before[0], before[1], before[2]
			if err != nil {
				return nil, err
			}
			if !p.take(")") {
				return nil, errors.New("a ( without a )")
			}
			return sub, nil
		default:
			return nil, fmt.Errorf("a group (?%c", c)
		}
	}
	return nil, errors.New("a ( without a )")
}

// escape reads what follows a backslash: a class or one code point.
func (p *parser) escape() (*set, rune, error) {
	if !p.more() {
		return nil, 0, errors.New("a backslash at the end")
	}
	c := p.rune()
	switch c {
	case 's', 'S':
		return &set{space: true, negate: c == 'S'}, 0, nil
	case 'w', 'W':
		return &set{flags: ucd.RegexWord, negate: c == 'W'}, 0, nil
	case 'd', 'D':
		return &set{cats: 1 << ucd.Nd, negate: c == 'D'}, 0, nil
	case 'h', 'H':
		return &set{pairs: []rune{'0', '9', 'A', 'F', 'a', 'f'}, negate: c == 'H'}, 0, nil
	case 'p', 'P':
		return p.property(c == 'P')
	case 'n':
		return nil, '\n', nil
	case 'r':
		return nil, '\r', nil
	case 't':
		return nil, '\t', nil
	case 'f':
		return nil, '\f', nil
	case 'v':
		return nil, '\v', nil
	case 'a':
		return nil, '\a', nil
	case 'e':
		return nil, 0x1B, nil
	case 'x':
		if p.take("{") {
			end := strings.IndexByte(p.s[p.i:], '}')
			if end < 0 {
				return nil, 0, errors.New("\\x{ without }")
			}
			r, err := p.hex(end)
			p.i++
			return nil, r, err
		}
		n := 0
		for n < 2 && p.i+n < len(p.s) && strings.IndexByte("0123456789abcdefABCDEF", p.s[p.i+n]) >= 0 {
			n++
		}
		r, err := p.hex(n)
		return nil, r, err
	case 'u':
		r, err := p.hex(4)
		return nil, r, err
	case '0':
		return nil, 0, nil
	}
	if c < utf8.RuneSelf && (c >= '1' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z') {
		return nil, 0, fmt.Errorf("\\%c is not known", c)
	}
	return nil, c, nil
}

func (p *parser) hex(n int) (rune, error) {
	if p.i+n > len(p.s) || n == 0 {
		return 0, errors.New("hexadecimal digits are missing")
	}
	v, err := strconv.ParseUint(p.s[p.i:p.i+n], 16, 32)
	if err != nil || v > unicode.MaxRune || v >= 0xD800 && v < 0xE000 {
		return 0, fmt.Errorf("%q is no code point", p.s[p.i:p.i+n])
	}
	p.i += n
	return rune(v), nil
}

func (p *parser) property(negate bool) (*set, rune, error) {
	if !p.take("{") {
		return nil, 0, errors.New("\\p without {")
	}
	end := strings.IndexByte(p.s[p.i:], '}')
	if end < 0 {
		return nil, 0, errors.New("\\p{ without }")
	}
	name := p.s[p.i : p.i+end]
	if rest, ok := strings.CutPrefix(name, "^"); ok {
		name, negate = rest, !negate
	}
	s := property(name)
	if s == nil {
		return nil, 0, fmt.Errorf("property %.40q is not known", name)
	}
	p.i += end + 1
	s.negate = negate
	return s, 0, nil
}

// class reads a bracket expression behind its opening bracket.
func (p *parser) class(depth int) (*set, error) {
	if depth > maxNest {
		return nil, errors.New("nested too deeply")
	}
	s := &set{fold: p.fold}
	s.negate = p.take("^")
	part := s
	var parts []*set // what && stands between
	first := true
	for ; ; first = false {
		if !p.more() {
			return nil, errors.New("a [ without a ]")
		}
		switch {
		case p.peek("]") && !first:
			p.i++
			if parts != nil {
				parts = append(parts, part)
				s.subs, s.and = parts[:1], parts[1:]
			}
			return s, nil
		case p.take("&&"):
			if parts == nil {
				// What was read so far is the first part.
				head := *s
				head.negate = false
				*s = set{negate: s.negate}
				part = &head
			}
			parts = append(parts, part)
			part = &set{fold: p.fold}
			continue
		case p.peek("[:"):
			if sub, ok := p.posix(); ok {
				part.subs = append(part.subs, sub)
				continue
			}
		}
		if p.take("[") {
			sub, err := p.class(depth + 1)
			if err != nil {
				return nil, err
			}
			part.subs = append(part.subs, sub)
			continue
		}
		if err := p.member(part); err != nil {
			return nil, err
		}
	}
}

// wordClass is \w within brackets: without the signs of Latin-1 that it has outside.
func wordClass(negate bool) *set {
	signs := &set{pairs: []rune{0xB2, 0xB3, 0xB9, 0xB9, 0xBC, 0xBE}, negate: true}
	return &set{flags: ucd.RegexWord, and: []*set{signs}, negate: negate}
}

// posix reads [:name:].
func (p *parser) posix() (*set, bool) {
	end := strings.Index(p.s[p.i:], ":]")
	if end < 0 {
		return nil, false
	}
	name, negate := strings.CutPrefix(p.s[p.i+2:p.i+end], "^")
	var s *set
	switch name {
	case "punct":
		s = &set{flags: ucd.PosixPunct}
	case "alnum", "alpha", "blank", "cntrl", "digit", "lower", "upper", "space", "xdigit", "word", "ascii":
		s = property(name)
	}
	if s == nil {
		return nil, false
	}
	s.negate = negate
	p.i += end + 2
	return s, true
}

// member reads a code point, a range or an escaped class.
func (p *parser) member(s *set) error {
	lo, sub, err := p.classRune()
	if err != nil {
		return err
	}
	if sub != nil {
		s.subs = append(s.subs, sub)
		return nil
	}
	hi := lo
	if p.peek("-") && !p.peek("-]") && !p.peek("-[") && !p.peek("-&&") && p.i+1 < len(p.s) {
		back := p.i
		p.i++
		if hi, sub, err = p.classRune(); err != nil {
			return err
		}
		if sub != nil { // [a-\s]: the dash is a dash
			p.i, hi = back, lo
		}
	}
	if hi < lo {
		return fmt.Errorf("a range from %q to %q", lo, hi)
	}
	s.pairs = append(s.pairs, lo, hi)
	return nil
}

func (p *parser) classRune() (rune, *set, error) {
	if !p.take("\\") {
		return p.rune(), nil, nil
	}
	if p.take("b") {
		return '\b', nil, nil
	}
	s, r, err := p.escape()
	if s != nil && s.flags == ucd.RegexWord {
		s = wordClass(s.negate)
	}
	return r, s, err
}
