package sim

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestForecast(t *testing.T) {
	ample := testConfig()
	ample.KVBlocks, ample.ContextLength = 10_000, 400
	tests := []struct {
		name   string
		engine func(*testing.T, *Engine)
		ask    Request
		want   time.Duration
	}{
		{name: "idle", ask: Request{PromptTokens: 20, OutputTokens: 5}, want: 20 * ms},
		{name: "in two chunks", ask: Request{PromptTokens: 100, OutputTokens: 5}, want: 100 * ms},
		{name: "without output", ask: Request{PromptTokens: 20}, want: 20 * ms},
		{
			name: "what is cached costs nothing",
			engine: func(t *testing.T, e *Engine) {
				submit(t, e, 0, Request{PromptTokens: 40, OutputTokens: 1, Blocks: chain(1, 10)})
				drain(e)
			},
			ask:  Request{PromptTokens: 45, OutputTokens: 1, Blocks: chain(1, 11)},
			want: 5 * ms,
		},
		{
			name: "behind one that decodes, in the middle of an iteration",
			engine: func(t *testing.T, e *Engine) {
				submit(t, e, 0, Request{PromptTokens: 10, OutputTokens: 9})
				e.Step(0)
				e.Step(13 * ms) // it decodes from 10 ms to 20 ms
			},
			ask:  Request{PromptTokens: 20, OutputTokens: 1},
			want: (7 + 20 + 10) * ms,
		},
		{
			name: "behind those that wait",
			engine: func(t *testing.T, e *Engine) {
				submit(t, e, 0, Request{PromptTokens: 60, OutputTokens: 1})
				e.Step(0)
				submit(t, e, 0, Request{PromptTokens: 30, OutputTokens: 1})
			},
			ask:  Request{PromptTokens: 20, OutputTokens: 1},
			want: (60 + 30 + 20) * ms,
		},
		{
			name:   "never",
			engine: func(_ *testing.T, e *Engine) { e.SetWindow(0, 0) },
			ask:    Request{PromptTokens: 20, OutputTokens: 1},
			want:   math.MaxInt64,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := newEngine(t, ample)
			if tt.engine != nil {
				tt.engine(t, e)
			}
			if got := e.Forecast(e.Now(), tt.ask); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// TestForecastComesTrue: with blocks for everybody and nobody who comes later, the
// first token comes when it was said to, whatever is under way.
func TestForecastComesTrue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := testConfig()
		cfg.KVBlocks, cfg.MaxQueue = 10_000, 0
		cfg.MaxRunning = rapid.IntRange(1, 8).Draw(t, "running")
		e, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		draw := func(family int) Request {
			prompt := rapid.IntRange(1, 200).Draw(t, "prompt")
			return Request{
				PromptTokens: prompt, OutputTokens: rapid.IntRange(0, 40).Draw(t, "output"),
				Blocks: chain(family, rapid.IntRange(0, prompt/4).Draw(t, "hashed")),
			}
		}
		now := time.Duration(0)
		for family := range rapid.IntRange(0, 12).Draw(t, "before") {
			now += time.Duration(rapid.IntRange(0, 150_000).Draw(t, "gap_us")) * time.Microsecond
			e.Step(now)
			if _, err := e.Submit(now, draw(family)); err != nil {
				t.Fatal(err)
			}
		}
		now += time.Duration(rapid.IntRange(0, 150_000).Draw(t, "gap_us")) * time.Microsecond
		e.Step(now)
		ask := draw(rapid.SampledFrom([]int{0, 100}).Draw(t, "family"))
		if len(e.waiting) > 0 || len(e.running) > 0 {
			ask.Blocks = nil // what is being computed may be in the cache by then
		}
		want := e.Forecast(now, ask)
		id, err := e.Submit(now, ask)
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range drain(e) {
			if ev.ID == id && (ev.Kind == Token || ev.Kind == Done) {
				if got := ev.At - now; got != want {
					t.Fatalf("came after %v, forecast was %v", got, want)
				}
				return
			}
		}
		t.Fatal("it never came")
	})
}
