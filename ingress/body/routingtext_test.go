package body_test

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"smg/ingress/body"
)

// extract returns a text with a room of its own.
func extract(b *body.Body, text body.Texter, limit int) (string, int64) {
	var room []byte
	got, chars := text(b, &room, limit)
	return string(got), chars
}

func TestText(t *testing.T) {
	tests := []struct {
		name string
		text body.Texter
		in   string
		want string
	}{
		{
			"chat: every role, in the order of the messages", body.TextChat,
			`{"messages":[{"role":"system","content":"a"},{"role":"user","content":"b"},{"role":"tool","content":"c","tool_call_id":"x"},` +
				`{"role":"developer","content":"d"},{"role":"assistant","content":"e"},{"role":"function","content":"f"},{"content":"g"}]}`,
			"a b c d e f g",
		},
		{
			"chat: reasoning follows what is said", body.TextChat,
			`{"messages":[{"reasoning_content":"r","role":"assistant","content":"c"},{"role":"user","content":"u"}]}`, "c r u",
		},
		{"chat: the other name of reasoning", body.TextChat, `{"messages":[{"role":"assistant","content":null,"reasoning":"r"}]}`, "r"},
		{
			"chat: reasoning under both names counts once", body.TextChat,
			`{"messages":[{"role":"assistant","content":"c","reasoning":"r","reasoning_content":"r"}]}`, "c r",
		},
		{
			"chat: empty reasoning under one name", body.TextChat,
			`{"messages":[{"role":"assistant","reasoning":"r","reasoning_content":""},{"role":"assistant","reasoning":"s","reasoning_content":null}]}`, "r s",
		},
		{"chat: only assistants reason", body.TextChat, `{"messages":[{"role":"user","content":"c","reasoning_content":"r"}]}`, "c"},
		{"chat: an escaped role", body.TextChat, `{"messages":[{"role":"\u0061ssistant","reasoning_content":"r"}]}`, "r"},
		{
			"chat: parts", body.TextChat,
			`{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:x","text":"no"}},` +
				`{"text":"b","type":"text","cache_control":{"type":"ephemeral"}},{"type":"input_text","text":"c"},{"type":"output_text","text":"d"},"e"]}]}`,
			"a b c d e",
		},
		{
			"chat: parts that are no text", body.TextChat,
			`{"messages":[{"content":[{"text":"no type"},{"type":"refusal","text":"x"},{"type":"text"},{"type":"text","text":7},{"type":7,"text":"x"},` +
				`["x",{"type":"text","text":"x"}],7,null,true,{}]}]}`, "",
		},
		{
			"chat: odd contents", body.TextChat,
			`{"messages":[{"content":null},{"content":7},{"content":{"type":"text","text":"x"}},{"content":[]},{"content":[[]]},{},[],"x",null,1.5e3,{"content":"a"}]}`, "a",
		},
		{
			"chat: empty parts take no space", body.TextChat,
			`{"messages":[{"content":""},{"content":"a"},{"content":""},{"content":[{"type":"text","text":""},{"type":"text","text":"b"}]},{"content":""}]}`, "a b",
		},
		{"chat: spaces are text", body.TextChat, `{"messages":[{"content":" "},{"content":"a "},{"content":"b"}]}`, "  a  b"},
		{
			"chat: the last of a repeated key counts", body.TextChat,
			`{"messages":[{"content":"x"}],"messages":[{"role":"user","content":"x","role":"assistant","content":null,"c\u006fntent":"a","reasoning":"x","reasoning":"b"},` +
				`{"content":"x","content":null},{"content":[{"type":"x","text":"x","type":"text","text":"c"}]}]}`, "a b c",
		},
		{
			"chat: whitespace everywhere", body.TextChat,
			"\n{ \"messages\" :\t[ { \"role\" : \"user\" , \"content\" : [ { \"type\" : \"text\" , \"text\" : \"a\" } , { } , [ ] ] } ,\r\n{ \"content\" : \"b\" } , { } ] } ", "a b",
		},
		{
			"chat: escapes", body.TextChat,
			`{"messages":[{"content":"q\" b\\ s\/ \b\f\n\r\t \u00e9 \u4eac \uD83C\udf0a end"}]}`, "q\" b\\ s/ \b\f\n\r\t \u00e9 \u4eac \U0001f30a end",
		},
		{
			"chat: halves of pairs", body.TextChat,
			`{"messages":[{"content":"\ud83d"},{"content":"\ude00\ud83d"},{"content":"\ud83dx\ud83d\ud83d\ude00\ud83d\u0041\\ude00"}]}`,
			"\ufffd \ufffd\ufffd \ufffdx\ufffd\U0001f600\ufffdA\\ude00",
		},
		{"chat: half a pair and letters", body.TextChat, `{"messages":[{"content":"\ud83dxude00"}]}`, "\ufffdxude00"},
		{"chat: quotes and backslashes at the ends", body.TextChat, `{"messages":[{"content":"\\"},{"content":"\\\\\""},{"content":"\"\\"}]}`, `\ \\" "\`},
		{"chat: no messages", body.TextChat, `{"prompt":"x"}`, ""},
		{"chat: null messages", body.TextChat, `{"messages":null}`, ""},
		{"chat: messages of another type", body.TextChat, `{"messages":{"content":"x"}}`, ""},

		{"completions: a prompt", body.TextCompletions, `{"prompt":"a b"}`, "a b"},
		{"completions: all prompts of an array", body.TextCompletions, `{"prompt":["a","","b",7,null,["x"],"\u0063"]}`, "a b c"},
		{"completions: token ids are no text", body.TextCompletions, `{"prompt":[1,2,3]}`, ""},
		{"completions: lists of token ids are no text", body.TextCompletions, `{"prompt":[[1,2],[3]]}`, ""},
		{"completions: an object", body.TextCompletions, `{"prompt":{"prompt":"x"}}`, ""},

		{"generate: a text", body.TextGenerate, `{"text":"a","sampling_params":{"text":"x"}}`, "a"},
		{"generate: texts", body.TextGenerate, `{"text":["a","b"]}`, "a b"},
		{"generate: ids", body.TextGenerate, `{"input_ids":[1, 22 ,333,4294967295]}`, "1 22 333 4294967295"},
		{"generate: ids of a batch", body.TextGenerate, `{"text":null,"input_ids":[[1,2],[],[3]]}`, "1 2 3"},
		{"generate: what is no id is no part", body.TextGenerate, `{"input_ids":[-1,1.0,1e2,4294967296,"7",null,[[8]],9,[0]]}`, "9 0"},
		{"generate: an empty text", body.TextGenerate, `{"text":"","input_ids":[1]}`, ""},
		{"generate: neither", body.TextGenerate, `{"model":"m"}`, ""},

		{
			"messages: system first, wherever it stands", body.TextMessages,
			`{"messages":[{"role":"user","content":"b"},{"role":"assistant","content":[{"type":"thinking","thinking":"x","text":"x"},{"type":"text","text":"c"},` +
				`{"type":"tool_use","input":{"text":"x"}}],"reasoning_content":"x"},{"role":"user","content":[{"type":"tool_result","content":[{"type":"text","text":"x"}]}]}],"system":"a"}`,
			"a b c",
		},
		{"messages: system blocks", body.TextMessages, `{"system":[{"type":"text","text":"a"},{"type":"text","text":"b","cache_control":{}}],"messages":[{"content":"c"}]}`, "a b c"},
		{"messages: without a system prompt", body.TextMessages, `{"system":null,"messages":[{"content":"c"}]}`, "c"},

		{"responses: a text", body.TextResponses, `{"input":"a","instructions":"x"}`, "a"},
		{
			"responses: items", body.TextResponses,
			`{"input":[{"role":"user","content":"a"},{"type":"message","role":"user","content":[{"type":"input_text","text":"b"},{"type":"input_image","image_url":"x"}]},` +
				`{"type":"reasoning","content":[{"type":"text","text":"x"}]},{"type":"function_call_output","output":"x"},` +
				`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"c"}]},{"type":null,"content":"x"},"x"]}`,
			"a b c",
		},

		{"embeddings: a text", body.TextEmbeddings, `{"input":"a"}`, "a"},
		{"embeddings: texts", body.TextEmbeddings, `{"input":["a","b"]}`, "a b"},
		{"embeddings: token ids are no text", body.TextEmbeddings, `{"input":[[1],[2]]}`, ""},
		{"classify: a text", body.TextClassify, `{"input":"a"}`, "a"},
		{"classify: texts", body.TextClassify, `{"input":["a",1,"b"]}`, "a b"},
		{"rerank: the query alone", body.TextRerank, `{"query":"a","documents":["x","y"]}`, "a"},
		{"rerank: a query of another type", body.TextRerank, `{"query":["a"]}`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := parse(t, tt.in)
			got, chars := extract(b, tt.text, body.MaxText)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("text (-want +got):\n%s", diff)
			}
			if want := int64(utf8.RuneCountInString(tt.want)); chars != want {
				t.Errorf("%d characters, want %d", chars, want)
			}
			for limit := range len(tt.want) + 2 {
				got, chars := extract(b, tt.text, limit)
				if want := head(tt.want, limit); got != want || chars != int64(utf8.RuneCountInString(tt.want)) {
					t.Errorf("limit %d: got %q of %d characters, want %q", limit, got, chars, want)
				}
			}
		})
	}
}

// head is text cut to at most limit bytes, between two characters.
func head(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	end := 0
	for i := range text {
		if i <= limit {
			end = i
		}
	}
	return text[:end]
}

func TestTextBeyondTheLimit(t *testing.T) {
	// The last character that fits the limit ends two bytes before it.
	long := strings.Repeat("x", body.MaxText-2) + "\u4eac"
	tests := []struct {
		name  string
		in    string
		want  int
		chars int64
	}{
		{"one part", `{"messages":[{"content":"` + long + `"}]}`, body.MaxText - 2, body.MaxText - 1},
		{"an escaped character", `{"messages":[{"content":"` + strings.Replace(long, "\u4eac", `\u4eac`, 1) + `"}]}`, body.MaxText - 2, body.MaxText - 1},
		{"parts after it", `{"messages":[{"content":"` + long + `"},{"content":"\u4eac\nx"},{"content":"x"}]}`, body.MaxText - 2, body.MaxText + 5},
		{"a full text and a space", `{"messages":[{"content":"` + strings.Repeat("x", body.MaxText) + `"},{"content":"y"}]}`, body.MaxText, body.MaxText + 2},
		{"a space that just fits", `{"messages":[{"content":"` + strings.Repeat("x", body.MaxText-1) + `"},{"content":"y"}]}`, body.MaxText, body.MaxText + 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := parse(t, tt.in)
			text, chars := extract(b, body.TextChat, body.MaxText)
			if len(text) != tt.want || chars != tt.chars || strings.Trim(text, "x") != strings.Repeat(" ", strings.Count(text, " ")) {
				t.Errorf("got %d bytes of %d characters, want %d of %d", len(text), chars, tt.want, tt.chars)
			}
		})
	}
}

// A text is copied only where it does not stand in the body as it is, and room is
// used again.
func TestTextRoom(t *testing.T) {
	room := make([]byte, 0, 64)
	b := parse(t, `{"prompt":"as it is","messages":[{"content":""},{"content":"as it is"}],"text":"a\tb"}`)
	before := bytes.Clone(b.Raw())
	for _, text := range []body.Texter{body.TextCompletions, body.TextChat} {
		got, _ := text(b, &room, body.MaxText)
		if at := bytes.LastIndex(b.Raw(), got); &got[0] != &b.Raw()[at] && &got[0] != &b.Raw()[bytes.Index(b.Raw(), got)] {
			t.Errorf("%q is a copy", got)
		}
		if len(got) != cap(got) {
			t.Errorf("who appends to %q writes to the body", got)
		}
	}
	own := &room[:1][0]
	if got, _ := body.TextGenerate(b, &room, body.MaxText); string(got) != "a\tb" || &got[0] != own {
		t.Errorf("got %q, not in room", got)
	}
	two := parse(t, `{"prompt":["`+strings.Repeat("x", 100)+`","y"]}`)
	if got, _ := body.TextCompletions(two, &room, body.MaxText); cap(room) < 102 || &got[0] != &room[0] {
		t.Error("a larger room is not handed back")
	}
	if !bytes.Equal(before, b.Raw()) {
		t.Errorf("the body has become %q", b.Raw())
	}
}

func TestTextAllocates(t *testing.T) {
	room := make([]byte, 0, body.MaxText)
	for _, in := range []string{chatBody(32 << 10), plainBody(32 << 10), cjkBody(32 << 10)} {
		b := parse(t, in)
		if n := testing.AllocsPerRun(10, func() { body.TextChat(b, &room, body.MaxText) }); n != 0 {
			t.Errorf("%v allocations for %.120s", n, in)
		}
	}
}
