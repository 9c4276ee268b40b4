package body

// scalar checks the number or literal at i.
func (s *scanner) scalar(i int) int {
	switch c := s.at(i); {
	case c == '-' || '0' <= c && c <= '9':
		return s.number(i)
	case c == 't':
		return s.literal(i, "true")
	case c == 'f':
		return s.literal(i, "false")
	case c == 'n':
		return s.literal(i, "null")
	case 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z':
		return s.badWord(i)
	case c == ']' && i > 0:
		return s.expected(i, "a value (is there a comma too many?)")
	default:
		return s.expected(i, "a value")
	}
}

func (s *scanner) literal(i int, word string) int {
	end := i + len(word)
	if end > len(s.data) || string(s.data[i:end]) != word {
		return s.badWord(i)
	}
	return end
}

func (s *scanner) badWord(i int) int {
	return s.syntax(i, "unknown word at "+describe(s.data, i)+
		": the words of JSON are true, false and null, strings need double quotes")
}

func (s *scanner) number(i int) int {
	start := i
	if s.data[i] == '-' {
		i++
	}
	zero := s.at(i) == '0'
	end := s.digits(i)
	if end == i {
		return s.expected(i, "a digit")
	}
	if zero && end > i+1 {
		return s.syntax(start, "number with leading zeros")
	}
	if c := s.at(end); c != '.' && c|0x20 != 'e' {
		return end
	}
	return s.fraction(end)
}

// fraction checks what follows the integer part of a number.
func (s *scanner) fraction(i int) int {
	if s.at(i) == '.' {
		end := s.digits(i + 1)
		if end == i+1 {
			return s.expected(end, "a digit after the decimal point")
		}
		i = end
	}
	if c := s.at(i); c == 'e' || c == 'E' {
		i++
		if c = s.at(i); c == '+' || c == '-' {
			i++
		}
		end := s.digits(i)
		if end == i {
			return s.expected(end, "a digit in the exponent")
		}
		i = end
	}
	return i
}

func (s *scanner) digits(i int) int {
	for d := s.data; i < len(d) && d[i]-'0' <= 9; {
		i++
	}
	return i
}
