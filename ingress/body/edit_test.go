package body_test

import (
	"strings"
	"testing"

	"smg/ingress/body"
)

func set(key, value string) body.Edit { return body.Set(key, []byte(value)) }

func TestEdit(t *testing.T) {
	many := strings.TrimSuffix(strings.Repeat(`"k":1,`, 60), ",")
	tests := []struct {
		name, in string
		edits    []body.Edit
		want     string
	}{
		{"nothing", ` {"a" : 1.0e5 } `, nil, ` {"a" : 1.0e5 } `},
		{"absent key", `{"a":1}`, []body.Edit{body.Remove("b")}, `{"a":1}`},
		{"same value", `{"a":1}`, []body.Edit{set("a", "1")}, `{"a":1}`},
		{"only", `{"a":1}`, []body.Edit{body.Remove("a")}, `{}`},
		{"only with spaces", ` { "a" : 1 } `, []body.Edit{body.Remove("a")}, ` {} `},
		{"first", `{"a":1, "b":2,"c":3}`, []body.Edit{body.Remove("a")}, `{ "b":2,"c":3}`},
		{"middle", `{"a":1, "b":2 ,"c":3}`, []body.Edit{body.Remove("b")}, `{"a":1,"c":3}`},
		{"last", `{"a":1 ,"b":2 }`, []body.Edit{body.Remove("b")}, `{"a":1 }`},
		{"first two", `{"a":1,"b":2,"c":3}`, []body.Edit{body.Remove("a"), body.Remove("b")}, `{"c":3}`},
		{"last two", `{"a":1,"b":2,"c":3}`, []body.Edit{body.Remove("c"), body.Remove("b")}, `{"a":1}`},
		{"ends", `{"a":1,"b":2,"a":3}`, []body.Edit{body.Remove("a")}, `{"b":2}`},
		{"alternate", `{"a":1,"b":2,"a":3,"c":4,"a":5,"d":6}`, []body.Edit{body.Remove("a")}, `{"b":2,"c":4,"d":6}`},
		{"all", `{"a":1,"b":2,"a":3}`, []body.Edit{body.Remove("a"), body.Remove("b")}, `{}`},
		{"escaped", `{"\u0061":1,"b":"\u0061"}`, []body.Edit{body.Remove("a")}, `{"b":"\u0061"}`},
		{"escaped pair", `{"\ud83d\ude00":1,"😀":2,"x":3}`, []body.Edit{body.Remove("😀")}, `{"x":3}`},
		{"nested stays", `{"x":{"a":1},"a":2}`, []body.Edit{body.Remove("a")}, `{"x":{"a":1}}`},
		{"replace", `{"a" : 1 ,"b":2}`, []body.Edit{set("a", `"x"`)}, `{"a" : "x" ,"b":2}`},
		{"replace last of two", `{"a":1,"b":2,"a":3}`, []body.Edit{set("a", "9")}, `{"b":2,"a":9}`},
		{"replace escaped", `{"\u0061":1}`, []body.Edit{set("a", "9")}, `{"\u0061":9}`},
		{"add", `{"a":1}`, []body.Edit{set("b", "2")}, `{"a":1,"b":2}`},
		{"add behind the last", "{\n  \"a\": 1\n}\n", []body.Edit{set("b", "2")}, "{\n  \"a\": 1,\"b\":2\n}\n"},
		{"add to empty", ` { } `, []body.Edit{set("b", "2")}, ` {"b":2 } `},
		{"add two", `{}`, []body.Edit{set("a", "1"), set("b", "[]")}, `{"a":1,"b":[]}`},
		{"add an odd key", `{}`, []body.Edit{set("a\"\\\n\u00e9", "1")}, `{"a\"\\\u000aé":1}`},
		{"remove all and add", `{"a":1,"b":2}`, []body.Edit{body.Remove("a"), body.Remove("b"), set("c", "3")}, `{"c":3}`},
		{"remove last and add", `{"a":1,"b":2}`, []body.Edit{body.Remove("b"), set("c", "3")}, `{"a":1,"c":3}`},
		{"remove, replace, add", `{"a":1,"b":2,"c":3}`, []body.Edit{body.Remove("a"), set("c", "4"), set("d", "5")}, `{"b":2,"c":4,"d":5}`},
		{"later edit counts", `{"a":1}`, []body.Edit{set("a", "2"), body.Remove("a")}, `{}`},
		{"later set counts", `{"a":1}`, []body.Edit{body.Remove("a"), set("a", "2")}, `{"a":2}`},
		{"later add counts", `{}`, []body.Edit{set("a", "1"), set("a", "2")}, `{"a":2}`},
		{"add and take back", `{}`, []body.Edit{set("a", "1"), body.Remove("a")}, `{}`},
		{
			"numbers survive", `{"a":12345678901234567890,"b":1.0e5,"c":-0.0,"d":1}`,
			[]body.Edit{body.Remove("d")},
			`{"a":12345678901234567890,"b":1.0e5,"c":-0.0}`,
		},
		{"normalized too", `{"model":"a","model":"b","text":"x"}`, []body.Edit{body.Remove("text")}, `{"model":"b"}`},
		{"set wins over normal", `{"model":"a","model":"b"}`, []body.Edit{set("model", `"c"`)}, `{"model":"c"}`},
		{"repeated set to the same", `{"model":"a","model":"b"}`, []body.Edit{set("model", `"b"`)}, `{"model":"b"}`},
		{"other keys may repeat", `{"text":"a","text":"b"}`, nil, `{"text":"a","text":"b"}`},
		{
			"beyond the table", `{` + many + `,"a":1,"model":"x", "model":"y"}`,
			[]body.Edit{set("a", "2"), set("b", "3")},
			`{` + many + `,"a":2, "model":"y","b":3}`,
		},
		{"all beyond the table", `{` + many + `}`, []body.Edit{body.Remove("k")}, `{}`},
		{"ten edits", `{"a":1}`, []body.Edit{
			set("a", "2"), set("b", "1"), set("c", "1"), set("d", "1"), set("e", "1"),
			set("f", "1"), set("g", "1"), set("h", "1"), set("i", "1"), set("j", "1"),
		}, `{"a":2,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"j":1}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := parse(t, tt.in)
			got := b.Edit(tt.edits...)
			if string(got) != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if string(got) == tt.in && &got[0] != &b.Raw()[0] {
				t.Error("an unchanged body was copied")
			}
			if string(got) != tt.in && cap(got) != len(got) && cap(got)-len(got) > 16 {
				t.Errorf("%d bytes in %d", len(got), cap(got))
			}
			if string(b.Raw()) != tt.in {
				t.Error("the body itself was changed")
			}
			if app := b.AppendEdit([]byte("GET "), tt.edits...); string(app) != "GET "+tt.want {
				t.Errorf("AppendEdit: got %s", app)
			}
		})
	}
}

func TestEditAllocates(t *testing.T) {
	b := parse(t, chatBody(1000))
	edits := []body.Edit{
		body.Remove("bootstrap_host"), body.Remove("kv_transfer_params"),
		set("model", `"canonical"`), set("bootstrap_room", "7"),
	}
	buf := make([]byte, 0, 8192)
	tests := []struct {
		name string
		do   func()
		want float64
	}{
		{"normalize", func() { b.Normalize() }, 0},
		{"edit", func() { b.Edit(edits...) }, 1},
		{"append", func() { b.AppendEdit(buf, edits...) }, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := testing.AllocsPerRun(50, tt.do); got != tt.want {
				t.Errorf("%v allocations, want %v", got, tt.want)
			}
		})
	}
}

func TestAppendString(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"empty", "", `""`},
		{"plain", "a/b", `"a/b"`},
		{"quotes", `a"\b`, `"a\"\\b"`},
		{"controls", "\x00\n\x1f\x7f", "\"\\u0000\\u000a\\u001f\x7f\""},
		{"text", "é😀<&>", `"é😀<&>"`},
		{"not UTF-8", "a\xff", `"a` + "\ufffd" + `"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := string(body.AppendString([]byte("x"), tt.in)); got != "x"+tt.want {
				t.Errorf("got %s, want x%s", got, tt.want)
			}
		})
	}
}
