package jinja

import (
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

type filter func(r *run, x Value, a *given) Value

// filter runs a filter by its name.
func (r *run) filter(name string, x Value, a *given) Value {
	f := filterNamed(name)
	if f == nil {
		r.fail("no filter named %q", name)
	}
	a.of = name
	return f(r, x, a)
}

// filterNamed is a filter, nil if there is none of the name.
func filterNamed(name string) filter {
	switch name {
	case "tojson":
		return toJSON
	case "default", "d":
		return defaulted
	case "length", "count":
		return func(r *run, x Value, a *given) Value { a.takes(); return int64(r.length(x)) }
	case "list":
		return func(r *run, x Value, a *given) Value { a.takes(); return r.list(x) }
	case "items":
		return itemsOf
	case "first":
		return first
	case "last":
		return last
	case "reverse":
		return reversed
	case "join":
		return join
	case "map":
		return mapped
	case "select":
		return func(r *run, x Value, a *given) Value { return r.selected(x, a, false, true) }
	case "reject":
		return func(r *run, x Value, a *given) Value { return r.selected(x, a, false, false) }
	case "selectattr":
		return func(r *run, x Value, a *given) Value { return r.selected(x, a, true, true) }
	case "rejectattr":
		return func(r *run, x Value, a *given) Value { return r.selected(x, a, true, false) }
	case "sort":
		return sorted
	case "dictsort":
		return dictSorted
	case "unique":
		return unique
	case "groupby":
		return grouped
	case "min":
		return func(r *run, x Value, a *given) Value { return r.extreme(x, a, true) }
	case "max":
		return func(r *run, x Value, a *given) Value { return r.extreme(x, a, false) }
	case "sum":
		return sum
	case "batch":
		return batch
	case "slice":
		return sliceFilter
	case "attr":
		return func(r *run, x Value, a *given) Value {
			name := a.takes("name").str(0, "name")
			if v, ok := r.attribute(x, name); ok {
				return v
			}
			return r.missing(x, name)
		}
	case "int":
		return integer
	case "float":
		return float
	case "abs":
		return func(r *run, x Value, a *given) Value {
			a.takes()
			if r.less(x, int64(0), "<") {
				return (&unary{'-', &constant{x}}).eval(r, nil)
			}
			return (&unary{'+', &constant{x}}).eval(r, nil)
		}
	case "round":
		return round
	}
	return textFilter(name)
}

func defaulted(_ *run, x Value, a *given) Value {
	a.takes("default_value", "boolean")
	_, none := x.(undefined)
	if none || a.boolean(1, "boolean", false) && !truth(x) {
		return a.or(0, "default_value", "")
	}
	return x
}

func (r *run) list(x Value) *List {
	items := r.items(x)
	r.alloc(40 + 16*len(items))
	return &List{Items: slices.Clone(items)}
}

func itemsOf(r *run, x Value, a *given) Value {
	a.takes()
	switch x := x.(type) {
	case undefined:
		return &iterator{name: "generator"}
	case *Dict:
		return &iterator{x.pairs(r), "generator"}
	}
	r.fail("Can only get item pairs from a mapping.")
	return nil
}

func first(r *run, x Value, a *given) Value {
	a.takes()
	if it, ok := x.(*iterator); ok && len(it.items) > 0 {
		v := it.items[0]
		it.items = it.items[1:]
		return v
	}
	if s, ok := x.(string); ok && s != "" {
		v, _ := runeAt(s, 0)
		return v
	}
	if items := r.items(x); len(items) > 0 {
		return items[0]
	}
	return undefined{"No first item, sequence was empty."}
}

func last(r *run, x Value, a *given) Value {
	a.takes()
	switch x := x.(type) {
	case *iterator:
		r.fail("'%s' object is not reversible", x.name)
	case string:
		if v, ok := runeAt(x, -1); ok {
			return v
		}
	default:
		if items := r.items(x); len(items) > 0 {
			return items[len(items)-1]
		}
	}
	return undefined{"No last item, sequence was empty."}
}

func reversed(r *run, x Value, a *given) Value {
	a.takes()
	items := r.list(x).Items
	slices.Reverse(items)
	if _, ok := x.(string); !ok {
		return &iterator{items, "list_reverseiterator"}
	}
	var b strings.Builder
	for _, c := range items {
		b.WriteString(c.(string)) //nolint:forcetypeassert // items of a string are
	}
	return b.String()
}

func join(r *run, x Value, a *given) Value {
	a.takes("d", "attribute")
	items := r.items(x)
	if at := a.or(1, "attribute", nil); at != nil {
		items = r.each(items, r.getter(at, nil, false))
	}
	sep := r.text(a.or(0, "d", ""))
	var b strings.Builder
	for i, v := range items {
		r.step(1)
		s := r.text(v)
		r.alloc(len(s) + len(sep))
		if i > 0 {
			b.WriteString(sep)
		}
		b.WriteString(s)
	}
	return b.String()
}

// each is do of every item.
func (r *run) each(items []Value, do func(Value) Value) []Value {
	r.alloc(16 * len(items))
	out := make([]Value, len(items))
	for i, v := range items {
		r.step(1)
		out[i] = do(v)
	}
	return out
}

// getter finds an attribute, which may be a path with dots or a number.
func (r *run) getter(attr, otherwise Value, defaults bool) func(Value) Value {
	var path []Value
	switch attr := attr.(type) {
	case string:
		for part := range strings.SplitSeq(attr, ".") {
			if n, err := strconv.ParseInt(part, 10, 64); err == nil && strings.Trim(part, "0123456789") == "" {
				path = append(path, n)
			} else {
				path = append(path, part)
			}
		}
	default:
		path = []Value{attr}
	}
	return func(v Value) Value {
		for _, key := range path {
			v = r.subscript(v, key)
			if _, none := v.(undefined); none && defaults {
				v = otherwise
			}
		}
		return v
	}
}

// rest are the arguments from the i-th on.
func (a *given) rest(i int) *given {
	b := *a
	b.list = b.list[min(i, len(b.list)):]
	return &b
}

func mapped(r *run, x Value, a *given) Value {
	if !truth(x) {
		return &iterator{name: "generator"}
	}
	if len(a.list) == 0 {
		attr, ok := a.get(-1, "attribute")
		if !ok {
			r.fail("map requires a filter argument")
		}
		otherwise, defaults := a.get(-1, "default")
		if n := len(a.names); n > 1 && !defaults || n > 2 {
			r.fail("map() got an unexpected argument")
		}
		return &iterator{r.each(r.items(x), r.getter(attr, otherwise, defaults && otherwise != nil)), "generator"}
	}
	name := a.str(0, "filter")
	return &iterator{r.each(r.items(x), func(v Value) Value { return r.filter(name, v, a.rest(1)) }), "generator"}
}

// selected are the items of which a test says what is wanted.
func (r *run) selected(x Value, a *given, attr, wanted bool) Value {
	of := func(v Value) Value { return v }
	if attr {
		of = r.getter(a.need(0, "attribute"), nil, false)
		a = a.rest(1)
	}
	ok := truth
	if len(a.list) > 0 {
		name := a.str(0, "test")
		args := a.rest(1)
		ok = func(v Value) bool { return r.named(name, v, args) }
	}
	var out []Value
	if !truth(x) {
		return &iterator{name: "generator"}
	}
	for _, v := range r.items(x) {
		r.step(1)
		if ok(of(v)) == wanted {
			r.alloc(16)
			out = append(out, v)
		}
	}
	return &iterator{out, "generator"}
}

// named runs a test whose name may be an operator.
func (r *run) named(name string, v Value, a *given) bool {
	switch name {
	case "==", "!=", "<", "<=", ">", ">=":
		return r.compared(name, v, a.need(0, "other"))
	}
	return r.test(name, v, a)
}

// folded is a key for sorting that does not tell upper from lower case.
func folded(v Value) Value {
	if s, ok := v.(string); ok {
		return lower(s)
	}
	return v
}

// sortKey is what a filter compares by.
func (r *run) sortKey(a *given, cases, attr int) func(Value) Value {
	return r.keyOf(a.or(attr, "attribute", nil), a.boolean(cases, "case_sensitive", false))
}

func (r *run) keyOf(attr Value, cases bool) func(Value) Value {
	of := func(v Value) Value { return v }
	if attr != nil {
		of = r.getter(attr, nil, false)
	}
	if cases {
		return of
	}
	return func(v Value) Value { return folded(of(v)) }
}

// severalKeys is what sort compares by: several attributes, with commas.
func (r *run) severalKeys(a *given) func(Value) Value {
	cases := a.boolean(1, "case_sensitive", false)
	attr := a.or(2, "attribute", nil)
	var keys []func(Value) Value
	if names, ok := attr.(string); ok {
		for name := range strings.SplitSeq(names, ",") {
			keys = append(keys, r.keyOf(name, cases))
		}
	} else {
		keys = append(keys, r.keyOf(attr, cases))
	}
	return func(v Value) Value {
		l := &List{Items: make([]Value, len(keys))}
		for i, key := range keys {
			l.Items[i] = key(v)
		}
		return l
	}
}

// sortBy sorts items by a key, keeping the order of equal ones.
func (r *run) sortBy(items []Value, key func(Value) Value, reverse bool) {
	keys := r.each(items, key)
	order := make([]int, len(items))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		if reverse {
			i, j = j, i
		}
		switch {
		case r.less(keys[i], keys[j], "<"):
			return -1
		case r.less(keys[j], keys[i], "<"):
			return 1
		}
		return 0
	})
	old := slices.Clone(items)
	for i, j := range order {
		items[i] = old[j]
	}
}

func sorted(r *run, x Value, a *given) Value {
	a.takes("reverse", "case_sensitive", "attribute")
	l := r.list(x)
	r.sortBy(l.Items, r.severalKeys(a), a.boolean(0, "reverse", false))
	return l
}

func dictSorted(r *run, x Value, a *given) Value {
	a.takes("case_sensitive", "by", "reverse")
	d, ok := x.(*Dict)
	if !ok {
		r.fail("dictsort needs a dict, not %s", typeName(x))
	}
	at := 0
	switch by := a.strOr(1, "by", "key"); by {
	case "key":
	case "value":
		at = 1
	default:
		r.fail("You can only sort by either \"key\" or \"value\"")
	}
	l := &List{Items: d.pairs(r)}
	r.sortBy(l.Items, func(v Value) Value {
		key := v.(*List).Items[at] //nolint:forcetypeassert // pairs are
		if a.boolean(0, "case_sensitive", false) {
			return key
		}
		return folded(key)
	}, a.boolean(2, "reverse", false))
	return l
}

func unique(r *run, x Value, a *given) Value {
	a.takes("case_sensitive", "attribute")
	key := r.sortKey(a, 0, 1)
	seen := &Dict{}
	var out []Value
	for _, v := range r.items(x) {
		r.step(1)
		k := key(v)
		r.hashed(k)
		if seen.find(k) < 0 {
			r.alloc(64)
			seen.set(k, true)
			out = append(out, v)
		}
	}
	return &iterator{out, "generator"}
}

func grouped(r *run, x Value, a *given) Value {
	a.takes("attribute", "default", "case_sensitive")
	otherwise := a.or(1, "default", nil)
	get := r.getter(a.need(0, "attribute"), otherwise, otherwise != nil)
	key := get
	if !a.boolean(2, "case_sensitive", false) {
		key = func(v Value) Value { return folded(get(v)) }
	}
	l := r.list(x)
	r.sortBy(l.Items, key, false)
	var groups []Value
	for i := 0; i < len(l.Items); {
		j := i + 1
		for j < len(l.Items) && r.equal(key(l.Items[i]), key(l.Items[j])) {
			j++
		}
		r.alloc(120)
		groups = append(groups, &List{Items: []Value{get(l.Items[i]), &List{Items: l.Items[i:j:j]}}, tuple: true})
		i = j
	}
	return &List{Items: groups}
}

func (r *run) extreme(x Value, a *given, least bool) Value {
	a.takes("case_sensitive", "attribute")
	key := r.sortKey(a, 0, 1)
	items := r.items(x)
	if len(items) == 0 {
		return undefined{"No aggregated item, sequence was empty."}
	}
	best := items[0]
	for _, v := range items[1:] {
		if least && r.less(key(v), key(best), "<") || !least && r.less(key(best), key(v), ">") {
			best = v
		}
	}
	return best
}

func sum(r *run, x Value, a *given) Value {
	a.takes("attribute", "start")
	items := r.items(x)
	if at := a.or(0, "attribute", nil); at != nil {
		items = r.each(items, r.getter(at, nil, false))
	}
	total := a.or(1, "start", int64(0))
	for _, v := range items {
		total = r.arith("+", total, v)
	}
	return total
}

func batch(r *run, x Value, a *given) Value {
	a.takes("linecount", "fill_with")
	a.need(0, "linecount")
	n := a.integer(0, "linecount", 0)
	if n <= 0 || n > maxRange {
		r.fail("batch: linecount is %d", n)
	}
	var out []Value
	items := r.items(x)
	for len(items) > 0 {
		k := min(int(n), len(items))
		l := &List{Items: slices.Clone(items[:k])}
		items = items[k:]
		if fill := a.or(1, "fill_with", nil); fill != nil {
			for len(l.Items) < int(n) {
				l.Items = append(l.Items, fill)
			}
		}
		r.alloc(56 + 16*len(l.Items))
		out = append(out, l)
	}
	return &iterator{out, "generator"}
}

func sliceFilter(r *run, x Value, a *given) Value {
	a.takes("slices", "fill_with")
	a.need(0, "slices")
	n := int(a.integer(0, "slices", 0))
	if n <= 0 || n > maxRange {
		r.fail("slice: slices is %d", n)
	}
	items := r.list(x).Items
	each, more := len(items)/n, len(items)%n
	var out []Value
	for i, from := 0, 0; i < n; i++ {
		k := each
		if i < more {
			k++
		}
		r.alloc(56 + 16*k)
		l := &List{Items: slices.Clone(items[from : from+k])}
		from += k
		if fill := a.or(1, "fill_with", nil); fill != nil && i >= more && more > 0 {
			l.Items = append(l.Items, fill)
		}
		out = append(out, l)
	}
	return &iterator{out, "generator"}
}

func integer(r *run, x Value, a *given) Value {
	a.takes("default", "base")
	otherwise, base := a.or(0, "default", int64(0)), int(a.integer(1, "base", 10))
	switch x := x.(type) {
	case string:
		s := strings.ReplaceAll(strings.TrimFunc(x, isSpace), "_", "")
		if base < 0 || base == 1 || base > 36 || len(s) > 4300 {
			return otherwise
		}
		digits := s
		if base == 16 || base == 8 || base == 2 {
			digits = strings.TrimPrefix(strings.TrimPrefix(strings.ToLower(s), "0"+string("box"[strings.Index("2_8_16", strconv.Itoa(base))/2])), "+")
		}
		if n, ok := new(big.Int).SetString(digits, base); ok {
			return whole(n)
		}
		f, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return otherwise
		}
		return truncated(f, otherwise)
	case float64:
		return truncated(x, otherwise)
	case *big.Int:
		return x
	case undefined:
		r.fail("%s", x.why)
	}
	if _, n, isInt, ok := number(x); ok && isInt {
		return n
	}
	return otherwise
}

func truncated(f float64, otherwise Value) Value {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return otherwise
	}
	n, _ := big.NewFloat(math.Trunc(f)).Int(nil)
	return whole(n)
}

func float(r *run, x Value, a *given) Value {
	otherwise := a.takes("default").or(0, "default", 0.0)
	if s, ok := x.(string); ok {
		f, err := strconv.ParseFloat(strings.ReplaceAll(strings.TrimFunc(s, isSpace), "_", ""), 64)
		if err != nil && !math.IsInf(f, 0) {
			return otherwise
		}
		return f
	}
	if u, none := x.(undefined); none {
		r.fail("%s", u.why)
	}
	if f, _, _, ok := number(x); ok {
		return f
	}
	return otherwise
}

func round(r *run, x Value, a *given) Value {
	a.takes("precision", "method")
	precision, method := a.integer(0, "precision", 0), a.strOr(1, "method", "common")
	f, n, isInt, ok := number(x)
	if !ok || precision < 0 || precision > 300 {
		r.fail("round: cannot round %s to %d digits", typeName(x), precision)
	}
	scale := math.Pow(10, float64(precision))
	switch method {
	case "common":
		if isInt {
			return n
		}
		rounded, _ := strconv.ParseFloat(strconv.FormatFloat(f, 'f', int(precision), 64), 64)
		return rounded
	case "ceil":
		return math.Ceil(f*scale) / scale
	case "floor":
		return math.Floor(f*scale) / scale
	}
	r.fail("method must be common, ceil or floor")
	return nil
}

func isUpper(c rune) bool { return unicode.IsUpper(c) || unicode.IsTitle(c) }
