package policy_test

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"smg/policy"
	"smg/policy/policytest"
	"smg/worker"
)

func manualDesk(t *testing.T, n int) *desk {
	t.Helper()
	return newDesk(t, n, manualConfig(policy.AssignRandom), nil, seeded(1))
}

func manualStays(t *testing.T) {
	d := manualDesk(t, 4)
	first := d.wantBranch(t, keyed(d.Fleet, "a"), "vacant")
	for range 9 {
		d.want(t, keyed(d.Fleet, "a"), first.worker, "occupied_hit")
	}
	wantEntries(t, d.reg, 1)
	wantCounts(t, d.reg, pinMetric, map[string]float64{"vacant": 1, "occupied_hit": 9, "occupied_miss": 0, "no_routing_id": 0})
	wantCounts(t, d.reg, sourceMetric, map[string]float64{"header": 10, "rid": 0})
}

func manualSpreads(t *testing.T) {
	d := manualDesk(t, 4)
	for i := range 100 {
		d.wantBranch(t, keyed(d.Fleet, fmt.Sprint("key-", i)), "vacant")
	}
	if active := d.Active(); slices.Max(active) == 100 {
		t.Errorf("100 keys went to one worker: %v", active)
	}
}

func manualNoKey(t *testing.T) {
	d := manualDesk(t, 2)
	for range 100 {
		d.wantBranch(t, plain(d.Fleet), "no_routing_id")
	}
	if active := d.Active(); slices.Min(active) == 0 {
		t.Errorf("100 requests without a key reached one worker of two: %v", active)
	}
	wantEntries(t, d.reg, 0)
	wantCounts(t, d.reg, sourceMetric, map[string]float64{"header": 0, "rid": 0})
}

func manualFailsOver(t *testing.T) {
	d := manualDesk(t, 3)
	first := d.wantBranch(t, keyed(d.Fleet, "a"), "vacant").worker
	d.Down(first)
	second := d.wantBranch(t, keyed(d.Fleet, "a"), "occupied_miss").worker
	for range 5 {
		d.want(t, keyed(d.Fleet, "a"), second, "occupied_hit")
	}
	d.Up(first)
	for range 5 {
		d.want(t, keyed(d.Fleet, "a"), first, "occupied_hit")
	}
	d.Down(first)
	d.want(t, keyed(d.Fleet, "a"), second, "occupied_hit")
}

func manualTwoWorkers(t *testing.T) {
	d := manualDesk(t, 3)
	first := d.call(t, keyed(d.Fleet, "a")).worker
	d.Down(first)
	second := d.call(t, keyed(d.Fleet, "a")).worker
	d.Down(second)
	third := 3 - first - second
	d.want(t, keyed(d.Fleet, "a"), third, "occupied_miss")
	d.Up(first)
	d.want(t, keyed(d.Fleet, "a"), third, "occupied_hit")
	d.Up(second)
	d.want(t, keyed(d.Fleet, "a"), second, "occupied_hit")
}

func manualNewWorkers(t *testing.T) {
	d := manualDesk(t, 6)
	for _, i := range []int{1, 4, 5} {
		d.Remove(i)
	}
	where := make([]int, 100)
	for i := range where {
		where[i] = d.call(t, keyed(d.Fleet, fmt.Sprint("key-", i))).worker
	}
	for _, i := range []int{4, 1, 5} {
		d.Add(i)
	}
	for i := range where {
		d.want(t, keyed(d.Fleet, fmt.Sprint("key-", i)), where[i], "occupied_hit")
	}
}

func manualModes(t *testing.T) {
	t.Run("min_group spreads keys evenly", func(t *testing.T) {
		d := newDesk(t, 3, manualConfig(policy.AssignMinGroup), nil, seeded(1))
		for i := range 9 {
			d.call(t, keyed(d.Fleet, fmt.Sprint("key-", i)))
		}
		if diff := cmp.Diff([]int{3, 3, 3}, d.Active()); diff != "" {
			t.Errorf("calls of different keys (-want +got):\n%s", diff)
		}
	})
	tests := []struct {
		name, mode string
		loads      []int // calls in flight, each of a key of its own
		want       int
	}{
		{"min_group", policy.AssignMinGroup, []int{2, 1, 0}, 2},
		{"min_load", policy.AssignMinLoad, []int{2, 1, 0}, 2},
		{"delegate", policy.AssignDelegate, []int{1, 0}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newDesk(t, len(tt.loads), manualConfig(tt.mode), nil, seeded(1))
			d.load(t, tt.loads)
			d.want(t, keyed(d.Fleet, "new"), tt.want, "vacant")
		})
	}
	t.Run("min_group counts keys and min_load calls", func(t *testing.T) {
		for mode, want := range map[string]int{policy.AssignMinGroup: 0, policy.AssignMinLoad: 1} {
			d := newDesk(t, 2, manualConfig(mode), nil, seeded(1))
			d.load(t, []int{0, 2})
			for range 3 { // one key
				d.to(t, 0, keyed(d.Fleet, "popular"))
			}
			d.want(t, keyed(d.Fleet, "new"), want, "vacant")
		}
	})
}

// load counts calls of different keys on the workers.
func (d *desk) load(t *testing.T, loads []int) {
	t.Helper()
	for i, n := range loads {
		for j := range n {
			d.to(t, i, keyed(d.Fleet, fmt.Sprintf("load-%d-%d", i, j)))
		}
	}
}

// to counts a call on a worker, whatever the policy says.
func (d *desk) to(t *testing.T, i int, req *policy.Request) call {
	t.Helper()
	got := decide(t, &scripted{[]int{i}}, d.Fleet, req)
	return call{req.Ask.Lease, d.Index(got.Worker), got.Branch}
}

// manualLegs: every leg has a book of its own, so a key has a pin on each.
func manualLegs(t *testing.T) {
	reg := prometheus.NewRegistry()
	deps := policy.Deps{Registerer: reg}
	prefill := newDesk(t, 2, manualConfig(policy.AssignRandom), nil, deps)
	decode := newDesk(t, 2, manualConfig(policy.AssignRandom), nil, deps)
	prefill.wantBranch(t, keyed(prefill.Fleet, "a"), "vacant")
	decode.wantBranch(t, keyed(decode.Fleet, "a"), "vacant")
	wantEntries(t, reg, 2)
}

func manualForgets(t *testing.T) {
	t.Run("idle", func(t *testing.T) {
		cfg := manualConfig(policy.AssignRandom)
		cfg.Pins.MaxIdle, cfg.Pins.EvictionInterval = 2*time.Second, 2*time.Second
		logger, lines := logLines(slog.LevelInfo)
		d := newDesk(t, 2, cfg, nil, policy.Deps{Logger: logger})
		start := plain(d.Fleet).Ask.Now
		d.Tick(start)
		d.call(t, keyed(d.Fleet, "idle"))
		d.call(t, keyed(d.Fleet, "busy"))
		d.call(t, at(keyed(d.Fleet, "busy"), 1500*time.Millisecond))
		d.Tick(start.Add(1999 * time.Millisecond))
		wantEntries(t, d.reg, 2)
		d.Tick(start.Add(4 * time.Second))
		wantEntries(t, d.reg, 0)
		d.wantBranch(t, at(keyed(d.Fleet, "idle"), 4*time.Second), "vacant")
		want := []map[string]any{{"level": "INFO", "msg": "sticky keys were idle for too long and are forgotten", "dropped": 2.0, "left": 0.0}}
		if diff := cmp.Diff(want, lines(t)); diff != "" {
			t.Errorf("log (-want +got):\n%s", diff)
		}
	})
	t.Run("every hit refreshes", func(t *testing.T) {
		cfg := manualConfig(policy.AssignRandom)
		cfg.Pins.MaxIdle, cfg.Pins.EvictionInterval = 2*time.Second, 2*time.Second
		d := newDesk(t, 2, cfg, nil, policy.Deps{})
		start := plain(d.Fleet).Ask.Now
		d.call(t, keyed(d.Fleet, "a"))
		for i := range 10 {
			d.wantBranch(t, at(keyed(d.Fleet, "a"), time.Duration(i)*1500*time.Millisecond), "occupied_hit")
			d.Tick(start.Add(time.Duration(i) * 1500 * time.Millisecond))
		}
		wantEntries(t, d.reg, 1)
	})
	for name, change := range map[string]func(*policy.PinConfig){
		"no interval":   func(c *policy.PinConfig) { c.EvictionInterval = 0 },
		"no idle limit": func(c *policy.PinConfig) { c.MaxIdle = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := manualConfig(policy.AssignRandom)
			change(&cfg.Pins)
			d := newDesk(t, 2, cfg, nil, policy.Deps{})
			d.call(t, keyed(d.Fleet, "a"))
			for i := range 100 {
				d.Tick(plain(d.Fleet).Ask.Now.Add(time.Duration(i) * time.Hour))
			}
			wantEntries(t, d.reg, 1)
		})
	}
	t.Run("more than a batch", func(t *testing.T) {
		d := newDesk(t, 2, manualConfig(policy.AssignRandom), nil, policy.Deps{})
		start := plain(d.Fleet).Ask.Now
		d.Tick(start)
		for i := range 1000 {
			d.call(t, keyed(d.Fleet, fmt.Sprint("old-", i)))
		}
		d.call(t, at(keyed(d.Fleet, "young"), time.Hour))
		d.Tick(start.Add(4 * time.Hour))
		wantEntries(t, d.reg, 1)
	})
}

func manualOverride(t *testing.T) {
	cfg := manualConfig(policy.AssignRandom)
	cfg.Sticky = policy.StickyConfig{On: true, Assignment: policy.AssignDelegate}
	d := newDesk(t, 4, cfg, nil, seeded(1))
	if got, want := d.Reads(), policy.ReadsKey|policy.ReadsPinnedKey|policy.ReadsConversationKey; got != want {
		t.Errorf("reads %v, want %v", got, want)
	}
	if name, _ := d.For(policytest.Model); name != policy.Manual {
		t.Errorf("policy %s, want %s", name, policy.Manual)
	}
	first := d.wantBranch(t, by(d.Fleet, "conv", "x"), "vacant").worker
	for i := range 10 { // no cap either
		d.want(t, by(d.Fleet, "conv", fmt.Sprint("other-", i)), first, "occupied_hit")
	}
	d.wantBranch(t, keyed(d.Fleet, "x"), "vacant")
	wantEntries(t, d.reg, 2)
	wantCounts(t, d.reg, sourceMetric, map[string]float64{"rid": 11, "header": 1})
}

func manualOnce(t *testing.T) {
	d := newDesk(t, 8, manualConfig(policy.AssignRandom), nil, policy.Deps{})
	const goroutines = 64
	for round := range 20 {
		pool, p := d.Pool(), d.policy()
		var wg sync.WaitGroup
		chosen := make([]int, goroutines)
		for g := range goroutines {
			wg.Go(func() {
				got, err := p.Pick(keyed(d.Fleet, fmt.Sprint("key-", round)), pool)
				if err != nil {
					t.Errorf("pick: %v", err)
					return
				}
				chosen[g] = d.Index(got.Worker)
			})
		}
		wg.Wait()
		if slices.Min(chosen) != slices.Max(chosen) {
			t.Fatalf("one new key went to workers %v", slices.Compact(slices.Sorted(slices.Values(chosen))))
		}
	}
	wantEntries(t, d.reg, 20)
	wantCounts(t, d.reg, pinMetric, map[string]float64{"vacant": 20, "occupied_hit": 20 * (goroutines - 1)})
}

// TestManualIsUniform: keys get every candidate with the same chance. Of true
// chance a millionth fails.
func TestManualIsUniform(t *testing.T) {
	const keys = 10_000
	tests := []struct {
		name  string
		tried []int
	}{
		{"ten workers", nil},
		{"two of them tried", []int{0, 6}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newDesk(t, 10, manualConfig(policy.AssignRandom), nil, seeded(7))
			for i := range keys {
				d.call(t, keyed(d.Fleet, fmt.Sprint("key-", i), tt.tried...))
			}
			wantUniform(t, without(t, d.Active(), tt.tried))
		})
	}
	// Ties of loads are broken in the same way: every key finds all workers idle.
	for _, mode := range []string{policy.AssignMinLoad, policy.AssignMinGroup} {
		t.Run("ties of "+mode, func(t *testing.T) {
			d := newDesk(t, 10, manualConfig(mode), nil, policy.Deps{IntN: rand.New(rand.NewPCG(7, 9)).IntN})
			counts := make([]int, 10)
			for i := range keys {
				c := d.call(t, keyed(d.Fleet, fmt.Sprint("key-", i)))
				counts[c.worker]++
				d.end(c)
			}
			wantUniform(t, counts)
		})
	}
}

// without is counts without some workers', which must be 0.
func without(t *testing.T, counts, workers []int) (rest []int) {
	t.Helper()
	for i, n := range counts {
		switch {
		case !slices.Contains(workers, i):
			rest = append(rest, n)
		case n != 0:
			t.Errorf("worker %d was chosen %d times, want never", i, n)
		}
	}
	return rest
}

func TestManualNobody(t *testing.T) {
	d := manualDesk(t, 2)
	d.call(t, keyed(d.Fleet, "a"))
	d.Down(0, 1)
	for _, req := range []*policy.Request{plain(d.Fleet), keyed(d.Fleet, "a"), keyed(d.Fleet, "b")} {
		if got := wantNobody(t, d.policy(), d.Fleet, req, worker.ErrUnavailable); got.Branch != "no_healthy_workers" {
			t.Errorf("branch %s", got.Branch)
		}
	}
	wantEntries(t, d.reg, 1)
	wantCounts(t, d.reg, pinMetric, map[string]float64{"no_healthy_workers": 3})
}
