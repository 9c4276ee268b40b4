package body

import (
	"bytes"
	"slices"
)

// joiner joins the parts of a routing text by one space. It keeps what fits in limit
// bytes and counts all.
type joiner struct {
	// room is where texts are put together that do not stand in the body as they are.
	room  *[]byte
	limit int

	kept  []byte // in the body while it is a single part without escapes, else in room
	own   bool   // kept is in room
	full  bool   // something did not fit: nothing more is kept
	chars int64
}

// done returns what has been joined.
func (j *joiner) done() (text []byte, chars int64) {
	if j.own {
		*j.room = j.kept
	}
	return slices.Clip(j.kept), j.chars
}

// add adds value if it is a string. An empty one is no part.
func (j *joiner) add(value []byte) {
	if len(value) > len(`""`) && value[0] == '"' {
		in := value[1 : len(value)-1]
		j.part(in, bytes.IndexByte(in, '\\') >= 0)
	}
}

// part adds the text of the string body in, which is not empty.
func (j *joiner) part(in []byte, escaped bool) {
	if j.chars > 0 {
		j.chars++
		j.space()
	}
	j.chars += int64(characters(in))
	if !escaped {
		j.keep(in)
		return
	}
	if j.full {
		j.chars -= int64(saving(in))
		return
	}
	j.move()
	j.kept = slices.Grow(j.kept, min(len(in), j.limit-len(j.kept)))
	kept, saved, whole := appendText(j.kept, in, j.limit)
	j.kept, j.full = kept, !whole
	j.chars -= int64(saved)
}

// keep keeps text as far as it fits.
func (j *joiner) keep(text []byte) {
	if j.full {
		return
	}
	n := cut(text, j.limit-len(j.kept))
	j.full = n < len(text)
	switch {
	case n == 0:
	case !j.own && len(j.kept) == 0:
		j.kept = text[:n]
	default:
		j.move()
		j.kept = append(j.kept, text[:n]...)
	}
}

// space keeps a space, if it fits.
func (j *joiner) space() {
	if j.full = j.full || len(j.kept) >= j.limit; !j.full {
		j.move()
		j.kept = append(j.kept, ' ')
	}
}

// move has kept in room, where it can grow.
func (j *joiner) move() {
	if !j.own {
		j.own = true
		j.kept = append((*j.room)[:0], j.kept...)
	}
}
