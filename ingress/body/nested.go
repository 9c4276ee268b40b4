package body

import (
	"encoding/json"
	"slices"
)

// Doc is a JSON document of any kind that has been checked, such as an engine's answer.
type Doc []byte

// CheckDoc checks a document.
func CheckDoc(raw []byte) (Doc, bool) { return raw, json.Valid(raw) }

// At returns the JSON text of a nested member of objects, nil if it is absent. Of a
// repeated key it is the last. The bytes belong to the document.
func (d Doc) At(path ...string) Doc {
	p := d.find(path)
	if p.value == 0 {
		return nil
	}
	return d[p.value:p.end:p.end]
}

// Elements are those of an array, nil if the document is none.
func (d Doc) Elements() (elements []Doc) {
	for w, ok := enter(d[d.begin():]); ok; ok = w.next() {
		elements = append(elements, w.value())
	}
	return elements
}

// Set appends to dst the document with a nested member set to the JSON text value, which
// is spliced in unchecked: in place of what it was, or else as the last one of its
// object; nil removes it. All other bytes stay as they are. It returns false, and dst,
// if the object is not there.
func (d Doc) Set(dst, value []byte, path ...string) ([]byte, bool) {
	p := d.find(path)
	switch {
	case p.last == 0:
		return dst, false
	case value == nil && p.value == 0:
		return append(dst, d...), true
	case value == nil:
		cut := slices.Concat(d[:p.from], d[p.to:])
		return Doc(cut).Set(dst, nil, path...) // a repeated key may have another one
	case p.value > 0:
		dst = append(append(dst, d[:p.value]...), value...)
		return append(dst, d[p.end:]...), true
	}
	dst = append(dst, d[:p.last]...)
	if !p.empty {
		dst = append(dst, ',')
	}
	dst = append(AppendString(dst, path[len(path)-1]), ':')
	return append(append(dst, value...), d[p.last:]...), true
}

// place is where a nested member stands. No offset is 0 where there is something.
type place struct {
	value, end int  // of its value
	from, to   int  // of what is to be cut in order to remove it
	last       int  // where another member of its object would begin
	empty      bool // that object has none
}

func (d Doc) find(path []string) (p place) {
	at := d.begin()
	for i, key := range path {
		if at == len(d) || d[at] != '{' {
			return place{}
		}
		p = d.member(at, key)
		if p.value == 0 && i < len(path)-1 {
			return place{}
		}
		at = p.value
	}
	return p
}

// member finds a member of the object at an offset.
func (d Doc) member(at int, name string) (p place) {
	w := walk{data: d, i: at}
	p.last, p.empty = at+1, true
	hit := false // the member before the one at hand
	for ok := w.open(); ok; ok = w.next() {
		start, before := w.i, p.last
		if hit {
			p.to = start
		}
		if hit = sameName(&w, name); hit {
			p.value = w.i
		}
		w.value()
		p.last = w.i
		if hit {
			p.end, p.from, p.to = w.i, start, w.i
			if !p.empty {
				p.from = before // with the comma
			}
		}
		p.empty = false
	}
	if p.value > 0 && p.to > p.end {
		// Others follow: the comma behind it goes instead of the one before it.
		p.from = d.keyOf(p)
	}
	return p
}

// keyOf is where the key of a member begins that others follow.
func (d Doc) keyOf(p place) int {
	i := p.from
	for d[i] != '"' {
		i++
	}
	return i
}

// sameName takes the key at hand, and says whether it is name.
func sameName(w *walk, name string) bool {
	start := w.i + 1
	end := stringEnd(w.data, w.i) - 1
	key := w.data[start:end]
	w.key()
	return sameKey(key, slices.Contains(key, '\\'), name)
}

// begin is where the document's value does.
func (d Doc) begin() int {
	for i, c := range d {
		if c > ' ' {
			return i
		}
	}
	return len(d)
}
