package jinja

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Value is what templates work on; see the package comment.
type Value = any

// List is a list, or a tuple, whose values nobody changes.
type List struct {
	Items []Value
	tuple bool
}

// iterator is what Python's lazy filters return: it can be gone through once.
type iterator struct {
	items []Value
	name  string // of the type
}

// view is what a dict's keys, values and items are.
type view struct {
	items []Value
	name  string
}

// interval is a range.
type interval struct{ from, step, n int64 }

func (i interval) at(k int64) Value { return i.from + k*i.step }

// undefined is what is not there.
type undefined struct{ why string }

func isUndefined(v Value) bool {
	_, is := v.(undefined)
	return is
}

// function is what can be called.
type function struct {
	name string
	do   func(r *run, a *given) Value
}

// namespace is an object whose attributes can be set.
type namespace struct{ attrs Dict }

// whole is n as the value that it is.
func whole(n *big.Int) Value {
	if n.IsInt64() {
		return n.Int64()
	}
	return n
}

// typeName is what Python calls the type of v.
func typeName(v Value) string {
	switch v := v.(type) {
	case nil:
		return "NoneType"
	case bool:
		return "bool"
	case int64, *big.Int:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case *List:
		if v.tuple {
			return "tuple"
		}
		return "list"
	case *Dict:
		return "dict"
	case *iterator:
		return v.name
	case *view:
		return v.name
	case interval:
		return "range"
	case undefined:
		return "Undefined"
	case *function:
		return "function"
	case *namespace:
		return "Namespace"
	case *loopState:
		return "LoopContext"
	}
	return "object"
}

// objectName is how messages name what an attribute is missing of.
func objectName(v Value) string {
	if v == nil {
		return "None"
	}
	return typeName(v) + " object"
}

// truth is whether v counts as true.
func truth(v Value) bool {
	switch v := v.(type) {
	case nil, undefined:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case *List:
		return len(v.Items) > 0
	case *Dict:
		return v.Len() > 0
	case *view:
		return len(v.items) > 0
	case interval:
		return v.n > 0
	}
	return true
}

// number is v as a number, bools too.
func number(v Value) (f float64, n int64, isInt, ok bool) {
	switch v := v.(type) {
	case bool:
		if v {
			return 1, 1, true, true
		}
		return 0, 0, true, true
	case int64:
		return float64(v), v, true, true
	case float64:
		return v, 0, false, true
	}
	return 0, 0, false, false
}

// equal is Python's ==.
func (r *run) equal(a, b Value) bool {
	r.step(1)
	defer r.deeper()()
	if f, n, whole, ok := number(a); ok {
		g, m, whole2, ok := number(b)
		if whole && whole2 {
			return ok && n == m
		}
		return ok && f == g
	}
	switch a := a.(type) {
	case nil:
		return b == nil
	case string:
		b, ok := b.(string)
		return ok && a == b
	case *big.Int:
		b, ok := b.(*big.Int)
		return ok && a.Cmp(b) == 0
	case undefined:
		_, ok := b.(undefined)
		return ok
	case interval:
		return a == b
	case *List:
		b, ok := b.(*List)
		if !ok || a.tuple != b.tuple || len(a.Items) != len(b.Items) {
			return false
		}
		for i := range a.Items {
			if !r.equal(a.Items[i], b.Items[i]) {
				return false
			}
		}
		return true
	case *Dict:
		b, ok := b.(*Dict)
		if !ok || a.Len() != b.Len() {
			return false
		}
		for i, k := range a.keys {
			if v, ok := b.get(k); !ok || !r.equal(a.values[i], v) {
				return false
			}
		}
		return true
	}
	return a == b // pointers, all of them
}

// less is Python's <. op is for the message.
func (r *run) less(a, b Value, op string) bool {
	r.step(1)
	defer r.deeper()()
	if f, n, whole, ok := number(a); ok {
		if g, m, whole2, ok := number(b); ok {
			if whole && whole2 {
				return n < m
			}
			return f < g
		}
	}
	switch a := a.(type) {
	case undefined:
		r.fail("%s", a.why)
	case string:
		if b, ok := b.(string); ok {
			return a < b // the order of UTF-8 is that of characters
		}
	case *List:
		if b, ok := b.(*List); ok && a.tuple == b.tuple {
			for i := range min(len(a.Items), len(b.Items)) {
				if !r.equal(a.Items[i], b.Items[i]) {
					return r.less(a.Items[i], b.Items[i], op)
				}
			}
			return len(a.Items) < len(b.Items)
		}
	}
	if u, ok := b.(undefined); ok {
		r.fail("%s", u.why)
	}
	r.fail("'%s' not supported between instances of '%s' and '%s'", op, typeName(a), typeName(b))
	return false
}

// text is Python's str(v).
func (r *run) text(v Value) string {
	switch v := v.(type) {
	case string:
		return v
	case undefined:
		return ""
	}
	var b strings.Builder
	r.repr(&b, v)
	return b.String()
}

// repr appends Python's repr(v).
func (r *run) repr(b *strings.Builder, v Value) {
	r.step(1)
	defer r.deeper()()
	r.alloc(8)
	switch v := v.(type) {
	case nil:
		b.WriteString("None")
	case bool:
		if v {
			b.WriteString("True")
		} else {
			b.WriteString("False")
		}
	case int64:
		b.WriteString(strconv.FormatInt(v, 10))
	case *big.Int:
		b.WriteString(v.String())
	case float64:
		b.WriteString(formatFloat(v))
	case string:
		r.alloc(len(v))
		quote(b, v)
	case undefined:
		b.WriteString("Undefined")
	case *List:
		r.reprList(b, v)
	case *Dict:
		b.WriteByte('{')
		for i, k := range v.keys {
			if i > 0 {
				b.WriteString(", ")
			}
			r.repr(b, k)
			b.WriteString(": ")
			r.repr(b, v.values[i])
		}
		b.WriteByte('}')
	case *view:
		b.WriteString(v.name + "(")
		r.reprList(b, &List{Items: v.items})
		b.WriteByte(')')
	case interval:
		b.WriteString("range(" + strconv.FormatInt(v.from, 10) + ", " + strconv.FormatInt(v.from+v.n*v.step, 10))
		if v.step != 1 {
			b.WriteString(", " + strconv.FormatInt(v.step, 10))
		}
		b.WriteByte(')')
	case *namespace:
		b.WriteString("<Namespace ")
		r.repr(b, &v.attrs)
		b.WriteByte('>')
	default:
		// Python would show an address.
		r.fail("a %s has no text", typeName(v))
	}
}

func (r *run) reprList(b *strings.Builder, v *List) {
	brackets := "[]"
	if v.tuple {
		brackets = "()"
	}
	b.WriteByte(brackets[0])
	for i, x := range v.Items {
		if i > 0 {
			b.WriteString(", ")
		}
		r.repr(b, x)
	}
	if v.tuple && len(v.Items) == 1 {
		b.WriteByte(',')
	}
	b.WriteByte(brackets[1])
}

// formatFloat is Python's repr of a float.
func formatFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// quote appends Python's repr of a string.
func quote(b *strings.Builder, s string) {
	q := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		q = '"'
	}
	const hex = "0123456789abcdef"
	b.WriteByte(q)
	for _, c := range s {
		switch {
		case c == rune(q) || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\t':
			b.WriteString(`\t`)
		case c == ' ' || c > 0x7f && unicode.IsPrint(c) || c > ' ' && c < 0x7f:
			b.WriteRune(c)
		case c < 0x100:
			b.WriteString(`\x`)
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		default:
			width, letter := 4, byte('u')
			if c > 0xffff {
				width, letter = 8, 'U'
			}
			b.WriteByte('\\')
			b.WriteByte(letter)
			for i := width - 1; i >= 0; i-- {
				b.WriteByte(hex[c>>(4*i)&15])
			}
		}
	}
	b.WriteByte(q)
}

// items are what going through v gives.
func (r *run) items(v Value) []Value {
	switch v := v.(type) {
	case *List:
		return v.Items
	case *view:
		return v.items
	case *Dict:
		return v.keys
	case *iterator:
		items := v.items
		v.items = nil
		return items
	case undefined:
		return nil
	case string:
		n := utf8.RuneCountInString(v)
		r.alloc(16 * n)
		items := make([]Value, 0, n)
		for i, c := range v {
			size := utf8.RuneLen(c)
			if c == utf8.RuneError {
				_, size = utf8.DecodeRuneInString(v[i:])
			}
			items = append(items, v[i:i+size])
		}
		return items
	case interval:
		r.alloc(24 * int(v.n))
		items := make([]Value, v.n)
		for i := range items {
			items[i] = v.at(int64(i))
		}
		return items
	}
	r.fail("'%s' object is not iterable", typeName(v))
	return nil
}

// length is Python's len(v).
func (r *run) length(v Value) int {
	switch v := v.(type) {
	case string:
		return utf8.RuneCountInString(v)
	case *List:
		return len(v.Items)
	case *Dict:
		return v.Len()
	case *view:
		return len(v.items)
	case interval:
		return int(v.n)
	case undefined:
		return 0
	}
	r.fail("object of type '%s' has no len()", typeName(v))
	return 0
}
