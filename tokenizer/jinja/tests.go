package jinja

import "math/big"

// test is what "x is name(…)" says.
func (r *run) test(name string, x Value, a *given) bool {
	a.of = name
	switch name {
	case "eq", "equalto":
		return r.equal(x, a.need(0, "other"))
	case "ne":
		return !r.equal(x, a.need(0, "other"))
	case "lt", "lessthan":
		return r.compared("<", x, a.need(0, "other"))
	case "gt", "greaterthan":
		return r.compared(">", x, a.need(0, "other"))
	case "le":
		return r.compared("<=", x, a.need(0, "other"))
	case "ge":
		return r.compared(">=", x, a.need(0, "other"))
	case "in":
		return r.contains(a.need(0, "seq"), x)
	case "sameas":
		return r.same(x, a.need(0, "other"))
	case "divisibleby":
		return r.equal(r.arith("%", x, a.need(0, "num")), int64(0))
	}
	a.takes()
	switch name {
	case "odd":
		return r.equal(r.arith("%", x, int64(2)), int64(1))
	case "even":
		return r.equal(r.arith("%", x, int64(2)), int64(0))
	case "lower":
		return isCased(r.text(x), lower)
	case "upper":
		return isCased(r.text(x), upper)
	case "filter", "test":
		return r.knows(name, x)
	}
	is, ok := isA(name, x)
	if !ok {
		r.fail("no test named %q", name)
	}
	return is
}

// isA is a test of what kind of value x is; ok is false if there is no such test.
func isA(name string, x Value) (is, ok bool) {
	switch name {
	case "defined":
		_, is = x.(undefined)
		is = !is
	case "undefined":
		_, is = x.(undefined)
	case "none":
		is = x == nil
	case "boolean":
		_, is = x.(bool)
	case "true":
		is = x == true
	case "false":
		is = x == false
	case "integer":
		is = isInteger(x)
	case "float":
		_, is = x.(float64)
	case "number":
		_, _, _, is = number(x)
		is = is || isInteger(x)
	case "string":
		_, is = x.(string)
	case "mapping":
		_, is = x.(*Dict)
	case "sequence":
		switch x.(type) {
		case string, *List, *Dict, interval, undefined:
			is = true
		}
	case "iterable":
		switch x.(type) {
		case string, *List, *Dict, *view, *iterator, interval, undefined, *loopState:
			is = true
		}
	case "callable":
		switch x.(type) {
		case *function, *loopState, undefined:
			is = true
		}
	case "escaped":
	default:
		return false, false
	}
	return is, true
}

func isInteger(x Value) bool {
	switch x.(type) {
	case int64, *big.Int:
		return true
	}
	return false
}

// same is Python's "is", of values of which that means something.
func (r *run) same(x, y Value) bool {
	switch x.(type) {
	case *big.Int:
		return false
	case interval, undefined:
		return false
	case nil, bool, int64, float64, string:
		return typeName(x) == typeName(y) && r.equal(x, y)
	}
	return x == y
}

// isCased is Python's islower and isupper.
func isCased(s string, to func(string) string) bool {
	return to(s) == s && lower(s) != upper(s)
}

// knows tells whether there is a filter or a test.
func (r *run) knows(kind string, x Value) bool {
	name, ok := x.(string)
	if !ok {
		return false
	}
	if kind == "filter" {
		return filterNamed(name) != nil
	}
	if _, ok := isA(name, nil); ok {
		return true
	}
	switch name {
	case "eq", "equalto", "ne", "lt", "lessthan", "gt", "greaterthan", "le", "ge", "in", "sameas", "divisibleby", "odd", "even", "lower", "upper", "filter", "test":
		return true
	}
	return false
}
