package policy_test

import (
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"smg/policy"
	"smg/policy/policytest"
	"smg/worker"
)

// report is a worker's: queued tokens, throughput, KV usage.
func report(queued int64, throughput, usage float64) worker.Report {
	return worker.Report{Queued: queued, Throughput: throughput, KVUsage: usage}
}

// deep is the report of an engine that counts waiting requests and no tokens.
func deep(waiting int64, throughput, usage float64) worker.Report {
	return worker.Report{Waiting: waiting, Queued: worker.NotReported, Throughput: throughput, KVUsage: usage}
}

// reporting is a fleet in which everybody reports.
func reporting(t *testing.T, reports ...worker.Report) *policytest.Fleet {
	t.Helper()
	f := policytest.NewFleet(t, len(reports))
	for i, r := range reports {
		f.Report(i, r)
	}
	return f
}

func newLeastLoad(t *testing.T, change func(*policy.LeastLoadConfig), deps policy.Deps) policy.Policy {
	t.Helper()
	cfg := policy.DefaultConfig()
	if change != nil {
		change(&cfg.LeastLoad)
	}
	p, err := policy.New(policy.LeastLoad, cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func sized(f *policytest.Fleet, tokens int64) *policy.Request {
	return &policy.Request{Ask: f.Ask(), Tokens: tokens}
}

// credit puts tokens to a worker's credit, without a call that stays in flight.
func credit(f *policytest.Fleet, i int, tokens int64) {
	ask := f.Ask()
	ask.Tokens = tokens
	for k := range len(f.Active()) {
		if k != i {
			ask.Skip = append(ask.Skip, f.ID(k))
		}
	}
	if _, err := f.Pool().Take(&ask, func(v *worker.View) int { return v.Candidate(0) }); err != nil {
		panic(err)
	}
	f.End(ask.Lease, false)
}

// TestPolicies's expected-wait examples: the scores are own arithmetic.
func waitExamples(t *testing.T) {
	type scored struct {
		worker int
		score  float64
	}
	tests := []struct {
		name  string
		fleet func(t *testing.T) *policytest.Fleet
		want  []scored // of all workers, by avoiding the others
	}{
		{"EW-1", func(t *testing.T) *policytest.Fleet {
			return reporting(t, report(8000, 100, 0.2), report(1000, 100, 0.2))
		}, []scored{{0, 80.0375}, {1, 10.0375}}},
		{"EW-2", func(t *testing.T) *policytest.Fleet {
			return reporting(t, report(0, 2500, 0.5), report(1500, 2500, 0.1))
		}, []scored{{0, 0.15}, {1, 0.616667}}},
		{"EW-3", func(t *testing.T) *policytest.Fleet {
			f := reporting(t, deep(3, 0, 0.6), deep(1, 0, 0.3))
			credit(f, 1, 2048)
			return f
		}, []scored{{0, 1.761}, {1, 1.600286}}},
		{"EW-4", func(t *testing.T) *policytest.Fleet {
			return reporting(t, report(0, 1800, 0.95), report(4000, 1800, 0.3))
		}, []scored{{0, 2.85}, {1, 2.286508}}},
		{"EW-5", func(t *testing.T) *policytest.Fleet {
			return reporting(t, report(6000, 3000, 0.4), report(3000, 1000, 0.4))
		}, []scored{{0, 2.1}, {1, 3.1}}},
		{"EW-8", func(t *testing.T) *policytest.Fleet {
			return reporting(t, worker.Report{Waiting: 5, Queued: 1000, Throughput: 1000, KVUsage: 0.4})
		}, []scored{{0, 1.1}}},
		{"EW-10", func(t *testing.T) *policytest.Fleet { return reporting(t, report(0, 0, 1)) }, []scored{{0, 149.85}}},
	}
	for _, usage := range [][2]float64{
		{0.1, 0.016667}, {0.25, 0.05}, {0.5, 0.15}, {0.75, 0.45}, {0.8, 0.6}, {0.9, 1.35}, {0.95, 2.85}, {0.98, 7.35}, {0.99, 14.85}, {0.999, 149.85},
	} {
		tests = append(tests, struct {
			name  string
			fleet func(t *testing.T) *policytest.Fleet
			want  []scored
		}{fmt.Sprint("usage ", usage[0]), func(t *testing.T) *policytest.Fleet { return reporting(t, report(0, 2000, usage[0])) }, []scored{{0, usage[1]}}})
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			best := tt.want[0]
			for _, want := range tt.want {
				f := tt.fleet(t)
				var others []int
				for i := range len(f.Active()) {
					if i != want.worker {
						others = append(others, i)
					}
				}
				if got := scoreOf(t, f, others); math.Abs(got-want.score) > 1e-6 {
					t.Errorf("worker %d scores %v, want %v", want.worker, got, want.score)
				}
				if want.score < best.score {
					best = want
				}
			}
			f := tt.fleet(t)
			if got := pick(t, newLeastLoad(t, nil, policy.Deps{}), f, plain(f)); got != best.worker {
				t.Errorf("worker %d is chosen, want %d", got, best.worker)
			}
		})
	}
}

// scoreOf is the score of the one worker that is not tried.
func scoreOf(t *testing.T, f *policytest.Fleet, tried []int) float64 {
	t.Helper()
	logger, lines := logLines(slog.LevelDebug)
	pick(t, newLeastLoad(t, nil, policy.Deps{Logger: logger}), f, plain(f, tried...))
	return lines(t)[0]["score"].(float64)
}

func waitCreditTurns(t *testing.T) {
	fleet := func() *policytest.Fleet { return reporting(t, report(0, 100, 0.2), report(2048, 100, 0.2)) }
	f, p := fleet(), newLeastLoad(t, nil, policy.Deps{})
	if got := []int{pick(t, p, f, sized(f, 2100)), pick(t, p, f, sized(f, 2100))}; !slices.Equal(got, []int{0, 1}) {
		t.Errorf("two requests of 2100 tokens went to %v, want [0 1]", got)
	}
	f = fleet()
	if got := []int{pick(t, p, f, plain(f)), pick(t, p, f, plain(f))}; !slices.Equal(got, []int{0, 0}) {
		t.Errorf("two requests of unknown size went to %v, want [0 0]", got)
	}
}

func waitSilentPeer(t *testing.T) {
	fleet := func(load int) *policytest.Fleet {
		f := policytest.NewFleet(t, 3)
		f.Report(0, report(4000, 1000, 0.5))
		f.Report(1, report(1000, 500, 0.2))
		f.Hold(2, load, 0)
		return f
	}
	seen := map[int]int{}
	for range 200 {
		f := fleet(0)
		seen[pick(t, newLeastLoad(t, nil, policy.Deps{}), f, plain(f))]++
	}
	// A fair coin gives fewer than 60 of 200 with a chance below 1e-8.
	if seen[0] > 0 || seen[1] < 60 || seen[2] < 60 {
		t.Errorf("an idle silent worker ties with the best that reports: got %v of 200", seen)
	}
	for range 20 {
		f := fleet(3)
		if got := pick(t, newLeastLoad(t, nil, policy.Deps{}), f, plain(f)); got != 1 {
			t.Fatalf("a silent worker with 3 calls: got %d, want 1", got)
		}
	}
	logger, lines := logLines(slog.LevelDebug)
	f := fleet(3)
	f.Overload(1, true)
	// 4.15 is now the best; 3 calls of 1024 tokens at 1000 tokens a second.
	pick(t, newLeastLoad(t, nil, policy.Deps{Logger: logger}), f, plain(f, 0))
	if got := lines(t)[0]["score"].(float64); got != 3 {
		t.Errorf("alone among candidates a silent worker scores %v, want its 3 calls in flight", got)
	}
}

func waitSilentAgainstFull(t *testing.T) {
	f := policytest.NewFleet(t, 2)
	f.Report(0, report(0, 0, 0.9))
	f.Hold(1, 5, 0)
	if got := pick(t, newLeastLoad(t, nil, policy.Deps{}), f, plain(f)); got != 0 {
		t.Errorf("got worker %d, want 0 (1.35 against 3.91)", got)
	}
}

func waitWaterFill(t *testing.T) {
	for seed := range uint64(50) {
		f := reporting(t, report(0, 2000, 0.2), report(2048, 2000, 0.2), report(4096, 2000, 0.2))
		p := newLeastLoad(t, nil, seeded(seed))
		credits := func() (c []int64) {
			for i := range 3 {
				c = append(c, f.Fold.Load(f.ID(i)).Credit())
			}
			return c
		}
		var got []int
		for range 8 {
			got = append(got, pick(t, p, f, plain(f)))
			if len(got) == 6 && !slices.Equal(credits(), []int64{4096, 2048, 0}) {
				t.Fatalf("after 6 picks %v: credits %v, want [4096 2048 0]", got, credits())
			}
		}
		if got[0] != 0 || got[1] != 0 || got[2]+got[3] != 1 || got[4]+got[5] != 1 || got[6] == got[7] {
			t.Fatalf("picks %v, want 0 0, then 0 and 1 twice, then two of three", got)
		}
	}
}

func leastNone(t *testing.T) {
	f, p := policytest.NewFleet(t, 1), newLeastLoad(t, nil, policy.Deps{})
	f.Down(0)
	wantNobody(t, p, f, plain(f), worker.ErrUnavailable)
}

func leastOne(t *testing.T) {
	f, p := policytest.NewFleet(t, 1), newLeastLoad(t, nil, policy.Deps{})
	wantPicks(t, p, f, 0, 0, 0)
}

func leastQueue(t *testing.T) {
	f := reporting(t, report(8000, 100, 0.2), report(1000, 100, 0.2))
	wantPicks(t, newLeastLoad(t, nil, policy.Deps{}), f, 1)
}

func leastSpeed(t *testing.T) {
	f := reporting(t, report(6000, 3000, 0.4), report(3000, 1000, 0.4))
	wantPicks(t, newLeastLoad(t, nil, policy.Deps{}), f, 0)
}

func leastDark(t *testing.T) {
	f, p := policytest.NewFleet(t, 2), newLeastLoad(t, nil, policy.Deps{})
	f.Hold(0, 5, 0)
	if got := pick(t, p, f, plain(f)); got != 1 {
		t.Errorf("got %d, want 1", got)
	}
}

func leastTies(t *testing.T) {
	seen := map[int]int{}
	for range 150 {
		f := reporting(t, report(1000, 100, 0.2), report(1000, 100, 0.2), report(1000, 100, 0.2))
		seen[pick(t, newLeastLoad(t, nil, policy.Deps{}), f, plain(f))]++
	}
	if len(seen) != 3 {
		t.Errorf("of three equal workers only %v were chosen in 150 draws (chance 3*(2/3)^150)", seen)
	}
}

func leastNewcomer(t *testing.T) {
	seen := map[int]int{}
	for range 150 {
		f := policytest.NewFleet(t, 3)
		f.Report(1, deep(1, 100, 0.125))
		f.Report(2, deep(1, 100, 0.125))
		seen[pick(t, newLeastLoad(t, nil, policy.Deps{}), f, plain(f))]++
	}
	if seen[0] >= 100 || seen[1] == 0 || seen[2] == 0 {
		t.Errorf("%v of 150, want about 50 each", seen)
	}
}

func leastByDepth(t *testing.T) {
	f, p := reporting(t, deep(64, 100, 0), deep(6, 100, 0)), newLeastLoad(t, nil, policy.Deps{})
	for i := range 20 {
		if got := pick(t, p, f, plain(f)); got != 1 {
			t.Fatalf("pick %d went to %d, want 1", i, got)
		}
	}
}

func leastTokensBeatDepth(t *testing.T) {
	f := reporting(t, worker.Report{Waiting: 200, Queued: 500, Throughput: 100}, worker.Report{Waiting: 1, Queued: 8000, Throughput: 100})
	if got := pick(t, newLeastLoad(t, nil, policy.Deps{}), f, plain(f)); got != 0 {
		t.Errorf("got %d, want the one with fewer tokens", got)
	}
	// A count of 0 is a count (ruling 23).
	f = reporting(t, worker.Report{Waiting: 200, Queued: 0, Throughput: 100}, worker.Report{Waiting: 1, Queued: worker.NotReported, Throughput: 100})
	if got := pick(t, newLeastLoad(t, nil, policy.Deps{}), f, plain(f)); got != 0 {
		t.Errorf("got %d, want the one that has no tokens queued", got)
	}
}

func leastByUsage(t *testing.T) {
	heavy := func(c *policy.LeastLoadConfig) { c.KVPressureWeight = 2 }
	for _, usages := range [][2]float64{{0.9, 0.1}, {0.98, 0}} {
		f := reporting(t, report(0, 0, usages[0]), report(0, 0, usages[1]))
		if got := pick(t, newLeastLoad(t, heavy, policy.Deps{}), f, plain(f)); got != 1 {
			t.Errorf("usages %v: got %d, want 1", usages, got)
		}
	}
	// Without the term the fuller one may win.
	f := reporting(t, report(0, 0, 0.98), report(1, 0, 0))
	if got := pick(t, newLeastLoad(t, func(c *policy.LeastLoadConfig) { c.KVPressureWeight = 0 }, policy.Deps{}), f, plain(f)); got != 0 {
		t.Errorf("weight 0: got %d, want 0", got)
	}
}

func leastDefaultThroughput(t *testing.T) {
	f := reporting(t, report(10000, 0, 0), report(1000, 0, 0))
	if got := scoreOf(t, f, []int{1}); got != 5 {
		t.Errorf("10000 tokens: score %v, want 5", got)
	}
	f = reporting(t, report(10000, 0, 0), report(1000, 0, 0))
	if got := pick(t, newLeastLoad(t, nil, policy.Deps{}), f, plain(f)); got != 1 {
		t.Errorf("got %d, want 1", got)
	}
}

func capped(n int64) func(*policy.LeastLoadConfig) {
	return func(c *policy.LeastLoadConfig) { c.MaxWaiting = n }
}

func leastCap(t *testing.T) {
	f := reporting(t, deep(64, 1e9, 0), deep(6, 1, 0.9))
	if got := pick(t, newLeastLoad(t, capped(48), policy.Deps{}), f, plain(f)); got != 1 {
		t.Errorf("64 waiting at cap 48: got %d, want 1", got)
	}
	f = reporting(t, deep(48, 100, 0), deep(48, 100, 0))
	wantNobody(t, newLeastLoad(t, capped(48), policy.Deps{}), f, plain(f), worker.ErrDeclined)
	f = reporting(t, deep(64, 100, 0))
	wantNobody(t, newLeastLoad(t, capped(48), policy.Deps{}), f, plain(f), worker.ErrDeclined)
	f = reporting(t, deep(1000, 100, 0))
	if got := pick(t, newLeastLoad(t, capped(0), policy.Deps{}), f, plain(f)); got != 0 {
		t.Errorf("no cap: got %d", got)
	}
}

func leastCapCountsSent(t *testing.T) {
	f, p := reporting(t, deep(1, 1e6, 0), report(1e9, 100, 0)), newLeastLoad(t, capped(2), policy.Deps{})
	if got := []int{pick(t, p, f, plain(f)), pick(t, p, f, plain(f))}; !slices.Equal(got, []int{0, 1}) {
		t.Errorf("got %v, want [0 1]", got)
	}
}

func leastCapDark(t *testing.T) {
	f, p := policytest.NewFleet(t, 2), newLeastLoad(t, capped(1), policy.Deps{})
	f.Hold(0, 5, 0)
	for range 3 {
		if got := pick(t, p, f, plain(f)); got != 1 {
			t.Errorf("got %d, want 1", got)
		}
	}
}

func leastNominalOfCandidates(t *testing.T) {
	f := policytest.NewFleet(t, 3)
	f.Hold(0, 2, 0)
	f.Report(1, report(1000, 100, 0.2))
	f.Report(2, report(0, 100_000, 0))
	logger, lines := logLines(slog.LevelDebug)
	p := newLeastLoad(t, nil, policy.Deps{Logger: logger})
	if got := pick(t, p, f, plain(f, 2)); got != 1 {
		t.Errorf("got %d, want 1", got)
	}
	f.Overload(1, true)
	f.Report(2, report(0, 100, 0))
	pick(t, p, f, plain(f, 2))
	if got := lines(t)[1]["candidates"].(float64); got != 1 {
		t.Errorf("%v candidates, want 1", got)
	}
}

func leastSpreads(t *testing.T) {
	f, p := reporting(t, report(1000, 100, 0.2), report(1000, 100, 0.2)), newLeastLoad(t, nil, policy.Deps{})
	if a, b := pick(t, p, f, plain(f)), pick(t, p, f, plain(f)); a == b {
		t.Errorf("both went to %d", a)
	}
}

func leastReportClears(t *testing.T) {
	f, p := reporting(t, report(0, 100, 0), report(0, 100, 0)), newLeastLoad(t, nil, policy.Deps{})
	early := f.Now()
	total := func() (n int64) {
		for i := range 2 {
			n += f.Fold.Load(f.ID(i)).Credit()
		}
		return n
	}
	f.Advance(time.Second)
	for range 4 {
		req := plain(f)
		pick(t, p, f, req)
		f.End(req.Ask.Lease, false) // it has reached its worker
	}
	if got := total(); got != 4*1024 {
		t.Fatalf("credit %d after 4 picks, want 4096", got)
	}
	// Polled before the picks, arriving after them.
	for i := range 2 {
		f.Record(i, func(r *worker.Record) {
			r.Report = &worker.Report{PolledAt: early.Add(time.Millisecond), GoodFor: policytest.ReportLife}
		})
	}
	if got := total(); got != 4*1024 {
		t.Errorf("credit %d after a report from before, want 4096", got)
	}
	f.Advance(time.Second)
	for i := range 2 {
		f.Report(i, report(0, 100, 0))
	}
	if got := total(); got != 0 {
		t.Errorf("credit %d after a report from now, want 0", got)
	}
}

func leastForgets(t *testing.T) {
	f, p := reporting(t, report(0, 100, 0), report(0, 100, 0)), newLeastLoad(t, nil, policy.Deps{})
	for range 4 {
		req := plain(f)
		pick(t, p, f, req)
		f.End(req.Ask.Lease, false)
	}
	f.Remove(0)
	if a, b := f.Fold.Load(f.ID(0)).Credit(), f.Fold.Load(f.ID(1)).Credit(); a != 0 || b != 2*1024 {
		t.Errorf("credits %d and %d, want 0 and 2048", a, b)
	}
}

func leastBurst(t *testing.T) {
	f, p := reporting(t, report(0, 100, 0), report(0, 100, 0), report(0, 100, 0), report(0, 100, 0)), newLeastLoad(t, nil, policy.Deps{})
	pool := f.Pool()
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for range 16 {
				if _, err := p.Pick(plain(f), pool); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if a := f.Active(); slices.Max(a)-slices.Min(a) > 1 {
		t.Errorf("1,024 requests went %v, want even", a)
	}
}

// The original lets a worker whose reports have stopped live on the last one (W-6).
func TestStaleReportsAreNone(t *testing.T) {
	f := policytest.NewFleet(t, 2)
	f.Report(0, report(0, 1e6, 0)) // looks best for ever
	f.Hold(0, 3, 0)
	f.Advance(policytest.ReportLife)
	f.Report(1, report(5000, 100, 0.5))
	p := newLeastLoad(t, nil, policy.Deps{})
	if got := pick(t, p, f, plain(f)); got != 0 {
		t.Fatalf("while the report holds: got %d, want 0", got)
	}
	f.Advance(time.Nanosecond)
	if got := pick(t, p, f, plain(f)); got != 1 {
		t.Errorf("after it: got %d, want 1", got)
	}
	f.Silence(1)
	f.Advance(time.Second)
	if got := pick(t, p, f, plain(f)); got != 1 {
		t.Errorf("when nobody reports: got %d, want the one with fewer calls", got)
	}
}
