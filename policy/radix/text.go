package radix

// Text is a forest of trees over text. Its unit is the Unicode scalar value.
//
// Text should be UTF-8. In text that is not, a unit starts at the first byte and at
// every byte that is no continuation byte: stray continuation bytes belong to the
// unit before them.
type Text struct {
	Forest
}

// NewText is an empty forest of at most budget units.
func NewText(budget int) *Text {
	t := &Text{}
	t.init(scalars{}, budget)
	return t
}

// Match finds the longest prefix of text in a namespace, and who holds it. Both
// counts of p are in Unicode scalar values.
func (t *Text) Match(p *Place, namespace uint64, text string) {
	t.match(p, namespace, text)
	p.Input = p.units
}

// scalars is the kind of [Text].
type scalars struct{}

func (scalars) cut(edge, rest string, n int) int {
	for n > 0 && (n < len(edge) && continues(edge[n]) || n < len(rest) && continues(rest[n])) {
		n--
	}
	return n
}

func (scalars) units(s string) int {
	if s == "" {
		return 0
	}
	return 1 + starts(s[1:])
}

func (scalars) key(parent uint32, s string) uint64 {
	k := uint64(parent)<<32 | uint64(s[0])
	for i := 1; i < min(len(s), 4) && continues(s[i]); i++ {
		k |= uint64(s[i]) << (8 * i)
	}
	return k
}
