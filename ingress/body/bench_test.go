package body_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"smg/ingress/body"
)

// chatBody returns a chat request with about n bytes of prompt, line breaks and
// quotes in it as in real ones.
func chatBody(n int) string {
	const line = `The \"quick\" brown fox jumps over the lazy dog, again and again and again.\n`
	prompt := strings.Repeat(line, n/len(line)+1)[:n/len(line)*len(line)]
	return `{"model":"meta-llama/Llama-3.1-8B-Instruct","messages":[{"role":"system","content":"You are a helpful assistant."},` +
		`{"role":"user","content":"` + prompt + `"}],"temperature":0.7,"top_p":0.95,"max_tokens":256,"stream":true,` +
		`"stream_options":{"include_usage":true}}`
}

func cjkBody(n int) string {
	return strings.Replace(chatBody(0), `"content":""`, `"content":"`+strings.Repeat("\u6771\u4eac\u90fd", n/9)+`"`, 1)
}

func idsBody(n int) string {
	return `{"input_ids":[` + strings.TrimSuffix(strings.Repeat("12345, ", n/7), ", ") + `],"stream":true}`
}

func BenchmarkParse(b *testing.B) {
	for _, bb := range []struct{ name, in string }{
		{"chat_310", chatBody(80)},
		{"chat_10K", chatBody(10 << 10)},
		{"chat_500K", chatBody(500 << 10)},
		{"plain_500K", `{"model":"m","prompt":"` + strings.Repeat("x", 500<<10) + `"}`},
		{"cjk_500K", cjkBody(500 << 10)},
		{"ids_500K", idsBody(500 << 10)},
	} {
		raw := []byte(bb.in)
		b.Run(fmt.Sprintf("%s/body", bb.name), func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				v, err := body.Parse(raw, body.DefaultMaxDepth)
				if err != nil || !v.Stream() && v.Field(body.KeyStream).Given() {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("%s/encoding_json", bb.name), func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				var v struct {
					Model    string          `json:"model"`
					Stream   *bool           `json:"stream"`
					N        *int            `json:"n"`
					RID      json.RawMessage `json:"rid"`
					Messages json.RawMessage `json:"messages"`
					Prompt   json.RawMessage `json:"prompt"`
					InputIDs json.RawMessage `json:"input_ids"`
				}
				if err := json.Unmarshal(raw, &v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkEdit(b *testing.B) {
	edits := []body.Edit{
		body.Remove("kv_transfer_params"),
		body.Set("bootstrap_host", []byte(`"10.0.0.1"`)),
		body.Set("bootstrap_port", []byte(`8998`)),
		body.Set("bootstrap_room", []byte(`1234567890123456789`)),
	}
	for _, bb := range []struct{ name, in string }{
		{"chat_310", chatBody(80)},
		{"chat_10K", chatBody(10 << 10)},
		{"chat_500K", chatBody(500 << 10)},
	} {
		v, err := body.Parse([]byte(bb.in), body.DefaultMaxDepth)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(bb.name+"/normalize", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				v.Normalize()
			}
		})
		b.Run(bb.name+"/edit", func(b *testing.B) {
			b.SetBytes(int64(len(bb.in)))
			b.ReportAllocs()
			for b.Loop() {
				v.Edit(edits...)
			}
		})
		b.Run(bb.name+"/map", func(b *testing.B) {
			b.SetBytes(int64(len(bb.in)))
			b.ReportAllocs()
			for b.Loop() {
				var m map[string]json.RawMessage
				if err := json.Unmarshal(v.Raw(), &m); err != nil {
					b.Fatal(err)
				}
				for _, e := range edits {
					if e.Value == nil {
						delete(m, e.Key)
						continue
					}
					m[e.Key] = e.Value
				}
				if _, err := json.Marshal(m); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// plainBody is a chat without escapes.
func plainBody(n int) string {
	return strings.Replace(chatBody(0), `"content":""`, `"content":"`+strings.Repeat("The quick brown fox jumps over the lazy dog. ", n/45)+`"`, 1)
}

// proseBody has line breaks and no quotes in its text, as most prompts.
func proseBody(n int) string {
	const line = `The quick brown fox jumps over the lazy dog, again and again and again.\n`
	return strings.Replace(chatBody(0), `"content":""`, `"content":"`+strings.Repeat(line, n/len(line))+`"`, 1)
}

func BenchmarkText(b *testing.B) {
	for _, size := range []struct {
		name string
		n    int
	}{{"1K", 1 << 10}, {"32K", 32 << 10}, {"500K", 500 << 10}} {
		for _, bb := range []struct {
			name string
			in   string
			text body.Texter
		}{
			{"prompt", `{"model":"m","prompt":"` + strings.Repeat("x", size.n) + `"}`, body.TextCompletions},
			{"chat_plain", plainBody(size.n), body.TextChat},
			{"chat_prose", proseBody(size.n), body.TextChat},
			{"chat_quotes", chatBody(size.n), body.TextChat},
			{"chat_cjk", cjkBody(size.n), body.TextChat},
			{"chat_cjk_escaped", strings.NewReplacer("\u6771", `\u6771`, "\u4eac", `\u4eac`, "\u90fd", `\u90fd`).Replace(cjkBody(size.n / 2)), body.TextChat},
		} {
			b.Run(bb.name+"_"+size.name, func(b *testing.B) {
				v, err := body.Parse([]byte(bb.in), body.DefaultMaxDepth)
				if err != nil {
					b.Fatal(err)
				}
				room := make([]byte, 0, body.MaxText)
				b.SetBytes(int64(len(bb.in)))
				b.ReportAllocs()
				for b.Loop() {
					if _, chars := bb.text(&v, &room, body.MaxText); chars == 0 {
						b.Fatal("no text")
					}
				}
			})
		}
	}
}

func BenchmarkTokens(b *testing.B) {
	v, err := body.Parse([]byte(idsBody(500<<10)), body.DefaultMaxDepth)
	if err != nil {
		b.Fatal(err)
	}
	ids := make([]uint32, 0, body.MaxTokens)
	b.ReportAllocs()
	for b.Loop() {
		if _, count := body.TokensGenerate(&v, ids); count == 0 {
			b.Fatal("no ids")
		}
	}
}
