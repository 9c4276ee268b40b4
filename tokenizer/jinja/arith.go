package jinja

import (
	"math"
	"math/big"
	"math/bits"
	"strings"
)

// arith is Python's "a op b".
func (r *run) arith(op string, a, b Value) Value {
	for _, v := range []Value{a, b} {
		if u, ok := v.(undefined); ok {
			if _, text := a.(string); text && op == "%" {
				break
			}
			r.fail("%s", u.why)
		}
	}
	f, n, whole, ok := number(a)
	g, m, whole2, ok2 := number(b)
	switch {
	case ok && ok2 && whole && whole2:
		return r.integers(op, n, m)
	case ok && ok2:
		return r.floats(op, f, g)
	}
	switch x := a.(type) {
	case string:
		switch y := b.(type) {
		case string:
			if op == "+" {
				r.alloc(len(x) + len(y))
				return x + y
			}
		default:
			if op == "*" && ok2 && whole2 {
				return r.repeat(x, m)
			}
		}
		if op == "%" {
			return r.percent(x, b)
		}
	case *List:
		if y, ok := b.(*List); ok && op == "+" && x.tuple == y.tuple {
			r.alloc(40 + 16*(len(x.Items)+len(y.Items)))
			return &List{Items: append(append(make([]Value, 0, len(x.Items)+len(y.Items)), x.Items...), y.Items...), tuple: x.tuple}
		}
		if op == "*" && ok2 && whole2 {
			return r.repeatList(x, m)
		}
	case *big.Int:
		r.fail("whole numbers beyond 64 bits are not supported in calculations")
	}
	if op == "*" && ok && whole {
		switch y := b.(type) {
		case string:
			return r.repeat(y, n)
		case *List:
			return r.repeatList(y, n)
		}
	}
	if s, isText := a.(string); isText && op == "+" {
		_ = s
		r.fail("can only concatenate str (not \"%s\") to str", typeName(b))
	}
	r.fail("unsupported operand type(s) for %s: '%s' and '%s'", op, typeName(a), typeName(b))
	return nil
}

func (r *run) repeat(s string, n int64) Value {
	if n <= 0 || s == "" {
		return ""
	}
	if n > int64(r.limits.Memory) {
		n = int64(r.limits.Memory) + 1 // too much, whatever s is
	}
	r.alloc(saturated(len(s), int(n)))
	return strings.Repeat(s, int(n))
}

func (r *run) repeatList(l *List, n int64) Value {
	n = min(max(n, 0), int64(r.limits.Memory)+1)
	r.alloc(40 + saturated(16*len(l.Items), int(n)))
	out := &List{Items: make([]Value, 0, len(l.Items)*int(n)), tuple: l.tuple}
	for range n {
		out.Items = append(out.Items, l.Items...)
	}
	return out
}

// saturated is a*b, or a number that is beyond every limit.
func saturated(a, b int) int {
	hi, lo := bits.Mul64(uint64(a), uint64(b)) //nolint:gosec // neither is negative
	if hi != 0 || lo > math.MaxInt32<<8 {
		return math.MaxInt32 << 8
	}
	return int(lo) //nolint:gosec // checked above
}

func (r *run) integers(op string, n, m int64) Value {
	var v int64
	ok := true
	switch op {
	case "+":
		v = n + m
		ok = (v > n) == (m > 0)
	case "-":
		v = n - m
		ok = (v < n) == (m > 0)
	case "*":
		if n != 0 {
			v = n * m
			ok = v/n == m && (n != -1 || m != math.MinInt64)
		}
	case "/":
		if m == 0 {
			r.fail("division by zero")
		}
		return float64(n) / float64(m)
	case "//", "%":
		if m == 0 {
			r.fail("integer division or modulo by zero")
		}
		q, rest := n/m, n%m
		if rest != 0 && (rest < 0) != (m < 0) {
			q, rest = q-1, rest+m
		}
		if v = q; op == "%" {
			v = rest
		}
	case "**":
		if m < 0 {
			return r.floats(op, float64(n), float64(m))
		}
		v, ok = powered(n, m)
	}
	if !ok {
		r.fail("whole numbers beyond 64 bits are not supported in calculations")
	}
	return v
}

// powered is n to the m, false if it takes more than 64 bits.
func powered(n, m int64) (int64, bool) {
	v := int64(1)
	if n == 0 || n == 1 || n == -1 {
		if m == 0 || n == 1 || n == -1 && m%2 == 0 {
			return 1, true
		}
		return n, true
	}
	for range min(m, 64) {
		next := v * n
		if next/n != v {
			return 0, false
		}
		v = next
	}
	return v, m < 64
}

func (r *run) floats(op string, f, g float64) Value {
	switch op {
	case "+":
		return f + g
	case "-":
		return f - g
	case "*":
		return f * g
	case "**":
		if f == 0 && g < 0 {
			r.fail("0.0 cannot be raised to a negative power")
		}
		return math.Pow(f, g)
	}
	if g == 0 {
		r.fail("float division by zero")
	}
	switch op {
	case "/":
		return f / g
	case "//":
		return math.Floor(f / g)
	}
	rest := math.Mod(f, g)
	if rest != 0 && (rest < 0) != (g < 0) {
		rest += g
	}
	return rest
}
