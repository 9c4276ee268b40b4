package jinja

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxJSONDepth is how deep FromJSON goes.
const maxJSONDepth = 1000

// FromJSON is the value of a JSON text. The order of keys stays; of a key that is
// repeated the last value counts.
func FromJSON(text []byte) (Value, error) {
	if !json.Valid(text) {
		return nil, errors.New("not valid JSON")
	}
	return FromValidJSON(text)
}

// FromValidJSON is FromJSON of a text that has been checked; it panics over another.
func FromValidJSON(text []byte) (Value, error) {
	d := decoder{text: text}
	return d.value(0)
}

// decoder reads JSON that is valid.
type decoder struct {
	text []byte
	pos  int
}

// token is the next byte that is no space.
func (d *decoder) token() byte {
	for {
		switch c := d.text[d.pos]; c {
		case ' ', '\t', '\n', '\r', ',', ':':
			d.pos++
		default:
			return c
		}
	}
}

func (d *decoder) value(depth int) (Value, error) {
	if depth > maxJSONDepth {
		return nil, fmt.Errorf("JSON that nests deeper than %d", maxJSONDepth)
	}
	switch d.token() {
	case 'n':
		d.pos += 4
		return nil, nil //nolint:nilnil // it is null
	case 't':
		d.pos += 4
		return true, nil
	case 'f':
		d.pos += 5
		return false, nil
	case '"':
		return d.string()
	case '[':
		d.pos++
		l := &List{}
		for d.token() != ']' {
			v, err := d.value(depth + 1)
			if err != nil {
				return nil, err
			}
			l.Items = append(l.Items, v)
		}
		d.pos++
		return l, nil
	case '{':
		d.pos++
		m := &Dict{}
		for d.token() != '}' {
			k, err := d.string()
			if err != nil {
				return nil, err
			}
			v, err := d.value(depth + 1)
			if err != nil {
				return nil, err
			}
			m.set(k, v)
		}
		d.pos++
		return m, nil
	default:
		return d.number()
	}
}

func (d *decoder) string() (string, error) {
	from := d.pos
	plain := true
	for d.pos++; d.text[d.pos] != '"'; d.pos++ {
		if d.text[d.pos] == '\\' {
			plain = false
			d.pos++
		}
	}
	d.pos++
	raw := d.text[from:d.pos]
	if plain && utf8.Valid(raw) {
		return string(raw[1 : len(raw)-1]), nil
	}
	var s string
	err := json.Unmarshal(raw, &s)
	return s, err
}

func (d *decoder) number() (Value, error) {
	from := d.pos
	for d.pos < len(d.text) && strings.IndexByte("+-.eE0123456789", d.text[d.pos]) >= 0 {
		d.pos++
	}
	text := string(d.text[from:d.pos])
	if !strings.ContainsAny(text, ".eE") {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n, nil
		}
		const digits = 4300 // as many as Python takes
		n, ok := new(big.Int), false
		if len(text) <= digits {
			n, ok = n.SetString(text, 10)
		}
		if !ok {
			return nil, fmt.Errorf("a number of %d digits", len(text))
		}
		return n, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil && !math.IsInf(f, 0) {
		return nil, err
	}
	return f, nil
}

// encoder is Python's json.dumps.
type encoder struct {
	r           *run
	b           strings.Builder
	ascii, sort bool
	indent      string
	lines       bool
	comma       string
	colon       string
}

func toJSON(r *run, x Value, a *given) Value {
	a.takes("ensure_ascii", "indent", "separators", "sort_keys")
	e := &encoder{r: r, ascii: a.boolean(0, "ensure_ascii", false), sort: a.boolean(3, "sort_keys", false), comma: ", ", colon: ": "}
	switch in := a.or(1, "indent", nil).(type) {
	case nil:
	case string:
		e.indent, e.lines, e.comma = in, true, ","
	default:
		e.indent, e.lines, e.comma = strings.Repeat(" ", int(min(max(a.integer(1, "indent", 0), 0), 1000))), true, ","
	}
	if s := a.or(2, "separators", nil); s != nil {
		pair := r.items(s)
		if len(pair) != 2 {
			r.fail("tojson: separators are a pair")
		}
		e.comma, e.colon = a.isStr(pair[0], "separators"), a.isStr(pair[1], "separators")
	}
	e.value(x, 0)
	return e.b.String()
}

func (e *encoder) value(v Value, level int) {
	e.r.step(1)
	defer e.r.deeper()()
	e.r.alloc(8)
	switch v := v.(type) {
	case nil:
		e.b.WriteString("null")
	case bool:
		e.b.WriteString(strconv.FormatBool(v))
	case int64:
		e.b.WriteString(strconv.FormatInt(v, 10))
	case *big.Int:
		e.b.WriteString(v.String())
	case float64:
		e.float(v)
	case string:
		e.string(v)
	case *List:
		e.list(v, level)
	case *Dict:
		e.dict(v, level)
	case undefined:
		e.r.fail("Object of type Undefined is not JSON serializable: %s", v.why)
	default:
		e.r.fail("Object of type %s is not JSON serializable", typeName(v))
	}
}

func (e *encoder) float(f float64) {
	switch {
	case math.IsNaN(f):
		e.b.WriteString("NaN")
	case math.IsInf(f, 1):
		e.b.WriteString("Infinity")
	case math.IsInf(f, -1):
		e.b.WriteString("-Infinity")
	default:
		e.b.WriteString(formatFloat(f))
	}
}

// line begins a line of a level.
func (e *encoder) line(level int) {
	if !e.lines {
		return
	}
	e.r.alloc(saturated(len(e.indent), level))
	e.b.WriteByte('\n')
	for range level {
		e.b.WriteString(e.indent)
	}
}

func (e *encoder) list(l *List, level int) {
	e.b.WriteByte('[')
	for i, v := range l.Items {
		if i > 0 {
			e.b.WriteString(e.comma)
		}
		e.line(level + 1)
		e.value(v, level+1)
	}
	if len(l.Items) > 0 {
		e.line(level)
	}
	e.b.WriteByte(']')
}

func (e *encoder) dict(d *Dict, level int) {
	order := make([]int, d.Len())
	for i := range order {
		order[i] = i
	}
	if e.sort {
		slices.SortStableFunc(order, func(i, j int) int {
			switch {
			case e.r.less(d.keys[i], d.keys[j], "<"):
				return -1
			case e.r.less(d.keys[j], d.keys[i], "<"):
				return 1
			}
			return 0
		})
	}
	e.b.WriteByte('{')
	for n, i := range order {
		if n > 0 {
			e.b.WriteString(e.comma)
		}
		e.line(level + 1)
		switch k := d.keys[i].(type) {
		case string:
			e.string(k)
		case nil, bool, int64, float64:
			e.b.WriteByte('"')
			e.value(k, level+1)
			e.b.WriteByte('"')
		default:
			e.r.fail("keys must be str, int, float, bool or None, not %s", typeName(k))
		}
		e.b.WriteString(e.colon)
		e.value(d.values[i], level+1)
	}
	if d.Len() > 0 {
		e.line(level)
	}
	e.b.WriteByte('}')
}

func (e *encoder) string(s string) {
	e.r.alloc(len(s))
	e.b.WriteByte('"')
	from := 0
	for i := 0; i < len(s); {
		c, size := rune(s[i]), 1
		if c >= utf8.RuneSelf {
			c, size = utf8.DecodeRuneInString(s[i:])
		}
		if c >= ' ' && c != '"' && c != '\\' && (!e.ascii || c < 0x7f) {
			i += size
			continue
		}
		e.b.WriteString(s[from:i])
		e.escape(c)
		i += size
		from = i
	}
	e.b.WriteString(s[from:])
	e.b.WriteByte('"')
}

func (e *encoder) escape(c rune) {
	switch c {
	case '"', '\\':
		e.b.WriteByte('\\')
		e.b.WriteRune(c)
	case '\n':
		e.b.WriteString(`\n`)
	case '\r':
		e.b.WriteString(`\r`)
	case '\t':
		e.b.WriteString(`\t`)
	case '\f':
		e.b.WriteString(`\f`)
	case '\b':
		e.b.WriteString(`\b`)
	default:
		if c > 0xffff {
			c -= 0x10000
			fmt.Fprintf(&e.b, `\u%04x\u%04x`, 0xd800+c>>10, 0xdc00+c&0x3ff)
			return
		}
		fmt.Fprintf(&e.b, `\u%04x`, c)
	}
}
