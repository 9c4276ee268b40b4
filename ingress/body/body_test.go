package body_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"smg/ingress/body"
)

// parse fails the test if raw is refused.
func parse(t testing.TB, raw string) *body.Body {
	t.Helper()
	b, err := body.Parse([]byte(raw), body.DefaultMaxDepth)
	if err != nil {
		t.Fatalf("Parse(%.200q): %v", raw, err)
	}
	return &b
}

func fault(t testing.TB, err error) *body.Error {
	t.Helper()
	var e *body.Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v (%T), want a *body.Error", err, err)
	}
	return e
}

func TestParseFields(t *testing.T) {
	type want struct {
		Model, RID string
		Stream     bool
		N          int64
		HasN       bool
		Values     map[string]string
	}
	tests := []struct {
		name, in string
		want     want
	}{
		{"nothing", `{}`, want{Model: "unknown"}},
		{"spaces", " \t\r\n{ \n} \t", want{Model: "unknown"}},
		{
			"chat", `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true,"n":2,"rid":"r1"}`,
			want{Model: "m", RID: "r1", Stream: true, N: 2, HasN: true, Values: map[string]string{
				"model": `"m"`, "messages": `[{"role":"user","content":"hi"}]`, "stream": "true", "n": "2", "rid": `"r1"`,
			}},
		},
		{
			"spaced", "{ \"model\" : \"m\" ,\n\t\"prompt\" : [ 1 , 2 ] }",
			want{Model: "m", Values: map[string]string{"model": `"m"`, "prompt": "[ 1 , 2 ]"}},
		},
		{
			"last counts", `{"model":"a","stream":true,"n":1,"model":"b","stream":false,"n":3}`,
			want{Model: "b", N: 3, HasN: true, Values: map[string]string{"model": `"b"`, "stream": "false", "n": "3"}},
		},
		{
			"escaped keys", `{"mod\u0065l":"m","\u0073tream":true,"\u006E":4,"input\u005fids":[]}`,
			want{Model: "m", Stream: true, N: 4, HasN: true, Values: map[string]string{
				"model": `"m"`, "stream": "true", "n": "4", "input_ids": "[]",
			}},
		},
		{
			"escaped value", `{"model":"a\/b\u00e9\ud83d\ude00\n"}`,
			want{Model: "a/b\u00e9\U0001f600\n", Values: map[string]string{"model": `"a\/b\u00e9\ud83d\ude00\n"`}},
		},
		{
			"half a pair", `{"model":"\ud83d","text":"\ude00\ud83dx"}`,
			want{Model: "\ufffd", Values: map[string]string{"model": `"\ud83d"`, "text": `"\ude00\ud83dx"`}},
		},
		{
			"null", `{"model":null,"stream":null,"n":null,"rid":null,"text":null}`,
			want{Model: "unknown", Values: map[string]string{"model": "null", "stream": "null", "n": "null", "rid": "null", "text": "null"}},
		},
		{"nested keys do not count", `{"x":{"model":"a","stream":true},"y":[{"n":2}]}`, want{Model: "unknown"}},
		{"other case is another key", `{"Model":"a","STREAM":true}`, want{Model: "unknown"}},
		{"whole floats", `{"n":2.0e0}`, want{Model: "unknown", N: 2, HasN: true, Values: map[string]string{"n": "2.0e0"}}},
		{"broken n", `{"n":1.5}`, want{Model: "unknown", Values: map[string]string{"n": "1.5"}}},
		{"endless n", `{"n":1e999}`, want{Model: "unknown", Values: map[string]string{"n": "1e999"}}},
		{"list of rids", `{"rid":["a","b"]}`, want{Model: "unknown", RID: "a", Values: map[string]string{"rid": `["a","b"]`}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := parse(t, tt.in)
			got := want{Model: b.Model(), RID: b.RID(), Stream: b.Stream()}
			got.N, got.HasN = b.N()
			for k := body.KeyModel; k <= body.KeyInputIDs; k++ {
				v := b.Value(k)
				if b.Field(k).Present() != (v != nil) {
					t.Errorf("%v: Present and Value disagree", k)
				}
				if v != nil {
					if got.Values == nil {
						got.Values = map[string]string{}
					}
					got.Values[k.String()] = string(v)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFields(t *testing.T) {
	b := parse(t, `{"model":"a","text":null,"model": 7}`)
	if diff := cmp.Diff(body.Field{Type: body.TypeNumber, Repeated: true, Start: 34, End: 35}, b.Field(body.KeyModel)); diff != "" {
		t.Errorf("model (-want +got):\n%s", diff)
	}
	if f := b.Field(body.KeyText); !f.Present() || f.Given() {
		t.Errorf("null is present and not given, got %+v", f)
	}
	if f := b.Field(200); f.Present() {
		t.Errorf("an unrecorded key is present: %+v", f)
	}
	if b.Value(200) != nil {
		t.Error("an unrecorded key has a value")
	}
}

func TestParseErrors(t *testing.T) {
	type want struct {
		Kind         body.Kind
		Offset       int
		Line, Column int
		Msg          string
	}
	tests := []struct {
		name, in string
		want     want
	}{
		{"empty", "", want{body.KindEmpty, 0, 1, 1, "the body is empty, expected a JSON object"}},
		{"blank", " \n ", want{body.KindEmpty, 0, 1, 1, "the body is empty, expected a JSON object"}},
		{"array", " [1]", want{body.KindNotObject, 1, 1, 2, "the body must be a JSON object, not an array"}},
		{"string", `"x"`, want{body.KindNotObject, 0, 1, 1, "the body must be a JSON object, not a string"}},
		{"number", `-1.5e+7`, want{body.KindNotObject, 0, 1, 1, "the body must be a JSON object, not a number"}},
		{"broken array", `[1,]`, want{body.KindSyntax, 3, 1, 4, "unexpected ']', expected a value (is there a comma too many?)"}},
		{"garbage", `hello`, want{body.KindSyntax, 0, 1, 1, "unknown word at 'h': the words of JSON are true, false and null, strings need double quotes"}},
		{"byte order mark", "\xef\xbb\xbf{}", want{body.KindSyntax, 0, 1, 1, "the body begins with a byte order mark: send plain UTF-8"}},
		{"trailing", "{}\n x", want{body.KindTrailing, 4, 2, 2, "unexpected 'x' after the end of the JSON value"}},
		{"two objects", "{}{}", want{body.KindTrailing, 2, 1, 3, "unexpected '{' after the end of the JSON value"}},
		{"array and more", "[] 1", want{body.KindTrailing, 3, 1, 4, "unexpected '1' after the end of the JSON value"}},
		{"nul after", "{}\x00", want{body.KindTrailing, 2, 1, 3, "unexpected control character 0x00 after the end of the JSON value"}},
		{"open", `{`, want{body.KindSyntax, 1, 1, 2, "unexpected end of the body, expected a key in double quotes"}},
		{"cut key", `{"a`, want{body.KindSyntax, 1, 1, 2, "string without a closing quote"}},
		{"cut after key", `{"a"`, want{body.KindSyntax, 4, 1, 5, "unexpected end of the body, expected ':' after a key"}},
		{"cut after colon", `{"a":`, want{body.KindSyntax, 5, 1, 6, "unexpected end of the body, expected a value"}},
		{"cut after value", `{"a":1`, want{body.KindSyntax, 6, 1, 7, "unexpected end of the body, expected ',' or '}'"}},
		{"cut in array", `{"a":[1`, want{body.KindSyntax, 7, 1, 8, "unexpected end of the body, expected ',' or ']'"}},
		{"wrong bracket", `{"a":[1}}`, want{body.KindSyntax, 7, 1, 8, "unexpected '}', expected ',' or ']'"}},
		{"wrong brace", `{"a":{"b":1]}`, want{body.KindSyntax, 11, 1, 12, "unexpected ']', expected ',' or '}'"}},
		{"trailing comma", "{\"a\":1,\n}", want{body.KindSyntax, 6, 1, 7, "comma before '}': remove it"}},
		{"nested trailing comma", `{"a":{"b":1,}}`, want{body.KindSyntax, 11, 1, 12, "comma before '}': remove it"}},
		{"no comma", "{\"a\":1\n\"b\":2}", want{body.KindSyntax, 7, 2, 1, "unexpected '\"', expected ',' or '}'"}},
		{"single quotes", `{'a':1}`, want{body.KindSyntax, 1, 1, 2, `unexpected '\'', expected a key in double quotes`}},
		{"single quoted value", `{"a":'b'}`, want{body.KindSyntax, 5, 1, 6, `unexpected '\'', expected a value`}},
		{"bare key", `{a:1}`, want{body.KindSyntax, 1, 1, 2, "unexpected 'a', expected a key in double quotes"}},
		{"python", `{"stream":True}`, want{body.KindSyntax, 10, 1, 11, "unknown word at 'T': the words of JSON are true, false and null, strings need double quotes"}},
		{"half a word", `{"a":tru}`, want{body.KindSyntax, 5, 1, 6, "unknown word at 't': the words of JSON are true, false and null, strings need double quotes"}},
		{"word and more", `{"a":nulls}`, want{body.KindSyntax, 9, 1, 10, "unexpected 's', expected ',' or '}'"}},
		{"NaN", `{"a":NaN}`, want{body.KindSyntax, 5, 1, 6, "unknown word at 'N': the words of JSON are true, false and null, strings need double quotes"}},
		{"leading zero", `{"a":01}`, want{body.KindSyntax, 5, 1, 6, "number with leading zeros"}},
		{"leading point", `{"a":.5}`, want{body.KindSyntax, 5, 1, 6, "unexpected '.', expected a value"}},
		{"plus", `{"a":+5}`, want{body.KindSyntax, 5, 1, 6, "unexpected '+', expected a value"}},
		{"minus alone", `{"a":-}`, want{body.KindSyntax, 6, 1, 7, "unexpected '}', expected a digit"}},
		{"no fraction", `{"a":1.}`, want{body.KindSyntax, 7, 1, 8, "unexpected '}', expected a digit after the decimal point"}},
		{"no exponent", `{"a":1e+}`, want{body.KindSyntax, 8, 1, 9, "unexpected '}', expected a digit in the exponent"}},
		{"line break in string", "{\"a\":\"b\nc\"}", want{body.KindSyntax, 7, 1, 8, "unescaped control character 0x0a in a string"}},
		{"nul in string", "{\"a\":\"0123456789abcdef\x00\"}", want{body.KindSyntax, 22, 1, 23, "unescaped control character 0x00 in a string"}},
		{"unknown escape", `{"a":"C:\dir"}`, want{body.KindSyntax, 8, 1, 9, "unknown escape sequence in a string (a backslash itself is written twice)"}},
		{"short hex", `{"a":"\u12"}`, want{body.KindSyntax, 6, 1, 7, `\u needs four hexadecimal digits`}},
		{"cut hex", `{"a":"\u12`, want{body.KindSyntax, 6, 1, 7, `\u needs four hexadecimal digits`}},
		{"cut escape", `{"a":"\`, want{body.KindSyntax, 6, 1, 7, "unknown escape sequence in a string (a backslash itself is written twice)"}},
		{"cut string", `{"a":"bcdefghijklmno`, want{body.KindSyntax, 5, 1, 6, "string without a closing quote"}},
		{"not UTF-8", "{\"\u00e9\":\"a\xffb\"}", want{body.KindSyntax, 8, 1, 8, "byte 0xff in a string is not UTF-8"}},
		{"overlong UTF-8", "{\"a\":\"\xc0\xa2\"}", want{body.KindSyntax, 6, 1, 7, "byte 0xc0 in a string is not UTF-8"}},
		{"cut UTF-8", "{\"a\":\"\xe2\x82\"}", want{body.KindSyntax, 6, 1, 7, "byte 0xe2 in a string is not UTF-8"}},
		{"raw surrogate", "{\"a\":\"\xed\xa0\x80\"}", want{body.KindSyntax, 6, 1, 7, "byte 0xed in a string is not UTF-8"}},
		{"odd space", "{\u00a0}", want{body.KindSyntax, 1, 1, 2, `unexpected '\u00a0', expected a key in double quotes`}},
		{"UTF-16", "{\x00}\x00", want{body.KindSyntax, 1, 1, 2, "unexpected control character 0x00, expected a key in double quotes"}},
		{"multi-line", "{\n  \"a\": \"\u00e9\u00e9\", ?\n}", want{body.KindSyntax, 17, 2, 14, "unexpected '?', expected a key in double quotes"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := body.Parse([]byte(tt.in), body.DefaultMaxDepth)
			e := fault(t, err)
			got := want{e.Kind, e.Offset, e.Line, e.Column, e.Msg}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestErrorText(t *testing.T) {
	_, err := body.Parse([]byte("{\n \"a\": tru }"), body.DefaultMaxDepth)
	want := "invalid JSON: unknown word at 't': the words of JSON are true, false and null, " +
		"strings need double quotes (line 2, column 7, byte 8)"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	b := parse(t, `{}`)
	if err := body.CheckChat(b); err == nil || err.Error() != `"model" is required` {
		t.Errorf("got %v, want a text without position", err)
	}
}

func TestDepth(t *testing.T) {
	nest := func(n int, open, core, shut string) string {
		return `{"a":` + strings.Repeat(open, n) + core + strings.Repeat(shut, n) + `}`
	}
	tests := []struct {
		name, in string
		limit    int
		want     int // offset of the fault, -1 for none
	}{
		{"flat in one level", `{"a":1}`, 1, -1},
		{"array in one level", `{"a":[]}`, 1, 5},
		{"no level", ` {}`, 0, 1},
		{"negative", `{}`, -3, 0},
		{"default is 512 levels", nest(511, "[", "1", "]"), 512, -1},
		{"one too many", nest(512, "[", "1", "]"), 512, 5 + 511},
		{"objects", nest(511, `{"b":`, "1", "}"), 512, -1},
		{"one object too many", nest(512, `{"b":`, "1", "}"), 512, 5 + 511*5},
		{"mixed", nest(255, `[{"b":`, "[]", "}]"), 512, -1},
		{"wide is not deep", nest(1, "[", strings.Repeat(`{"x":[[]]},`, 5000)+"1", "]"), 5, -1},
		{"far beyond the default", nest(100_000, `[{"b":`, "1", "}]"), 200_001, -1},
		{"array at the top", strings.Repeat("[", 513) + strings.Repeat("]", 513), 512, 512},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := body.Parse([]byte(tt.in), tt.limit)
			if tt.want < 0 {
				if err != nil {
					t.Fatalf("got %v, want none", err)
				}
				return
			}
			e := fault(t, err)
			if e.Kind != body.KindDepth || e.Offset != tt.want {
				t.Errorf("got %v at %d, want depth at %d", e.Kind, e.Offset, tt.want)
			}
			if want := fmt.Sprintf("deeper than %d levels", tt.limit); !strings.Contains(e.Error(), want) {
				t.Errorf("text %q does not name the limit", e)
			}
		})
	}
}

// The fast path reads 32 and 8 bytes at a time: every length and every place of
// what ends or spoils a string must come out the same.
func TestStringsOfAllLengths(t *testing.T) {
	for length := range 100 {
		text := strings.Repeat("x", length)
		b := parse(t, `{"text":"`+text+`"}`)
		if got, _ := b.StringBytes(body.KeyText); string(got) != text {
			t.Fatalf("length %d: got %q", length, got)
		}
		for at := range length {
			for _, in := range []string{`\"`, `\\`, `\u0041`, "\u00e9", "\U0001f600", "\x7f", " ", "!", "#"} {
				raw := `{"text":"` + text[:at] + in + text[at:] + `"}`
				if got := string(parse(t, raw).Value(body.KeyText)); got != raw[8:len(raw)-1] {
					t.Fatalf("%q: got %q", raw, got)
				}
			}
			for _, in := range []string{"\x00", "\x1f", "\n", "\xff", "\xc3", "\x80", `\x`} {
				raw := `{"text":"` + text[:at] + in + text[at:] + `"}`
				_, err := body.Parse([]byte(raw), body.DefaultMaxDepth)
				if e := fault(t, err); e.Kind != body.KindSyntax || e.Offset != 9+at {
					t.Fatalf("%q: got %v", raw, e)
				}
			}
		}
	}
}

func TestParseAllocates(t *testing.T) {
	for _, in := range []string{
		chatBody(100),
		`{"mod\u0065l":"x","a\ud83d\ude00b":[[[[{"b":[1,2,{}]}]]]]}`,
		`{"a":` + strings.Repeat(`[{"b":`, 255) + "1" + strings.Repeat(`}]`, 255) + `}`,
		`{` + strings.Repeat(`"k":1,`, 1000) + `"k":2}`,
	} {
		raw := []byte(in)
		got := testing.AllocsPerRun(50, func() {
			b, err := body.Parse(raw, body.DefaultMaxDepth)
			if err != nil {
				t.Fatal(err)
			}
			if name, ok := b.StringBytes(body.KeyN); ok || name != nil {
				t.Fatal("n is no string")
			}
		})
		if got != 0 {
			t.Errorf("%.40s…: %v allocations, want none", in, got)
		}
	}
}
