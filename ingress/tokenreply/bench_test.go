package tokenreply_test

import (
	"fmt"
	"testing"

	"smg/engine/rpc"
	"smg/ingress/tokenreply"
)

// plain makes text of tokens that are whole characters, without memory of its own.
type plain struct{ *vocabulary }

func (p plain) Stream(bool) tokenreply.Detokenizer { return p }

func (p plain) Push(tokens ...uint32) string { return p.tokens[tokens[0]] }

func (p plain) End() string { return "" }

// BenchmarkStream measures an event of one token, with the detokeniser left out.
func BenchmarkStream(b *testing.B) {
	v, ids := words(" the", " quick", " brown", " fox", ",")
	for _, bc := range []struct {
		name   string
		change func(*tokenreply.Request)
	}{
		{"chat", func(*tokenreply.Request) {}},
		{"chat_stops", func(r *tokenreply.Request) { r.Stop = []string{"\n\n", "User:", "quick!", "<|im_end|>"} }},
		{"completions_vllm", func(r *tokenreply.Request) { r.API, r.Engine = tokenreply.Completions, tokenreply.VLLM }},
		{"generate_new", func(r *tokenreply.Request) { r.API, r.Incremental = tokenreply.Generate, true }},
		{"chat_logprobs", func(r *tokenreply.Request) { r.Prompts[0].Logprobs = rpc.LogprobsWanted{Output: true, Top: 2} }},
	} {
		b.Run(bc.name, func(b *testing.B) {
			req := chat()
			req.Stream = true
			bc.change(req)
			r := begin(b, req, plain{v})
			var pieces []*rpc.Piece
			for i, id := range ids {
				p := piece(id)
				p.Output = probs([]uint32{id}, []float32{-0.5}, others{at(id, -0.5), at(ids[(i+1)%len(ids)], -1.5)})
				pieces = append(pieces, p)
			}
			dst := add(b, r, nil, pieces[0])
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				dst = add(b, r, dst[:0], pieces[i%len(pieces)])
			}
		})
	}
}

// BenchmarkWhole measures an answer of 256 tokens that is no stream.
func BenchmarkWhole(b *testing.B) {
	v, ids := words(" the", " quick", " brown", " fox", ",")
	for _, step := range []int{1, 256} {
		b.Run(fmt.Sprintf("step=%d", step), func(b *testing.B) {
			req := chat()
			var tokens []uint32
			for i := range 256 {
				tokens = append(tokens, ids[i%len(ids)])
			}
			var dst []byte
			b.ReportAllocs()
			for b.Loop() {
				r := begin(b, req, plain{v})
				dst = dst[:0]
				for from := 0; from < len(tokens); from += step {
					dst = add(b, r, dst, piece(tokens[from:from+step]...))
				}
				dst = r.AppendEnd(add(b, r, dst, last("length")))
			}
		})
	}
}

// An event takes no memory but for that of the text.
func TestStreamAllocates(t *testing.T) {
	v, ids := words(" the", "User")
	for _, api := range []tokenreply.API{tokenreply.Chat, tokenreply.Completions, tokenreply.Generate} {
		req := chat()
		req.API, req.Stream, req.Incremental, req.Stop = api, true, true, []string{"User:"}
		r := begin(t, req, plain{v})
		p := piece(ids[0], ids[1], ids[0])
		dst := add(t, r, nil, p)
		dst = add(t, r, dst[:0], p)
		if n := testing.AllocsPerRun(100, func() { dst = add(t, r, dst[:0], p) }); n > 0 {
			t.Errorf("API %d: %v allocations for each event", api, n)
		}
	}
}
