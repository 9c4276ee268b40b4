package jinja

import (
	"math/big"
	"strings"
	"unicode/utf8"
)

func (n *constant) eval(*run, *scope) Value { return n.v }

func (n *name) eval(r *run, s *scope) Value {
	r.step(1)
	if v, ok := s.find(n.id); ok {
		return v
	}
	if f := global(n.id); f != nil {
		return f
	}
	return undefined{"'" + n.id + "' is undefined"}
}

func (n *sequence) eval(r *run, s *scope) Value {
	r.alloc(40 + 16*len(n.items))
	l := &List{Items: make([]Value, len(n.items)), tuple: n.tuple}
	for i, x := range n.items {
		l.Items[i] = x.eval(r, s)
	}
	return l
}

func (n *dictionary) eval(r *run, s *scope) Value {
	r.alloc(80 + 48*len(n.keys))
	d := &Dict{}
	for i, k := range n.keys {
		key := k.eval(r, s)
		r.hashed(key)
		d.set(key, n.values[i].eval(r, s))
	}
	return d
}

// hashed fails if key cannot be a key.
func (r *run) hashed(key Value) {
	if _, ok := hashable(key); !ok {
		r.fail("unhashable type: '%s'", typeName(key))
	}
}

func (n *conditional) eval(r *run, s *scope) Value {
	r.step(1)
	if truth(n.test.eval(r, s)) {
		return n.then.eval(r, s)
	}
	if n.otherwise == nil {
		return undefined{"the inline if-expression evaluated to false and no else section was defined."}
	}
	return n.otherwise.eval(r, s)
}

func (n *negation) eval(r *run, s *scope) Value { return !truth(n.x.eval(r, s)) }

func (n *junction) eval(r *run, s *scope) Value {
	r.step(1)
	a := n.a.eval(r, s)
	if truth(a) == n.or {
		return a
	}
	return n.b.eval(r, s)
}

func (n *unary) eval(r *run, s *scope) Value {
	r.step(1)
	switch x := n.x.eval(r, s).(type) {
	case undefined:
		r.fail("%s", x.why)
	case *big.Int:
		if n.op == '-' {
			return whole(new(big.Int).Neg(x))
		}
		return x
	default:
		f, i, isInt, ok := number(x)
		switch {
		case !ok:
			r.fail("bad operand type for unary %c: '%s'", n.op, typeName(x))
		case isInt && n.op == '-':
			return r.arith("-", int64(0), i)
		case isInt:
			return i
		case n.op == '-':
			return -f
		}
		return f
	}
	return nil
}

func (n *binary) eval(r *run, s *scope) Value {
	r.step(1)
	a, b := n.a.eval(r, s), n.b.eval(r, s)
	return r.arith(n.op, a, b)
}

func (n *concatenation) eval(r *run, s *scope) Value {
	r.step(1)
	parts := make([]string, len(n.items))
	size := 0
	for i, x := range n.items {
		parts[i] = r.text(x.eval(r, s))
		size += len(parts[i])
	}
	r.alloc(size)
	return strings.Join(parts, "")
}

func (n *comparison) eval(r *run, s *scope) Value {
	r.step(1)
	a := n.first.eval(r, s)
	for i, op := range n.ops {
		b := n.rest[i].eval(r, s)
		if !r.compared(op, a, b) {
			return false
		}
		a = b
	}
	return true
}

func (r *run) compared(op string, a, b Value) bool {
	switch op {
	case "==":
		return r.equal(a, b)
	case "!=":
		return !r.equal(a, b)
	case "<":
		return r.less(a, b, op)
	case ">":
		return r.less(b, a, op)
	case "<=":
		return r.atMost(a, b, op)
	case ">=":
		return r.atMost(b, a, op)
	case "in":
		return r.contains(b, a)
	default:
		return !r.contains(b, a)
	}
}

// atMost is Python's <=, which of a NaN is not the opposite of >.
func (r *run) atMost(a, b Value, op string) bool {
	if r.less(a, b, op) {
		return true
	}
	return !r.less(b, a, op) && r.equal(a, b)
}

// contains is Python's "x in v".
func (r *run) contains(v, x Value) bool {
	switch v := v.(type) {
	case string:
		s, ok := x.(string)
		if !ok {
			r.fail("'in <string>' requires string as left operand, not %s", typeName(x))
		}
		r.step(len(v) >> 8)
		return strings.Contains(v, s)
	case *Dict:
		if l, ok := x.(*List); isUndefined(x) || ok && l.tuple {
			return false // no dict here has such keys
		}
		r.hashed(x)
		return v.find(x) >= 0
	case *namespace, nil, bool, int64, float64, *big.Int, *function, *loopState:
		r.fail("argument of type '%s' is not iterable", typeName(v))
	}
	for _, y := range r.items(v) {
		if r.equal(x, y) {
			return true
		}
	}
	return false
}

func (n *attribute) eval(r *run, s *scope) Value {
	r.step(1)
	x := n.x.eval(r, s)
	r.line = n.line
	if v, ok := r.attribute(x, n.name); ok {
		return v
	}
	if v, ok := r.item(x, n.name); ok {
		return v
	}
	return r.missing(x, n.name)
}

// missing is what an attribute is that is not there. Of what is itself not there it fails.
func (r *run) missing(x, name Value) Value {
	if u, ok := x.(undefined); ok {
		r.fail("%s", u.why)
	}
	if key, ok := name.(string); ok {
		return undefined{"'" + objectName(x) + "' has no attribute '" + key + "'"}
	}
	var b strings.Builder
	r.repr(&b, name)
	return undefined{objectName(x) + " has no element " + b.String()}
}

func (n *item) eval(r *run, s *scope) Value {
	r.step(1)
	x := n.x.eval(r, s)
	if cut, ok := n.key.(*slice); ok {
		r.line = n.line
		return cut.of(r, s, x)
	}
	key := n.key.eval(r, s)
	r.line = n.line
	return r.subscript(x, key)
}

// subscript is x[key].
func (r *run) subscript(x, key Value) Value {
	if v, ok := r.item(x, key); ok {
		return v
	}
	if name, ok := key.(string); ok {
		if v, ok := r.attribute(x, name); ok {
			return v
		}
	}
	if u, ok := key.(undefined); ok {
		// Python looks for an item with this very key, and finds none.
		return undefined{objectName(x) + " has no element Undefined: " + u.why}
	}
	return r.missing(x, key)
}

// item is the item of x with a key.
func (r *run) item(x, key Value) (Value, bool) {
	if d, ok := x.(*Dict); ok {
		return d.get(key)
	}
	_, i, isInt, ok := number(key)
	if !ok || !isInt {
		return nil, false
	}
	switch x := x.(type) {
	case *List:
		if i < 0 {
			i += int64(len(x.Items))
		}
		if i >= 0 && i < int64(len(x.Items)) {
			return x.Items[i], true
		}
	case interval:
		if i < 0 {
			i += x.n
		}
		if i >= 0 && i < x.n {
			return x.at(i), true
		}
	case string:
		return runeAt(x, i)
	}
	return nil, false
}

// runeAt is the i-th character of s, counted from the end if it is negative.
func runeAt(s string, i int64) (Value, bool) {
	if i < 0 {
		for n := i; n < 0; n++ {
			if s == "" {
				return nil, false
			}
			_, size := utf8.DecodeLastRuneInString(s)
			if n == -1 {
				return s[len(s)-size:], true
			}
			s = s[:len(s)-size]
		}
	}
	for ; s != ""; i-- {
		_, size := utf8.DecodeRuneInString(s)
		if i == 0 {
			return s[:size], true
		}
		s = s[size:]
	}
	return nil, false
}

func (n *slice) eval(r *run, _ *scope) Value {
	r.fail("a slice among several keys is not supported")
	return nil
}

// of is x[from:to:step].
func (n *slice) of(r *run, s *scope, x Value) Value {
	bound := func(e expr) (int64, bool) {
		if e == nil {
			return 0, false
		}
		v := e.eval(r, s)
		if v == nil {
			return 0, false
		}
		_, i, isInt, ok := number(v)
		if u, bad := v.(undefined); bad {
			r.fail("%s", u.why)
		}
		if !ok || !isInt {
			r.fail("slice indices must be integers or None or have an __index__ method")
		}
		return i, true
	}
	var length int
	switch x.(type) {
	case string, *List, interval:
		length = r.length(x)
	case undefined:
		r.missing(x, nil)
	default:
		r.fail("'%s' object cannot be sliced", typeName(x))
	}
	from, hasFrom := bound(n.from)
	to, hasTo := bound(n.to)
	step, hasStep := bound(n.step)
	if !hasStep {
		step = 1
	}
	if step == 0 {
		r.fail("slice step cannot be zero")
	}
	lo, count := cut(int64(length), from, to, step, hasFrom, hasTo)
	return r.sliced(x, lo, count, step)
}

// cut is where a slice of something of a length begins, and how many items it has.
func cut(length, from, to, step int64, hasFrom, hasTo bool) (lo, count int64) {
	least, most := int64(0), length
	if step < 0 {
		least, most = -1, length-1
	}
	clamp := func(i int64) int64 {
		if i < 0 {
			i += length
		}
		return min(max(i, least), most)
	}
	lo, hi := least, most
	if step < 0 {
		lo, hi = most, least
	}
	if hasFrom {
		lo = clamp(from)
	}
	if hasTo {
		hi = clamp(to)
	}
	switch {
	case step > 0 && hi > lo:
		count = (hi-lo-1)/step + 1
	case step < 0 && hi < lo:
		count = (lo-hi-1)/(-step) + 1
	}
	return lo, count
}

func (r *run) sliced(x Value, from, count, step int64) Value {
	switch x := x.(type) {
	case interval:
		return interval{x.from + from*x.step, x.step * step, count}
	case *List:
		if step == 1 {
			r.alloc(40)
			return &List{Items: x.Items[from : from+count : from+count], tuple: x.tuple}
		}
		r.alloc(40 + 16*int(count))
		l := &List{Items: make([]Value, count), tuple: x.tuple}
		for i := range count {
			l.Items[i] = x.Items[from+i*step]
		}
		return l
	case string:
		if step == 1 {
			r.step(len(x) >> 8)
			a := runesIn(x, from)
			return x[a : a+runesIn(x[a:], count)]
		}
		chars := r.items(x)
		var b strings.Builder
		for i := range count {
			b.WriteString(chars[from+i*step].(string)) //nolint:forcetypeassert // items of a string are
		}
		return b.String()
	}
	return nil
}

// runesIn is how many bytes the first n characters of s take.
func runesIn(s string, n int64) int {
	i := 0
	for ; n > 0 && i < len(s); n-- {
		_, size := utf8.DecodeRuneInString(s[i:])
		i += size
	}
	return i
}

func (n *call) eval(r *run, s *scope) Value {
	r.step(1)
	f := n.f.eval(r, s)
	a := r.given(&n.args, s)
	r.line = n.line
	return r.invoke(f, a)
}

func (r *run) invoke(f Value, a *given) Value {
	switch f := f.(type) {
	case *function:
		a.of = f.name
		return f.do(r, a)
	case *loopState:
		if f.again == nil {
			r.fail("the loop must have the 'recursive' marker to be called recursively")
		}
		return f.again.do(r, a)
	case undefined:
		r.fail("%s", f.why)
	}
	r.fail("'%s' object is not callable", typeName(f))
	return nil
}

func (n *filtered) eval(r *run, s *scope) Value {
	r.step(1)
	var x Value
	if n.x == nil {
		x, _ = s.find(blockText)
	} else {
		x = n.x.eval(r, s)
	}
	a := r.given(&n.args, s)
	r.line = n.line
	return r.filter(n.name, x, a)
}

func (n *tested) eval(r *run, s *scope) Value {
	r.step(1)
	x := n.x.eval(r, s)
	a := r.given(&n.args, s)
	r.line = n.line
	return r.test(n.name, x, a)
}
