package jinja

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// textFilter is a filter that works on the text of a value, nil if there is none of
// the name.
func textFilter(name string) filter {
	var do func(r *run, s string, a *given) Value
	switch name {
	case "string":
		do = func(_ *run, s string, a *given) Value { a.takes(); return s }
	case "safe":
		do = func(_ *run, s string, a *given) Value { a.takes(); return s }
	case "trim":
		do = func(_ *run, s string, a *given) Value { return trim(s, a.takes("chars"), both) }
	case "upper":
		do = func(_ *run, s string, a *given) Value { a.takes(); return upper(s) }
	case "lower":
		do = func(_ *run, s string, a *given) Value { a.takes(); return lower(s) }
	case "capitalize":
		do = func(_ *run, s string, a *given) Value { a.takes(); return capitalized(s) }
	case "title":
		do = func(_ *run, s string, a *given) Value { a.takes(); return titleFilter(s) }
	case "replace":
		do = func(r *run, s string, a *given) Value {
			a.takes("old", "new", "count")
			n := int64(-1)
			if a.or(2, "count", nil) != nil {
				n = a.integer(2, "count", -1)
			}
			return r.replace(s, r.text(a.need(0, "old")), r.text(a.need(1, "new")), n)
		}
	case "indent":
		do = indent
	case "center":
		do = func(r *run, s string, a *given) Value {
			return r.padded(s, a.takes("width").integer(0, "width", 80), " ", 0)
		}
	case "wordcount":
		do = func(_ *run, s string, a *given) Value {
			a.takes()
			return int64(len(strings.FieldsFunc(s, func(c rune) bool { return !wordRune(c) })))
		}
	case "escape", "e", "forceescape":
		do = func(r *run, s string, a *given) Value {
			a.takes()
			r.alloc(len(s) + 4*strings.Count(s, "&"))
			return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "'", "&#39;", `"`, "&#34;").Replace(s)
		}
	case "format":
		do = func(r *run, s string, a *given) Value {
			if len(a.names) > 0 {
				d := &Dict{}
				for i, n := range a.names {
					d.set(n, a.named[i])
				}
				return r.percent(s, d)
			}
			return r.percent(s, &List{Items: a.list, tuple: true})
		}
	case "urlencode":
		do = func(r *run, s string, a *given) Value {
			a.takes()
			var b strings.Builder
			r.alloc(3 * len(s))
			for i := range len(s) {
				if c := s[i]; c < utf8.RuneSelf && (unicode.IsLetter(rune(c)) || isDigit(c) || strings.IndexByte("_.-~/", c) >= 0) {
					b.WriteByte(c)
				} else {
					fmt.Fprintf(&b, "%%%02X", c)
				}
			}
			return b.String()
		}
	case "truncate":
		do = truncate
	default:
		return nil
	}
	return func(r *run, x Value, a *given) Value {
		s, ok := x.(string)
		if !ok {
			switch _, _, _, scalar := number(x); {
			case name == "indent", name == "urlencode" && !scalar && x != nil && !isUndefined(x):
				r.fail("%s works on text, not on %s", name, typeName(x))
			case name == "truncate":
				if int64(r.length(x)) <= a.integer(0, "length", 255)+a.integer(3, "leeway", 5) {
					return x
				}
				r.fail("truncate works on text, not on %s", typeName(x))
			}
			s = r.text(x)
		}
		r.alloc(len(s))
		return do(r, s, a)
	}
}

// indent puts space before the lines of s, as Jinja does.
func indent(r *run, s string, a *given) Value {
	a.takes("width", "first", "blank")
	var by string
	if w, ok := a.or(0, "width", nil).(string); ok {
		by = w
	} else if n := a.integer(0, "width", 4); n > 0 {
		by, _ = r.repeat(" ", n).(string)
	}
	blank := a.boolean(2, "blank", false)
	lines := splitLines(s+"\n", false)
	var b strings.Builder
	for i, line := range lines {
		r.step(1)
		r.alloc(len(by) + len(line) + 1)
		if i > 0 {
			b.WriteByte('\n')
		}
		if i == 0 && a.boolean(1, "first", false) || i > 0 && (blank || line != "") {
			b.WriteString(by)
		}
		b.WriteString(line)
	}
	return b.String()
}

func truncate(_ *run, s string, a *given) Value {
	a.takes("length", "killwords", "end", "leeway")
	length, end, leeway := a.integer(0, "length", 255), a.strOr(2, "end", "..."), a.integer(3, "leeway", 5)
	if int64(utf8.RuneCountInString(s)) <= length+leeway {
		return s
	}
	room := length - int64(utf8.RuneCountInString(end))
	if room < 0 {
		a.r.fail("expected length >= %d, got %d", utf8.RuneCountInString(end), length)
	}
	s = s[:runesIn(s, room)]
	if !a.boolean(1, "killwords", false) {
		if i := strings.LastIndexByte(s, ' '); i >= 0 {
			s = s[:i]
		}
	}
	return s + end
}

func capitalized(s string) string {
	if s == "" {
		return ""
	}
	c, n := utf8.DecodeRuneInString(s)
	return titled(c) + lower(s[n:])
}

// titleFilter is the filter's idea of a title: words are between spaces, hyphens and
// opening brackets.
func titleFilter(s string) string {
	var b strings.Builder
	begins := true
	for _, c := range s {
		switch {
		case isSpace(c) || strings.ContainsRune("-({[<", c):
			begins = true
			b.WriteRune(c)
			continue
		case begins:
			b.WriteString(upper(string(c)))
		default:
			b.WriteString(lower(string(c)))
		}
		begins = false
	}
	return b.String()
}

// titleMethod is the string method's: words are letters in a row.
func titleMethod(s string) string {
	var b strings.Builder
	within := false
	for _, c := range s {
		cased := unicode.IsUpper(c) || unicode.IsLower(c) || unicode.IsTitle(c)
		switch {
		case cased && !within:
			b.WriteString(titled(c))
		case cased:
			b.WriteString(lower(string(c)))
		default:
			b.WriteRune(c)
		}
		within = cased
	}
	return b.String()
}

func (r *run) replace(s, from, to string, n int64) Value {
	r.step(len(s) >> 8)
	count := int64(strings.Count(s, from))
	if n >= 0 {
		count = min(count, n)
	}
	r.alloc(len(s))
	r.alloc(saturated(int(count), len(to)))
	return strings.Replace(s, from, to, int(count))
}

// padded is s with fill around it: before it for 1, behind it for -1, both for 0.
func (r *run) padded(s string, width int64, fill string, side int) string {
	n := width - int64(utf8.RuneCountInString(s))
	if n <= 0 {
		return s
	}
	left := int64(0)
	switch side {
	case 1:
		left = n
	case 0:
		left = n/2 + n&width&1
	}
	before, _ := r.repeat(fill, left).(string)
	behind, _ := r.repeat(fill, n-left).(string)
	return before + s + behind
}
