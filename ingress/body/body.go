package body

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
)

const (
	// DefaultMaxDepth is the depth limit where nobody has set another.
	DefaultMaxDepth = 512
	// MaxBytes is the longest body that Parse takes. It is larger than any
	// body that is sensibly held in memory.
	MaxBytes = math.MaxUint32
	// UnknownModel stands for the model of a request that names none.
	UnknownModel = "unknown"

	// tableLen is how many members keep their place in Body itself. More cost
	// a second look when the body is edited, and never memory.
	tableLen = 24
)

// Body is a request body that has been checked. It refers to the bytes given to
// Parse, which nobody may change while it is in use; it holds no other memory.
// A Body is a value of some 750 bytes, safe for concurrent use.
type Body struct {
	raw      []byte
	open     int // the brace that opens the object
	end      int // the brace that closes it
	maxDepth int
	members  int
	lastEnd  int  // where the value of the last member ends
	repeats  bool // a key that is sent once occurs more than once
	fields   [keyCount]field
	table    [tableLen]member
}

type field struct {
	start, end uint32
	typ        Type
	repeated   bool
}

// Parse checks raw and finds the recorded keys. The object itself is level 1 of
// the depth that maxDepth limits. Errors are of type *Error.
//
// It takes what RFC 8259 allows and nothing else, with these choices: a string
// that is not UTF-8 is refused (encoding/json would replace its bytes, engines
// refuse it), half of a surrogate pair written as an escape is accepted and sent
// on as it is, a byte order mark is refused, and keys may be repeated.
func Parse(raw []byte, maxDepth int) (Body, error) {
	b := Body{raw: raw, maxDepth: maxDepth}
	if err := b.scan(MaxBytes); err != nil {
		return Body{}, err
	}
	return b, nil
}

// scan fills b. It returns *Error as error, so that nil is nil.
func (b *Body) scan(maxBytes uint64) error {
	if uint64(len(b.raw)) > maxBytes {
		return newError(b.raw, KindTooLarge, -1, fmt.Sprintf("the body is longer than %d bytes", maxBytes))
	}
	s := scanner{data: b.raw, maxDepth: b.maxDepth}
	i := s.space(0)
	switch c := s.at(i); {
	case i == len(b.raw):
		return newError(b.raw, KindEmpty, 0, "the body is empty, expected a JSON object")
	case bytes.HasPrefix(b.raw, []byte("\xef\xbb\xbf")):
		return newError(b.raw, KindSyntax, 0, "the body begins with a byte order mark: send plain UTF-8")
	case c != '{':
		return s.notObject(i)
	case b.maxDepth < 1:
		s.tooDeep(i)
		return s.err
	}
	b.open = i
	i = s.space(i + 1)
	if s.at(i) != '}' {
		if i = b.scanMembers(&s, i); i < 0 {
			return s.err
		}
	}
	b.end = i
	return s.finish(i + 1)
}

// scanMembers checks the members from the first key on and returns the index of
// the brace after the last.
func (b *Body) scanMembers(s *scanner, i int) int {
	var m member
	for {
		delim := s.member(i, &m)
		if delim < 0 {
			return -1
		}
		if b.members < len(b.table) {
			b.table[b.members] = m
		}
		b.members++
		if m.key != keyCount {
			b.record(&m)
		}
		if b.raw[delim] == '}' {
			b.lastEnd = int(m.valEnd)
			return delim
		}
		if i = s.afterComma(delim); i < 0 {
			return -1
		}
	}
}

func (b *Body) record(m *member) {
	f := &b.fields[m.key]
	f.repeated = f.typ != TypeAbsent
	if f.repeated && m.key.sentOnce() {
		b.repeats = true
	}
	f.start, f.end, f.typ = m.valStart, m.valEnd, typeOf(b.raw[m.valStart])
}

// finish checks that only whitespace is left.
func (s *scanner) finish(i int) error {
	if i = s.space(i); i < len(s.data) {
		return newError(s.data, KindTrailing, i,
			"unexpected "+describe(s.data, i)+" after the end of the JSON value")
	}
	return nil
}

// notObject tells what the body at i is instead of an object.
func (s *scanner) notObject(i int) error {
	end := s.value(i, s.maxDepth)
	if end < 0 {
		return s.err
	}
	if err := s.finish(end); err != nil {
		return err
	}
	return newError(s.data, KindNotObject, i,
		"the body must be a JSON object, not "+typeOf(s.data[i]).String())
}

// Raw returns the bytes given to Parse.
func (b *Body) Raw() []byte { return b.raw }

// Field returns where the value of k stands. For a repeated key it is the last.
func (b *Body) Field(k Key) Field {
	if k >= keyCount {
		return Field{}
	}
	f := b.fields[k]
	return Field{Type: f.typ, Repeated: f.repeated, Start: int(f.start), End: int(f.end)}
}

// Value returns the JSON text of the value of k, nil if it is absent. The bytes
// belong to Raw.
func (b *Body) Value(k Key) []byte {
	f := b.Field(k)
	if !f.Present() {
		return nil
	}
	return b.raw[f.Start:f.End:f.End]
}

// StringBytes returns the text of k without quotes and escapes; false if its
// value is no string. Without escapes, the usual case, the bytes belong to Raw
// and nothing is allocated.
func (b *Body) StringBytes(k Key) ([]byte, bool) { return stringText(b.Value(k)) }

// stringText is the text of value, false if it is no string.
func stringText(value []byte) ([]byte, bool) {
	if len(value) == 0 || value[0] != '"' {
		return nil, false
	}
	in := value[1 : len(value)-1 : len(value)-1]
	if bytes.IndexByte(in, '\\') < 0 {
		return in, true
	}
	return appendUnescaped(make([]byte, 0, len(in)), in), true
}

// Model returns the model that the body names, UnknownModel if it names none.
// Look a model up with StringBytes where the allocation matters.
func (b *Body) Model() string {
	if name, ok := b.StringBytes(KeyModel); ok {
		return string(name)
	}
	return UnknownModel
}

// RID returns the request id of the body, of a list the first; "" if there is none.
func (b *Body) RID() string {
	rid, _ := stringText(first(b.Value(KeyRID)))
	return string(rid)
}

// Stream tells whether the client wants a streamed answer. Null is false.
func (b *Body) Stream() bool {
	f := b.fields[KeyStream]
	return f.typ == TypeBool && b.raw[f.start] == 't'
}

// N returns the number of answers asked for; false if the body names none or
// its value is no whole number. 2.0 and 2e0 are whole.
func (b *Body) N() (int64, bool) {
	f := b.Field(KeyN)
	if f.Type != TypeNumber || f.End-f.Start > 64 {
		return 0, false
	}
	text := string(b.raw[f.Start:f.End])
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, true
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || x != math.Trunc(x) || math.Abs(x) >= 1<<53 {
		return 0, false
	}
	return int64(x), true
}
