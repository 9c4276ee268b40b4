package body

import (
	"fmt"
	"unicode/utf8"
)

// scanner walks over JSON text and checks it. Its methods take the index where
// something begins and return the index after it; -1 means that err is set.
type scanner struct {
	data     []byte
	maxDepth int
	err      *Error
}

func (s *scanner) fail(kind Kind, off int, msg string) int {
	s.err = newError(s.data, kind, off, msg)
	return -1
}

func (s *scanner) syntax(off int, msg string) int { return s.fail(KindSyntax, off, msg) }

// expected reports that something else than want stands at off.
func (s *scanner) expected(off int, want string) int {
	return s.syntax(off, "unexpected "+describe(s.data, off)+", expected "+want)
}

func (s *scanner) tooDeep(i int) int {
	return s.fail(KindDepth, i, fmt.Sprintf("the body is nested deeper than %d levels", s.maxDepth))
}

// space skips whitespace. Most often there is none.
func (s *scanner) space(i int) int {
	if i < len(s.data) && s.data[i] > ' ' {
		return i
	}
	return s.spaces(i)
}

func (s *scanner) spaces(i int) int {
	for i < len(s.data) {
		switch s.data[i] {
		case ' ', '\n', '\t', '\r':
			i++
		default:
			return i
		}
	}
	return i
}

// at returns the byte at i, or 0 (which JSON has no use for) at the end.
func (s *scanner) at(i int) byte {
	if i < len(s.data) {
		return s.data[i]
	}
	return 0
}

// value checks the value that begins at i. It may open at most room levels.
func (s *scanner) value(i, room int) int {
	switch s.at(i) {
	case '"':
		end, _ := s.text(i)
		return end
	case '{', '[':
		return s.nested(i, room)
	default:
		return s.scalar(i)
	}
}

// nested checks the object or array that begins at i. It keeps one bit per open
// level and so needs no recursion, which a hostile body could drive through the
// stack.
func (s *scanner) nested(i, room int) int {
	var (
		depth   int
		objects uint64 // the innermost 64 levels, one bit each: 1 is an object
		buf     [8]uint64
		outer   = buf[:0] // the levels outside them
	)
	for {
		switch c := s.at(i); c {
		case '{', '[':
			if depth == room {
				return s.tooDeep(i)
			}
			if depth&63 == 0 {
				outer = append(outer, objects)
			}
			depth++
			objects <<= 1
			i = s.space(i + 1)
			if c == '{' {
				objects |= 1
				if s.at(i) != '}' {
					if i = s.toValue(i); i < 0 {
						return -1
					}
					continue
				}
			} else if s.at(i) != ']' {
				continue
			}
			// What is empty is closed below, like everything else.
		case '"':
			if i, _ = s.text(i); i < 0 {
				return -1
			}
		default:
			if i = s.scalar(i); i < 0 {
				return -1
			}
		}

		for {
			i = s.space(i)
			c := s.at(i)
			if objects&1 != 0 {
				if c == ',' {
					if i = s.afterComma(i); i < 0 {
						return -1
					}
					if i = s.toValue(i); i < 0 {
						return -1
					}
					break
				}
				if c != '}' {
					return s.expected(i, "',' or '}'")
				}
			} else {
				if c == ',' {
					i = s.space(i + 1)
					break
				}
				if c != ']' {
					return s.expected(i, "',' or ']'")
				}
			}
			i++
			objects >>= 1
			if depth--; depth == 0 {
				return i
			}
			if depth&63 == 0 {
				objects = outer[len(outer)-1]
				outer = outer[:len(outer)-1]
			}
		}
	}
}

// afterComma goes from a comma inside an object to the next key.
func (s *scanner) afterComma(comma int) int {
	i := s.space(comma + 1)
	if s.at(i) == '}' {
		return s.syntax(comma, "comma before '}': remove it")
	}
	return i
}

// key checks the key at i. It returns the index after its closing quote.
func (s *scanner) key(i int) (end int, escaped bool) {
	if s.at(i) != '"' {
		return s.expected(i, "a key in double quotes"), false
	}
	return s.text(i)
}

// colon goes from the end of a key to its value.
func (s *scanner) colon(i int) int {
	if i = s.space(i); s.at(i) != ':' {
		return s.expected(i, "':' after a key")
	}
	return s.space(i + 1)
}

// toValue checks the key at i and goes to its value.
func (s *scanner) toValue(i int) int {
	if i, _ = s.key(i); i < 0 {
		return -1
	}
	return s.colon(i)
}

// text checks the string whose opening quote is at open.
func (s *scanner) text(open int) (end int, escaped bool) {
	i := open + 1
	var seen uint64
	for {
		stop, high := plainRun(s.data, i)
		seen |= high
		i = stop
		switch s.at(i) {
		case '"':
			if seen != 0 && !utf8.Valid(s.data[open:i]) {
				return s.notUTF8(open), false
			}
			return i + 1, escaped
		case '\\':
			escaped = true
			if i = s.escape(i); i < 0 {
				return -1, false
			}
		default:
			if i == len(s.data) {
				return s.syntax(open, "string without a closing quote"), false
			}
			return s.syntax(i, "unescaped "+describe(s.data, i)+" in a string"), false
		}
	}
}

// escape checks the escape sequence whose backslash is at i.
func (s *scanner) escape(i int) int {
	switch s.at(i + 1) {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2
	case 'u':
		if hex4(s.data[i+2:]) < 0 {
			return s.syntax(i, `\u needs four hexadecimal digits`)
		}
		return i + 6
	default:
		return s.syntax(i, "unknown escape sequence in a string (a backslash itself is written twice)")
	}
}

// notUTF8 reports the first byte from i on that is not UTF-8.
func (s *scanner) notUTF8(i int) int {
	for {
		r, size := utf8.DecodeRune(s.data[i:])
		if r == utf8.RuneError && size <= 1 {
			return s.syntax(i, describe(s.data, i)+" in a string is not UTF-8")
		}
		i += size
	}
}
