package jinja

import "slices"

func (n data) exec(r *run, _ *scope) flow {
	r.write(n.text)
	return onward
}

func (n output) exec(r *run, s *scope) flow {
	r.line = n.line
	r.write(r.text(n.x.eval(r, s)))
	return onward
}

func (n branch) exec(r *run, s *scope) flow {
	for i, test := range n.tests {
		r.line = n.line
		if truth(test.eval(r, s)) {
			return r.block(n.bodies[i], s)
		}
	}
	return r.block(n.other, s)
}

func (n assignment) exec(r *run, s *scope) flow {
	r.line = n.line
	r.assign(s, &n.target, n.value.eval(r, s))
	return onward
}

// assign sets what t names.
func (r *run) assign(s *scope, t *target, v Value) {
	switch {
	case t.parts != nil:
		items := r.items(v)
		switch {
		case len(items) > len(t.parts):
			r.fail("too many values to unpack (expected %d)", len(t.parts))
		case len(items) < len(t.parts):
			r.fail("not enough values to unpack (expected %d, got %d)", len(t.parts), len(items))
		}
		for i := range t.parts {
			r.assign(s, &t.parts[i], items[i])
		}
	case t.attr != "":
		x, _ := s.find(t.name)
		ns, ok := x.(*namespace)
		if !ok {
			r.fail("cannot assign attribute on non-namespace object")
		}
		r.setAttr(ns, t.attr, v)
	default:
		s.set(t.name, v)
	}
}

func (r *run) setAttr(ns *namespace, name string, v Value) {
	if name[0] == '_' {
		r.fail("a namespace takes no attribute %q: the name begins with an underscore", name)
	}
	r.alloc(48)
	ns.attrs.set(name, v)
}

func (n capture) exec(r *run, s *scope) flow {
	text := r.captured(func() { r.block(n.body, &scope{parent: s}) })
	r.line = n.line
	r.assign(s, &n.target, r.passed(text, n.filter, s))
	return onward
}

// passed is text behind the filters of a block.
func (r *run) passed(text string, filter expr, s *scope) Value {
	if filter == nil {
		return text
	}
	return filter.eval(r, &scope{parent: s, names: []string{blockText}, values: []Value{text}})
}

// blockText is the variable in which the filters of a block find its text.
const blockText = "{block}"

func (n filterBlock) exec(r *run, s *scope) flow {
	text := r.captured(func() { r.block(n.body, &scope{parent: s}) })
	r.line = n.line
	r.write(r.text(r.passed(text, n.filter, s)))
	return onward
}

func (n with) exec(r *run, s *scope) flow {
	in := &scope{parent: s}
	for i := range n.names {
		r.line = n.line
		r.assign(in, &n.names[i], n.values[i].eval(r, s))
	}
	return r.block(n.body, in)
}

func (n inner) exec(r *run, s *scope) flow { return r.block(n.body, &scope{parent: s}) }

func (n jump) exec(*run, *scope) flow { return n.how }

func (n definition) exec(r *run, s *scope) flow {
	r.alloc(256)
	s.set(n.macro.name, r.macro(n.macro, s))
	return onward
}

func (n callBlock) exec(r *run, s *scope) flow {
	r.line = n.line
	f := n.call.f.eval(r, s)
	a := r.given(&n.call.args, s)
	a.names, a.named = append(a.names, "caller"), append(a.named, r.macro(n.caller, s))
	r.write(r.text(r.invoke(f, a)))
	return onward
}

// macro is the function that a macro is.
func (r *run) macro(m *macroNode, s *scope) *function {
	s.keep()
	return &function{name: m.name, do: func(r *run, a *given) Value {
		in := r.bind(m, a, s)
		defer r.deeper()()
		line := r.line
		text := r.captured(func() { r.block(m.body, in) })
		r.line = line
		r.alloc(len(text))
		return text
	}}
}

// bind is the scope of a macro's call.
func (r *run) bind(m *macroNode, a *given, s *scope) *scope {
	in := &scope{parent: s}
	r.alloc(48 * (len(m.params) + 4))
	used := make([]bool, len(a.names))
	for i, p := range m.params {
		k := slices.Index(a.names, p)
		switch {
		case i < len(a.list):
			if k >= 0 {
				r.fail("macro %q got multiple values for argument %q", m.name, p)
			}
			in.set(p, a.list[i])
		case k >= 0:
			in.set(p, a.named[k])
			used[k] = true
		case i >= len(m.params)-len(m.defaults):
			in.set(p, m.defaults[i-len(m.params)+len(m.defaults)].eval(r, in))
		default:
			in.set(p, undefined{"parameter '" + p + "' was not provided"})
		}
	}
	if k := slices.Index(a.names, "caller"); !slices.Contains(m.params, "caller") {
		if k >= 0 && m.caller {
			in.set("caller", a.named[k])
			used[k] = true
		} else if m.caller {
			in.set("caller", undefined{"No caller defined"})
		}
	}
	rest := &Dict{}
	for k, n := range a.names {
		if !used[k] && slices.Index(m.params, n) < 0 {
			if !m.kwargs {
				r.fail("macro %q takes no keyword argument %q", m.name, n)
			}
			rest.set(n, a.named[k])
		}
	}
	if m.kwargs {
		in.set("kwargs", rest)
	}
	var more []Value
	if len(a.list) > len(m.params) {
		if more = a.list[len(m.params):]; !m.varargs {
			r.fail("macro %q takes not more than %d argument(s)", m.name, len(m.params))
		}
	}
	if m.varargs {
		in.set("varargs", &List{Items: more, tuple: true})
	}
	return in
}

// loopState is the variable loop.
type loopState struct {
	items []Value
	i     int
	depth int
	again *function // of a recursive loop
	seen  Value     // by changed
	asked bool
}

func (n loop) exec(r *run, s *scope) flow {
	r.line = n.line
	return n.each(r, s, n.over.eval(r, s), 0)
}

// each runs the loop over what v gives.
func (n *loop) each(r *run, s *scope, v Value, depth int) flow {
	items := r.items(v)
	if n.only != nil {
		items = n.chosen(r, s, items)
	}
	if len(items) == 0 {
		return r.block(n.other, &scope{parent: s})
	}
	st := &loopState{items: items, depth: depth}
	if n.recursive {
		s.keep()
		st.again = &function{name: "loop", do: func(r *run, a *given) Value {
			defer r.deeper()()
			v := a.need(0, "iterable")
			text := r.captured(func() { n.each(r, s, v, depth+1) })
			r.alloc(len(text))
			return text
		}}
	}
	var in *scope
	for i, item := range items {
		st.i = i
		r.line = n.line
		r.step(1)
		if in == nil || in.kept {
			in = &scope{parent: s}
		}
		in.names, in.values = in.names[:0], in.values[:0]
		in.set("loop", st)
		r.assign(in, &n.target, item)
		switch r.block(n.body, in) {
		case breaking:
			return onward
		case onward, continuing:
		}
	}
	return onward
}

// chosen are the items that the loop's condition lets through.
func (n *loop) chosen(r *run, s *scope, items []Value) []Value {
	r.alloc(16 * len(items))
	chosen := make([]Value, 0, len(items))
	for _, item := range items {
		in := &scope{parent: s}
		r.assign(in, &n.target, item)
		if truth(n.only.eval(r, in)) {
			chosen = append(chosen, item)
		}
	}
	return chosen
}
