package body_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"smg/ingress/body"
)

// accepts is what Parse promises, said with the standard library. Depth is the
// only difference that it leaves out.
func accepts(raw []byte) bool {
	return json.Valid(raw) && utf8.Valid(raw) && bytes.HasPrefix(bytes.TrimLeft(raw, " \t\r\n"), []byte("{"))
}

// pair is a member of an object with its key as text and its value as written.
type pair struct{ Key, Value string }

// pairs reads the members of an object with the standard library, in order.
func pairs(raw []byte) ([]pair, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	var out []pair
	for d.More() {
		k, err := d.Token()
		if err != nil {
			return nil, err
		}
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			return nil, err
		}
		out = append(out, pair{k.(string), string(v)})
	}
	return out, nil
}

// edited is the plain model of Edit.
func edited(in []pair, edits []body.Edit) []pair {
	lastIn := func(key string) int {
		for i, p := range slices.Backward(in) {
			if p.Key == key {
				return i
			}
		}
		return -1
	}
	want := map[string]body.Edit{}
	for _, e := range edits {
		want[e.Key] = e
	}
	var out []pair
	for i, p := range in {
		e, hit := want[p.Key]
		once := p.Key == "model" || p.Key == "stream" || p.Key == "n"
		switch {
		case hit && (e.Value == nil || i != lastIn(p.Key)):
		case hit:
			out = append(out, pair{p.Key, string(e.Value)})
		case once && i != lastIn(p.Key):
		default:
			out = append(out, p)
		}
	}
	for i, e := range edits {
		later := false
		for _, f := range edits[i+1:] {
			later = later || f.Key == e.Key
		}
		if !later && e.Value != nil && lastIn(e.Key) < 0 {
			out = append(out, pair{e.Key, string(e.Value)})
		}
	}
	return out
}

var (
	keys = []string{
		"model", "stream", "n", "rid", "messages", "prompt", "text", "input_ids", "lora_id",
		"bootstrap_room", "a", "", "é", "😀", "a\"\\b", "Model", "modelx", strings.Repeat("long", 30),
	}
	scalars = []string{
		"null", "true", "false", "0", "-0", "1", "2.0", "1.5", "-1e-3", "1.0E5", "12345678901234567890", "1e999",
		`""`, `"m"`, `"a/b\n"`, `"\u00e9\ud83d\ude00"`, `"\ud83d"`, `"\ude00\ud83d\u0041"`, `"Ω東京"`, `"quote \" and more text, long enough"`,
	}
)

// spelled draws a way to write key, with some characters as escapes.
func spelled(t *rapid.T, key string) string {
	var sb strings.Builder
	sb.WriteByte('"')
	for _, r := range key {
		switch how := rapid.IntRange(0, 9).Draw(t, "how"); {
		case r == '"' || r == '\\':
			sb.WriteString(`\` + string(r))
		case how == 0 && r < 0x10000:
			fmt.Fprintf(&sb, `\u%04x`, r)
		case how == 1 && r < 0x10000:
			fmt.Fprintf(&sb, `\u%04X`, r)
		case how == 0:
			fmt.Fprintf(&sb, `\u%04x\u%04x`, 0xd800+(r-0x10000)>>10, 0xdc00+(r-0x10000)&0x3ff)
		default:
			sb.WriteRune(r)
		}
	}
	return sb.String() + `"`
}

func space(t *rapid.T) string {
	return rapid.SampledFrom([]string{"", "", "", " ", "\n\t", "\r\n  "}).Draw(t, "space")
}

func value(t *rapid.T, depth int) string {
	kind := rapid.IntRange(0, 5).Draw(t, "kind")
	if depth == 0 || kind < 4 {
		return rapid.SampledFrom(scalars).Draw(t, "scalar")
	}
	if kind == 4 {
		return object(t, depth-1, 4)
	}
	var items []string
	for range rapid.IntRange(0, 4).Draw(t, "items") {
		items = append(items, space(t)+value(t, depth-1)+space(t))
	}
	return "[" + strings.Join(items, ",") + "]"
}

func object(t *rapid.T, depth, most int) string {
	var members []string
	for range rapid.IntRange(0, most).Draw(t, "members") {
		key := rapid.SampledFrom(keys).Draw(t, "key")
		members = append(members, space(t)+spelled(t, key)+space(t)+":"+space(t)+value(t, depth)+space(t))
	}
	if len(members) == 0 {
		return "{" + space(t) + "}"
	}
	return "{" + strings.Join(members, ",") + "}"
}

func document(t *rapid.T) string { return space(t) + object(t, 3, 40) + space(t) }

// checkFields compares what b says with what the standard library reads.
func checkFields(t interface {
	Helper()
	Fatalf(string, ...any)
}, b *body.Body,
) {
	t.Helper()
	var m map[string]json.RawMessage
	if err := json.Unmarshal(b.Raw(), &m); err != nil {
		t.Fatalf("encoding/json refuses %q: %v", b.Raw(), err)
	}
	for k := body.KeyModel; k <= body.KeyDocuments; k++ {
		f, v := b.Field(k), b.Value(k)
		want, present := m[k.String()]
		if present != f.Present() || !bytes.Equal(want, v) {
			t.Fatalf("%v of %q: got %q, want %q", k, b.Raw(), v, want)
		}
		if f.Start > f.End || f.End > len(b.Raw()) {
			t.Fatalf("%v of %q: span %d:%d", k, b.Raw(), f.Start, f.End)
		}
		var text any
		got, isString := b.StringBytes(k)
		if present {
			if err := json.Unmarshal(want, &text); err != nil && !strings.Contains(err.Error(), "cannot unmarshal number") {
				t.Fatalf("%v of %q: %v", k, b.Raw(), err)
			}
		}
		if s, ok := text.(string); ok != isString || s != string(got) {
			t.Fatalf("text of %v of %q: got %q, want %q", k, b.Raw(), got, text)
		}
	}
	var stream bool
	if json.Unmarshal(m["stream"], &stream) != nil {
		stream = false
	}
	if b.Stream() != stream {
		t.Fatalf("stream of %q: got %v", b.Raw(), b.Stream())
	}
	var n *int64
	if json.Unmarshal(m["n"], &n) == nil && n != nil {
		if got, ok := b.N(); !ok || got != *n {
			t.Fatalf("n of %q: got %d %v", b.Raw(), got, ok)
		}
	}
}

func TestParseLikeEncodingJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, err := body.Parse([]byte(document(t)), body.DefaultMaxDepth)
		if err != nil {
			t.Fatal(err)
		}
		checkFields(t, &b)
	})
}

// A document with a few bytes changed is mostly no document any more.
func TestRefuseLikeEncodingJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := []byte(document(t))
		for range rapid.IntRange(1, 3).Draw(t, "changes") {
			if len(raw) == 0 {
				break
			}
			at := rapid.IntRange(0, len(raw)-1).Draw(t, "at")
			switch rapid.IntRange(0, 3).Draw(t, "change") {
			case 0:
				raw = raw[:at]
			case 1:
				raw = append(raw[:at:at], raw[at+1:]...)
			case 2:
				raw[at] = rapid.Byte().Draw(t, "byte")
			default:
				with := rapid.SampledFrom([]string{
					`"`, `\`, "{", "}", "[", "]", ",", ":", "0", "-", ".", "e", " ", "\x00", "\x7f", "\xff", "é", `\u`, "t",
				}).Draw(t, "with")
				raw = append(raw[:at:at], append([]byte(with), raw[at:]...)...)
			}
		}
		b, err := body.Parse(raw, body.DefaultMaxDepth)
		if got, want := err == nil, accepts(raw); got != want {
			t.Fatalf("%q: %v, want accepted: %v", raw, err, want)
		}
		if err == nil {
			checkFields(t, &b)
			return
		}
		var e *body.Error
		if !errors.As(err, &e) || e.Offset < 0 || e.Offset > len(raw) || e.Line < 1 || e.Column < 1 {
			t.Fatalf("%q: got %#v", raw, err)
		}
		if e.Kind == body.KindNotObject != json.Valid(raw) && utf8.Valid(raw) {
			t.Fatalf("%q: got %v", raw, e)
		}
	})
}

func TestEditLikeModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := []byte(document(t))
		var edits []body.Edit
		for range rapid.IntRange(0, 10).Draw(t, "edits") {
			e := body.Edit{Key: rapid.SampledFrom(keys).Draw(t, "edit")}
			if rapid.Bool().Draw(t, "set") {
				e.Value = []byte(value(t, 2))
			}
			edits = append(edits, e)
		}
		b, err := body.Parse(raw, body.DefaultMaxDepth)
		if err != nil {
			t.Fatal(err)
		}
		before, err := pairs(raw)
		if err != nil {
			t.Fatal(err)
		}
		got := b.Edit(edits...)
		if !json.Valid(got) {
			t.Fatalf("%q edited is %q", raw, got)
		}
		after, err := pairs(got)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(edited(before, edits), after); diff != "" {
			t.Fatalf("%q with %q is %q (-want +got):\n%s", raw, edits, got, diff)
		}
		if app := b.AppendEdit(nil, edits...); !bytes.Equal(app, got) {
			t.Fatalf("AppendEdit gives %q, Edit %q", app, got)
		}
		again, err := body.Parse(got, body.DefaultMaxDepth)
		if err != nil {
			t.Fatal(err)
		}
		if norm := again.Normalize(); &norm[0] != &got[0] {
			t.Fatalf("%q is not normal", got)
		}
	})
}
