package main

import (
	"strings"
	"testing"

	"smg/stats"
)

func TestVerdict(t *testing.T) {
	for _, tt := range []struct {
		name   string
		values []float64
		want   string
	}{
		{name: "none", want: "not measured"},
		{name: "met", values: []float64{1.9, 2.0, 2.1}, want: "2.00 (1.90–2.10) F, met: at most 2.2 F in every round"},
		{name: "met_by_the_median", values: []float64{1.9, 2.0, 2.4}, want: "2.00 (1.90–2.40) F, met by the median, but some rounds are above 2.2 F"},
		{name: "missed", values: []float64{2.1, 2.5, 2.6}, want: "2.50 (2.10–2.60) F, missed by 0.30 F (at most 2.2 F)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := verdict(stats.Of(tt.values), 2.2, 1, "F"); got != tt.want {
				t.Errorf("verdict %q, want %q", got, tt.want)
			}
		})
	}
}

func TestConclude(t *testing.T) {
	for _, tt := range []struct {
		name string
		o    *outcome
		want []string
		err  string
	}{
		{name: "met", o: made(2, 2, 2, 2, 2), want: []string{"G1, gateway, made at 100/s: 2.00 (2.00–2.00) F, met", "against a published smg: not run"}},
		{name: "beyond_the_limit", o: made(4, 3, 4, 4, 4), want: []string{"missed by 1.80 F (at most 2.2 F) and above the limit of 3.0 F"}, err: errGoal.Error()},
		{name: "wrong_answers", o: wrong(made(2, 2, 2, 2, 2)), err: "2 requests did not get the answer"},
		{name: "two_builds", o: with(base, made(2, 2, 2, 2, 2)), want: []string{"made, gateway against base: 1.00 (1.00–1.00)"}},
		{name: "no_goal", o: aimless(made(2, 2, 2, 2, 2)), want: []string{"    made: 2.00 (2.00–2.00) F"}},
		{name: "pair", o: madePair(3, 7), want: []string{
			"G9, single topology, made at 100/s: 3.00 (3.00–3.00) F, met: at most 4.0 F in every round",
			"G10, split topology, made at 100/s: 7.00 (7.00–7.00) F, missed by 1.00 F (at most 6.0 F)",
			"G10, split topology, made at 100/s, added p50: 300.0 (300.0–300.0) µs, met: at most 700 µs in every round",
		}},
		{name: "pair_far_off", o: madePair(90, 90), want: []string{"missed by 86.00 F", "missed by 84.00 F"}},
		{name: "pair_late", o: late(madePair(3, 3)), want: []string{"added p50: not measured, as the generator was late"}},
		{name: "no_split", o: without(split, madePair(3, 3)), want: []string{"G10, split topology, made at 100/s: not run"}},
		{name: "pair_two_builds", o: with(base, madePair(3, 3)), want: []string{"made, single topology against base: 1.00"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b strings.Builder
			err := conclude(&b, []*outcome{tt.o})
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
			for _, part := range tt.want {
				if !strings.Contains(b.String(), part) {
					t.Errorf("the conclusion lacks %q:\n%s", part, b.String())
				}
			}
		})
	}
}
