package jinja

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// percent is Python's "format % x".
func (r *run) percent(format string, x Value) Value {
	var b strings.Builder
	var list []Value
	fields, named := x.(*Dict)
	lenient := named // nothing need be used up
	if l, ok := x.(*List); ok && l.tuple {
		list = l.Items
	} else {
		list, lenient = []Value{x}, ok || named
	}
	used := 0
	for {
		i := strings.IndexByte(format, '%')
		if i < 0 {
			break
		}
		b.WriteString(format[:i])
		format = format[i+1:]
		spec := len(format) - len(strings.TrimLeft(format, "#0- +123456789."))
		key, hasKey := "", false
		if strings.HasPrefix(format, "(") {
			end := strings.IndexByte(format, ')')
			if end < 0 {
				r.fail("incomplete format key")
			}
			key, hasKey = format[1:end], true
			format = format[end+1:]
			spec = len(format) - len(strings.TrimLeft(format, "#0- +123456789."))
		}
		if spec == len(format) {
			r.fail("incomplete format")
		}
		verb, flags := format[spec], format[:spec]
		format = format[spec+1:]
		if verb == '%' {
			b.WriteByte('%')
			continue
		}
		var v Value
		switch {
		case hasKey && !named:
			r.fail("format requires a mapping")
		case hasKey:
			var ok bool
			if v, ok = fields.get(key); !ok {
				r.fail("KeyError: '%s'", key)
			}
		case used == len(list):
			r.fail("not enough arguments for format string")
		default:
			v = list[used]
			used++
		}
		s := r.verb(flags, verb, v)
		r.alloc(len(s) + i)
		b.WriteString(s)
	}
	if used < len(list) && !lenient {
		r.fail("not all arguments converted during string formatting")
	}
	b.WriteString(format)
	r.alloc(len(format))
	return b.String()
}

// verb is one value, formatted.
func (r *run) verb(flags string, verb byte, v Value) string {
	for width := range strings.SplitSeq(strings.Trim(flags, "#- +"), ".") {
		if n, err := strconv.Atoi(strings.TrimLeft(width, "0")); err == nil && n > 10_000 {
			r.fail("a width of %d in a format", n)
		}
	}
	f, n, isInt, ok := number(v)
	switch verb {
	case 's':
		return fmt.Sprintf("%"+textFlags(flags)+"s", r.text(v))
	case 'r':
		var b strings.Builder
		r.repr(&b, v)
		return fmt.Sprintf("%"+textFlags(flags)+"s", b.String())
	case 'd', 'i', 'u':
		if ok {
			if !isInt {
				n = int64(f)
			}
			return fmt.Sprintf("%"+flags+"d", n)
		}
	case 'x', 'X', 'o':
		if ok && isInt {
			return fmt.Sprintf("%"+flags+string(verb), n)
		}
	case 'f', 'F', 'e', 'E':
		if ok {
			return fmt.Sprintf("%"+flags+string(verb), f)
		}
	case 'c':
		if c, isText := v.(string); isText {
			return fmt.Sprintf("%"+flags+"s", c)
		}
	default:
		r.fail("the format %%%c is not supported", verb)
	}
	r.fail("%%%c format: a number is required, not %s", verb, typeName(v))
	return ""
}

// textFlags are the flags that count for text.
func textFlags(flags string) string {
	rest := strings.TrimLeft(flags, "#0- +")
	if strings.Contains(flags[:len(flags)-len(rest)], "-") {
		return "-" + rest
	}
	return rest
}

// braces is Python's str.format, of fields without a format of their own.
func (r *run) braces(format string, a *given) Value {
	var b strings.Builder
	next, numbered := 0, false
	for {
		i := strings.IndexAny(format, "{}")
		if i < 0 {
			break
		}
		b.WriteString(format[:i])
		c := format[i]
		format = format[i+1:]
		if format != "" && format[0] == c {
			b.WriteByte(c)
			format = format[1:]
			continue
		}
		end := strings.IndexByte(format, '}')
		if c == '}' || end < 0 {
			r.fail("a single '%c' in a format string", c)
		}
		field := format[:end]
		format = format[end+1:]
		if field == "" {
			field = strconv.Itoa(next)
			next++
		} else if isDigit(field[0]) {
			numbered = true
		}
		if numbered && next > 0 {
			r.fail("cannot switch between numbered and unnumbered fields")
		}
		if strings.ContainsAny(field, "!:.[") {
			r.fail("the format {%s} is not supported", field)
		}
		n, err := strconv.Atoi(field)
		v, ok := a.get(-1, field)
		if err == nil {
			v, ok = a.get(n, "")
		}
		if !ok {
			r.fail("nothing is given for {%s}", field)
		}
		s := r.text(v)
		r.alloc(len(s) + i)
		b.WriteString(s)
	}
	b.WriteString(format)
	r.alloc(len(format))
	return b.String()
}

// strftime is Python's, of the time of the run.
func (r *run) strftime(format string) Value {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		bare := format[i] == '-' && i+1 < len(format) // glibc: no zeros before
		if bare {
			i++
		}
		s, ok := timeField(r.now, format[i])
		if !ok {
			r.fail("strftime_now: %%%c is not supported", format[i])
		}
		if bare {
			if t := strings.TrimLeft(s, "0 "); t != "" {
				s = t
			} else {
				s = "0"
			}
		}
		b.WriteString(s)
	}
	r.alloc(b.Len())
	return b.String()
}

func timeField(t time.Time, c byte) (string, bool) {
	layout := ""
	switch c {
	case 'Y':
		layout = "2006"
	case 'y':
		layout = "06"
	case 'm':
		layout = "01"
	case 'd':
		layout = "02"
	case 'e':
		layout = "_2"
	case 'H':
		layout = "15"
	case 'I':
		layout = "03"
	case 'M':
		layout = "04"
	case 'S':
		layout = "05"
	case 'p':
		layout = "PM"
	case 'B':
		layout = "January"
	case 'b', 'h':
		layout = "Jan"
	case 'A':
		layout = "Monday"
	case 'a':
		layout = "Mon"
	case 'j':
		layout = "002"
	case 'F':
		layout = "2006-01-02"
	case 'T', 'X':
		layout = "15:04:05"
	case 'R':
		layout = "15:04"
	case 'D', 'x':
		layout = "01/02/06"
	case 'c':
		layout = "Mon Jan _2 15:04:05 2006"
	case 'f':
		return fmt.Sprintf("%06d", t.Nanosecond()/1000), true
	case 'u':
		return strconv.Itoa((int(t.Weekday())+6)%7 + 1), true
	case 'w':
		return strconv.Itoa(int(t.Weekday())), true
	case 's':
		return strconv.FormatInt(t.Unix(), 10), true
	case 'z', 'Z':
		return "", true // datetime.now() knows no zone
	case '%':
		return "%", true
	case 'n':
		return "\n", true
	case 't':
		return "\t", true
	default:
		return "", false
	}
	return t.Format(layout), true
}
