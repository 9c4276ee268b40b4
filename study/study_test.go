package study

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"smg/policy"
	"smg/sim"
	"smg/worker"
)

const ms = time.Millisecond

// small is a site with round prices: 1 ms per prefill token, 10 ms per decode step,
// blocks of 4 tokens.
func small(workers int) Config {
	cfg := DefaultConfig()
	cfg.Workers = workers
	cfg.Engine.BlockSize, cfg.Engine.KVBlocks, cfg.Engine.ContextLength = 4, 1000, 400
	cfg.Engine.PrefillTokensPerSecond, cfg.Engine.ChunkTokens = 1000, 64
	cfg.Engine.DecodeStep, cfg.Engine.DecodePerSequence = 10*ms, ms
	return cfg
}

func named(name string) Contender {
	return Contender{Name: name, New: func(_ *Fleet, deps policy.Deps) (policy.Policy, error) {
		return policy.New(name, policy.Config{Policy: name}, deps)
	}}
}

// chain makes n hashes that share a prefix with every chain of the same family.
func chain(family, n int) []sim.BlockHash {
	out := make([]sim.BlockHash, n)
	for i := range out {
		out[i] = sim.BlockHash(family*1000 + i)
	}
	return out
}

func workOf(requests ...Request) *Workload {
	return &Workload{Name: "test", BlockSize: 4, Requests: requests}
}

// mixed is n requests of which many share prefixes and overlap in time.
func mixed(n int) *Workload {
	w := workOf()
	for i := range n {
		prompt := 8 + i*7%60
		w.Requests = append(w.Requests, Request{
			At: time.Duration(i) * 13 * ms, Prompt: prompt, Output: 1 + i*5%9, Blocks: chain(i%6, prompt/4),
		})
	}
	return w
}

func mustRun(t *testing.T, cfg Config, w *Workload, c Contender) *Result {
	t.Helper()
	r, err := Run(t.Context(), cfg, w, c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRun(t *testing.T) {
	second := time.Second
	tests := []struct {
		name    string
		workers int
		config  func(*Config)
		work    *Workload
		by      Contender
		want    []Outcome
	}{
		{
			name: "in turn, each alone", workers: 2, by: named(policy.RoundRobin),
			work: workOf(
				Request{At: 0, Prompt: 20, Output: 3, Blocks: chain(1, 5)},
				Request{At: second, Prompt: 20, Output: 1, Blocks: chain(1, 5)},
				Request{At: 2 * second, Prompt: 20, Output: 1, Blocks: chain(1, 5)},
			),
			want: []Outcome{
				{Worker: 0, TTFT: 20 * ms, Latency: 40 * ms},
				{Worker: 1, TTFT: 20 * ms, Latency: 20 * ms},
				{Worker: 0, TTFT: 4 * ms, Latency: 4 * ms, Cached: 16},
			},
		},
		{
			name: "those of one moment share a batch", workers: 1, by: named(policy.RoundRobin),
			work: workOf(
				Request{At: second, Prompt: 20, Output: 1},
				Request{At: second, Prompt: 10, Output: 1},
			),
			want: []Outcome{{TTFT: 30 * ms, Latency: 30 * ms}, {TTFT: 30 * ms, Latency: 30 * ms}},
		},
		{
			name: "greedy goes to the cache", workers: 3, by: Greedy(),
			work: workOf(
				Request{At: 0, Prompt: 40, Output: 1, Blocks: chain(1, 10)},
				Request{At: second, Prompt: 40, Output: 1, Blocks: chain(2, 10)},
				Request{At: 2 * second, Prompt: 44, Output: 1, Blocks: chain(1, 11)},
			),
			want: []Outcome{
				{Worker: -1, TTFT: 40 * ms, Latency: 40 * ms}, // any
				{Worker: -1, TTFT: 40 * ms, Latency: 40 * ms}, // any
				{Worker: -1, TTFT: 4 * ms, Latency: 4 * ms, Cached: 40},
			},
		},
		{
			name: "greedy leaves the cache when its engine is busy", workers: 2, by: Greedy(),
			work: workOf(
				Request{At: 0, Prompt: 20, Output: 1, Blocks: chain(1, 5)},
				Request{At: second, Prompt: 220, Output: 1, Blocks: chain(1, 5)},
				Request{At: second + ms, Prompt: 24, Output: 1, Blocks: chain(1, 6)},
			),
			want: []Outcome{
				{Worker: -1, TTFT: 20 * ms, Latency: 20 * ms},
				{Worker: -1, TTFT: 200 * ms, Latency: 200 * ms, Cached: 20},
				{Worker: -1, TTFT: 24 * ms, Latency: 24 * ms},
			},
		},
		{
			name: "an ask on its way delays", workers: 1, by: named(policy.Random),
			config: func(c *Config) { c.Select = 3 * ms },
			work:   workOf(Request{At: second, Prompt: 20, Output: 1}),
			want:   []Outcome{{TTFT: 26 * ms, Latency: 26 * ms}},
		},
		{
			name: "one that no engine takes", workers: 1, by: named(policy.Random),
			work: workOf(Request{Prompt: 500, Output: 1}, Request{At: second, Prompt: 20, Output: 1}),
			want: []Outcome{{Err: sim.ErrTooLong}, {TTFT: 20 * ms, Latency: 20 * ms}},
		},
		{
			name: "one that the policy turns down", workers: 1,
			by: Contender{
				Name: "second", New: named(policy.ConsistentHashing).New,
				Inputs: func(_ int, req *policy.Request) { req.Target = "1" },
			},
			work: workOf(Request{Prompt: 20, Output: 1}),
			want: []Outcome{{Worker: -1, Err: worker.ErrDeclined}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := small(tt.workers)
			if tt.config != nil {
				tt.config(&cfg)
			}
			got := mustRun(t, cfg, tt.work, tt.by).Outcomes
			for i := range got {
				if tt.want[i].Worker == -1 && tt.want[i].Err == nil {
					got[i].Worker = -1
				}
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateErrors()); diff != "" {
				t.Errorf("outcomes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRunAgain(t *testing.T) {
	for _, c := range []Contender{Greedy(), LeastRequests(), named(policy.Random)} {
		t.Run(c.Name, func(t *testing.T) {
			cfg, w := small(4), mixed(300)
			if diff := cmp.Diff(mustRun(t, cfg, w, c), mustRun(t, cfg, w, c)); diff != "" {
				t.Errorf("two equal runs differ:\n%s", diff)
			}
		})
	}
	cfg, w := small(4), mixed(300)
	one := mustRun(t, cfg, w, named(policy.Random))
	cfg.Seed++
	if cmp.Equal(one, mustRun(t, cfg, w, named(policy.Random))) {
		t.Error("another seed changes nothing")
	}
}

func TestRunRefuses(t *testing.T) {
	one := workOf(Request{Prompt: 20, Output: 1})
	tests := []struct {
		name   string
		config func(*Config)
		work   *Workload
		by     Contender
		says   []string
	}{
		{"nobody", func(c *Config) { c.Workers, c.Selectors = 0, 0 }, one, named(policy.Random), []string{"random", "workers", "selectors"}},
		{"no polls", func(c *Config) { c.Poll = 0 }, one, named(policy.Random), []string{"polls"}},
		{"back in time", func(c *Config) { c.Bus = -1 }, one, named(policy.Random), []string{"negative"}},
		{"all is lost", func(c *Config) { c.Lost = 1 }, one, named(policy.Random), []string{"lost"}},
		{"too few of their own", func(c *Config) { c.Private, c.Ingresses = true, 2 }, one, named(policy.Random), []string{"2 ingresses", "1 selectors"}},
		{"an engine at fault", func(c *Config) { c.Engine.ChunkTokens = 0 }, one, named(policy.Random), []string{"--chunk-tokens"}},
		{"nothing to do", nil, workOf(), named(policy.Random), []string{"no requests"}},
		{"other blocks", func(c *Config) { c.Engine.BlockSize = 8 }, one, named(policy.Random), []string{"blocks of 8", "blocks of 4"}},
		{"out of order", nil, workOf(Request{At: 2, Prompt: 1}, Request{At: 1, Prompt: 1}), named(policy.Random), []string{"request 1"}},
		{"no such policy", nil, one, named("fastest"), []string{"fastest"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := small(1)
			if tt.config != nil {
				tt.config(&cfg)
			}
			_, err := Run(t.Context(), cfg, tt.work, tt.by)
			for _, says := range tt.says {
				if err == nil || !strings.Contains(err.Error(), says) {
					t.Errorf("error %v, want %q in it", err, says)
				}
			}
		})
	}
}

func TestRunEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := named(policy.Random)
	c.Inputs = func(i int, _ *policy.Request) {
		if i == 20 {
			cancel()
		}
	}
	if _, err := Run(ctx, small(2), mixed(100), c); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
}

// watcher is a policy that notes what it sees before it takes the first worker.
type watcher struct {
	see func(req *policy.Request, v *worker.View)
}

func (w *watcher) Pick(req *policy.Request, pool *worker.Pool) (policy.Decision, error) {
	taken, err := pool.Take(&req.Ask, func(v *worker.View) int {
		w.see(req, v)
		return 0
	})
	return policy.Decision{Taken: taken}, err
}

func watching(see func(req *policy.Request, v *worker.View)) Contender {
	return Contender{Name: "watcher", New: func(*Fleet, policy.Deps) (policy.Policy, error) { return &watcher{see}, nil }}
}

// TestCountsAreAsLateAsInTheProduct: an own choice counts at once; an end is known
// once its batch is sent and has arrived.
func TestCountsAreAsLateAsInTheProduct(t *testing.T) {
	cfg := small(2)
	cfg.Bus = ms
	late := 20*ms + worker.BatchDelay + cfg.Bus // the first request takes 20 ms
	var got []int
	mustRun(t, cfg, workOf(
		Request{At: 0, Prompt: 20, Output: 1},
		Request{At: 0, Prompt: 1, Output: 200},
		Request{At: late, Prompt: 1, Output: 1},
		Request{At: late + 2*ms, Prompt: 1, Output: 1},
	), watching(func(_ *policy.Request, v *worker.View) { got = append(got, v.Worker(0).Load.Active()) }))
	if diff := cmp.Diff([]int{0, 1, 2, 2}, got); diff != "" {
		t.Errorf("calls in flight (-want +got):\n%s", diff)
	}
}

func TestReportsAreAsOldAsInTheProduct(t *testing.T) {
	cfg := small(1)
	news := cfg.Poll + cfg.Polled + cfg.Bus
	var got []time.Duration
	mustRun(t, cfg, workOf(
		Request{At: 0, Prompt: 4, Output: 1},
		Request{At: news - 1, Prompt: 4, Output: 1},
		Request{At: news + 1, Prompt: 4, Output: 1},
		Request{At: 3*cfg.Poll - 1, Prompt: 4, Output: 1},
	), watching(func(req *policy.Request, v *worker.View) {
		age := time.Duration(-1)
		if rep := v.Report(0); rep != nil {
			age = req.Ask.Now.Sub(rep.PolledAt)
		}
		got = append(got, age)
	}))
	want := []time.Duration{-1, news - 1, cfg.Polled + cfg.Bus + 1, cfg.Poll - 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ages of the report, -1 for none (-want +got):\n%s", diff)
	}
}

// byKey is a policy whose requests go to the replica of their key.
type byKey struct{ policy.Policy }

func (byKey) Reads() policy.Inputs { return policy.ReadsKey }

// TestReplicasAgree: whoever picks, every replica counts what is in flight at every
// engine, and nothing is left when all is over.
func TestReplicasAgree(t *testing.T) {
	cfg := small(4)
	cfg.Ingresses, cfg.Selectors, cfg.Select = 3, 3, ms
	c := LeastRequests()
	c.Inputs = func(i int, req *policy.Request) { req.Keys.Header = worker.HashKey(fmt.Sprint(i % 17)) }
	fewest := c.New
	c.New = func(f *Fleet, deps policy.Deps) (policy.Policy, error) {
		p, err := fewest(f, deps)
		return byKey{p}, err
	}
	work := mixed(400)
	fleet, err := newFleet(&cfg, c.Leg)
	if err != nil {
		t.Fatal(err)
	}
	r, err := newRun(&cfg, work, &c, fleet)
	if err != nil {
		t.Fatal(err)
	}
	picked := map[*selector]int{}
	for i := range work.Requests {
		req := &policy.Request{}
		c.Inputs(i, req)
		picked[r.home(i, req)]++
	}
	if len(picked) != cfg.Selectors {
		t.Errorf("%d of %d replicas answer", len(picked), cfg.Selectors)
	}
	for r.left > 0 {
		r.next()
	}
	for until := r.now + time.Second; r.now < until; {
		r.next()
	}
	for i, s := range r.selectors {
		for _, spec := range fleet.specs {
			if l := s.fold.Load(spec.ID); l.Active() != 0 {
				t.Errorf("replica %d still counts %d calls at %s", i, l.Active(), spec.URL)
			}
		}
	}
	for i, o := range r.outcomes {
		if o.Err != nil || o.TTFT <= 0 || o.Latency < o.TTFT {
			t.Errorf("request %d: %+v", i, o)
		}
	}
}
