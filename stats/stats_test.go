package stats_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"smg/stats"
)

func TestQuantile(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(i + 1)
	}
	for _, tt := range []struct {
		name   string
		sorted []time.Duration
		q      float64
		want   time.Duration
	}{
		{name: "none", q: 0.5, want: 0},
		{name: "one", sorted: []time.Duration{7}, q: 0.99, want: 7},
		{name: "median_of_two_is_the_lower", sorted: []time.Duration{1, 2}, q: 0.5, want: 1},
		{name: "p50", sorted: hundred, q: 0.5, want: 50},
		{name: "p99", sorted: hundred, q: 0.99, want: 99},
		{name: "all", sorted: hundred, q: 1, want: 100},
		{name: "below_range", sorted: hundred, q: -1, want: 1},
		{name: "above_range", sorted: hundred, q: 2, want: 100},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := stats.Quantile(tt.sorted, tt.q); got != tt.want {
				t.Errorf("Quantile(%v) = %v, want %v", tt.q, got, tt.want)
			}
		})
	}
}

func TestOf(t *testing.T) {
	for _, tt := range []struct {
		name   string
		values []float64
		want   stats.Spread
		text   string
	}{
		{name: "none", text: "-"},
		{name: "one", values: []float64{2}, want: stats.Spread{Min: 2, Median: 2, Max: 2, N: 1}, text: "2.0 (2.0–2.0)"},
		{name: "odd", values: []float64{3, 1, 2}, want: stats.Spread{Min: 1, Median: 2, Max: 3, N: 3}, text: "2.0 (1.0–3.0)"},
		{name: "even", values: []float64{4, 1, 3, 2}, want: stats.Spread{Min: 1, Median: 2.5, Max: 4, N: 4}, text: "2.5 (1.0–4.0)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := append([]float64(nil), tt.values...)
			got := stats.Of(tt.values)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Of (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tt.values); diff != "" {
				t.Errorf("the values moved (-before +after):\n%s", diff)
			}
			if text := got.Format(1); text != tt.text {
				t.Errorf("Format = %q, want %q", text, tt.text)
			}
		})
	}
}

func TestExcludes(t *testing.T) {
	s := stats.Of([]float64{1.5, 2, 2.5})
	for _, tt := range []struct {
		name string
		s    stats.Spread
		x    float64
		want bool
	}{
		{name: "all_above", s: s, x: 1, want: true},
		{name: "all_below", s: s, x: 3, want: true},
		{name: "inside", s: s, x: 2.2, want: false},
		{name: "on_the_edge", s: s, x: 2.5, want: false},
		{name: "of_nothing", x: 1, want: false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.s.Excludes(tt.x); got != tt.want {
				t.Errorf("Excludes(%v) = %v, want %v", tt.x, got, tt.want)
			}
		})
	}
}

func TestPairs(t *testing.T) {
	values, base := []float64{2, 9, 8, 5}, []float64{1, 3, 0}
	if diff := cmp.Diff([]float64{2, 3}, stats.Ratios(values, base)); diff != "" {
		t.Errorf("Ratios (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]float64{1, 6, 8}, stats.Differences(values, base)); diff != "" {
		t.Errorf("Differences (-want +got):\n%s", diff)
	}
}
