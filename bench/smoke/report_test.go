package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"smg/bench/load"
)

// outcomeOf is an outcome of five rounds or as many as costs has for a subject:
// how many times the relay's CPU time it takes.
func outcomeOf(sc scenario, costs map[kind][]time.Duration) *outcome {
	sc.name, sc.rate, sc.connections, sc.body, sc.length = "made", 100, 2, "{}", time.Second
	o := &outcome{scenario: sc, answer: 7}
	for i := range 5 {
		var r round
		for at, which := range sc.subjects {
			cost := time.Duration(1)
			if c := costs[which]; len(c) > 0 {
				cost = c[i%len(c)]
			}
			r[which] = sample{
				Result: load.Result{
					Sent: 10, Answered: 10, Elapsed: time.Second, Own: 10 * time.Millisecond,
					Latency: []time.Duration{time.Duration(100*(at+1)) * time.Microsecond},
					Late:    []time.Duration{time.Microsecond},
				},
				cpu: 100 * time.Microsecond * cost,
			}
		}
		o.rounds = append(o.rounds, r)
	}
	return o
}

// made has a gateway that takes so many times the relay's CPU time.
func made(costs ...time.Duration) *outcome {
	return outcomeOf(scenario{policy: "passthrough", subjects: forRegular(&options{}), goals: []goal{g1}}, map[kind][]time.Duration{gateway: costs})
}

// madePair has the topologies.
func madePair(ofSingle, ofSplit time.Duration) *outcome {
	return outcomeOf(scenario{policy: "p", subjects: forPair(&options{}), goals: []goal{g9, g10}}, map[kind][]time.Duration{single: {ofSingle}, split: {ofSplit}})
}

func late(o *outcome) *outcome {
	for i := range o.rounds {
		for _, which := range o.subjects {
			o.rounds[i][which].Late = []time.Duration{time.Second}
		}
	}
	return o
}

func wrong(o *outcome) *outcome {
	o.rounds[3][gateway].Failed = map[error]int{load.ErrBody: 2}
	return o
}

func discarded(o *outcome) *outcome {
	o.void, o.rounds = o.rounds[:1], o.rounds[1:]
	return o
}

func aimless(o *outcome) *outcome {
	o.goals = nil
	return o
}

// with adds a subject that does as the one before the last.
func with(which kind, o *outcome) *outcome {
	like := gateway
	if o.ran(single) {
		like = single
	}
	o.subjects = append(o.subjects, which)
	for i := range o.rounds {
		o.rounds[i][which] = o.rounds[i][like]
	}
	return o
}

func without(which kind, o *outcome) *outcome {
	o.subjects = slices.DeleteFunc(o.subjects, func(k kind) bool { return k == which })
	o.notRun = map[kind]string{which: "unknown flag --topology"}
	return o
}

func degraded(o *outcome) *outcome {
	o.rounds[2][split].Marked = 3
	return o
}

func TestReport(t *testing.T) {
	for _, tt := range []struct {
		name string
		o    *outcome
		want []string
		not  string
	}{
		{name: "regular", o: made(2), want: []string{
			"gateway  20.0 (20.0–20.0)  2.00 (2.00–2.00)  200 (200–200)", "  50        0       100", "generator: 1 % of a CPU", "passthrough  5       v1",
		}, not: "DEGRADED"},
		{name: "late_generator", o: late(made(2)), want: []string{"VOID: the generator was late by more than a fifth of a p50 in 5 of the rounds shown"}},
		{name: "repeated_round", o: discarded(made(2)), want: []string{"void: the generator was late by more than a fifth of a p50 in 1 rounds; they were measured anew"}},
		{name: "wrong_answers", o: wrong(made(2)), want: []string{"errors of gateway: 2 × another body than wanted"}},
		{name: "two_builds", o: with(base, made(2)), want: []string{"base "}},
		{name: "pair", o: madePair(3, 5), want: []string{
			"direct pair      10.0", "1+1      -", "relay            10.0", "1        -", "single topology  30.0 (30.0–30.0)  3.00 (3.00–3.00)", "split topology   50.0 (50.0–50.0)  5.00 (5.00–5.00)", "1+1      p",
		}, not: "not run"},
		{name: "no_split", o: without(split, madePair(3, 5)), want: []string{"split topology: not run, as the program does not know it: unknown flag --topology"}},
		{name: "degraded", o: degraded(madePair(3, 5)), want: []string{"DEGRADED: split topology chose for 3 of 50 requests without a selector"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b strings.Builder
			if err := tt.o.print(&b, [kinds]string{gateway: "v1"}); err != nil {
				t.Fatal(err)
			}
			for _, part := range tt.want {
				if !strings.Contains(b.String(), part) {
					t.Errorf("the report lacks %q:\n%s", part, b.String())
				}
			}
			if tt.not != "" && strings.Contains(b.String(), tt.not) {
				t.Errorf("the report has %q:\n%s", tt.not, b.String())
			}
		})
	}
}
