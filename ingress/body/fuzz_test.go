package body_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"smg/ingress/body"
)

func FuzzScan(f *testing.F) {
	for _, in := range []string{
		``, `{}`, ` {"a":1}`, chatBody(10), `{"model":"a","m\u006fdel":"b","n":1,"n":2.0}`, `[1]`, `{"a":"\ud83d\ude00"}`,
		"{\"a\":\"\xff\"}", `{"a":[[{"b":[-1.5e+7,null,true,false]}]]}`, `{"a":1,}`, `{"a":01}`, "\xef\xbb\xbf{}",
		`{"a":{"b":{"c":[[[[[[[[[[]]]]]]]]]]}}}`, "{\"text\":\"\x00\"}",
	} {
		f.Add([]byte(in), uint16(12))
	}
	checks := []body.Check{body.CheckChat, body.CheckCompletions, body.CheckGenerate}
	f.Fuzz(func(t *testing.T, raw []byte, depth uint16) {
		b, err := body.Parse(raw, int(depth))
		if err != nil {
			var e *body.Error
			if !errors.As(err, &e) || e.Offset < 0 || e.Offset > len(raw) || e.Error() == "" {
				t.Fatalf("%q: got %#v", raw, err)
			}
			if e.Kind != body.KindDepth && accepts(raw) {
				t.Fatalf("%q is refused: %v", raw, err)
			}
			return
		}
		if !accepts(raw) {
			t.Fatalf("%q is accepted", raw)
		}
		checkFields(t, &b)
		for _, check := range checks {
			var e *body.Error
			if err := check(&b); err != nil && (!errors.As(err, &e) || e.Key == "" || e.Offset > len(raw)) {
				t.Fatalf("%q: got %#v", raw, err)
			}
		}
		edits := []body.Edit{body.Remove("a"), body.Set("model", []byte(`"x"`)), body.Set("b", []byte("[]"))}
		for _, out := range [][]byte{b.Normalize(), b.Edit(edits...)} {
			if !json.Valid(out) {
				t.Fatalf("%q edited is %q", raw, out)
			}
		}
	})
}

// FuzzRouting compares what routing reads of any body with the reference.
func FuzzRouting(f *testing.F) {
	for _, in := range []string{
		chatBody(100), cjkBody(60), idsBody(60),
		`{"messages":[{"role":"assistant","content":[{"type":"text","text":"a\n"},"b",1,[],{}],"reasoning":"c","reasoning_content":"\ud83d\ude00"},[],{"content":"\\"}]}`,
		`{"messages":[{"content":"a","content":"\u4eac","role":"x","r\u006fle":"assistant","reasoning":"b"}],"system":[{"type":"text","text":"s"}]}`,
		`{"prompt":["a","","\ud83dx",["b"],7,null]}`, `{"prompt":[1,2]}`, `{"prompt":[[1],[2]]}`,
		`{"input_ids":[[1,2],[3]],"rid":["a_t1"],"cache_salt":"a","lora_id":["b"]}`, `{"input_ids":[-1,2.0,4294967296,4294967295]}`,
		`{"input":[{"content":"a"},{"type":"message","content":[{"type":"output_text","text":"b"}]}],"query":"q","text":null}`, `{"input":"a","text":["b"]}`,
		"{\"prompt\":\"\u6771\u4eac\\n\\\"\"}",
	} {
		f.Add([]byte(in), uint16(7))
	}
	f.Fuzz(func(t *testing.T, raw []byte, small uint16) {
		if b, err := body.Parse(raw, body.DefaultMaxDepth); err == nil {
			checkRouting(t, &b, int(small))
		}
	})
}

func FuzzParseTokens(f *testing.F) {
	for _, in := range []string{"1,2,3", "4294967295", "4294967296", "007", "1,", ",", "", "1, 2", "+1", "0x1", strings.Repeat("1,", 511) + "1", strings.Repeat("1,", 512) + "1"} {
		f.Add(in)
	}
	f.Fuzz(func(t *testing.T, value string) {
		want := hint(value)
		got, ok := body.ParseTokens(nil, value)
		if ok != (want != nil) || !slices.Equal(got, want) {
			t.Fatalf("%q: got %d %v, want %d", value, got, ok, want)
		}
	})
}

func FuzzSessionKey(f *testing.F) {
	for _, in := range []string{"conv", "conv_t2_r1", "conv_r1_t2", "_t1", "_t1_r1", "conv_T2", "conv_t", "\n_t1", strings.Repeat("k", 130) + "_r1"} {
		f.Add(in)
	}
	f.Fuzz(func(t *testing.T, id string) {
		if got, want := body.SessionKey(id), sessionKey(id); utf8.ValidString(id) && got != want {
			t.Fatalf("%q: got %q, want %q", id, got, want)
		}
	})
}
