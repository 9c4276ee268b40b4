package main

import (
	"strings"
	"testing"
	"time"

	"smg/policy"
	"smg/study"
)

// TestConclude: the goal is met, missed or not to be judged, and answers that are
// missing are an error whatever became of it.
func TestConclude(t *testing.T) {
	run := func(p99 time.Duration, hits float64) *measurement {
		return &measurement{Summary: study.Summary{Requests: 100, Hits: hits, P99: p99}, ttft: []time.Duration{50 * time.Millisecond}, late: []time.Duration{time.Millisecond}}
	}
	late := run(time.Second, 0.5)
	late.late = []time.Duration{11 * time.Millisecond}
	failed := run(time.Second, 0.5)
	failed.Failed, failed.firstFault = 3, errBroken
	for _, tt := range []struct {
		name string
		many *measurement
		want string
		err  string
	}{
		{name: "met", many: run(1100*time.Millisecond, 0.475), want: ": met"},
		{name: "slow", many: run(1110*time.Millisecond, 0.5), want: ": missed"},
		{name: "few_hits", many: run(time.Second, 0.47), want: ": missed"},
		{name: "late", many: late, want: ": void"},
		{name: "failed", many: failed, want: ": met", err: "3 of 100 requests failed, the first with: " + errBroken.Error()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tab := table{o: parsed(t, "-policies", policy.CacheAware)}
			tab.add(policy.CacheAware, one, run(time.Second, 0.5))
			tab.add(policy.CacheAware, many, tt.many)
			var out strings.Builder
			err := tab.conclude(&out, tab.blocks())
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
			if !strings.Contains(out.String(), tt.want) {
				t.Errorf("no %q in %q", tt.want, out.String())
			}
		})
	}
}
