package rpc

import (
	"testing"

	"google.golang.org/grpc"

	"smg/engine"
	"smg/engine/enginepb/vllmpb"
)

// BenchmarkGenerate is a streamed answer of 64 tokens, over loopback, with the engine's
// part of the work.
func BenchmarkGenerate(b *testing.B) {
	const tokens = 64
	fake := &fakeVLLM{generate: func(_ *vllmpb.GenerateRequest, s grpc.ServerStreamingServer[vllmpb.GenerateResponse]) error {
		for i := range uint32(tokens) {
			if err := s.Send(chunkV(0, i)); err != nil {
				return err
			}
		}
		return s.Send(endV(0))
	}}
	c := client(b)
	tg := target(b, c, serve(b, fake).url)
	r := call(1)
	r.Tokens = make([]uint32, 1000)
	b.ReportAllocs()
	for b.Loop() {
		s, err := c.Generate(b.Context(), tg, engine.RuntimeVLLM, r)
		if err != nil {
			b.Fatal(err)
		}
		if all, err := readAll(s); err != nil || len(all) != tokens+1 {
			b.Fatal(len(all), err)
		}
	}
}
