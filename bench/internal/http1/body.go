package http1

import "math"

// Body follows the bytes of a message's body to its end. Its zero value is a body
// of no bytes.
type Body struct {
	left    int64 // of the length, or of a chunk
	chunked bool
	part    part
	seen    bool // a digit of this chunk's size, a byte of this trailer line
}

// part is where in a chunked body the next byte belongs.
type part uint8

const (
	size part = iota
	extension
	data
	dataEnd
	trailer
	end
)

// Body returns the body that follows the head. Without a length and without chunks
// it has no bytes.
func (h *Head) Body() Body {
	return Body{left: max(h.Length, 0), chunked: h.Chunked}
}

// Done says whether the whole body has been seen.
func (b *Body) Done() bool {
	if b.chunked {
		return b.part == end
	}
	return b.left == 0
}

// Feed follows p, of which n bytes belong to the body, and hands the content among
// them to take, unless take is nil.
func (b *Body) Feed(p []byte, take func([]byte)) (n int, err error) {
	if take == nil {
		take = func([]byte) {}
	}
	if !b.chunked {
		n = int(min(int64(len(p)), b.left))
		b.left -= int64(n)
		take(p[:n])
		return n, nil
	}
	for n < len(p) && b.part != end {
		if b.part == data {
			k := int(min(int64(len(p)-n), b.left))
			take(p[n : n+k])
			n += k
			if b.left -= int64(k); b.left == 0 {
				b.part = dataEnd
			}
			continue
		}
		if err := b.step(p[n]); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// step follows one byte of what is around the content.
func (b *Body) step(c byte) error {
	switch b.part {
	case size:
		return b.digit(c)
	case extension:
		if c == '\n' {
			b.sized()
		}
	case dataEnd:
		if c == '\n' {
			b.part, b.left, b.seen = size, 0, false
		} else if c != '\r' {
			return ErrChunk
		}
	case trailer:
		switch {
		case c == '\n' && !b.seen:
			b.part = end
		case c == '\n':
			b.seen = false
		case c != '\r':
			b.seen = true
		}
	case data, end: // have no bytes of this kind
	}
	return nil
}

func (b *Body) digit(c byte) error {
	var v byte
	switch {
	case '0' <= c && c <= '9':
		v = c - '0'
	case 'a' <= c && c <= 'f':
		v = c - 'a' + 10
	case 'A' <= c && c <= 'F':
		v = c - 'A' + 10
	case b.seen && c == '\n':
		b.sized()
		return nil
	case b.seen && (c == '\r' || c == ';' || c == ' '):
		b.part = extension
		return nil
	default:
		return ErrChunk
	}
	if b.left > math.MaxInt64>>4-1 {
		return ErrChunk
	}
	b.left, b.seen = b.left<<4|int64(v), true
	return nil
}

// sized is the end of a chunk's size line.
func (b *Body) sized() {
	if b.part, b.seen = data, false; b.left == 0 {
		b.part = trailer
	}
}
