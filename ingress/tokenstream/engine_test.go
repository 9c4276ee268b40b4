package tokenstream_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"smg/engine/rpc"
	"smg/ingress/tokenreply"
	"smg/ingress/tokenstream"
	"smg/sim/simhttp"
	"smg/sim/simtest"
)

// Engines answer several prompts at the same time, and are told when nobody listens.
func TestEngines(t *testing.T) {
	for _, kind := range []simhttp.Kind{simhttp.SGLang, simhttp.VLLM} {
		t.Run(string(kind), func(t *testing.T) {
			cfg := simtest.Config()
			cfg.Kind = kind
			e := simtest.Start(t, simtest.GRPC(cfg))
			client, err := rpc.New(rpc.DefaultConfig())
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			target, err := client.Target(e.URL)
			if err != nil {
				t.Fatal(err)
			}
			open := func(plan, tokens int) []tokenstream.Stream {
				var streams []tokenstream.Stream
				for i := range 3 {
					in := &rpc.Request{ID: fmt.Sprintf("r-%d-p%d", plan, i), Tokens: []uint32{20, 21, uint32(22 + i)}, Sampling: rpc.DefaultSampling(), Stream: true}
					in.Sampling.N, in.Sampling.IgnoreEOS, in.Sampling.MaxTokens = 2, true, &tokens
					s, err := client.Generate(t.Context(), target, string(kind), in)
					if err != nil {
						t.Fatal(err)
					}
					streams = append(streams, s)
				}
				return streams
			}
			two := func(r *tokenreply.Request) { r.N, r.IncludeUsage = 2, true }
			all, err := rest(answer(t, two, nil, open(0, 7)...))
			if !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			if n := strings.Count(all, `"finish_reason":"length"`); n != 6 || !strings.Contains(all, `"completion_tokens":42`) || !strings.HasSuffix(all, "data: [DONE]\n\n") {
				t.Errorf("%d ends: %s", n, all)
			}

			a := answer(t, two, nil, open(1, 2000)...)
			if _, err := a.Next(); err != nil {
				t.Fatal(err)
			}
			a.Close() // with all at work
		})
	}
}
