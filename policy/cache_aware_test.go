package policy_test

import (
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"smg/policy"
	"smg/policy/policytest"
	"smg/worker"
)

// cached is a fleet under cache_aware as the flags have it: threshold 0.3, gate
// 64/1.5.
type cached struct {
	*policytest.Fleet
	policy.Policy
	t     *testing.T
	lines func(t *testing.T) []map[string]any
	reg   *prometheus.Registry
}

func newCached(t *testing.T, n int, change func(*policy.Config)) *cached {
	t.Helper()
	cfg := policy.DefaultConfig()
	cfg.CacheAware.Threshold = 0.3
	cfg.CacheAware.Balance = policy.Balance{Abs: 64, Rel: 1.5}
	cfg.CacheAware.MaxTreeSize = 1 << 26
	if change != nil {
		change(&cfg)
	}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	logger, lines := logLines(slog.LevelDebug)
	reg := prometheus.NewRegistry()
	p, err := policy.New(policy.CacheAware, cfg, policy.Deps{Logger: logger, Registerer: reg})
	if err != nil {
		t.Fatal(err)
	}
	return &cached{policytest.NewFleet(t, n), p, t, lines, reg}
}

// only sends a request to worker i, by avoiding all others.
func (f *cached) only(i int, req *policy.Request) {
	f.t.Helper()
	for k := range len(f.Active()) {
		if k != i {
			req.Ask.Skip = append(req.Ask.Skip, f.ID(k))
		}
	}
	if got := f.route(req); got != i {
		f.t.Fatalf("worker %d was chosen, want the only candidate %d", got, i)
	}
}

// route is the worker that is chosen for a request, which ends at once.
func (f *cached) route(req *policy.Request) int {
	f.t.Helper()
	got := pick(f.t, f.Policy, f.Fleet, req)
	f.End(req.Ask.Lease, false)
	return got
}

func (f *cached) text(s string) *policy.Request       { return texted(f.Fleet, s) }
func (f *cached) tokens(ids []uint32) *policy.Request { return tokened(f.Fleet, ids) }

// last is the last decision's line.
func (f *cached) last() map[string]any {
	f.t.Helper()
	lines := f.lines(f.t)
	return lines[len(lines)-1]
}

func (f *cached) branch() string { f.t.Helper(); return f.last()["branch"].(string) }

// want routes a request and wants a worker and a branch.
func (f *cached) want(what string, req *policy.Request, index int, branch string) {
	f.t.Helper()
	if got := f.route(req); got != index || f.branch() != branch {
		f.t.Errorf("%s: worker %d by %s, want %d by %s", what, got, f.branch(), index, branch)
	}
}

// wantBranch routes a request and wants a branch.
func (f *cached) wantBranch(what string, req *policy.Request, branch string) {
	f.t.Helper()
	f.route(req)
	if got := f.branch(); got != branch {
		f.t.Errorf("%s: branch %s, want %s", what, got, branch)
	}
}

func builtIn(c *policy.Config) { c.CacheAware.Balance = policy.Balance{Abs: 32, Rel: 1.1} }

const (
	match = "tree_match"
	spill = "spill"
	miss  = "expected_wait_fallback"
)

func cacheNone(t *testing.T) {
	f := newCached(t, 1, nil)
	pool := f.Pool()
	f.Remove(0)
	if _, err := f.Pick(f.text("hello"), pool); err == nil {
		t.Error("an empty pool yielded a worker")
	}
	want := `
# HELP smg_cache_aware_policy_branch_total Decisions of the cache_aware policy by branch.
# TYPE smg_cache_aware_policy_branch_total counter
smg_cache_aware_policy_branch_total{branch="expected_wait_fallback"} 0
smg_cache_aware_policy_branch_total{branch="first_healthy_fallback"} 1
smg_cache_aware_policy_branch_total{branch="spill"} 0
smg_cache_aware_policy_branch_total{branch="tree_match"} 0
`
	if err := testutil.GatherAndCompare(f.reg, strings.NewReader(want), "smg_cache_aware_policy_branch_total"); err != nil {
		t.Error(err)
	}
}

func cacheOne(t *testing.T) {
	f := newCached(t, 1, nil)
	f.want("first", f.text("hello world"), 0, miss)
	f.want("again", f.text("hello world"), 0, match)
}

func cacheRepeats(t *testing.T) {
	f := newCached(t, 3, nil)
	first := f.route(f.text("hello world"))
	for _, s := range []string{"hello world", "hello"} {
		f.want(s, f.text(s), first, match)
		if got := f.last()["matched_ratio"].(float64); got != 1 {
			t.Errorf("%q: ratio %v, want 1", s, got)
		}
	}
}

func cachePartly(t *testing.T) {
	f := newCached(t, 3, nil)
	first := f.route(f.text("hello world"))
	f.want("3 of 7", f.text("help me"), first, match)
	f.wantBranch("1 of 8", f.text("hi there"), miss)
}

func cacheStrict(t *testing.T) {
	f := newCached(t, 2, func(c *policy.Config) { c.CacheAware.Threshold = 0.5 })
	f.route(f.text("abcdwxyz"))
	f.wantBranch("4 of 8 at 0.5", f.text("abcdefgh"), miss)
	f = newCached(t, 2, nil)
	f.route(f.text("abcwxyz"))
	f.wantBranch("3 of 10 at 0.3", f.text("abcdefghij"), miss)
}

func cacheTokens(t *testing.T) {
	ids := counting(1, 40)
	with := func(n int) []uint32 { return append(ids[:32:32], counting(9000, n-32)...) }
	for _, tt := range []struct {
		name string
		ids  []uint32
		hit  bool
	}{
		{"the same 40", ids, true},
		{"the first 20", ids[:20], true},
		{"106 that share 32", with(106), true},
		{"107 that share 32", with(107), false},
		{"the first 10", ids[:10], false},
	} {
		f := newCached(t, 3, nil)
		first := f.route(f.tokens(ids))
		if tt.hit {
			f.want(tt.name, f.tokens(tt.ids), first, match)
		} else {
			f.wantBranch(tt.name, f.tokens(tt.ids), miss)
		}
	}
	f := newCached(t, 3, nil)
	f.route(f.tokens(ids))
	size := policy.TreeTokens(f.Policy, policytest.Model)
	f.route(f.tokens(counting(500, 10)))
	if got := policy.TreeTokens(f.Policy, policytest.Model); got != size || size != 32 {
		t.Errorf("%d tokens after 40, %d after 10 more: want 32 and 32", size, got)
	}
}

func cacheLeastLoadedHolder(t *testing.T) {
	f := newCached(t, 3, nil)
	f.only(0, f.text("hello world"))
	f.only(1, f.text("hello world"))
	held(f.Fleet, 5, 0, 0)
	for range 10 {
		f.want("holders 0 and 1", f.text("hello world"), 1, match)
	}
}

func cacheSpills(t *testing.T) {
	f := newCached(t, 2, builtIn)
	f.only(0, f.text("hello world"))
	f.Hold(0, 100, 0)
	f.want("100 against 0", f.text("hello world"), 1, spill)
	f.want("then it is a holder", f.text("hello world"), 1, match)
}

func cacheGate(t *testing.T) {
	f := newCached(t, 2, nil)
	f.only(0, f.text("hello world"))
	f.Hold(0, 100, 0)
	f.want("100 against 0, mean 50", f.text("hello world"), 0, match)
	f.Hold(0, 100, 0)
	f.want("200 against 0, mean 100", f.text("hello world"), 1, spill)
}

func cacheGateOfFour(t *testing.T) {
	f := newCached(t, 4, nil)
	f.only(0, f.text("hello world"))
	f.Hold(0, 100, 0)
	f.wantBranch("100 against three idle, mean 25", f.text("hello world"), spill)
}

func cacheGateNeedsBoth(t *testing.T) {
	for abs, branch := range map[int64]string{32: match, 2: spill} {
		f := newCached(t, 2, func(c *policy.Config) { c.CacheAware.Balance = policy.Balance{Abs: abs, Rel: 1.1} })
		f.only(0, f.text("hello world"))
		f.Hold(0, 10, 0)
		f.wantBranch(fmt.Sprint("10 against 0, margin ", abs), f.text("hello world"), branch)
	}
}

func cacheBusyStranger(t *testing.T) {
	f := newCached(t, 2, builtIn)
	f.only(0, f.text("hello world"))
	f.Hold(1, 50, 0)
	f.want("a busy worker that holds nothing", f.text("hello world"), 0, match)
}

func cacheSpillAvoidsHot(t *testing.T) {
	f := newCached(t, 3, func(c *policy.Config) { c.CacheAware.Balance = policy.Balance{Abs: 10, Rel: 1.1} })
	f.only(0, f.text("hello world"))
	held(f.Fleet, 60, 60, 0)
	// The second would win by its report alone.
	f.Report(1, report(0, 1e6, 0))
	f.Report(2, report(50_000, 100, 0))
	f.want("60, 60, 0", f.text("hello world"), 2, spill)
}

func cacheAllHot(t *testing.T) {
	// Counts are read under the pool's lock, so the idlest is never hot; with those
	// tried before out of the way, all that are left may be.
	f := newCached(t, 3, func(c *policy.Config) { c.CacheAware.Balance = policy.Balance{Abs: 10, Rel: 1.1} })
	f.only(0, f.text("hello world"))
	held(f.Fleet, 70, 60, 0)
	req := f.text("hello world")
	req.Ask = f.Ask(2)
	f.want("70 and 60, the idle one tried", req, 1, spill)
}

func cachePressure(t *testing.T) {
	for _, tt := range []struct {
		name            string
		spread, ceiling float64
		usages          []float64
		want            string
	}{
		{"all full alike", 0.3, 0.95, []float64{0.9, 0.9, 0.9}, match},
		{"one full", 0.3, 0.95, []float64{0.9, 0.15, 0.15}, "kv_pressure_expected_wait"},
		{"above the ceiling", 0.3, 0.95, []float64{0.97, 0.80}, "kv_pressure_expected_wait"},
		{"off", 1, 1, []float64{0.95, 0.05}, match},
	} {
		f := newCached(t, len(tt.usages), func(c *policy.Config) { c.CacheAware.UsageSpread, c.CacheAware.UsageCeiling = tt.spread, tt.ceiling })
		f.only(0, f.text("hello world"))
		for i, u := range tt.usages {
			f.Report(i, report(0, 2000, u))
		}
		f.wantBranch(tt.name, f.text("hello world"), tt.want)
	}
	f := newCached(t, 2, func(c *policy.Config) { c.CacheAware.UsageSpread, c.CacheAware.UsageCeiling = 0.3, 0.95 })
	f.only(0, f.text("hello world"))
	f.Hold(0, 20, 0)
	f.Report(0, report(0, 2000, 0.3))
	f.Report(1, report(0, 2000, 0.3))
	f.want("20 calls more, usages alike", f.text("hello world"), 0, match)
}

func cachePressureIsNoted(t *testing.T) {
	f := newCached(t, 2, func(c *policy.Config) { c.CacheAware.UsageSpread = 0.3 })
	f.only(0, f.text("hello world"))
	f.Report(0, report(0, 2000, 0.9))
	f.Report(1, report(0, 2000, 0.1))
	f.want("0.9 against 0.1", f.text("hello world"), 1, "kv_pressure_expected_wait")
	if _, has := f.last()["index"]; has {
		t.Error("the line names an index that was not asked")
	}
	f.Silence(0)
	f.Silence(1)
	f.Hold(0, 1, 0)
	f.want("when the pressure is gone", f.text("hello world"), 1, match)
}

func cacheDecay(t *testing.T) {
	decays := func(c *policy.Config) { c.CacheAware.OverlapDecay, c.CacheAware.BlockSize = 4, 4 }
	scores := func(f *cached) []float64 {
		return policy.DecayedScores(f.Policy, f.Pool(), []float64{2, 2}, 2)
	}
	f := newCached(t, 2, decays)
	f.Report(0, report(0, 0, 0))
	f.Report(1, report(8, 0, 0))
	if got := scores(f); got[0] != 2 || got[1] != 0.4 {
		t.Errorf("scores %v, want 2 and 0.4", got)
	}
	f.Silence(1)
	if got := scores(f); got[0] != 2 || got[1] != 2 {
		t.Errorf("scores %v, want both 2: who does not report is not decayed", got)
	}
	f.only(0, f.tokens(counting(1, 8)))
	f.only(1, f.tokens(counting(1, 8)))
	f.Report(0, report(0, 0, 0))
	f.Report(1, report(8, 0, 0))
	for range 50 {
		f.Report(0, report(0, 0, 0))
		f.Report(1, report(8, 0, 0))
		f.want("equal overlap, longer queue", f.tokens(counting(1, 8)), 0, match)
	}
	// Undecayed scores tie; the expected wait of the queue decides all the same.
	f.Silence(0)
	f.Silence(1)
	f.wantBranch("nobody reports", f.tokens(counting(1, 8)), match)
}

func cacheTemperature(t *testing.T) {
	for _, tt := range []struct {
		temperature float64
		scores      []float64
		first       float64 // probability
	}{
		{0, []float64{2, 1}, 1},
		{1, []float64{2, 1}, 0.7310586},
		{0.5, []float64{2, 1}, 0.8807971},
		{1, []float64{3, 3}, 0.5},
		{1, []float64{2, 1.5, 1}, 0.5064804}, // 1, e^-0.5, e^-1
	} {
		f := newCached(t, len(tt.scores), func(c *policy.Config) { c.CacheAware.Temperature = tt.temperature })
		const draws = 20_000
		first := 0
		for range draws {
			if policy.DrawnHolder(f.Policy, f.Pool(), tt.scores) == 0 {
				first++
			}
		}
		// Five standard deviations: a false alarm in 1.7 million.
		sd := 5 * math.Sqrt(tt.first*(1-tt.first)/draws)
		if got := float64(first) / draws; got < tt.first-sd || got > tt.first+sd {
			t.Errorf("temperature %v, scores %v: the first in %.4f, want %.4f ± %.4f", tt.temperature, tt.scores, got, tt.first, sd)
		}
	}
}

func cacheEvents(t *testing.T) {
	const model = policytest.Model
	store := func(f *cached, i, size int, ids []uint32) {
		f.t.Helper()
		policy.StoreBlocks(f.t, f.Policy, model, f.ID(i), size, ids)
	}
	f := newCached(t, 3, builtIn)
	f.only(2, f.tokens(counting(1, 16)))
	f.want("an empty index leaves it to the tree", f.tokens(counting(1, 16)), 2, match)
	store(f, 0, 4, counting(1, 8))
	f.want("two blocks", f.tokens(counting(1, 8)), 0, "event_hit")
	f.wantBranch("no overlap", f.tokens(counting(100, 8)), miss)
	if got := f.last()["index"]; got != "event" {
		t.Errorf("index %v, want event", got)
	}
	f.wantBranch("shorter than a block", f.tokens(counting(1, 3)), miss)

	f = newCached(t, 2, nil)
	store(f, 0, 8, counting(1, 16))
	f.want("a learned block size of 8", f.tokens(counting(1, 8)), 0, "event_hit")

	f = newCached(t, 2, builtIn)
	store(f, 0, 4, counting(1, 16))
	store(f, 1, 4, counting(1, 8))
	for range 10 {
		f.want("4 blocks against 2", f.tokens(counting(1, 16)), 0, "event_hit")
	}
	f.Hold(0, 100, 0)
	f.want("the longer holder is hot", f.tokens(counting(1, 16)), 1, "event_hit")
	f = newCached(t, 2, builtIn)
	store(f, 0, 4, counting(1, 16))
	f.Hold(0, 100, 0)
	f.want("the only holder is hot", f.tokens(counting(1, 16)), 1, "event_spill")
}

func cacheNoOtherTieBreaks(t *testing.T) {
	f := newCached(t, 2, nil)
	f.only(0, f.text("hello world"))
	f.only(1, f.text("hello world"))
	for i := range 20 { // the first has a far larger tree
		f.only(0, f.text(strings.Repeat(fmt.Sprint(i), 100)))
	}
	seen := map[int]bool{}
	for range 200 {
		seen[f.route(f.text("hello world"))] = true
	}
	if len(seen) != 2 {
		t.Error("of two equal holders one was never chosen in 200 draws (chance 2^-199)")
	}
}

func cacheForgets(t *testing.T) {
	f := newCached(t, 3, nil)
	both := func(text string, ids []uint32) {
		for i := range 2 {
			f.only(i, f.text(text))
			f.only(i, f.tokens(ids))
		}
	}
	both("hello world", counting(1, 32))
	f.Remove(0)
	f.Policy.(policy.Forgetter).Forget(f.ID(0))
	f.Add(0)
	for range 10 {
		f.want("text", f.text("hello world"), 1, match)
		f.want("tokens", f.tokens(counting(1, 32)), 1, match)
	}
	f.only(0, f.text("only here"))
	f.Policy.(policy.Forgetter).Forget(f.ID(0))
	f.wantBranch("what it alone held", f.text("only here"), miss)
}

func cacheMissTies(t *testing.T) {
	counts := make([]int, 3)
	for range 600 {
		f := newCached(t, 3, nil)
		counts[f.route(f.text("hello world"))]++
	}
	wantUniform(t, counts)
	f := newCached(t, 2, nil)
	f.Report(0, report(0, 100, 0))
	f.Report(1, report(0, 100, 0))
	if a, b := f.route(f.text("first prompt")), f.route(f.text("another one")); a == b {
		t.Errorf("two misses in a row went to %d", a)
	}
}

func hashed(boundaries ...int) func(*policy.Config) {
	return func(c *policy.Config) { c.CacheAware.Index, c.Boundaries = policy.HashIndex, boundaries }
}

func cacheHashIndex(t *testing.T) {
	f := newCached(t, 2, hashed(16, 32, 64))
	ids := counting(1, 40)
	first := f.route(f.tokens(ids))
	if got := f.branch(); got != miss {
		t.Errorf("first: %s, want %s", got, miss)
	}
	if got := policy.Placements(f.Policy, policytest.Model); got != 2 {
		t.Errorf("40 tokens are noted at %d boundaries, want 2", got)
	}
	f.Hold(first, 2, 0)
	f.want("again, with 2 calls more", f.tokens(ids), first, "hash_hit")
	if got := f.last()["level"].(float64); got != 32 {
		t.Errorf("level %v, want 32", got)
	}
	f.want("another head", f.tokens(counting(1000, 40)), 1-first, miss)
	if got := f.last()["level"].(float64); got != 0 {
		t.Errorf("level %v, want 0", got)
	}
}

func cacheHashDeepest(t *testing.T) {
	f := newCached(t, 2, hashed(16, 32))
	ids := counting(1, 32)
	f.only(1, f.tokens(ids[:16]))
	f.only(0, f.tokens(append(ids[:32:32], 7)))
	// Now both hold the short head, the first alone the long one.
	f.Hold(0, 1, 0)
	f.want("the deepest boundary", f.tokens(ids), 0, "hash_hit")
}

func cacheHashNothingToHash(t *testing.T) {
	f := newCached(t, 2, hashed(16))
	f.wantBranch("8 tokens", f.tokens(counting(1, 8)), "short_request")
	f.wantBranch("text", f.text(strings.Repeat("hello world ", 20)), miss)
	if got := policy.Placements(f.Policy, policytest.Model); got != 0 {
		t.Errorf("%d placements, want none", got)
	}
	if chars := policy.TreeChars(f.Policy, policytest.Model); chars != 0 {
		t.Errorf("the tree has %d characters, want none", chars)
	}
}

func cacheHashExpires(t *testing.T) {
	ids := counting(1, 16)
	for age, branch := range map[time.Duration]string{179 * time.Second: "hash_hit", 180 * time.Second: "hash_hit", 181 * time.Second: miss} {
		f := newCached(t, 2, hashed(16))
		f.route(f.tokens(ids))
		f.Advance(age)
		f.wantBranch(age.String(), f.tokens(ids), branch)
	}
	f := newCached(t, 4, hashed(16))
	for i := range 4 {
		f.only(i, f.tokens(ids))
		f.Advance(time.Second)
	}
	f.Overload(1, true)
	f.Overload(2, true)
	f.Overload(3, true)
	f.want("a fourth holder replaces the oldest", f.tokens(ids), 0, miss)

	f = newCached(t, 2, func(c *policy.Config) { hashed(16)(c); builtIn(c) })
	f.only(0, f.tokens(ids))
	f.Hold(0, 100, 0)
	f.want("a hot holder", f.tokens(ids), 1, "hash_spill")
	f.want("the target is a holder now", f.tokens(ids), 1, "hash_hit")
}

func cacheHashTurns(t *testing.T) {
	f := newCached(t, 3, hashed(2048))
	head := counting(1, 2048)
	first := f.route(f.tokens(append(head[:2048:2048], counting(5000, 952)...)))
	f.want("the longer turn", f.tokens(append(head[:2048:2048], counting(90_000, 14_952)...)), first, "hash_hit")
}

func cacheHashSweep(t *testing.T) {
	f := newCached(t, 2, func(c *policy.Config) { hashed(16)(c); c.CacheAware.EvictionInterval = time.Second })
	f.route(f.tokens(counting(1, 16)))
	f.Advance(120 * time.Second)
	f.route(f.tokens(counting(100, 16)))
	f.Advance(80 * time.Second)
	f.Policy.(policy.Ticker).Tick(f.Now())
	want := `
# HELP smg_cache_placement_entries Prompt heads in the hash index.
# TYPE smg_cache_placement_entries gauge
smg_cache_placement_entries{model="m"} 1
`
	if err := testutil.GatherAndCompare(f.reg, strings.NewReader(want), "smg_cache_placement_entries"); err != nil {
		t.Error(err)
	}
	var wg sync.WaitGroup
	f = newCached(t, 2, func(c *policy.Config) { hashed(16)(c); c.CacheAware.EvictionInterval = time.Nanosecond })
	pool := f.Pool()
	for g := range uint32(8) {
		wg.Go(func() {
			for i := range uint32(50) {
				if _, err := f.Pick(f.tokens(counting(g*100_000+i*100, 16)), pool); err != nil {
					t.Error(err)
				}
				f.Policy.(policy.Ticker).Tick(f.Now())
			}
		})
	}
	wg.Wait()
	if heads, held := policy.PlacedAt(f.Policy, policytest.Model); heads != 400 || held != 400 {
		t.Errorf("%d heads with %d holders, want 400 with one each", heads, held)
	}
}

func cachePartitions(t *testing.T) {
	for _, tokens := range []bool{false, true} {
		f := newCached(t, 2, nil)
		req := func(namespace uint64) *policy.Request {
			r := f.text("hello world")
			if tokens {
				r = f.tokens(counting(1, 32))
			}
			r.Namespace = namespace
			return r
		}
		f.wantBranch("A", req(1), miss)
		f.wantBranch("B", req(2), miss)
		f.wantBranch("none", req(0), miss)
		f.wantBranch("A again", req(1), match)
		f.wantBranch("B again", req(2), match)
		f.wantBranch("none again", req(0), match)
	}
	f := newCached(t, 2, hashed(16))
	for i, want := range []string{miss, miss, "hash_hit"} {
		r := f.tokens(counting(1, 16))
		r.Namespace = []uint64{1, 2, 1}[i]
		f.wantBranch(fmt.Sprint("hash ", i), r, want)
	}
}

func cacheEviction(t *testing.T) {
	f := newCached(t, 2, func(c *policy.Config) { c.CacheAware.MaxTreeSize = 10 })
	f.only(0, f.text("abcdefgh"))
	f.only(1, f.text("uvwxyz"))
	if got := policy.TreeChars(f.Policy, policytest.Model); got > 10 {
		t.Errorf("%d characters, want at most 10", got)
	}
	f.wantBranch("the older one", f.text("abcdefgh"), miss)
}

// A call that never got to its worker leaves no trace (W-7, W-19).
func TestCacheAwareUndo(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*policy.Config)
		req    func(f *cached) *policy.Request
		hit    string
	}{
		{"text", nil, func(f *cached) *policy.Request { return f.text("hello world") }, match},
		{"tokens", nil, func(f *cached) *policy.Request { return f.tokens(counting(1, 32)) }, match},
		{"hash", hashed(16), func(f *cached) *policy.Request { return f.tokens(counting(1, 32)) }, "hash_hit"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newCached(t, 2, tt.change)
			req := tt.req(f)
			f.route(req)
			f.Policy.(policy.Undoer).Undo(req.Ask.Lease)
			second := tt.req(f)
			f.wantBranch("after it was taken back", second, miss)
			f.Policy.(policy.Undoer).Undo(req.Ask.Lease)
			f.wantBranch("taken back twice", tt.req(f), tt.hit)
			f.Policy.(policy.Undoer).Undo(second.Ask.Lease)
			if tt.name != "hash" { // a placement does not know who touched it since at the same instant
				f.wantBranch("used since", tt.req(f), tt.hit)
			}
			f.Policy.(policy.Undoer).Undo(worker.LeaseID{Incarnation: 77})
		})
	}
}

// Models without workers cost nothing (W-9).
func TestCacheAwareDropsEmptyModels(t *testing.T) {
	f := newCached(t, 1, nil)
	f.route(f.text("hello world"))
	f.Advance(time.Minute)
	f.Policy.(policy.Ticker).Tick(f.Now())
	if got := policy.CacheModels(f.Policy); got != 1 {
		t.Errorf("%d models, want 1", got)
	}
	f.Policy.(policy.Forgetter).Forget(f.ID(0))
	f.Advance(time.Minute)
	f.Policy.(policy.Ticker).Tick(f.Now())
	if got := policy.CacheModels(f.Policy); got != 0 {
		t.Errorf("%d models after the last worker is gone, want none", got)
	}
}

func TestCacheAwareGauges(t *testing.T) {
	f := newCached(t, 2, nil)
	f.only(0, f.text("hello"))
	f.only(1, f.text("hello"))
	f.only(0, f.tokens(counting(1, 20)))
	f.Advance(time.Minute)
	f.Policy.(policy.Ticker).Tick(f.Now())
	want := `
# HELP smg_cache_tree_chars Characters in the prefix tree of texts, counted for each worker that holds them.
# TYPE smg_cache_tree_chars gauge
smg_cache_tree_chars{model="m"} 10
# HELP smg_cache_tree_tenants Workers that a prefix tree knows.
# TYPE smg_cache_tree_tenants gauge
smg_cache_tree_tenants{model="m",tree="string"} 2
smg_cache_tree_tenants{model="m",tree="token"} 1
# HELP smg_cache_tree_tokens Tokens in the prefix tree of token ids, counted for each worker that holds them.
# TYPE smg_cache_tree_tokens gauge
smg_cache_tree_tokens{model="m"} 16
`
	if err := testutil.GatherAndCompare(f.reg, strings.NewReader(want), "smg_cache_tree_chars", "smg_cache_tree_tokens", "smg_cache_tree_tenants"); err != nil {
		t.Error(err)
	}
}

// All holders count, however many there are (W-8).
func TestCacheAwareKnowsEveryHolder(t *testing.T) {
	f := newCached(t, 20, nil)
	for i := range 20 {
		f.only(i, f.text("hello world"))
	}
	for i := range 19 {
		f.Hold(i, 2, 0)
	}
	for range 20 {
		f.want("the idle one of 20 holders", f.text("hello world"), 19, match)
	}
}

// What engines said they hold is dropped when the operator's bounds say so.
func TestCacheAwarePrunesEvents(t *testing.T) {
	f := newCached(t, 1, func(c *policy.Config) { c.CacheAware.KVTTL = time.Minute })
	f.Policy.(policy.Ticker).Tick(time.Now())
	policy.StoreBlocks(t, f.Policy, policytest.Model, f.ID(0), 4, counting(1, 8))
	f.Policy.(policy.Ticker).Tick(time.Now().Add(40 * time.Second))
	if got := policy.EventBlocks(f.Policy, policytest.Model); got != 2 {
		t.Errorf("%d blocks within the time, want 2", got)
	}
	f.Policy.(policy.Ticker).Tick(time.Now().Add(2 * time.Minute))
	if got := policy.EventBlocks(f.Policy, policytest.Model); got != 0 {
		t.Errorf("%d blocks after it, want none", got)
	}
}

// Of a prompt that is longer than the tree may be its beginning is remembered.
func TestCacheAwareOfLongPrompts(t *testing.T) {
	small := func(c *policy.Config) { c.CacheAware.MaxTreeSize = 100 }
	f := newCached(t, 3, small)
	text := strings.Repeat("a long prompt é ", 50)
	first := f.route(f.text(text))
	f.want("the same text", f.text(text), first, match)
	f.want("another end", f.text(text+" and more"), first, match)
	f = newCached(t, 3, small)
	ids := counting(1, 500)
	first = f.route(f.tokens(ids))
	f.want("the same tokens", f.tokens(ids), first, match)
	if got := policy.TreeTokens(f.Policy, policytest.Model); got > 100 {
		t.Errorf("%d tokens are remembered, want at most 100", got)
	}
}

// A model whose last worker is gone has no series, whether it had a policy of its own or
// shared one.
func TestCacheSeriesOfModelsThatAreGone(t *testing.T) {
	reg := prometheus.NewRegistry()
	cfg := policy.DefaultConfig()
	cfg.Policy = policy.CacheAware
	b, err := policy.NewBook(cfg, policy.Deps{Registerer: reg})
	if err != nil {
		t.Fatal(err)
	}
	series := func() int {
		n, err := testutil.GatherAndCount(reg, "smg_cache_tree_chars")
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	const models = 1100
	f := policytest.NewFleet(t, 0)
	now := f.Now()
	for i := range models {
		model := fmt.Sprintf("m%d", i)
		s := labelled(i, []string{"cache_aware", ""}[i%2], model)
		b.Added(s)
		f.Registry.Put(s)
		f.Registry.Install(worker.Record{Worker: s.ID, Seq: 1, Status: worker.Ready})
		_, p := b.For(model)
		if _, err := p.Pick(&policy.Request{Text: "hello", Chars: 5, Ask: worker.Ask{Lease: worker.LeaseID{Incarnation: 1, Plan: uint64(i + 1)}, Now: now}}, f.Registry.Pool(worker.Regular, model)); err != nil {
			t.Fatal(err)
		}
	}
	b.Tick(now.Add(time.Hour))
	if n := series(); n != 1025 {
		t.Errorf("%d series of 1100 models, want 1024 and one for the rest", n)
	}
	for i := range models {
		b.Removed(labelled(i, "").ID)
	}
	b.Tick(now.Add(2 * time.Hour))
	if n := series(); n != 0 {
		t.Errorf("%d series of models that nobody serves", n)
	}
}
