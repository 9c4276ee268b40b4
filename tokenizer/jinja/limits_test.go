package jinja_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"smg/tokenizer/jinja"
)

// TestHostile runs templates that would take all memory or never end.
func TestHostile(t *testing.T) {
	limits := jinja.Limits{Steps: 2_000_000, Memory: 16 << 20, Output: 1 << 20, Depth: 200}
	for _, tc := range []struct{ name, source, want string }{
		{"loop_in_loop", `{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}`, "more than"},
		{"doubling", `{% set ns = namespace(s='ab') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}`, "memory"},
		{"doubling_list", `{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}`, "memory"},
		{"repetition", `{{ 'abc' * 10000000000 }}`, "memory"},
		{"repeated_list", `{{ [1] * 10000000000 }}`, "memory"},
		{"nested_repetition", `{{ ('abc' * 100000) * 100000 }}`, "memory"},
		{"output", `{% for i in range(99999) %}0123456789012345678901234567890123456789{% endfor %}`, "text is longer"},
		{"recursion", `{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}`, "nests deeper"},
		{"nested_value", `{% set ns = namespace(x=[]) %}{% for i in range(9999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}`, "nests deeper"},
		{"circle", `{% set ns = namespace() %}{% set ns.x = ns %}{{ ns.x }}`, "nests deeper"},
		{"shared_value", `{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x|tojson }}`, "more than"},
		{"shared_equal", `{% set n = namespace(x=[1], y=[1]) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}{% set n.y = [n.y, n.y] %}{% endfor %}{{ n.x == n.y }}`, "steps"},
		{"padding", `{{ 'x'.center(99999999999) }}`, "memory"},
		{"indent", `{{ ('\nx' * 10000)|indent(100000) }}`, "memory"},
		{"json_indent", `{{ ([1] * 100000)|tojson(indent=1000) }}`, "memory"},
		{"replace", `{{ ('a' * 100000).replace('a', 'b' * 100000) }}`, "memory"},
		{"replace_nothing", `{{ ('a' * 100000).replace('', 'b' * 100000) }}`, "memory"},
		{"join", `{{ (['a'] * 100000)|join('b' * 100000) }}`, "memory"},
		{"percent", `{{ '%999999999d' % 1 }}`, "width"},
		{"format", `{{ ('{0}' * 10000).format('a' * 100000) }}`, "memory"},
		{"power", `{{ 9 ** 9 ** 9 }}`, "64 bits"},
		{"product", `{{ 9223372036854775807 * 9223372036854775807 }}`, "64 bits"},
		{"range", `{{ range(100001) }}`, "range"},
		{"ranges", `{% for i in range(9999) %}{% set x = range(99999)|list %}{% endfor %}`, "memory"},
		{"caller", `{% macro m() %}{{ caller is defined }}{% call m() %}x{% endcall %}{% endmacro %}{{ m() }}`, "nests deeper"},
		{"recursive_loop", `{% for x in [[]] recursive %}{{ loop([[]]) }}{% endfor %}`, "nests deeper"},
		{"batch", `{{ [1]|batch(99999, 'x')|list|length }}{% for i in range(9999) %}{% set q = [1]|batch(99999, 'x')|list %}{% endfor %}`, "memory"},
		{"brackets", "{{ " + strings.Repeat("(", 100000) + strings.Repeat(")", 100000) + " }}", "nests deeper"},
		{"lists", "{{ " + strings.Repeat("[", 100000) + strings.Repeat("]", 100000) + " }}", "nests deeper"},
		{"not", "{{ " + strings.Repeat("not ", 100000) + "x }}", "nests deeper"},
		{"minus", "{{ " + strings.Repeat("-", 100000) + "1 }}", "nests deeper"},
		{"ifs", strings.Repeat("{% if x %}", 10000), "nests deeper"},
		{"chain", "{{ x" + strings.Repeat(".x", 10000) + " }}", "chain"},
		{"filters", "{{ x" + strings.Repeat("|trim", 10000) + " }}", "chain"},
		{"targets", "{% set " + strings.Repeat("(", 10000) + strings.Repeat(")", 10000) + " %}", "nests deeper"},
		{"long", strings.Repeat("x", 1<<20+1), "longer"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			begun := time.Now()
			tmpl, err := jinja.Parse(tc.name, tc.source)
			if err == nil {
				_, err = tmpl.Render(t.Context(), jinja.Run{Limits: limits})
			}
			var e *jinja.Error
			if !errors.As(err, &e) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want one with %q", err, tc.want)
			}
			if d := time.Since(begun); d > time.Minute {
				t.Errorf("it took %v", d)
			}
		})
	}
}

// TestOperators parses chains of operators that nest to the left, without end.
func TestOperators(t *testing.T) {
	for _, source := range []string{
		"{{ 0" + strings.Repeat(" + 1", 100_000) + " }}",
		"{{ 0" + strings.Repeat(" or 0", 100_000) + " }}",
		"{{ 1" + strings.Repeat(" if 1", 100_000) + " }}",
	} {
		if _, err := render(t, source, nil); err == nil || !strings.Contains(err.Error(), "chain") {
			t.Errorf("%.20q: got error %v, want one about the chain", source, err)
		}
	}
}

func TestStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	tmpl, err := jinja.Parse("endless", `{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tmpl.Render(ctx, jinja.Run{Limits: jinja.DefaultLimits()}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
}

// TestErrors holds errors to name the template, the line and the cause.
func TestErrors(t *testing.T) {
	for _, tc := range []struct{ name, source, want string }{
		{"undefined", "a\n{{ x.y }}", "template undefined, line 2: 'x' is undefined"},
		{"attribute", "{{ {}.a.b }}", "template attribute, line 1: 'dict object' has no attribute 'a'"},
		{"raised", "\n\n{{ raise_exception('no system role') }}", "template raised, line 3: no system role"},
		{"open", "\n{% if x %}", "template open, line 2: {% endif %} is missing for what begins at line 2"},
		{"tag", "{% extends 'x' %}", "template tag, line 1: {% extends %} is not supported"},
		{"filter", "{{ 1|nope }}", `template filter, line 1: no filter named "nope"`},
		{"method", "{{ 'x'.encode() }}", "template method, line 1: the method encode of str is not supported"},
		{"types", "{{ 1 + 'a' }}", "template types, line 1: unsupported operand type(s) for +: 'int' and 'str'"},
		{"changing", "{{ [].append(1) }}", "template changing, line 1: access to attribute 'append' of 'list' object is unsafe."},
		{"private", "{% set ns = namespace() %}{% set ns._x = 1 %}", `template private, line 1: a namespace takes no attribute "_x": the name begins with an underscore`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tmpl, err := jinja.Parse(tc.name, tc.source)
			if err == nil {
				_, err = tmpl.Render(t.Context(), jinja.Run{Limits: jinja.DefaultLimits()})
			}
			if err == nil || err.Error() != tc.want {
				t.Errorf("got  %v\nwant %s", err, tc.want)
			}
		})
	}
}

// TestConcurrent runs one template many times at once; it is for the race detector.
func TestConcurrent(t *testing.T) {
	tmpl, err := jinja.Parse("t", `{% macro m(x, y='d', z=1) %}{{ x }}{{ kwargs }}{% endmacro %}{% for i in range(9) %}{{ m(i, q=i) }}{{ loop.cycle('a', 'b') }}{% endfor %}`)
	if err != nil {
		t.Fatal(err)
	}
	want, err := tmpl.Render(t.Context(), jinja.Run{Limits: jinja.DefaultLimits()})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan string, 8)
	for range cap(done) {
		go func() {
			got, _ := tmpl.Render(t.Context(), jinja.Run{Limits: jinja.DefaultLimits()})
			done <- got
		}()
	}
	for range cap(done) {
		if got := <-done; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func FuzzRender(f *testing.F) {
	for _, s := range []string{
		`{% for m in l %}{{ loop.index }}{{ m.role|trim }}{% endfor %}`,
		`{%- set ns = namespace(a=1) -%}{{ s[1:-1:2] ~ d|tojson(indent=2) }}`,
		`{% macro a(b, c=1) %}{{ caller(b) }}{% endmacro %}{% call(x) a(1) %}{{ x }}{% endcall %}`,
		`{% raw %}{{ {% endraw %}{# x -#} {{ '%s' % (1,) }}`,
		`{{ s.split('l')|map('upper')|select('string')|sort|join }}`,
	} {
		f.Add(s)
	}
	d := &jinja.Dict{}
	d.Set("role", "user")
	values := map[string]jinja.Value{"s": "Hello 中\n", "n": int64(3), "f": 2.5, "d": d, "l": &jinja.List{Items: []jinja.Value{d, "x", nil, true}}}
	f.Fuzz(func(t *testing.T, source string) {
		tmpl, err := jinja.Parse("fuzz", source)
		if err != nil {
			return
		}
		limits := jinja.Limits{Steps: 100_000, Memory: 4 << 20, Output: 1 << 20, Depth: 100}
		one, err1 := tmpl.Render(t.Context(), jinja.Run{Values: values, Limits: limits})
		two, err2 := tmpl.Render(t.Context(), jinja.Run{Values: values, Limits: limits})
		if one != two || (err1 == nil) != (err2 == nil) {
			t.Errorf("%q is %q and %q (%v, %v)", source, one, two, err1, err2)
		}
		if len(one) > limits.Output {
			t.Errorf("%d bytes", len(one))
		}
	})
}

func FuzzJSON(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5,-0,1e400,"x\u00e9\ud83d"],"a":null}`, `[[[]]]`, `"\\"`, `123456789012345678901234567890`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := jinja.FromJSON([]byte(text))
		if err != nil {
			return
		}
		tmpl, err := jinja.Parse("json", `{{ v|tojson }}`)
		if err != nil {
			t.Fatal(err)
		}
		run := jinja.Run{Values: map[string]jinja.Value{"v": v}, Limits: jinja.DefaultLimits()}
		out, err := tmpl.Render(t.Context(), run)
		if err != nil {
			return // too deep
		}
		if strings.Contains(out, "Infinity") {
			return
		}
		again, err := jinja.FromJSON([]byte(out))
		if err != nil {
			t.Fatalf("%q: %v", out, err)
		}
		run.Values["v"] = again
		if twice, _ := tmpl.Render(t.Context(), run); twice != out {
			t.Errorf("%q became %q", out, twice)
		}
	})
}
