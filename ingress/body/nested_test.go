package body_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"smg/ingress/body"
)

func doc(t interface{ Fatalf(string, ...any) }, raw string) body.Doc {
	d, ok := body.CheckDoc([]byte(raw))
	if !ok {
		t.Fatalf("not JSON: %s", raw)
	}
	return d
}

func TestDocAt(t *testing.T) {
	for _, tt := range []struct{ raw, path, want string }{
		{`{"a":{"b":[1, 2.0]},"c":3}`, "a.b", "[1, 2.0]"},
		{" {\n\"a\" : { \"b\" : null } }", "a.b", "null"},
		{`{"a":1,"a":{"b":2},"A":3}`, "a.b", "2"},
		{`{"\u0061":{"b":2}}`, "a.b", "2"},
		{`{"a":{"b":"}\"{"}}`, "a.b", `"}\"{"`},
		{`{"a":{}}`, "a.b", ""},
		{`{"a":[{"b":1}]}`, "a.b", ""},
		{`{"a":null}`, "a.b", ""},
		{`[]`, "a", ""},
		{`"a"`, "a", ""},
		{`{}`, "a", ""},
	} {
		if got := doc(t, tt.raw).At(strings.Split(tt.path, ".")...); string(got) != tt.want {
			t.Errorf("%s of %s: %q, want %q", tt.path, tt.raw, got, tt.want)
		}
	}
}

func TestDocElements(t *testing.T) {
	for raw, want := range map[string][]string{
		`[ 1, [2,3] ,{"a":[4]}]`: {"1", "[2,3]", `{"a":[4]}`},
		` []`:                    nil,
		`{"a":1}`:                nil,
		`1`:                      nil,
	} {
		var got []string
		for _, e := range doc(t, raw).Elements() {
			got = append(got, string(e))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", raw, diff)
		}
	}
}

func TestDocSet(t *testing.T) {
	for _, tt := range []struct{ raw, path, value, want string }{
		{`{"a": {"b" : 1.00 , "c":2}}`, "a.b", "7", `{"a": {"b" : 7 , "c":2}}`},
		{`{"a":{"b":1}, "d":0}`, "a.c", "7", `{"a":{"b":1,"c":7}, "d":0}`},
		{`{"a":{ }}`, "a.c", "7", `{"a":{"c":7 }}`},
		{`{"a":{"b":1}}`, "a.b", "", `{"a":{}}`},
		{`{"a":{"b":1, "c":2}}`, "a.b", "", `{"a":{"c":2}}`},
		{`{"a":{"b":1 , "c":2}}`, "a.c", "", `{"a":{"b":1}}`},
		{`{"a":{"x":0, "b":1, "c":2}}`, "a.b", "", `{"a":{"x":0, "c":2}}`},
		{`{"a":{"b":1,"c":2,"b":3}}`, "a.b", "", `{"a":{"c":2}}`},
		{`{"a":{"b":1,"b":3}}`, "a.b", "7", `{"a":{"b":1,"b":7}}`},
		{`{"a":{"c":1}}`, "a.b", "", `{"a":{"c":1}}`},
		{`{"a":1}`, "a.b", "7", "no"},
		{`{}`, "a.b", "7", "no"},
		{`[1]`, "a", "7", "no"},
		{`{}`, "a", "7", `{"a":7}`},
	} {
		var value []byte
		if tt.value != "" {
			value = []byte(tt.value)
		}
		got, ok := doc(t, tt.raw).Set([]byte("x"), value, strings.Split(tt.path, ".")...)
		want := "x" + tt.want
		if tt.want == "no" {
			want = "x"
		}
		if string(got) != want || ok != (tt.want != "no") {
			t.Errorf("%s of %s = %s: %q %v, want %q", tt.path, tt.raw, tt.value, got, ok, want)
		}
	}
}

// TestDocSetLikeAMap compares with the standard library.
func TestDocSetLikeAMap(t *testing.T) {
	keys := rapid.SampledFrom([]string{"a", "b", "c\"d", "é"})
	leaf := rapid.Custom(func(t *rapid.T) any {
		return rapid.SampledFrom([]any{json.Number("1.000"), "x,}", nil, true, []any{json.Number("1"), map[string]any{"a": "b"}}}).Draw(t, "leaf")
	})
	rapid.Check(t, func(t *rapid.T) {
		inner := rapid.MapOfN(keys, leaf, 0, 4).Draw(t, "inner")
		outer := map[string]any{}
		maps.Copy(outer, rapid.MapOfN(keys, leaf, 0, 3).Draw(t, "outer"))
		outer["in"] = inner
		raw, err := json.Marshal(outer)
		if err != nil {
			t.Fatal(err)
		}
		if rapid.Bool().Draw(t, "wide") {
			var b bytes.Buffer
			_ = json.Indent(&b, raw, " ", "\t")
			raw = b.Bytes()
		}
		key := keys.Draw(t, "key")
		var value []byte
		if rapid.Bool().Draw(t, "set") {
			value = []byte(`{"new":12345678901234567890}`)
			inner[key] = map[string]any{"new": json.Number("12345678901234567890")}
		} else {
			delete(inner, key)
		}
		d := doc(t, string(raw))
		got, ok := d.Set(nil, value, "in", key)
		if !ok {
			t.Fatalf("%s in %s is not set", key, raw)
		}
		var back map[string]any
		dec := json.NewDecoder(bytes.NewReader(got))
		dec.UseNumber()
		if err := dec.Decode(&back); err != nil {
			t.Fatalf("%v in %s", err, got)
		}
		if diff := cmp.Diff(outer, back); diff != "" {
			t.Fatal(diff)
		}
		if v := doc(t, string(got)).At("in", key); string(v) != string(value) {
			t.Fatalf("%s, want %s", v, value)
		}
	})
}

func TestMember(t *testing.T) {
	var many strings.Builder
	for i := range 30 {
		fmt.Fprintf(&many, `"k%d":%d,`, i, i)
	}
	for _, tt := range []struct{ raw, name, want string }{
		{`{"return_logprob":true}`, "return_logprob", "true"},
		{`{"return\u005flogprob": [true, false] }`, "return_logprob", "[true, false]"},
		{`{"a":1,"a":2}`, "a", "2"},
		{`{"A":1}`, "a", ""},
		{"{" + many.String() + `"z":9}`, "k29", "29"},
		{"{" + many.String() + `"z":9}`, "z", "9"},
	} {
		b, err := body.Parse([]byte(tt.raw), body.DefaultMaxDepth)
		if err != nil {
			t.Fatal(err)
		}
		if got := b.Member(tt.name); string(got) != tt.want {
			t.Errorf("%s of %s: %q, want %q", tt.name, tt.raw, got, tt.want)
		}
	}
}
