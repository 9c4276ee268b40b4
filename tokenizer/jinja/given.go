package jinja

import (
	"math/big"
	"slices"
)

// given is what a call, a filter or a test is given.
type given struct {
	r     *run
	of    string
	list  []Value
	names []string
	named []Value
}

// given evaluates arguments.
func (r *run) given(n *arguments, s *scope) *given {
	a := &given{r: r}
	if len(n.list) > 0 {
		a.list = make([]Value, len(n.list))
		for i, x := range n.list {
			a.list[i] = x.eval(r, s)
		}
	}
	if n.spread != nil {
		more := r.items(n.spread.eval(r, s))
		r.alloc(16 * len(more))
		a.list = append(a.list, more...)
	}
	a.names = slices.Clip(n.names) // they are the template's
	for _, x := range n.named {
		a.named = append(a.named, x.eval(r, s))
	}
	if n.spreadNamed != nil {
		d, ok := n.spreadNamed.eval(r, s).(*Dict)
		if !ok {
			r.fail("what follows ** must be a dict")
		}
		for i, k := range d.keys {
			name, ok := k.(string)
			if !ok {
				r.fail("keywords must be strings")
			}
			a.names, a.named = append(a.names, name), append(a.named, d.values[i])
		}
	}
	return a
}

// get is the argument at a place or with a name.
func (a *given) get(i int, name string) (Value, bool) {
	if i >= 0 && i < len(a.list) {
		return a.list[i], true
	}
	for k, n := range a.names {
		if n == name {
			return a.named[k], true
		}
	}
	return nil, false
}

// takes fails if there is more than the arguments called so, in this order.
func (a *given) takes(names ...string) *given {
	if len(a.list) > len(names) {
		a.r.fail("%s() takes at most %d arguments (%d given)", a.of, len(names), len(a.list))
	}
next:
	for _, n := range a.names {
		for i, m := range names {
			if n == m && i >= len(a.list) {
				continue next
			}
		}
		a.r.fail("%s() got an unexpected argument '%s'", a.of, n)
	}
	return a
}

// need is an argument that must be there.
func (a *given) need(i int, name string) Value {
	v, ok := a.get(i, name)
	if !ok {
		a.r.fail("%s() misses the argument '%s'", a.of, name)
	}
	return v
}

func (a *given) or(i int, name string, otherwise Value) Value {
	if v, ok := a.get(i, name); ok {
		return v
	}
	return otherwise
}

func (a *given) boolean(i int, name string, otherwise bool) bool {
	return truth(a.or(i, name, otherwise))
}

func (a *given) integer(i int, name string, otherwise int64) int64 {
	v := a.or(i, name, otherwise)
	_, n, isInt, ok := number(v)
	if _, big := v.(*big.Int); big {
		a.r.fail("%s(): %s is too large", a.of, name)
	}
	if !ok || !isInt {
		a.r.fail("%s(): %s must be an integer, not %s", a.of, name, typeName(v))
	}
	return n
}

// str is an argument that must be a string.
func (a *given) str(i int, name string) string {
	return a.isStr(a.need(i, name), name)
}

func (a *given) strOr(i int, name, otherwise string) string {
	return a.isStr(a.or(i, name, otherwise), name)
}

func (a *given) isStr(v Value, name string) string {
	s, ok := v.(string)
	if !ok {
		a.r.fail("%s(): %s must be str, not %s", a.of, name, typeName(v))
	}
	return s
}
