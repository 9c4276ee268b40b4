package simhttp_test

import (
	"strings"
	"testing"
	"time"

	"smg/sim/simhttp"
	"smg/sim/simtest"
)

// TestTakesItsTime checks from below: a busy machine may only be slower.
func TestTakesItsTime(t *testing.T) {
	tests := []struct {
		name  string
		scale float64
		want  time.Duration
	}{
		{"real time", 1, 140 * time.Millisecond},
		{"half of it", 0.5, 70 * time.Millisecond},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			cfg := config(simhttp.SGLang)
			cfg.TimeScale = tc.scale
			cfg.Core.PrefillTokensPerSecond = 1000
			cfg.Core.DecodeStep = 10 * time.Millisecond
			e := simtest.Start(t, cfg)
			begin := time.Now()
			// 100 tokens of prompt, then four decode steps after the first token.
			r := callerOf(t, e).ask("/v1/completions",
				`{"prompt":"`+strings.TrimSpace(strings.Repeat("word ", 100))+`","max_tokens":5,"ignore_eos":true}`)
			if took := time.Since(begin); took < tc.want {
				t.Errorf("took %v, the model says %v", took, tc.want)
			}
			if r.Usage.Prompt != 100 || r.Usage.Completion != 5 {
				t.Errorf("usage %+v", r.Usage)
			}
		})
	}
}
