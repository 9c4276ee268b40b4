package policy_test

import (
	"testing"

	"smg/policy"
	"smg/policy/policytest"
)

func newPowerOfTwo(t *testing.T, metric string) policy.Policy {
	t.Helper()
	cfg := policy.DefaultConfig()
	cfg.Policy, cfg.PowerOfTwo.Metric = policy.PowerOfTwo, metric
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	p, err := policy.New(policy.PowerOfTwo, cfg, policy.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// always wants each of many fresh picks to be the one.
func always(t *testing.T, what, metric string, fleet func() *policytest.Fleet, want int) {
	t.Helper()
	for range 50 {
		f := fleet()
		if got := pick(t, newPowerOfTwo(t, metric), f, plain(f)); got != want {
			t.Fatalf("%s: got %d, want %d", what, got, want)
		}
	}
}

func held(f *policytest.Fleet, loads ...int) *policytest.Fleet {
	for i, n := range loads {
		f.Hold(i, n, 0)
	}
	return f
}

func pairOne(t *testing.T) {
	for _, metric := range policy.LoadMetrics() {
		always(t, metric, metric, func() *policytest.Fleet { return held(policytest.NewFleet(t, 1), 9) }, 0)
	}
}

func pairByWait(t *testing.T) {
	always(t, "queued tokens", policy.ExpectedWait, func() *policytest.Fleet { return reporting(t, report(8000, 100, 0.2), report(1000, 100, 0.2)) }, 1)
}

func pairByDepth(t *testing.T) {
	always(t, "depth", policy.ExpectedWait, func() *policytest.Fleet { return reporting(t, deep(8, 0, 0), deep(0, 0, 0)) }, 1)
}

func pairByUsage(t *testing.T) {
	always(t, "usage", policy.ExpectedWait, func() *policytest.Fleet { return reporting(t, report(0, 0, 0.8), report(0, 0, 0.1)) }, 1)
}

func pairSilent(t *testing.T) {
	always(t, "one is silent", policy.ExpectedWait, func() *policytest.Fleet {
		f := held(policytest.NewFleet(t, 2), 0, 5)
		f.Report(0, report(0, 0, 0.9))
		return f
	}, 0)
}

func pairDark(t *testing.T) {
	always(t, "both are silent", policy.ExpectedWait, func() *policytest.Fleet { return held(policytest.NewFleet(t, 2), 5, 3) }, 1)
}

func pairDarkThree(t *testing.T) {
	seen := map[int]int{}
	for range 300 {
		f := held(policytest.NewFleet(t, 3), 10, 5, 0)
		seen[pick(t, newPowerOfTwo(t, policy.ExpectedWait), f, plain(f))]++
	}
	// 200 and 100 are expected: 150 or fewer for the third has a chance below 1e-9.
	if seen[0] > 0 || seen[2] <= seen[1] {
		t.Errorf("%v of 300, want none, about 100 and about 200", seen)
	}
}

func pairCredit(t *testing.T) {
	for range 50 {
		f, p := reporting(t, report(1000, 100, 0.2), report(2000, 100, 0.2)), newPowerOfTwo(t, policy.ExpectedWait)
		if a, b := pick(t, p, f, plain(f)), pick(t, p, f, plain(f)); a != 0 || b != 1 {
			t.Fatalf("picks %d and %d, want 0 and 1", a, b)
		}
	}
	f, p := reporting(t, report(1000, 100, 0.2), report(2000, 100, 0.2)), newPowerOfTwo(t, policy.ExpectedWait)
	req := plain(f)
	pick(t, p, f, req)
	f.End(req.Ask.Lease, false)
	f.Advance(1)
	f.Report(0, report(1000, 100, 0.2))
	if got := pick(t, p, f, plain(f)); got != 0 {
		t.Errorf("after a new report: got %d, want 0", got)
	}
}

func pairTwins(t *testing.T) {
	for range 50 {
		f, p := reporting(t, report(1000, 100, 0.2), report(1000, 100, 0.2)), newPowerOfTwo(t, policy.ExpectedWait)
		if a, b := pick(t, p, f, plain(f)), pick(t, p, f, plain(f)); a == b {
			t.Fatalf("both picks went to %d", a)
		}
	}
}

func pairReportDropped(t *testing.T) {
	fleet := func() *policytest.Fleet { return reporting(t, report(100_000, 100, 0), report(1000, 100, 0)) }
	always(t, "with both reports", policy.ExpectedWait, fleet, 1)
	seen := map[int]bool{}
	for range 50 {
		f := fleet()
		f.Silence(0)
		seen[pick(t, newPowerOfTwo(t, policy.ExpectedWait), f, plain(f))] = true
	}
	if len(seen) != 2 {
		t.Error("a silent idle worker ties with the other: in 50 draws one was never chosen (chance 2^-49)")
	}
}

func pairByRequests(t *testing.T) {
	fleet := func() *policytest.Fleet { return held(reporting(t, report(0, 100, 0), report(50_000, 100, 0)), 5, 2) }
	always(t, "requests", policy.Requests, fleet, 1)
	always(t, "expected wait", policy.ExpectedWait, fleet, 0)
}

func fewestOfAll(t *testing.T) {
	always(t, "fewest", policy.LeastRequests, func() *policytest.Fleet {
		return held(reporting(t, report(0, 100, 0), report(0, 100, 0), report(50_000, 100, 0), report(0, 100, 0)), 4, 5, 1, 3)
	}, 2)
}

func fewestThenWait(t *testing.T) {
	always(t, "tied on requests", policy.LeastRequests, func() *policytest.Fleet {
		return held(reporting(t, report(4000, 100, 0), report(0, 100, 0), report(0, 100, 0)), 2, 2, 7)
	}, 1)
	always(t, "a pair tied on requests", policy.Requests, func() *policytest.Fleet {
		return held(reporting(t, report(4000, 100, 0), report(0, 100, 0)), 2, 2)
	}, 1)
}

func pairRequestsUniform(t *testing.T) {
	counts := make([]int, 4)
	p := newPowerOfTwo(t, policy.Requests)
	for range 4000 {
		f := policytest.NewFleet(t, 4)
		counts[pick(t, p, f, plain(f))]++
	}
	wantUniform(t, counts)
}

// wantUniform fails with a chance below 1e-6 for a fair draw.
func wantUniform(t *testing.T, counts []int) {
	t.Helper()
	total := 0
	for _, n := range counts {
		total += n
	}
	want := float64(total) / float64(len(counts))
	chi := 0.0
	for _, n := range counts {
		chi += (float64(n) - want) * (float64(n) - want) / want
	}
	// The quantile 1 - 1e-6 of chi-square with so many degrees of freedom.
	limit := map[int]float64{1: 23.93, 2: 27.64, 3: 30.67, 4: 33.38, 5: 35.89, 6: 38.26, 7: 40.53, 8: 42.70, 9: 44.82}[len(counts)-1]
	if limit == 0 {
		t.Fatalf("no limit for %d outcomes", len(counts))
	}
	if chi > limit {
		t.Errorf("%v is not uniform: chi-square %.1f, above %.1f", counts, chi, limit)
	}
}

func pairFrequencies(t *testing.T) {
	counts := map[[2]int]int{}
	for range 6000 {
		f := policytest.NewFleet(t, 3)
		a, b := policy.Pair(newPowerOfTwo(t, policy.ExpectedWait), f.Pool())
		counts[[2]int{min(a, b), max(a, b)}]++
		if a == b {
			t.Fatalf("a pair of %d and itself", a)
		}
	}
	wantUniform(t, []int{counts[[2]int{0, 1}], counts[[2]int{0, 2}], counts[[2]int{1, 2}]})
}

// Every random choice is uniform among what ties.
func TestTiesAreUniform(t *testing.T) {
	for _, tt := range []struct {
		name  string
		n     int
		fleet func() *policytest.Fleet
		make  func() policy.Policy
	}{
		{"least_load of reports", 4, func() *policytest.Fleet {
			return reporting(t, report(10, 10, 0.1), report(10, 10, 0.1), report(10, 10, 0.1), report(10, 10, 0.1))
		}, func() policy.Policy { return newLeastLoad(t, nil, policy.Deps{}) }},
		{"least_load in the dark", 3, func() *policytest.Fleet { return policytest.NewFleet(t, 3) }, func() policy.Policy { return newLeastLoad(t, nil, policy.Deps{}) }},
		{"power_of_two of all", 3, func() *policytest.Fleet { return policytest.NewFleet(t, 3) }, func() policy.Policy { return newPowerOfTwo(t, policy.ExpectedWait) }},
		{"least requests", 6, func() *policytest.Fleet { return policytest.NewFleet(t, 6) }, func() policy.Policy { return newPowerOfTwo(t, policy.LeastRequests) }},
		{"prefix_hash without a head", 4, func() *policytest.Fleet { return policytest.NewFleet(t, 4) }, func() policy.Policy { return newPrefixHash(t, nil, policy.Deps{}) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			counts := make([]int, tt.n)
			p := tt.make()
			for range 3000 {
				f := tt.fleet()
				counts[pick(t, p, f, plain(f))]++
			}
			wantUniform(t, counts)
		})
	}
}
