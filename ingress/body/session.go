package body

// MaxKeyBytes is the longest routing key that counts.
const MaxKeyBytes = 128

// SessionKey derives a routing key from the id of a request, or from the value of a
// header that serves as one: what is left without one _r<digits> at the end, which
// numbers a retry, and one _t<digits> before it, which numbers a turn. An id that is
// nothing else is its own key. It returns "" if there is no key, or one longer than
// MaxKeyBytes.
func SessionKey(id string) string {
	key := withoutNumber(withoutNumber(id, 'r'), 't')
	if key == "" {
		key = id
	}
	if len(key) > MaxKeyBytes {
		return ""
	}
	return key
}

// withoutNumber strips an underscore, mark and one or more digits from the end of id.
func withoutNumber(id string, mark byte) string {
	n := len(id)
	for n > 0 && id[n-1]-'0' <= 9 {
		n--
	}
	if n == len(id) || n < 2 || id[n-1] != mark || id[n-2] != '_' {
		return id
	}
	return id[:n-2]
}
