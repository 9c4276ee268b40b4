package body_test

import (
	"encoding/json"
	"errors"
	"testing"

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
