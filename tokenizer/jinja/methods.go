package jinja

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
)

// attribute is an attribute of x: a method, or a field of an object of templates.
func (r *run) attribute(x Value, name string) (Value, bool) {
	switch x := x.(type) {
	case string:
		if do := stringMethod(name); do != nil {
			return &function{name: name, do: func(r *run, a *given) Value { return do(r, x, a) }}, true
		}
		r.unsupported(x, name, "encode expandtabs format_map isascii isidentifier isprintable maketrans translate ")
	case *Dict:
		if do := dictMethod(name); do != nil {
			return &function{name: name, do: func(r *run, a *given) Value { return do(r, x, a) }}, true
		}
		r.unsupported(x, name, "fromkeys ")
		return r.changing(x, name, "clear pop popitem setdefault update ")
	case *List:
		if do := listMethod(name); do != nil {
			return &function{name: name, do: func(r *run, a *given) Value { return do(r, x, a) }}, true
		}
		if !x.tuple {
			return r.changing(x, name, "append clear extend insert pop remove reverse sort ")
		}
		if len(x.Items) == 2 && (name == "grouper" || name == "list") {
			// What groupby gives are pairs with names.
			return nil, false
		}
	case *namespace:
		return x.attrs.get(name)
	case *loopState:
		return r.loopField(x, name)
	case int64:
		r.unsupported(x, name, "real imag numerator denominator bit_length bit_count conjugate as_integer_ratio from_bytes to_bytes ")
	case float64:
		if name == "is_integer" {
			return &function{name: name, do: func(*run, *given) Value { return x == float64(int64(x)) }}, true
		}
	case *function:
		if name == "name" {
			return x.name, true
		}
	}
	return nil, false
}

// unsupported fails if name is a method of Python's that is not there.
func (r *run) unsupported(x Value, name, names string) {
	if strings.Contains(names, name+" ") && slices.Contains(strings.Fields(names), name) {
		r.fail("the method %s of %s is not supported", name, typeName(x))
	}
}

// changing is what the attribute is of methods that change x, which templates must not.
func (r *run) changing(x Value, name, names string) (Value, bool) {
	if !slices.Contains(strings.Fields(names), name) {
		return nil, false
	}
	return undefined{"access to attribute '" + name + "' of '" + typeName(x) + "' object is unsafe."}, true
}

func (r *run) loopField(l *loopState, name string) (Value, bool) {
	n, i := int64(len(l.items)), int64(l.i)
	switch name {
	case "index":
		return i + 1, true
	case "index0":
		return i, true
	case "revindex":
		return n - i, true
	case "revindex0":
		return n - i - 1, true
	case "first":
		return i == 0, true
	case "last":
		return i == n-1, true
	case "length":
		return n, true
	case "depth":
		return int64(l.depth) + 1, true
	case "depth0":
		return int64(l.depth), true
	case "previtem":
		if i > 0 {
			return l.items[i-1], true
		}
		return undefined{"there is no previous item"}, true
	case "nextitem":
		if i < n-1 {
			return l.items[i+1], true
		}
		return undefined{"there is no next item"}, true
	case "cycle":
		return &function{name: name, do: func(r *run, a *given) Value {
			if len(a.list) == 0 {
				r.fail("no items for cycling given")
			}
			return a.list[i%int64(len(a.list))]
		}}, true
	case "changed":
		return &function{name: name, do: func(r *run, a *given) Value {
			v := &List{Items: a.list, tuple: true}
			if l.asked && r.equal(l.seen, v) {
				return false
			}
			l.seen, l.asked = v, true
			return true
		}}, true
	}
	return nil, false
}

func dictMethod(name string) func(r *run, d *Dict, a *given) Value {
	switch name {
	case "get":
		return func(r *run, d *Dict, a *given) Value {
			key := a.takes("key", "default").need(0, "key")
			r.hashed(key)
			if v, ok := d.get(key); ok {
				return v
			}
			return a.or(1, "default", nil)
		}
	case "items":
		return func(r *run, d *Dict, a *given) Value { a.takes(); return &view{d.pairs(r), "dict_items"} }
	case "keys":
		return func(_ *run, d *Dict, a *given) Value { a.takes(); return &view{d.keys, "dict_keys"} }
	case "values":
		return func(_ *run, d *Dict, a *given) Value { a.takes(); return &view{d.values, "dict_values"} }
	case "copy":
		return func(r *run, d *Dict, a *given) Value {
			a.takes()
			r.alloc(80 + 48*d.Len())
			return d.Clone()
		}
	}
	return nil
}

func listMethod(name string) func(r *run, l *List, a *given) Value {
	switch name {
	case "index":
		return func(r *run, l *List, a *given) Value {
			x := a.takes("value").need(0, "value")
			for i, v := range l.Items {
				if r.equal(v, x) {
					return int64(i)
				}
			}
			r.fail("the value is not in the list")
			return nil
		}
	case "count":
		return func(r *run, l *List, a *given) Value {
			x, n := a.takes("value").need(0, "value"), int64(0)
			for _, v := range l.Items {
				if r.equal(v, x) {
					n++
				}
			}
			return n
		}
	case "copy":
		return func(r *run, l *List, a *given) Value { a.takes(); return r.list(l) }
	}
	return nil
}

// side says where something is taken away.
type side uint8

const (
	left side = 1 << iota
	right
	both = left | right
)

// trim is strip and its like.
func trim(s string, a *given, where side) Value {
	at := isSpace
	if chars := a.or(0, "chars", nil); chars != nil {
		set := a.isStr(chars, "chars")
		at = func(c rune) bool { return strings.ContainsRune(set, c) }
	}
	if where&left != 0 {
		s = strings.TrimLeftFunc(s, at)
	}
	if where&right != 0 {
		s = strings.TrimRightFunc(s, at)
	}
	return s
}

type method func(r *run, s string, a *given) Value

// stringMethod is a method of strings, nil if there is none of the name.
func stringMethod(name string) method {
	plain := func(do func(string) string) method {
		return func(r *run, s string, a *given) Value {
			a.takes()
			r.alloc(len(s))
			return do(s)
		}
	}
	every := func(is func(rune) bool) method {
		return func(r *run, s string, a *given) Value {
			a.takes()
			r.step(len(s) >> 8)
			return s != "" && strings.IndexFunc(s, func(c rune) bool { return !is(c) }) < 0
		}
	}
	switch name {
	case "strip":
		return func(_ *run, s string, a *given) Value { return trim(s, a.takes("chars"), both) }
	case "lstrip":
		return func(_ *run, s string, a *given) Value { return trim(s, a.takes("chars"), left) }
	case "rstrip":
		return func(_ *run, s string, a *given) Value { return trim(s, a.takes("chars"), right) }
	case "split":
		return func(r *run, s string, a *given) Value { return r.split(s, a, false) }
	case "rsplit":
		return func(r *run, s string, a *given) Value { return r.split(s, a, true) }
	case "splitlines":
		return func(r *run, s string, a *given) Value {
			return r.strings(splitLines(s, a.takes("keepends").boolean(0, "keepends", false)))
		}
	case "startswith":
		return func(r *run, s string, a *given) Value { return r.affixed(s, a, strings.HasPrefix) }
	case "endswith":
		return func(r *run, s string, a *given) Value { return r.affixed(s, a, strings.HasSuffix) }
	case "upper":
		return plain(upper)
	case "lower":
		return plain(lower)
	case "casefold":
		return plain(cases.Fold().String)
	case "title":
		return plain(titleMethod)
	case "capitalize":
		return plain(capitalized)
	case "swapcase":
		return plain(func(s string) string {
			var b strings.Builder
			for _, c := range s {
				if unicode.IsUpper(c) {
					b.WriteString(lower(string(c)))
				} else {
					b.WriteString(upper(string(c)))
				}
			}
			return b.String()
		})
	case "replace":
		return func(r *run, s string, a *given) Value {
			a.takes("old", "new", "count")
			return r.replace(s, a.str(0, "old"), a.str(1, "new"), a.integer(2, "count", -1))
		}
	case "removeprefix":
		return func(_ *run, s string, a *given) Value {
			return strings.TrimPrefix(s, a.takes("prefix").str(0, "prefix"))
		}
	case "removesuffix":
		return func(_ *run, s string, a *given) Value {
			return strings.TrimSuffix(s, a.takes("suffix").str(0, "suffix"))
		}
	case "join":
		return func(r *run, s string, a *given) Value {
			items := r.items(a.takes("iterable").need(0, "iterable"))
			parts := make([]string, len(items))
			for i, v := range items {
				parts[i] = a.isStr(v, "iterable")
				r.alloc(len(parts[i]) + len(s) + 16)
			}
			return strings.Join(parts, s)
		}
	case "find", "index", "rfind", "rindex":
		return finder(name)
	case "count":
		return func(r *run, s string, a *given) Value {
			r.step(len(s) >> 8)
			return int64(strings.Count(s, a.takes("sub").str(0, "sub")))
		}
	case "isdigit":
		return every(unicode.IsDigit)
	case "isdecimal":
		return every(unicode.IsDigit)
	case "isnumeric":
		return every(unicode.IsNumber)
	case "isalpha":
		return every(unicode.IsLetter)
	case "isalnum":
		return every(func(c rune) bool { return unicode.IsLetter(c) || unicode.IsNumber(c) })
	case "isspace":
		return every(isSpace)
	case "islower":
		return func(_ *run, s string, a *given) Value { a.takes(); return isCased(s, lower) }
	case "isupper":
		return func(_ *run, s string, a *given) Value { a.takes(); return isCased(s, upper) }
	case "istitle":
		return func(_ *run, s string, a *given) Value {
			a.takes()
			return strings.IndexFunc(s, isUpper) >= 0 && titleMethod(s) == s
		}
	case "center", "ljust", "rjust":
		return justified(name)
	case "zfill":
		return func(r *run, s string, a *given) Value {
			sign := ""
			if s != "" && (s[0] == '-' || s[0] == '+') {
				sign, s = s[:1], s[1:]
			}
			a.takes("width").need(0, "width")
			return sign + r.padded(s, a.integer(0, "width", 0)-int64(len(sign)), "0", 1)
		}
	case "partition", "rpartition":
		return func(r *run, s string, a *given) Value {
			sep := a.takes("sep").str(0, "sep")
			if sep == "" {
				r.fail("empty separator")
			}
			i := strings.Index(s, sep)
			parts := []Value{s, "", ""}
			if name == "rpartition" {
				i = strings.LastIndex(s, sep)
				parts = []Value{"", "", s}
			}
			if i >= 0 {
				parts = []Value{s[:i], sep, s[i+len(sep):]}
			}
			return &List{Items: parts, tuple: true}
		}
	case "format":
		return func(r *run, s string, a *given) Value { return r.braces(s, a) }
	}
	return nil
}

func finder(name string) method {
	return func(r *run, s string, a *given) Value {
		sub := a.takes("sub").str(0, "sub")
		r.step(len(s) >> 8)
		i := strings.Index(s, sub)
		if name[0] == 'r' {
			i = strings.LastIndex(s, sub)
		}
		if i >= 0 {
			return int64(utf8.RuneCountInString(s[:i]))
		}
		if strings.HasSuffix(name, "index") {
			r.fail("substring not found")
		}
		return int64(-1)
	}
}

func justified(name string) method {
	where := 0
	switch name {
	case "ljust":
		where = -1
	case "rjust":
		where = 1
	}
	return func(r *run, s string, a *given) Value {
		fill := a.takes("width", "fillchar").strOr(1, "fillchar", " ")
		if utf8.RuneCountInString(fill) != 1 {
			r.fail("The fill character must be exactly one character long")
		}
		a.need(0, "width")
		return r.padded(s, a.integer(0, "width", 0), fill, where)
	}
}

// affixed tells whether s begins or ends with one of what is given.
func (r *run) affixed(s string, a *given, has func(s, affix string) bool) Value {
	x := a.takes("prefix").need(0, "prefix")
	if l, ok := x.(*List); ok && l.tuple {
		for _, v := range l.Items {
			if has(s, a.isStr(v, "prefix")) {
				return true
			}
		}
		return false
	}
	return has(s, a.isStr(x, "prefix"))
}

func (r *run) strings(parts []string) *List {
	r.alloc(40 + 32*len(parts))
	l := &List{Items: make([]Value, len(parts))}
	for i, s := range parts {
		l.Items[i] = s
	}
	return l
}

// split is split and rsplit.
func (r *run) split(s string, a *given, fromRight bool) Value {
	a.takes("sep", "maxsplit")
	most := a.integer(1, "maxsplit", -1)
	if most < 0 {
		most = int64(len(s)) + 1
	}
	if a.or(0, "sep", nil) == nil {
		return r.strings(splitSpace(s, most, fromRight))
	}
	sep := a.str(0, "sep")
	if sep == "" {
		r.fail("empty separator")
	}
	r.alloc(16 * (strings.Count(s, sep) + 1))
	if !fromRight {
		return r.strings(strings.SplitN(s, sep, int(most)+1))
	}
	var parts []string
	for ; most > 0; most-- {
		i := strings.LastIndex(s, sep)
		if i < 0 {
			break
		}
		parts = append(parts, s[i+len(sep):])
		s = s[:i]
	}
	parts = append(parts, s)
	slices.Reverse(parts)
	return r.strings(parts)
}

func splitSpace(s string, most int64, fromRight bool) (parts []string) {
	if fromRight {
		for s = strings.TrimRightFunc(s, isSpace); s != ""; most-- {
			i := strings.LastIndexFunc(s, isSpace)
			if most == 0 || i < 0 {
				parts = append(parts, strings.TrimLeftFunc(s, isSpace))
				break
			}
			_, n := utf8.DecodeRuneInString(s[i:])
			parts = append(parts, s[i+n:])
			s = strings.TrimRightFunc(s[:i], isSpace)
		}
		slices.Reverse(parts)
		return parts
	}
	for s = strings.TrimLeftFunc(s, isSpace); s != ""; most-- {
		i := strings.IndexFunc(s, isSpace)
		if most == 0 || i < 0 {
			return append(parts, func() string {
				if most == 0 {
					return s
				}
				return strings.TrimRightFunc(s, isSpace)
			}())
		}
		parts = append(parts, s[:i])
		s = strings.TrimLeftFunc(s[i:], isSpace)
	}
	return parts
}

// splitLines is Python's splitlines.
func splitLines(s string, keep bool) (lines []string) {
	for s != "" {
		i := strings.IndexAny(s, "\n\r\v\f\x1c\x1d\x1e\u0085\u2028\u2029")
		if i < 0 {
			return append(lines, s)
		}
		_, n := utf8.DecodeRuneInString(s[i:])
		if strings.HasPrefix(s[i:], "\r\n") {
			n = 2
		}
		end := i
		if keep {
			end += n
		}
		lines = append(lines, s[:end])
		s = s[i+n:]
	}
	return lines
}
