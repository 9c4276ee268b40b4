package body

import (
	"bytes"
	"slices"
)

// Edit is one change of the top-level object. Keys are compared with those of
// the body after unescaping. Among edits of the same key the last one counts.
type Edit struct {
	// Key is the key as text, without quotes and escapes.
	Key string
	// Value is the JSON text to set; nil removes the key.
	Value []byte
}

// Remove takes every occurrence of key out of the object.
func Remove(key string) Edit { return Edit{Key: key} }

// Set gives key the JSON text value: in place of its last occurrence, while
// the others are removed, or else at the end of the object. The value is spliced
// in unchecked, so it must be one valid JSON value.
func Set(key string, value []byte) Edit { return Edit{Key: key, Value: value} }

// Normalize returns the body as a worker may see it: of model, stream and n only
// the last occurrence is left. It returns Raw itself when nothing has to change,
// which nobody may write to.
func (b *Body) Normalize() []byte { return b.Edit() }

// Edit returns the normalized body with the edits applied. All other bytes stay
// as they are, apart from the commas and the whitespace around a member that is
// removed. It allocates once, exactly what is needed, or returns Raw itself
// when nothing has to change.
func (b *Body) Edit(edits ...Edit) []byte {
	if len(edits) == 0 && !b.repeats {
		return b.raw
	}
	p := splicer{b: b, edits: edits}
	p.locate()
	size := sink{dry: true}
	if !p.walk(&size) {
		return b.raw
	}
	out := sink{out: make([]byte, 0, size.n)}
	p.walk(&out)
	return out.out
}

// AppendEdit appends to dst what Edit returns, and returns the longer slice. It
// always copies. dst must not overlap Raw.
func (b *Body) AppendEdit(dst []byte, edits ...Edit) []byte {
	p := splicer{b: b, edits: edits}
	p.locate()
	out := sink{out: dst}
	p.walk(&out)
	return out.out
}

// sink takes bytes, or only counts them.
type sink struct {
	out []byte
	n   int
	dry bool
}

func (k *sink) put(p []byte) {
	k.n += len(p)
	if !k.dry {
		k.out = append(k.out, p...)
	}
}

// splicer holds what one run of edits needs to know.
type splicer struct {
	b     *Body
	edits []Edit
	// few holds, for each edit, where the value of the last member with its key
	// begins; 0, which is no such place, if there is none. many goes on where
	// few ends.
	few  [8]uint32
	many []uint32
	hit  bool // some member has the key of an edit
}

func (p *splicer) last(e int) *uint32 {
	if e < len(p.few) {
		return &p.few[e]
	}
	return &p.many[e-len(p.few)]
}

// locate finds what last returns.
func (p *splicer) locate() {
	if len(p.edits) == 0 {
		return
	}
	if more := len(p.edits) - len(p.few); more > 0 {
		p.many = make([]uint32, more)
	}
	var c cursor
	var m member
	for c.step(p.b, &m) {
		if e := p.match(&m); e >= 0 {
			*p.last(e) = m.valStart
			p.hit = true
		}
	}
}

// match returns the index of the edit that counts for m, or -1.
func (p *splicer) match(m *member) int {
	for i, e := range slices.Backward(p.edits) {
		if m.is(p.b.raw, e.Key) {
			return i
		}
	}
	return -1
}

// fate tells what becomes of m: whether it stays, and with which new value.
func (p *splicer) fate(m *member) (keep bool, value []byte) {
	if e := p.match(m); e >= 0 {
		value = p.edits[e].Value
		if value == nil || *p.last(e) != m.valStart {
			return false, nil
		}
		if bytes.Equal(value, p.b.raw[m.valStart:m.valEnd]) {
			return true, nil
		}
		return true, value
	}
	if m.key == keyCount || !m.key.sentOnce() {
		return true, nil
	}
	return p.b.fields[m.key].start == m.valStart, nil
}

// walk writes the edited body to out and tells whether it differs from Raw.
//
// It copies as few and as long pieces as it can. from is where the next piece
// begins; open says that the piece reaches up to and including the comma or
// brace before the member at hand.
func (p *splicer) walk(out *sink) (changed bool) {
	var (
		b     = p.b
		c     cursor
		m     member
		from  = 0
		open  = true
		kept  = 0
		after = b.open + 1 // where a new member goes if open
		chunk = b.open + 1 // where the bytes of the member at hand begin
	)
	if !p.hit && !b.repeats && b.members > 0 {
		// The usual case: all members stay, some may follow them.
		c.n, kept, after = b.members, b.members, b.lastEnd
	}
	for ; c.step(b, &m); chunk = m.delim(b) + 1 {
		keep, value := p.fate(&m)
		if !keep {
			changed = true
			if open {
				// Without the comma before it, if there is one.
				out.put(b.raw[from:max(chunk-1, b.open+1)])
				open = false
			}
			continue
		}
		if !open {
			open, from = true, chunk
			if kept > 0 {
				from-- // its comma
			}
		}
		kept++
		after = int(m.valEnd)
		if value != nil {
			changed = true
			out.put(b.raw[from:m.valStart])
			out.put(value)
			from = after
		}
	}
	for e := range p.edits {
		if !p.isNew(e) {
			continue
		}
		changed = true
		if open {
			out.put(b.raw[from:after])
			from = after
		}
		if kept > 0 {
			out.put([]byte{','})
		}
		kept++
		var key [64]byte
		out.put(AppendString(key[:0], p.edits[e].Key))
		out.put([]byte{':'})
		out.put(p.edits[e].Value)
	}
	if !open {
		from = b.end
	}
	out.put(b.raw[from:])
	return changed
}

// isNew tells whether edit e adds a key that the body has not.
func (p *splicer) isNew(e int) bool {
	if p.edits[e].Value == nil || *p.last(e) != 0 {
		return false
	}
	for _, later := range p.edits[e+1:] {
		if later.Key == p.edits[e].Key {
			return false
		}
	}
	return true
}
