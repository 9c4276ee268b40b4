package study

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var about = cmpopts.EquateApprox(0, 1e-9)

func TestWorkload(t *testing.T) {
	tests := []struct {
		name         string
		work         *Workload
		blocks, hits int
	}{
		{"nothing", workOf(), 0, 0},
		{"one alone", workOf(Request{Prompt: 9, Blocks: chain(1, 2)}), 3, 0},
		{
			"a prefix, and what another has behind it",
			workOf(
				Request{Prompt: 8, Blocks: chain(1, 2)},
				Request{Prompt: 21, Blocks: append(chain(1, 2), chain(2, 3)...)},
				Request{Prompt: 21, Blocks: chain(1, 5)},
			), 2 + 6 + 6, 2 + 2,
		},
		{
			"the block of the last token is always computed",
			workOf(Request{Prompt: 8, Blocks: chain(1, 2)}, Request{Prompt: 8, Blocks: chain(1, 2)}), 4, 1,
		},
		{
			"a hit ends at the first block that is new",
			workOf(Request{Prompt: 12, Blocks: chain(1, 3)}, Request{Prompt: 13, Blocks: append(chain(2, 1), chain(1, 3)[1:]...)}), 7, 0,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.work.Blocks(); got != tt.blocks {
				t.Errorf("%d blocks, want %d", got, tt.blocks)
			}
			if got := tt.work.IdealHits(); got != tt.hits {
				t.Errorf("%d ideal hits, want %d", got, tt.hits)
			}
		})
	}
}

func TestSummarize(t *testing.T) {
	w := workOf(
		Request{At: 0, Prompt: 16, Blocks: chain(1, 4)},
		Request{At: 1, Prompt: 16, Blocks: chain(1, 4)},
		Request{At: 2, Prompt: 17, Blocks: chain(1, 4)},
		Request{At: 3, Prompt: 400, Blocks: chain(3, 100)},
	)
	got := DefaultMeasure().Summarize(w, &Result{Name: "x", Workers: 2, Outcomes: []Outcome{
		{TTFT: 3 * time.Second},
		{TTFT: 2*time.Second - 1, Cached: 8},
		{TTFT: 2 * time.Second, Cached: 8},
		{Err: errors.New("refused")},
	}})
	want := Summary{
		Name: "x", Requests: 4, Failed: 1, Hits: 4.0 / 113, OfIdeal: 4.0 / 7,
		P50: 2 * time.Second, P99: 3 * time.Second, Good: 0.25,
	}
	if diff := cmp.Diff(want, got, about); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestImbalance(t *testing.T) {
	m := Measure{Window: time.Second}
	engine := small(1).Engine // 1 ms a prompt token, 1 ms an output token
	tests := []struct {
		name     string
		requests []Request
		outcomes []Outcome
		want     float64
	}{
		{
			name:     "all alike",
			requests: []Request{{Prompt: 10}, {Prompt: 10}, {At: time.Second}},
			outcomes: []Outcome{{Worker: 0}, {Worker: 1}, {}},
		},
		{
			name:     "one has all",
			requests: []Request{{Prompt: 10}, {Prompt: 10}, {At: time.Second}},
			outcomes: []Outcome{{Worker: 1}, {Worker: 1}, {}},
			want:     1,
		},
		{
			name:     "cached tokens cost nothing, output tokens do",
			requests: []Request{{Prompt: 10, Output: 6}, {Prompt: 8}, {At: time.Second}},
			outcomes: []Outcome{{Worker: 0, Cached: 8}, {Worker: 1}, {}},
		},
		{
			name:     "windows count alike",
			requests: []Request{{Prompt: 10}, {Prompt: 30}, {At: time.Second, Prompt: 1}, {At: time.Second, Prompt: 1}, {At: 2 * time.Second}},
			outcomes: []Outcome{{Worker: 0}, {Worker: 1}, {Worker: 0}, {Worker: 1}, {}},
			want:     0.25, // (0.5 + 0) / 2
		},
		{
			name:     "neither the last window, nor failures, nor windows without anything",
			requests: []Request{{Prompt: 30}, {Prompt: 10}, {Prompt: 50}, {At: 3*time.Second + 1, Prompt: 99}},
			outcomes: []Outcome{{Worker: 0}, {Worker: 1}, {Worker: -1, Err: errors.New("nobody")}, {Worker: 0}},
			want:     0.5,
		},
		{name: "too short", requests: []Request{{Prompt: 30}}, outcomes: []Outcome{{Worker: 0}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := m.Imbalance(workOf(tt.requests...), &Result{Engine: engine, Workers: 2, Outcomes: tt.outcomes})
			if math.Abs(got-tt.want) > 1e-9 {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestPrint(t *testing.T) {
	row := func(name string, p99s ...time.Duration) Row {
		r := Row{Name: name}
		for _, p99 := range p99s {
			r.Runs = append(r.Runs, Summary{
				Name: name, Hits: 0.25, OfIdeal: 0.5, P50: time.Second, P99: p99, Good: 0.875, Imbalance: 0.125, Failed: 2,
			})
		}
		return r
	}
	greedy := row(greedyName, 2*time.Second, 2*time.Second, 4*time.Second)
	fast := row("fast", 3*time.Second, 4*time.Second, 4*time.Second)
	tests := []struct {
		name string
		rows []Row
		want string
	}{
		{"with the reference", []Row{greedy, fast}, `
               policy   hits  of ideal  TTFT p50, s               p99, s         of greedy  < 2s, %  imbalance  failed
  greedy, clairvoyant  0.250     0.500        1.000  2.000 (2.000–4.000)              1.00     87.5      0.125       6
                 fast  0.250     0.500        1.000  4.000 (3.000–4.000)  1.50 (1.00–2.00)     87.5      0.125       6
`},
		{"without it, one run", []Row{row("fast", 3*time.Second)}, `
  policy   hits  of ideal  TTFT p50, s  p99, s  of greedy  < 2s, %  imbalance  failed
    fast  0.250     0.500        1.000   3.000          -     87.5      0.125       2
`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var b strings.Builder
			if err := Print(&b, DefaultMeasure(), tt.rows); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.TrimPrefix(tt.want, "\n"), b.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
