package engine

// class is a set of character classes; one look-up tells a byte's.
type class uint8

const (
	token class = 1 << iota // may stand in a method or a field name
	text                    // may stand in a field value
	uri                     // may stand in a request target
)

// classes follows RFC 9110 (token, field-value) and RFC 3986, the last one
// loosely: engines do not mind braces, but blanks, control characters, bytes
// beyond ASCII and fragments are out.
var classes = func() (t [256]class) {
	for c := range 256 {
		switch {
		case c == '\t' || c == ' ':
			t[c] = text
		case c < ' ' || c == 0x7f:
		case c >= 0x80:
			t[c] = text
		default:
			t[c] = text | uri
		}
	}
	t['#'] &^= uri
	for _, c := range "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" {
		t[c] |= token
	}
	return t
}()

func all(s string, want class) bool {
	for i := range len(s) {
		if classes[s[i]]&want == 0 {
			return false
		}
	}
	return true
}

func validToken(s string) bool { return s != "" && all(s, token) }

func validValue(s string) bool { return all(s, text) }

func validPath(s string) bool { return s != "" && s[0] == '/' && all(s, uri) }

// equalFold compares with an all-lowercase ASCII word of the same length.
func equalFold(s, lower string) bool {
	if len(s) != len(lower) {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// trim removes blanks and tabs on both sides.
func trim(s string) string {
	for s != "" && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	for s != "" && (s[len(s)-1] == ' ' || s[len(s)-1] == '\t') {
		s = s[:len(s)-1]
	}
	return s
}

// nextElement cuts the first element off a comma-separated list.
func nextElement(list string) (element, rest string) {
	for i := range len(list) {
		if list[i] == ',' {
			return trim(list[:i]), list[i+1:]
		}
	}
	return trim(list), ""
}
