package jinja

import "math"

// global is the function that templates know by a name, nil if there is none.
func global(name string) Value {
	var do func(r *run, a *given) Value
	switch name {
	case "range":
		do = rangeOf
	case "dict":
		do = dictOf
	case "namespace":
		do = func(r *run, a *given) Value { return &namespace{*dictOf(r, a).(*Dict)} } //nolint:forcetypeassert // it is one
	case "joiner":
		do = joiner
	case "cycler":
		do = cycler
	case "raise_exception":
		do = func(r *run, a *given) Value {
			panic(&Error{Line: r.line, Message: r.text(a.takes("message").need(0, "message")), Raised: true})
		}
	case "strftime_now":
		do = func(r *run, a *given) Value { return r.strftime(a.takes("format").str(0, "format")) }
	default:
		return nil
	}
	return &function{name: name, do: do}
}

// maxRange is the longest range.
const maxRange = 100_000

func rangeOf(r *run, a *given) Value {
	a.takes("start", "stop", "step")
	from, to, step := int64(0), a.integer(0, "start", 0), int64(1)
	if len(a.list) > 1 {
		from, to, step = to, a.integer(1, "stop", 0), a.integer(2, "step", 1)
	}
	if step == 0 {
		r.fail("range() arg 3 must not be zero")
	}
	const most = math.MaxInt64 / 4
	if max(from, to, step) > most || min(from, to, step) < -most {
		r.fail("range() arguments are too large")
	}
	n := int64(0)
	switch {
	case step > 0 && to > from:
		n = (to-from-1)/step + 1
	case step < 0 && to < from:
		n = (from-to-1)/(-step) + 1
	}
	if n > maxRange {
		r.fail("a range is larger than %d", maxRange)
	}
	return interval{from, step, n}
}

func dictOf(r *run, a *given) Value {
	d := &Dict{}
	for i, v := range a.list {
		if i > 0 {
			r.fail("dict expected at most 1 argument, got %d", len(a.list))
		}
		if from, ok := v.(*Dict); ok {
			r.alloc(48 * from.Len())
			d = from.Clone()
			continue
		}
		for _, pair := range r.items(v) {
			kv := r.items(pair)
			if len(kv) != 2 {
				r.fail("dictionary update sequence needs pairs")
			}
			r.hashed(kv[0])
			r.alloc(48)
			d.set(kv[0], kv[1])
		}
	}
	r.alloc(80 + 48*len(a.names))
	for i, n := range a.names {
		d.set(n, a.named[i])
	}
	return d
}

func joiner(_ *run, a *given) Value {
	sep := a.takes("sep").or(0, "sep", ", ")
	used := false
	return &function{name: "joiner", do: func(*run, *given) Value {
		if !used {
			used = true
			return ""
		}
		return sep
	}}
}

func cycler(r *run, a *given) Value {
	if len(a.list) == 0 {
		r.fail("at least one item has to be provided")
	}
	items, pos := a.list, 0
	ns := &namespace{}
	ns.attrs.set("current", items[0])
	ns.attrs.set("next", &function{name: "next", do: func(*run, *given) Value {
		v := items[pos]
		pos = (pos + 1) % len(items)
		ns.attrs.set("current", items[pos])
		return v
	}})
	ns.attrs.set("reset", &function{name: "reset", do: func(*run, *given) Value {
		pos = 0
		ns.attrs.set("current", items[0])
		return nil
	}})
	return ns
}
