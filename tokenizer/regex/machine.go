package regex

import (
	"unicode/utf8"

	"smg/tokenizer/ucd"
)

// What a pattern may cost on a text: a linear number of steps, and some. Few
// patterns take more than 20 a byte; the rest is for short texts and bad patterns,
// and is over in a second.
const (
	stepsPerByte = 200
	stepsMin     = 1 << 25
)

// frame is a place to go back to.
type frame struct {
	kind frameKind
	pc   int
	pos  int
	aux  int // back: next alternative, least position of a run, old value of a slot
}

type frameKind uint8

const (
	backTo   frameKind = iota
	backAlts           // the alternatives of pc from aux on
	backRun            // give back a code point of a run, down to aux
	backSlot           // slot pc had the value aux
)

type machine struct {
	re    *Regexp
	text  string
	stack []frame
	slots []int
	here  int // where the innermost look-behind began
	steps int // left; below 0: too costly
}

func (m *machine) start(text string) {
	m.text = text
	m.stack = m.stack[:0]
	m.steps = stepsMin + stepsPerByte*len(text)
}

// match runs from pc at pos and returns where the match ends, or -1.
func (m *machine) match(pc, pos int) int {
	base := len(m.stack)
	text, prog := m.text, m.re.prog
	for {
		if m.steps--; m.steps < 0 {
			m.stack = m.stack[:base]
			return -1
		}
		i := &prog[pc]
		ok := true
		switch i.op {
		case opMatch:
			m.stack = m.stack[:base]
			return pos
		case opSet:
			r, n := decode(text, pos)
			if ok = n > 0 && i.set.has(r); ok {
				pos += n
				pc++
			}
		case opRun:
			if end, least := m.run(i, pos); end < 0 {
				ok = false
			} else {
				if end > least && !i.keep {
					m.stack = append(m.stack, frame{backRun, pc + 1, end, least})
				}
				pos = end
				pc++
			}
		case opAlts:
			pc, ok = m.alts(pc, pos, 0)
		case opJump:
			pc = i.x
		case opSplit:
			m.stack = append(m.stack, frame{backTo, i.y, pos, 0})
			pc = i.x
		case opMark:
			m.stack = append(m.stack, frame{backSlot, i.x, 0, m.slots[i.x]})
			m.slots[i.x] = pos
			pc++
		case opMoved:
			if m.slots[i.x] == pos {
				pc = i.y
			} else {
				pc++
			}
		case opLook:
			if ok = m.look(i, pc+1, pos) != i.negate; ok {
				pc = i.x
			}
		case opAtomic:
			if end := m.match(pc+1, pos); end < 0 {
				ok = false
			} else {
				pos = end
				pc = i.x
			}
		case opAssert:
			ok = m.holds(i.assert, pos)
			pc++
		case opHere:
			ok = pos == m.here
			pc++
		}
		if !ok {
			if pc, pos, ok = m.back(base); !ok {
				return -1
			}
		}
	}
}

// alts goes to the next alternative of pc, from the given one on, that the text
// at pos can begin.
func (m *machine) alts(pc, pos, from int) (int, bool) {
	i := &m.re.prog[pc]
	for k := from; k < len(i.alts); k++ {
		a := &i.alts[k]
		if pos < len(m.text) {
			if !a.first.has(m.text[pos]) {
				continue
			}
		} else if !i.negate {
			return pc, false
		}
		if k+1 < len(i.alts) {
			m.stack = append(m.stack, frame{backAlts, pc, pos, k + 1})
		}
		return a.pc, true
	}
	return pc, false
}

// run is where a run of a set ends, and where the shortest allowed would.
func (m *machine) run(i *inst, pos int) (end, least int) {
	least = pos
	n := 0
	for ; n != i.max; n++ {
		r, w := decode(m.text, pos)
		if w == 0 || !i.set.has(r) {
			break
		}
		pos += w
		if n < i.min {
			least = pos
		}
	}
	m.steps -= n
	if n < i.min {
		return -1, 0
	}
	return pos, least
}

// back takes the latest place to go on from, above base.
func (m *machine) back(base int) (pc, pos int, ok bool) {
	for len(m.stack) > base {
		m.steps--
		f := &m.stack[len(m.stack)-1]
		switch f.kind {
		case backSlot:
			m.slots[f.pc] = f.aux
			m.stack = m.stack[:len(m.stack)-1]
		case backRun:
			_, w := utf8.DecodeLastRuneInString(m.text[:f.pos])
			f.pos -= w
			pc, pos = f.pc, f.pos
			if f.pos <= f.aux {
				m.stack = m.stack[:len(m.stack)-1]
			}
			return pc, pos, true
		case backAlts:
			g := *f
			m.stack = m.stack[:len(m.stack)-1]
			if pc, ok := m.alts(g.pc, g.pos, g.aux); ok {
				return pc, g.pos, true
			}
		default:
			pc, pos = f.pc, f.pos
			m.stack = m.stack[:len(m.stack)-1]
			return pc, pos, true
		}
	}
	return 0, 0, false
}

// look reports whether the body at pc matches ahead of pos, or ends there.
func (m *machine) look(i *inst, pc, pos int) bool {
	if !i.behind {
		return m.match(pc, pos) >= 0
	}
	outer := m.here
	defer func() { m.here = outer }()
	at := pos
	for n := 0; n <= i.max; n++ {
		if n >= i.min {
			m.here = pos
			if m.match(pc, at) >= 0 {
				return true
			}
		}
		_, w := utf8.DecodeLastRuneInString(m.text[:at])
		if w == 0 {
			break
		}
		at -= w
	}
	return false
}

func (m *machine) holds(assert byte, pos int) bool {
	s := m.text
	switch assert {
	case '^':
		return pos == 0 || s[pos-1] == '\n' && pos < len(s)
	case '$':
		return pos == len(s) || s[pos] == '\n'
	case 'A':
		return pos == 0
	case 'z':
		return pos == len(s)
	case 'Z':
		return pos == len(s) || pos == len(s)-1 && s[pos] == '\n'
	case 'b', 'B':
		before, n := utf8.DecodeLastRuneInString(s[:pos])
		after, k := decode(s, pos)
		edge := (n > 0 && ucd.Is(before, ucd.RegexWord)) != (k > 0 && ucd.Is(after, ucd.RegexWord))
		return edge == (assert == 'b')
	}
	return false // \G: searches begin anew, so nothing is where the last one ended
}

func decode(s string, i int) (rune, int) {
	if i >= len(s) {
		return 0, 0
	}
	if c := s[i]; c < utf8.RuneSelf {
		return rune(c), 1
	}
	return utf8.DecodeRuneInString(s[i:])
}
