package body_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"smg/ingress/body"
)

// The reference says what routing reads of a body, with the standard library and
// without any thought of speed.

type fields = map[string]any

// decode reads a body that Parse has accepted.
func decode(raw []byte) fields {
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	var v fields
	if err := d.Decode(&v); err != nil {
		panic(err)
	}
	return v
}

// texters names every Texter and what it should return, as parts.
var texters = []struct {
	name  string
	text  body.Texter
	parts func(fields) []string
}{
	{"chat", body.TextChat, func(v fields) (parts []string) {
		for _, m := range objects(v["messages"]) {
			parts = append(parts, contents(m["content"])...)
			if m["role"] == "assistant" {
				reasoned := str(m["reasoning_content"])
				if reasoned == "" {
					reasoned = str(m["reasoning"])
				}
				parts = append(parts, reasoned)
			}
		}
		return parts
	}},
	{"completions", body.TextCompletions, func(v fields) []string { return strs(v["prompt"]) }},
	{"generate", body.TextGenerate, func(v fields) []string {
		if v["text"] != nil {
			return strs(v["text"])
		}
		return decimals(v["input_ids"], 2)
	}},
	{"messages", body.TextMessages, func(v fields) []string {
		parts := contents(v["system"])
		for _, m := range objects(v["messages"]) {
			parts = append(parts, contents(m["content"])...)
		}
		return parts
	}},
	{"responses", body.TextResponses, func(v fields) []string {
		parts := []string{str(v["input"])}
		for _, m := range objects(v["input"]) {
			if kind, typed := m["type"]; !typed || kind == "message" {
				parts = append(parts, contents(m["content"])...)
			}
		}
		return parts
	}},
	{"embeddings", body.TextEmbeddings, func(v fields) []string { return strs(v["input"]) }},
	{"classify", body.TextClassify, func(v fields) []string { return strs(v["input"]) }},
	{"rerank", body.TextRerank, func(v fields) []string { return []string{str(v["query"])} }},
}

func joined(parts []string) string {
	var some []string
	for _, p := range parts {
		if p != "" {
			some = append(some, p)
		}
	}
	return strings.Join(some, " ")
}

func str(v any) string {
	s, _ := v.(string)
	return s
}

func strs(v any) []string {
	parts := []string{str(v)}
	list, _ := v.([]any)
	for _, e := range list {
		parts = append(parts, str(e))
	}
	return parts
}

// firstOf is a string, or the first element of a list if that is one.
func firstOf(v any) string {
	if list, ok := v.([]any); ok {
		if len(list) == 0 {
			return ""
		}
		v = list[0]
	}
	return str(v)
}

func objects(v any) (found []fields) {
	list, _ := v.([]any)
	for _, e := range list {
		if o, ok := e.(fields); ok {
			found = append(found, o)
		}
	}
	return found
}

func contents(v any) []string {
	parts := []string{str(v)}
	list, _ := v.([]any)
	for _, e := range list {
		switch p := e.(type) {
		case string:
			parts = append(parts, p)
		case fields:
			switch p["type"] {
			case "text", "input_text", "output_text":
				parts = append(parts, str(p["text"]))
			}
		}
	}
	return parts
}

func tokenID(v any) (uint32, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	id, err := strconv.ParseUint(string(n), 10, 32)
	return uint32(id), err == nil
}

func decimals(v any, depth int) (parts []string) {
	list, ok := v.([]any)
	if !ok || depth == 0 {
		return nil
	}
	for _, e := range list {
		if id, ok := tokenID(e); ok {
			parts = append(parts, strconv.FormatUint(uint64(id), 10))
		}
		parts = append(parts, decimals(e, depth-1)...)
	}
	return parts
}

// tokens is what a Tokener should return of the value v.
func tokens(v any) (ids []uint32) {
	list, _ := v.([]any)
	if len(list) > 0 {
		if one, ok := list[0].([]any); ok {
			list = one
		}
	}
	for _, e := range list {
		id, ok := tokenID(e)
		if !ok {
			return nil
		}
		ids = append(ids, id)
	}
	return ids
}

// hint is what ParseTokens should return.
func hint(value string) (ids []uint32) {
	if !regexp.MustCompile(`^[0-9]+(,[0-9]+){0,511}$`).MatchString(value) || len(value) > body.MaxHintBytes {
		return nil
	}
	for s := range strings.SplitSeq(value, ",") {
		id, err := strconv.ParseUint(s, 10, 32)
		if err != nil {
			return nil
		}
		ids = append(ids, uint32(id))
	}
	return ids
}

// sessionKey is what SessionKey should return.
func sessionKey(id string) string {
	key := regexp.MustCompile(`(?s)^(.*?)(_t[0-9]+)?(_r[0-9]+)?$`).FindStringSubmatch(id)[1]
	if key == "" {
		key = id
	}
	if len(key) > body.MaxKeyBytes {
		return ""
	}
	return key
}

// checkRouting compares all that routing reads of b with the reference. Texts are
// also cut to small bytes.
func checkRouting(t interface {
	Helper()
	Fatalf(string, ...any)
}, b *body.Body, small int,
) {
	t.Helper()
	raw := b.Raw()
	v := decode(raw)
	before := string(raw)
	room := make([]byte, 0, 3)
	for _, x := range texters {
		want := joined(x.parts(v))
		for _, limit := range []int{0, small, body.MaxText} {
			got, chars := x.text(b, &room, limit)
			if string(got) != head(want, limit) || chars != int64(utf8.RuneCountInString(want)) {
				t.Fatalf("%s text of %q in %d bytes: got %q of %d, want %q", x.name, raw, limit, got, chars, want)
			}
		}
	}
	for _, x := range []struct {
		key string
		ids body.Tokener
	}{{"input_ids", body.TokensGenerate}, {"prompt", body.TokensCompletions}} {
		want := tokens(v[x.key])
		if got, count := x.ids(b, nil); !slices.Equal(got, want[:min(len(want), body.MaxTokens)]) || count != int64(len(want)) {
			t.Fatalf("%s of %q: got %d, %d in all, want %d", x.key, raw, got, count, want)
		}
	}
	if got, want := b.RID(), firstOf(v["rid"]); got != want {
		t.Fatalf("rid of %q: got %q, want %q", raw, got, want)
	}
	named := firstOf(v["cache_salt"]) + firstOf(v["extra_key"]) + firstOf(v["lora_path"])
	if got := body.Partition(b); (got != 0) != (named != "") {
		t.Fatalf("partition of %q: got %x", raw, got)
	}
	if got := body.PartitionGenerate(b); (got != 0) != (named+firstOf(v["lora_id"]) != "") {
		t.Fatalf("partition of %q for /generate: got %x", raw, got)
	}
	if string(raw) != before {
		t.Fatalf("%q has become %q", before, raw)
	}
}

// routed draws a value of the keys and texts that routing looks for.
func routed(t *rapid.T, depth int) string {
	list := func(open, end string, element func() string) string {
		var elements []string
		for range rapid.IntRange(0, 4).Draw(t, "elements") {
			elements = append(elements, space(t)+element()+space(t))
		}
		return open + strings.Join(elements, ",") + space(t) + end
	}
	kind := rapid.IntRange(0, 9).Draw(t, "kind")
	switch {
	case kind < 4 && depth > 0:
		return list("{", "}", func() string { return member(t, depth-1) })
	case kind < 6 && depth > 0:
		return list("[", "]", func() string { return routed(t, depth-1) })
	case kind < 7:
		return rapid.SampledFrom([]string{"null", "true", "0", "7", "4294967295", "4294967296", "-1", "1.0", "1e2"}).Draw(t, "scalar")
	}
	return rapid.SampledFrom([]string{
		`""`, `"text"`, `"input_text"`, `"t\u0065xt"`, `"assistant"`, `"message"`, `"user"`, `"a\\"`, `"\"b"`, `"long enough for several words"`,
		`"\ud83d\ude00"`, `"\ude00"`, `"\u6771京🌊"`, `" "`, `"\n\n\n\n\n\n\n\n\n\n"`,
	}).Draw(t, "text")
}

func member(t *rapid.T, depth int) string {
	key := rapid.SampledFrom([]string{
		"content", "role", "type", "text", "reasoning", "reasoning_content", "other", "\u6771",
	}).Draw(t, "key")
	return spelled(t, key) + space(t) + ":" + space(t) + routed(t, depth)
}

func TestRoutingLikeReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var members []string
		for range rapid.IntRange(1, 5).Draw(t, "members") {
			key := rapid.SampledFrom([]string{
				"messages", "system", "prompt", "text", "input", "query", "input_ids", "rid", "cache_salt", "extra_key", "lora_path", "lora_id",
			}).Draw(t, "key")
			// Most values are lists of objects, as bodies have them.
			value := routed(t, 4)
			if rapid.Bool().Draw(t, "list") {
				value = "[" + value + "," + routed(t, 4) + "]"
			}
			members = append(members, spelled(t, key)+":"+space(t)+value)
		}
		b, err := body.Parse([]byte("{"+strings.Join(members, ",")+"}"), body.DefaultMaxDepth)
		if err != nil {
			t.Fatal(err)
		}
		checkRouting(t, &b, rapid.IntRange(0, 20).Draw(t, "limit"))
	})
}
