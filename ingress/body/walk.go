package body

import "bytes"

// walk goes over JSON that Parse has checked, and so meets no faults. It stands at
// the beginning of a key or value, or behind what it has left last:
//
//	for ok := w.open(); ok; ok = w.next() {
//		key := w.key() // in an object
//		value := w.value()
//	}
type walk struct {
	data []byte
	i    int
}

// enter steps into value. It returns false if that is no array, or an empty one.
func enter(value []byte) (w walk, ok bool) {
	if len(value) == 0 || value[0] != '[' {
		return walk{}, false
	}
	w.data = value
	return w, w.open()
}

// typ is the type of the value at hand.
func (w *walk) typ() Type { return typeOf(w.data[w.i]) }

// open steps into the object or array at hand. It returns false, and has left it,
// if that is empty.
func (w *walk) open() bool {
	w.i++
	w.space()
	if c := w.data[w.i]; c != '}' && c != ']' {
		return true
	}
	w.i++
	return false
}

// next goes from the end of a value to the next key or element. It returns false,
// and has left the object or array, if there is none.
func (w *walk) next() bool {
	w.space()
	more := w.data[w.i] == ','
	w.i++
	if more {
		w.space()
	}
	return more
}

// key takes the key at hand, without quotes and escapes, and goes to its value. A
// key too long for one that the package knows may be returned as it is written.
func (w *walk) key() []byte {
	start := w.i + 1
	w.i = stringEnd(w.data, w.i)
	key := w.data[start : w.i-1]
	w.space()
	w.i++ // the colon
	w.space()
	if len(key) <= 6*maxKeyLen && bytes.IndexByte(key, '\\') >= 0 {
		key = appendUnescaped(nil, key)
	}
	return key
}

// value takes the value at hand as it is written.
func (w *walk) value() []byte {
	start := w.i
	switch w.data[start] {
	case '"':
		w.i = stringEnd(w.data, start)
	case '{', '[':
		w.nested()
	default:
		for w.i < len(w.data) && !endsScalar(w.data[w.i]) {
			w.i++
		}
	}
	return w.data[start:w.i:w.i]
}

// nested goes to the end of the object or array at hand.
func (w *walk) nested() {
	for depth := 0; ; {
		switch w.data[w.i] {
		case '"':
			w.i = stringEnd(w.data, w.i)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		w.i++
		if depth == 0 {
			return
		}
	}
}

func (w *walk) space() {
	for w.data[w.i] <= ' ' {
		w.i++
	}
}

func endsScalar(c byte) bool { return c == ',' || c == '}' || c == ']' || c <= ' ' }

// stringEnd returns the index after the closing quote of the string whose opening
// quote is at open. Texts hold many line breaks and few quotes, so that looking for
// quotes alone is several times faster than plainRun.
func stringEnd(data []byte, open int) int {
	i := open + 1
	for {
		i += indexByte(data[i:], '"')
		n := i
		for data[n-1] == '\\' {
			n--
		}
		i++
		if (i-n)&1 != 0 { // an even number of backslashes
			return i
		}
	}
}

// says tells whether value is a string with the text name.
func says(value []byte, name string) bool {
	if len(value) == 0 || value[0] != '"' {
		return false
	}
	in := value[1 : len(value)-1]
	return sameKey(in, bytes.IndexByte(in, '\\') >= 0, name)
}

// first is the first element of an array that has one; any other value is itself.
func first(value []byte) []byte {
	if w, ok := enter(value); ok {
		return w.value()
	}
	return value
}
