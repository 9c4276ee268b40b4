package body

// member is one key of the top-level object and its value, as offsets.
type member struct {
	keyStart, keyEnd uint32 // between the quotes
	valStart, valEnd uint32
	escaped          bool // the key holds escapes
	key              Key  // keyCount if it is not recorded
}

func (m *member) is(raw []byte, name string) bool {
	return sameKey(raw[m.keyStart:m.keyEnd], m.escaped, name)
}

// delim returns where the comma or brace after the member of b stands.
func (m *member) delim(b *Body) int {
	s := scanner{data: b.raw}
	return s.space(int(m.valEnd))
}

// member checks the member whose key is expected at i, fills m and returns the
// index of the comma or brace after it.
func (s *scanner) member(i int, m *member) int {
	keyEnd, escaped := s.key(i)
	if keyEnd < 0 {
		return -1
	}
	val := s.colon(keyEnd)
	if val < 0 {
		return -1
	}
	end := s.value(val, s.maxDepth-1)
	if end < 0 {
		return -1
	}
	delim := s.space(end)
	if c := s.at(delim); c != ',' && c != '}' {
		return s.expected(delim, "',' or '}'")
	}
	*m = member{
		keyStart: uint32(i + 1),
		keyEnd:   uint32(keyEnd - 1),
		valStart: uint32(val),
		valEnd:   uint32(end),
		escaped:  escaped,
		key:      recorded(s.data[i+1:keyEnd-1], escaped),
	}
	return delim
}

// recorded returns the recorded key that the raw key spells, or keyCount.
func recorded(raw []byte, escaped bool) Key {
	if !escaped {
		return keyOf(raw)
	}
	if len(raw) > 6*maxKeyLen {
		return keyCount
	}
	var buf [6 * maxKeyLen]byte
	return keyOf(appendUnescaped(buf[:0], raw))
}

// cursor goes over the members of a parsed body: the first ones come from the
// table that Parse has filled, those that found no room there are read again.
// The zero cursor stands before the first member.
type cursor struct {
	n    int // members passed
	next int // where the next key stands, beyond the table
}

// step moves to the next member and fills m, or returns false at the end.
func (c *cursor) step(b *Body, m *member) bool {
	switch {
	case c.n >= b.members:
		return false
	case c.n < len(b.table):
		*m = b.table[c.n]
	default:
		s := scanner{data: b.raw, maxDepth: b.maxDepth}
		s.member(c.next, m)
	}
	c.n++
	if c.n >= len(b.table) && c.n < b.members {
		s := scanner{data: b.raw}
		c.next = s.space(m.delim(b) + 1)
	}
	return true
}

// Member returns the JSON text of the last member called name, nil if there is none.
// Keys are compared after unescaping. The bytes belong to Raw.
func (b *Body) Member(name string) []byte {
	var value []byte
	var c cursor
	var m member
	for c.step(b, &m) {
		if m.is(b.raw, name) {
			value = b.raw[m.valStart:m.valEnd:m.valEnd]
		}
	}
	return value
}
