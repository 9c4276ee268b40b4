package sim

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// testConfig has round prices: 1 ms per prefill token, 10 ms per decode step,
// 1 ms per further sequence, blocks of 4 tokens, transfers of 5 ms plus 1 ms per
// block.
func testConfig() Config {
	return Config{
		KVBlocks: 100, BlockSize: 4, ContextLength: 400,
		MaxRunning: 8, MaxQueue: 8, ChunkTokens: 64,
		PrefillTokensPerSecond: 1000,
		DecodeStep:             10 * time.Millisecond,
		DecodePerSequence:      time.Millisecond,
		BytesPerToken:          1000,
		TransferBytesPerSecond: 4e6,
		TransferLatency:        5 * time.Millisecond,
	}
}

func newEngine(t *testing.T, cfg Config) *Engine {
	t.Helper()
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func submit(t *testing.T, e *Engine, at time.Duration, r Request) ID {
	t.Helper()
	id, err := e.Submit(at, r)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// drain steps until nothing is left to do and returns all events.
func drain(e *Engine) []Event {
	var all []Event
	for {
		at, ok := e.Next()
		if !ok {
			return append(all, e.Step(at)...)
		}
		all = append(all, e.Step(at)...)
	}
}

// chain makes n block hashes that share a prefix with every chain of the same
// family.
func chain(family, n int) []BlockHash {
	out := make([]BlockHash, n)
	for i := range out {
		out[i] = BlockHash(family*1_000_000 + i)
	}
	return out
}

const ms = time.Millisecond

func TestTiming(t *testing.T) {
	tests := []struct {
		name string
		reqs []Request
		want []Event
	}{
		{
			name: "the last chunk of the prompt yields the first token",
			reqs: []Request{{PromptTokens: 20, OutputTokens: 2}},
			want: []Event{
				{ID: 1, Kind: Admitted},
				{ID: 1, Kind: Token, At: 20 * ms, Tokens: 1},
				{ID: 1, Kind: Token, At: 30 * ms, Tokens: 2},
				{ID: 1, Kind: Done, At: 30 * ms, Tokens: 2},
			},
		},
		{
			name: "a long prompt is prefilled in chunks",
			reqs: []Request{{PromptTokens: 100, OutputTokens: 1}},
			want: []Event{
				{ID: 1, Kind: Admitted},
				{ID: 1, Kind: Token, At: 100 * ms, Tokens: 1},
				{ID: 1, Kind: Done, At: 100 * ms, Tokens: 1},
			},
		},
		{
			name: "decode gets slower with the batch",
			reqs: []Request{{PromptTokens: 10, OutputTokens: 2}, {PromptTokens: 10, OutputTokens: 2}},
			want: []Event{
				{ID: 1, Kind: Admitted},
				{ID: 2, Kind: Admitted},
				{ID: 1, Kind: Token, At: 20 * ms, Tokens: 1},
				{ID: 2, Kind: Token, At: 20 * ms, Tokens: 1},
				{ID: 1, Kind: Token, At: 31 * ms, Tokens: 2},
				{ID: 1, Kind: Done, At: 31 * ms, Tokens: 2},
				{ID: 2, Kind: Token, At: 31 * ms, Tokens: 2},
				{ID: 2, Kind: Done, At: 31 * ms, Tokens: 2},
			},
		},
		{
			name: "without output only the prompt is computed",
			reqs: []Request{{PromptTokens: 5}},
			want: []Event{
				{ID: 1, Kind: Admitted},
				{ID: 1, Kind: Done, At: 5 * ms},
			},
		},
		{
			name: "the second of two equal prompts waits for the chunk budget and then hits the cache",
			reqs: []Request{
				{PromptTokens: 64, OutputTokens: 1, Blocks: chain(1, 16)},
				{PromptTokens: 64, OutputTokens: 1, Blocks: chain(1, 16)},
			},
			want: []Event{
				{ID: 1, Kind: Admitted},
				{ID: 1, Kind: Token, At: 64 * ms, Tokens: 1},
				{ID: 1, Kind: Done, At: 64 * ms, Tokens: 1},
				{ID: 2, Kind: Admitted, At: 64 * ms, Cached: 60},
				{ID: 2, Kind: Token, At: 68 * ms, Tokens: 1, Cached: 60},
				{ID: 2, Kind: Done, At: 68 * ms, Tokens: 1, Cached: 60},
			},
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			e := newEngine(t, testConfig())
			for _, r := range tc.reqs {
				submit(t, e, 0, r)
			}
			if diff := cmp.Diff(tc.want, drain(e)); diff != "" {
				t.Error(diff)
			}
			atRest(t, e)
		})
	}
}

func TestSubmitRefusals(t *testing.T) {
	cfg := testConfig()
	cfg.MaxQueue = 1
	tests := []struct {
		name string
		req  Request
		want error
	}{
		{name: "empty", req: Request{OutputTokens: 1}, want: ErrEmpty},
		{name: "longer than the context", req: Request{PromptTokens: 400, OutputTokens: 1}, want: ErrTooLong},
		{name: "queue full", req: Request{PromptTokens: 1, OutputTokens: 1}, want: ErrQueueFull},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			e := newEngine(t, cfg)
			submit(t, e, 0, Request{PromptTokens: 1, OutputTokens: 1})
			if _, err := e.Submit(0, tc.req); !errors.Is(err, tc.want) {
				t.Errorf("Submit: got %v, want %v", err, tc.want)
			}
			drain(e)
			atRest(t, e)
		})
	}
}

func TestAbort(t *testing.T) {
	tests := []struct {
		name string
		at   time.Duration
		id   ID
		want bool
	}{
		{name: "while it waits", at: 0, id: 2, want: true},
		{name: "in prefill", at: 5 * ms, id: 1, want: true},
		{name: "in decode", at: 25 * ms, id: 1, want: true},
		{name: "after its end", at: time.Second, id: 1, want: false},
		{name: "unknown", at: 0, id: 99, want: false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			cfg := testConfig()
			cfg.MaxRunning = 1
			e := newEngine(t, cfg)
			submit(t, e, 0, Request{PromptTokens: 20, OutputTokens: 5})
			submit(t, e, 0, Request{PromptTokens: 20, OutputTokens: 5})
			e.Step(0)
			if got := e.Abort(tc.at, tc.id); got != tc.want {
				t.Errorf("Abort = %v, want %v", got, tc.want)
			}
			for _, h := range e.Ledger(tc.at).Holdings {
				if h.ID == tc.id {
					t.Errorf("the ledger still has %+v", h)
				}
			}
			drain(e)
			atRest(t, e)
		})
	}
}

func TestPreemption(t *testing.T) {
	cfg := testConfig()
	cfg.KVBlocks, cfg.ContextLength = 10, 40
	e := newEngine(t, cfg)
	for range 3 {
		submit(t, e, 0, Request{PromptTokens: 8, OutputTokens: 20})
	}
	done := map[ID]int{}
	preempted := 0
	for _, ev := range drain(e) {
		switch ev.Kind {
		case Preempted:
			preempted++
			if ev.ID == 1 {
				t.Error("the oldest sequence was pre-empted")
			}
		case Done:
			done[ev.ID] = ev.Tokens
		}
	}
	if preempted == 0 {
		t.Error("three sequences of 28 tokens fitted into 40 tokens of KV")
	}
	if diff := cmp.Diff(map[ID]int{1: 20, 2: 20, 3: 20}, done); diff != "" {
		t.Error(diff)
	}
	atRest(t, e)
}

func TestPrefixCache(t *testing.T) {
	e := newEngine(t, testConfig())
	run := func(r Request) int {
		id := submit(t, e, e.Now(), r)
		for _, ev := range drain(e) {
			if ev.ID == id && ev.Kind == Done {
				return ev.Cached
			}
		}
		t.Fatal("request never ended")
		return 0
	}
	first := Request{PromptTokens: 40, OutputTokens: 9, Blocks: chain(1, 12)}
	if got := run(first); got != 0 {
		t.Errorf("cold: %d tokens cached, want 0", got)
	}
	if got := run(first); got != 36 {
		t.Errorf("the same prompt again: %d tokens cached, want 36", got)
	}
	turn := Request{PromptTokens: 60, OutputTokens: 1, Blocks: chain(1, 15)}
	if got := run(turn); got != 48 {
		t.Errorf("next turn: %d tokens cached, want prompt and answer of the last, 48", got)
	}
	// 388 tokens push everything else out.
	run(Request{PromptTokens: 388, OutputTokens: 4, Blocks: chain(2, 97)})
	if got := run(first); got > 8 {
		t.Errorf("after eviction: %d tokens cached", got)
	}
	if !e.Flush() {
		t.Error("flush of an idle engine refused")
	}
	if got := e.Ledger(e.Now()); got.Cached != 0 || got.Free != got.Total {
		t.Errorf("after flush: %+v", got)
	}
}

func TestEvictionKeepsHeads(t *testing.T) {
	cfg := testConfig()
	cfg.KVBlocks = 10
	e := newEngine(t, cfg)
	submit(t, e, 0, Request{PromptTokens: 32, Blocks: chain(1, 8)})
	drain(e)
	submit(t, e, e.Now(), Request{PromptTokens: 20, Blocks: chain(2, 5)})
	drain(e)
	if matched, _ := e.pool.match(chain(1, 8)); matched != 5 {
		t.Errorf("%d leading blocks survive, want 5: the tail goes first", matched)
	}
}

func TestWindow(t *testing.T) {
	e := newEngine(t, testConfig())
	e.SetWindow(0, 1)
	for range 3 {
		submit(t, e, 0, Request{PromptTokens: 4, OutputTokens: 4})
	}
	e.Step(0)
	if l := e.Loads(0); l.Running != 1 || l.Waiting != 2 || l.MaxRunning != 1 {
		t.Errorf("running %d of %d, waiting %d; want 1 of 1, 2", l.Running, l.MaxRunning, l.Waiting)
	}
	if e.Flush() {
		t.Error("flush of a busy engine went through")
	}
	e.SetWindow(0, 0)
	drain(e)
	if l := e.Loads(e.Now()); l.Running != 0 || l.Waiting != 2 {
		t.Errorf("closed window: running %d, waiting %d; want 0, 2", l.Running, l.Waiting)
	}
	e.SetWindow(e.Now(), -1)
	drain(e)
	atRest(t, e)
}

func TestLoads(t *testing.T) {
	cfg := testConfig()
	cfg.MaxRunning = 1
	e := newEngine(t, cfg)
	submit(t, e, 0, Request{PromptTokens: 8, OutputTokens: 200})
	submit(t, e, 0, Request{PromptTokens: 30, OutputTokens: 1})
	e.Step(0)
	e.Step(1500 * ms)
	l := e.Loads(1500 * ms)
	if l.Running != 1 || l.Waiting != 1 || l.WaitingUncachedTokens != 30 {
		t.Errorf("got %+v", l)
	}
	if l.GenThroughput != 100 {
		t.Errorf("throughput %v, want 100: one token every 10 ms", l.GenThroughput)
	}
	if want := float64(l.UsedTokens) / 400; l.KVUsage != want {
		t.Errorf("usage %v, want %v", l.KVUsage, want)
	}
	drain(e)
	l = e.Loads(e.Now() + 3*time.Second)
	if l.GenThroughput != 0 {
		t.Errorf("idle throughput %v, want 0", l.GenThroughput)
	}
	if want := (Totals{Requests: 2, Finished: 2, PromptTokens: 38, GeneratedTokens: 201}); l.Totals != want {
		t.Errorf("totals %+v, want %+v", l.Totals, want)
	}
}

func TestValidate(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Errorf("the default is refused: %v", err)
	}
	err := Config{}.Validate()
	for _, flag := range []string{"--kv-blocks", "--block-size", "--context-length", "--max-running", "--chunk-tokens", "--prefill-tps", "--kv-bytes-per-token", "--transfer-gb-s"} {
		if err == nil || !contains(err.Error(), flag) {
			t.Errorf("%v does not name %s", err, flag)
		}
	}
}
