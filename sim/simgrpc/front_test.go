package simgrpc_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"smg/engine"
	"smg/engine/rpc"
	"smg/policy/kvindex"
	"smg/sim/simctl"
	"smg/sim/simhttp"
	"smg/sim/simtest"
	"smg/sim/simtext"
	"smg/worker"
)

const (
	sglangGenerate = "/sglang.grpc.scheduler.SglangScheduler/Generate"
	vllmGenerate   = "/vllm.grpc.engine.VllmEngine/Generate"
)

func kinds() []simhttp.Kind { return []simhttp.Kind{simhttp.SGLang, simhttp.VLLM} }

func generatePath(k simhttp.Kind) string {
	if k == simhttp.VLLM {
		return vllmGenerate
	}
	return sglangGenerate
}

func config(k simhttp.Kind) simhttp.Config {
	cfg := simtest.Config()
	cfg.Kind = k
	return simtest.GRPC(cfg)
}

// caller calls engines.
type caller struct {
	t      testing.TB
	client *rpc.Client
	prober *rpc.Prober
}

func newCaller(t testing.TB) *caller {
	t.Helper()
	c, err := rpc.New(rpc.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &caller{t, c, rpc.NewProber(c)}
}

func (c *caller) target(e *simtest.Engine) *rpc.Target {
	c.t.Helper()
	tg, err := c.client.Target(e.URL)
	if err != nil {
		c.t.Fatal(err)
	}
	return tg
}

// request is a prompt that is answered with at most 20 tokens, greedily.
func request(id, prompt string) *rpc.Request {
	r := &rpc.Request{ID: id, Sampling: rpc.DefaultSampling(), Stream: true}
	for _, t := range simtext.Tokenize(prompt) {
		r.Tokens = append(r.Tokens, uint32(t))
	}
	r.Sampling.Temperature, r.Sampling.MaxTokens = 0, new(20)
	return r
}

// answers are the choices of an answer.
type answers struct {
	Tokens [][]uint32
	Finish []string
	Pieces int
	Cached int
	KV     string
}

func (c *caller) ask(e *simtest.Engine, r *rpc.Request) (answers, error) {
	c.t.Helper()
	s, err := c.client.Generate(c.t.Context(), c.target(e), string(e.Server.Config().Kind), r)
	if err != nil {
		return answers{}, err
	}
	return read(s, r.Sampling.N)
}

func read(s *rpc.Stream, n int) (answers, error) {
	defer s.Close()
	a := answers{Tokens: make([][]uint32, n), Finish: make([]string, n)}
	for {
		p, err := s.Next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return a, err
		}
		a.Pieces++
		a.Tokens[p.Index] = append(a.Tokens[p.Index], p.Tokens...)
		if a.Cached = p.Cached; p.Done {
			a.Finish[p.Index], a.KV = p.Finish, p.KV
		}
		if p.Completion != len(a.Tokens[p.Index]) {
			return a, fmt.Errorf("a piece counts %d tokens, and there are %d", p.Completion, len(a.Tokens[p.Index]))
		}
	}
}

func (c *caller) must(a answers, err error) answers {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
	return a
}

// overHTTP is what an SGLang engine answers over HTTP.
func overHTTP(t *testing.T, e *simtest.Engine, r *rpc.Request) answers {
	t.Helper()
	body, err := json.Marshal(map[string]any{"input_ids": r.Tokens, "sampling_params": map[string]any{
		"temperature": r.Sampling.Temperature, "max_new_tokens": *r.Sampling.MaxTokens, "n": r.Sampling.N, "stop": r.Sampling.Stop,
	}})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post(e.URL+"/generate", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer resp.Body.Close()
	var all []struct {
		IDs  []uint32 `json:"output_ids"`
		Meta struct {
			Finish struct {
				Type string `json:"type"`
			} `json:"finish_reason"`
		} `json:"meta_info"`
	}
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if raw[0] == '{' {
		raw = append(append([]byte{'['}, raw...), ']')
	}
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	var a answers
	for _, one := range all {
		a.Tokens, a.Finish = append(a.Tokens, one.IDs), append(a.Finish, one.Meta.Finish.Type)
	}
	return a
}

func TestSameAnswersAsOverHTTP(t *testing.T) {
	plain := simtest.Start(t, simtest.Config())
	for _, kind := range kinds() {
		c, e := newCaller(t), simtest.Start(t, config(kind))
		for name, change := range map[string]func(*rpc.Request){
			"greedy":      func(*rpc.Request) {},
			"short":       func(r *rpc.Request) { r.Sampling.MaxTokens = new(3) },
			"to its end":  func(r *rpc.Request) { r.Sampling.MaxTokens = new(500) },
			"two choices": func(r *rpc.Request) { r.Sampling.N, r.Sampling.Temperature = 2, 0.5 },
			"stopped":     func(r *rpc.Request) { r.Sampling.Stop = []string{"e"} },
		} {
			for _, stream := range []bool{true, false} {
				r := request("r", "tell me of "+name)
				change(r)
				r.Stream = stream
				got, want := c.must(c.ask(e, r)), overHTTP(t, plain, r)
				if diff := cmp.Diff(want.Tokens, got.Tokens); diff != "" {
					t.Errorf("%s, %s, streamed %v: tokens (-want +got):\n%s", kind, name, stream, diff)
				}
				if diff := cmp.Diff(want.Finish, got.Finish); diff != "" {
					t.Errorf("%s, %s, streamed %v: finish (-want +got):\n%s", kind, name, stream, diff)
				}
				if whole := got.Pieces == r.Sampling.N; whole == stream {
					t.Errorf("%s, %s, streamed %v: %d pieces", kind, name, stream, got.Pieces)
				}
			}
		}
		atRest(t, e)
	}
}

// atRest fails the test unless an engine comes to hold nothing.
func atRest(t testing.TB, engines ...*simtest.Engine) {
	t.Helper()
	for _, e := range engines {
		var l simctl.Ledger
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
			if l = e.Server.Ledger(); l.InFlight == 0 && l.BlocksHeld == 0 && len(l.Requests) == 0 && l.Rooms == 0 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("engine %s is left with %+v", e.URL, l)
			}
		}
	}
}

func TestPrefillAndDecode(t *testing.T) {
	for _, kind := range kinds() {
		t.Run(string(kind), func(t *testing.T) {
			c := newCaller(t)
			whole := c.must(c.ask(simtest.Start(t, config(kind)), request("w", "share this prompt")))
			pd := simtest.StartPD(t, 1, 1, config(kind))
			toPrefill, toDecode := request("p", "share this prompt"), request("p", "share this prompt")
			if kind == simhttp.SGLang {
				b := &rpc.Bootstrap{Host: pd.Prefill[0].PeerHost, Port: uint16(pd.Prefill[0].PeerPort), Room: 1<<31 - 1}
				toPrefill.Bootstrap, toDecode.Bootstrap = b, b
				done := make(chan error, 1)
				go func() {
					_, err := c.ask(pd.Prefill[0], toPrefill)
					done <- err
				}()
				got := c.must(c.ask(pd.Decode[0], toDecode))
				if err := <-done; err != nil {
					t.Error(err)
				}
				if diff := cmp.Diff(whole.Tokens, got.Tokens); diff != "" {
					t.Errorf("tokens (-want +got):\n%s", diff)
				}
				if _, err := c.ask(pd.Decode[0], request("x", "no room")); err == nil || !strings.Contains(err.Error(), "without bootstrap room") {
					t.Errorf("a decode engine without a room: %v", err)
				}
				atRest(t, pd.All()...)
				return
			}
			toPrefill.Stream, toPrefill.Sampling.MaxTokens = false, new(1)
			toPrefill.KV = &rpc.KVTransfer{JSON: `{"do_remote_decode":true,"do_remote_prefill":false}`}
			first := c.must(c.ask(pd.Prefill[0], toPrefill))
			if !strings.Contains(first.KV, "remote_block_ids") {
				t.Fatalf("prefill says %q of its KV", first.KV)
			}
			toDecode.KV = &rpc.KVTransfer{JSON: first.KV}
			got := c.must(c.ask(pd.Decode[0], toDecode))
			if diff := cmp.Diff(whole.Tokens, got.Tokens); diff != "" {
				t.Errorf("tokens (-want +got):\n%s", diff)
			}
			if st := pd.Prefill[0].Server.Transfers(); st.Sent != 1 {
				t.Errorf("%+v, want one transfer", st)
			}
			atRest(t, pd.All()...)
		})
	}
}

func TestFaults(t *testing.T) {
	for _, kind := range kinds() {
		tests := []struct {
			name string
			rule simctl.Rule
			want func(a answers, err error) bool
		}{
			{"too many", simctl.Rule{Status: 429}, refused(429, "ResourceExhausted", 0)},
			{"full", simctl.Rule{Status: 503}, refused(503, "Unavailable", 0)},
			{"bad", simctl.Rule{Status: 400, Body: json.RawMessage(`"so bad"`)}, refused(400, "InvalidArgument", 0)},
			{"dropped", simctl.Rule{Drop: true}, failed(engine.ErrNoAnswer, 0)},
			{"cut", simctl.Rule{Stream: &simctl.StreamFault{CutAfter: new(3)}}, failed(engine.ErrBroken, 3)},
			{"fails", simctl.Rule{Stream: &simctl.StreamFault{FailAfter: new(2)}}, refused(500, "Internal", 2)},
			{"more tokens", simctl.Rule{Stream: &simctl.StreamFault{Tokens: new(50)}}, func(a answers, err error) bool { return err == nil && len(a.Tokens[0]) == 50 }},
			{"delayed", simctl.Rule{Delay: simctl.Duration(time.Millisecond)}, func(_ answers, err error) bool { return err == nil }},
		}
		e, c := simtest.Start(t, config(kind)), newCaller(t)
		for _, tt := range tests {
			tt.rule.Match = simctl.Match{Path: generatePath(kind), First: 1}
			if err := e.Server.SetFaults(simctl.Faults{Record: true, Rules: []simctl.Rule{tt.rule}}); err != nil {
				t.Fatal(err)
			}
			a, err := c.ask(e, request("r", tt.name))
			if !tt.want(a, err) {
				t.Errorf("%s, %s: %v behind %d pieces", kind, tt.name, err, a.Pieces)
			}
			if _, err := c.ask(e, request("r", tt.name)); err != nil {
				t.Errorf("%s, behind %s: %v", kind, tt.name, err)
			}
		}
		atRest(t, e)
		records, err := e.Records(t.Context(), generatePath(kind))
		if err != nil {
			t.Fatal(err)
		}
		if len(records) != 2*len(tests) || !bytes.Contains(records[0].Body, []byte(`"input_ids"`)) {
			t.Errorf("%s: %d records, want %d with the message", kind, len(records), 2*len(tests))
		}
	}
}

func refused(status int, code string, pieces int) func(answers, error) bool {
	return func(a answers, err error) bool {
		r, ok := errors.AsType[*engine.Refused](err)
		return ok && r.Status == status && r.Code == code && a.Pieces == pieces
	}
}

func failed(kind error, pieces int) func(answers, error) bool {
	return func(a answers, err error) bool { return errors.Is(err, kind) && a.Pieces == pieces }
}

// TestLeaving: whoever leaves takes his blocks with him, and an abort by name does.
func TestLeaving(t *testing.T) {
	for _, kind := range kinds() {
		e, c := simtest.Start(t, config(kind)), newCaller(t)
		hold := simctl.Faults{Rules: []simctl.Rule{{Match: simctl.Match{Contains: "held"}, Stream: &simctl.StreamFault{StallAfter: new(2)}}}}
		if err := e.Server.SetFaults(hold); err != nil {
			t.Fatal(err)
		}
		s, err := c.client.Generate(t.Context(), c.target(e), string(kind), request("held", "leave"))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := s.Next(); err != nil {
				t.Fatal(err)
			}
		}
		s.Close()
		atRest(t, e)

		slow := config(kind)
		slow.TimeScale, slow.Core.DecodeStep = 1, time.Hour // a second token never comes
		e = simtest.Start(t, slow)
		if s, err = c.client.Generate(t.Context(), c.target(e), string(kind), request("a", "aborted")); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Next(); err != nil {
			t.Fatal(err)
		}
		if !e.Server.Abort([]string{"a"}) || e.Server.Abort([]string{"b"}) {
			t.Errorf("%s: an abort does not tell whom it met", kind)
		}
		if p, err := s.Next(); err != nil || !p.Done || p.Finish != "abort" || p.Completion != 1 {
			t.Errorf("%s: %+v, %v, want an answer that was aborted", kind, p, err)
		}
		s.Close()
		atRest(t, e)
	}
}

func TestRefuse(t *testing.T) {
	e, c := simtest.Start(t, config(simhttp.VLLM)), newCaller(t)
	c.must(c.ask(e, request("r", "before")))
	if err := e.Server.SetFaults(simctl.Faults{Refuse: true}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, err := c.ask(e, request("r", "refused"))
		if !errors.Is(err, engine.ErrConnect) && !errors.Is(err, engine.ErrNoAnswer) {
			t.Errorf("%v, want no connection", err)
		}
	}
	if err := e.Server.SetFaults(simctl.Faults{}); err != nil {
		t.Fatal(err)
	}
	c.must(c.ask(e, request("r", "behind")))
}

func TestWhatItTells(t *testing.T) {
	for _, kind := range kinds() {
		cfg := config(kind)
		cfg.Ranks.Size = 2
		e, c := simtest.Start(t, cfg), newCaller(t)
		info, err := c.prober.Discover(t.Context(), e.URL, "", "")
		if err != nil {
			t.Fatal(err)
		}
		if info.Runtime != string(kind) || info.ModelID != cfg.Model || info.Labels["dp_size"] != "2" || info.Labels["max_model_len"] == "" || info.Labels["eos_token_ids"] != "2" {
			t.Errorf("%s: %+v", kind, info)
		}
		if err := e.Server.SetFaults(simctl.Faults{Loads: &simctl.LoadsOverride{Running: new(3), Waiting: new(5), WaitingUncachedTokens: new(900), TokenUsage: new(0.5)}}); err != nil {
			t.Fatal(err)
		}
		l, err := c.prober.Loads(t.Context(), e.URL, "", string(kind))
		if err != nil {
			t.Fatal(err)
		}
		running, _ := l.Running()
		waiting, _ := l.Waiting()
		queued, _ := l.WaitingUncachedTokens()
		usage, _ := l.KVUsage()
		if len(l.Ranks) != 2 || running != 3 || waiting != 5 || queued != 900 || usage != 0.5 {
			t.Errorf("%s: %d ranks with %d running, %d waiting, %d tokens queued, usage %v", kind, len(l.Ranks), running, waiting, queued, usage)
		}
		if err := e.Server.SetFaults(simctl.Faults{Loads: &simctl.LoadsOverride{Absent: true}}); err != nil {
			t.Fatal(err)
		}
		if l, err := c.prober.Loads(t.Context(), e.URL, "", string(kind)); err == nil {
			t.Errorf("%s: loads %+v, want none", kind, l)
		}
		if err := c.prober.Flush(t.Context(), e.URL, "", string(kind)); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		if err := e.Server.SetFaults(simctl.Faults{Auth: "k"}); err != nil {
			t.Fatal(err)
		}
		if err := c.prober.Health(t.Context(), e.URL, "", string(kind)); err == nil {
			t.Errorf("%s: no key is as good as one", kind)
		}
		if err := c.prober.Health(t.Context(), e.URL, "k", string(kind)); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func TestRanks(t *testing.T) {
	for _, kind := range kinds() {
		cfg := config(kind)
		cfg.Ranks.Size = 2
		e, c := simtest.Start(t, cfg), newCaller(t)
		for rank, good := range map[int]bool{0: true, 1: true, 2: false} {
			r := request("r", "rank")
			r.Rank = &rank
			if _, err := c.ask(e, r); good != (err == nil) || err != nil && !refused(400, "InvalidArgument", 0)(answers{}, err) {
				t.Errorf("%s, rank %d of 2: %v", kind, rank, err)
			}
		}
	}
}

// TestEvents: an index that is fed by an engine's events knows what the engine will find
// in its cache, also once it has evicted something.
func TestEvents(t *testing.T) {
	for _, kind := range kinds() {
		t.Run(string(kind), func(t *testing.T) {
			cfg := config(kind)
			cfg.KVEvents, cfg.Core.KVBlocks, cfg.Core.BlockSize = true, 40, 4
			e, c := simtest.Start(t, cfg), newCaller(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ix := kvindex.New(kvindex.Bounds{}, time.Now())
			feed := kvindex.NewFeed(ix, worker.ID{1}, kvindex.ByNumber)
			events, err := c.client.Events(ctx, c.target(e), string(kind), "", 0)
			if err != nil {
				t.Fatal(err)
			}
			defer events.Close()
			feed.Connected()
			last := uint64(0)
			catchUp := func() {
				t.Helper()
				for seq := lastSeq(t, c, e); last < seq; {
					b, err := events.Next()
					if err != nil {
						t.Fatal(err)
					}
					if step := feed.Apply(batch(b), time.Now()); step.Do != kvindex.Read || step.Err != nil {
						t.Fatalf("batch %d: %+v", b.Seq, step)
					}
					last = b.Seq
				}
			}
			hits, misses, rng := 0, 0, rand.New(rand.NewPCG(1, 2))
			for i := range 100 {
				r := request(fmt.Sprint("r-", i), strings.Repeat(fmt.Sprint("prompt ", rng.IntN(13), " "), 6))
				r.Sampling.MaxTokens = new(4)
				catchUp()
				known := 0
				for _, s := range ix.Match(r.Tokens, time.Now(), nil) {
					known = s.Blocks * s.BlockSize
				}
				got := c.must(c.ask(e, r))
				// The last token of a prompt is always computed.
				if want := min(known, (len(r.Tokens)-1)/4*4); got.Cached != want {
					t.Fatalf("request %d: the engine found %d tokens, the index knew of %d of %d", i, got.Cached, known, len(r.Tokens))
				}
				if got.Cached > 0 {
					hits++
				} else {
					misses++
				}
			}
			if hits < 20 || misses < 20 {
				t.Errorf("%d hits and %d misses: nothing was tested", hits, misses)
			}
			catchUp()
			if err := c.prober.Flush(t.Context(), e.URL, "", string(kind)); err != nil {
				t.Fatal(err)
			}
			catchUp()
			if n := ix.Len(); n != 0 {
				t.Errorf("%d blocks are known of an empty cache", n)
			}
		})
	}
}

// lastSeq is the number of the engine's last batch: of all that a new subscriber gets at
// once.
func lastSeq(t *testing.T, c *caller, e *simtest.Engine) uint64 {
	t.Helper()
	atRest(t, e)
	return e.Server.LastKV()
}

// batch is an engine's batch in the words of the index, as whoever subscribes has to put
// it.
func batch(b engine.KVBatch) *kvindex.Batch {
	out := &kvindex.Batch{Seq: b.Seq, Rank: b.Rank}
	for _, e := range b.Events {
		ev := kvindex.Event{Chained: e.Chained, Parent: e.Parent, Hashes: e.Removed}
		switch {
		case len(e.Stored) > 0:
			ev.Kind, ev.BlockSize = kvindex.Stored, e.Stored[0].Size
			for _, block := range e.Stored {
				ev.Blocks = append(ev.Blocks, kvindex.Block{Hash: block.Hash, Tokens: block.Tokens})
			}
		case e.Cleared:
			ev.Kind = kvindex.Cleared
		default:
			ev.Kind = kvindex.Removed
		}
		out.Events = append(out.Events, ev)
	}
	return out
}

func TestEventsFromANumber(t *testing.T) {
	cfg := config(simhttp.SGLang)
	c := newCaller(t)
	if _, err := c.client.Events(t.Context(), c.target(simtest.Start(t, cfg)), engine.RuntimeSGLang, "", 0); !errors.Is(err, engine.ErrNoEvents) {
		t.Errorf("an engine without events: %v", err)
	}
	cfg.KVEvents = true
	e := simtest.Start(t, cfg)
	for i := range 5 {
		c.must(c.ask(e, request("r", fmt.Sprint("a longer prompt, number ", i, ", with some blocks of its own in it"))))
	}
	last := lastSeq(t, c, e)
	if last < 5 {
		t.Fatalf("%d batches of five prompts", last)
	}
	for _, from := range []uint64{0, 2} {
		events, err := c.client.Events(t.Context(), c.target(e), engine.RuntimeSGLang, "", from)
		if err != nil {
			t.Fatal(err)
		}
		for want := from + 1; want <= last; want++ {
			b, err := events.Next()
			if err != nil || b.Seq != want {
				t.Fatalf("batch %d, %v, want %d", b.Seq, err, want)
			}
		}
		events.Close()
	}
	if _, err := c.client.Events(t.Context(), c.target(e), engine.RuntimeSGLang, "", last+1); !errors.Is(err, engine.ErrEventsLost) {
		t.Errorf("a number that is not there yet: %v", err)
	}
}
