package tokenreply

// stopString finds a string in text that comes in parts. It is immutable.
type stopString struct {
	text string
	// border is, for each length of a beginning of text, the length of the longest shorter
	// beginning that it ends with.
	border []int32
}

func newStop(text string) stopString {
	s := stopString{text: text, border: make([]int32, len(text)+1)}
	for n, at := 1, int32(0); n < len(text); n++ {
		at = s.step(at, text[n])
		s.border[n+1] = at
	}
	return s
}

// step is how much of the string a text ends with, if it ended with at bytes of it, not
// all, before c.
func (s *stopString) step(at int32, c byte) int32 {
	for {
		if s.text[at] == c {
			return at + 1
		}
		if at == 0 {
			return 0
		}
		at = s.border[at]
	}
}

// find reads a part, behind a text that ended with at bytes of the string. It returns
// where in part the first match ends, 0 for none, and what the text ends with.
func (s *stopString) find(at int32, part string) (end int, now int32) {
	for i := range len(part) {
		if at = s.step(at, part[i]); int(at) == len(s.text) {
			at = s.border[at]
			if end == 0 {
				end = i + 1
			}
		}
	}
	return end, at
}
