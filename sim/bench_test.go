package sim

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkIteration is the cost of one iteration of a decoding batch.
func BenchmarkIteration(b *testing.B) {
	for _, batch := range []int{1, 64, 256} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			cfg := DefaultConfig()
			cfg.KVBlocks, cfg.ContextLength = 1<<20, 1<<24
			e, err := New(cfg)
			if err != nil {
				b.Fatal(err)
			}
			fill := func() {
				for range batch {
					if _, err := e.Submit(e.Now(), Request{PromptTokens: 16, OutputTokens: 4096}); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				at, ok := e.Next()
				if !ok {
					fill()
				}
				e.Step(at)
			}
		})
	}
}

// BenchmarkRequest is a whole request with a prompt that is in the cache.
func BenchmarkRequest(b *testing.B) {
	e, err := New(DefaultConfig())
	if err != nil {
		b.Fatal(err)
	}
	r := Request{PromptTokens: 4096, OutputTokens: 16, Blocks: chain(1, 256)}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := e.Submit(e.Now(), r); err != nil {
			b.Fatal(err)
		}
		for at, ok := e.Next(); ok; at, ok = e.Next() {
			e.Step(at + time.Nanosecond)
		}
	}
}
