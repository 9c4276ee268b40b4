package tokenizer

import (
	"strings"
	"testing"
)

// prose is a prompt as chats have them.
func prose(tb testing.TB) string {
	var b strings.Builder
	for _, text := range goldenTexts(tb) {
		if len(text) > 60 && len(text) < 300 && b.Len() < 20_000 {
			b.WriteString(text + "\n")
		}
	}
	english := "The gateway tokenises the prompt, so that policies see what an engine will see; it's done once. "
	return strings.Repeat(english, 200) + strings.ToValidUTF8(b.String(), "?")
}

func BenchmarkEncode(b *testing.B) {
	text := prose(b)
	for _, name := range []string{"gpt2", "llama3", "deepseek3", "llama2", "t5", "bert"} {
		b.Run(name, func(b *testing.B) {
			k := goldenKind(b, name)
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			var ids []uint32
			for b.Loop() {
				var err error
				if ids, err = k.tokenizer.AppendEncode(ids[:0], text, true); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCache(b *testing.B) {
	text := prose(b)
	k := goldenKind(b, "llama3")
	c, err := NewCache(k.tokenizer, 10<<20)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Encode(text, true); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkStream(b *testing.B) {
	for _, name := range []string{"llama3", "llama2"} {
		b.Run(name, func(b *testing.B) {
			k := goldenKind(b, name)
			ids, err := k.tokenizer.Encode(prose(b)[:4000], false)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				a := k.tokenizer.Stream(true)
				for _, id := range ids {
					a.Push(id)
				}
				a.End()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(ids)), "ns/token")
		})
	}
}
