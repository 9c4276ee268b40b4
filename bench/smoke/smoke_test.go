package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"smg/bench/load"
	"smg/bench/stats"
)

func TestParse(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		args []string
		want string // in the error; "" for none
	}{
		{name: "defaults"},
		{name: "another_build", args: []string{"-base", program}},
		{name: "no_program", args: []string{"-smg", "/nowhere/smg"}, want: "make build"},
		{name: "no_base", args: []string{"-base", "/nowhere/smg"}, want: "/nowhere/smg"},
		{name: "too_few_rounds", args: []string{"-rounds", "4"}, want: "5 are the least"},
		{name: "no_length", args: []string{"-length", "0s"}, want: "-length"},
		{name: "no_rate", args: []string{"-rate", "0"}, want: "rates"},
		{name: "not_a_flag", args: []string{"fast"}, want: `"fast"`},
		{name: "unknown_flag", args: []string{"-fast"}, want: "fast"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parse(append([]string{"-smg", program, "-sim", program}, tt.args...), io.Discard)
			if (err == nil) != (tt.want == "") {
				t.Fatalf("parse: %v, want %q", err, tt.want)
			}
			if err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("the error %q lacks %q", err, tt.want)
			}
		})
	}
}

func TestScenarios(t *testing.T) {
	all := scenarios(&options{rate: 1, rateLarge: 1, rateSSE: 1, length: time.Second})
	if len(all) != 4 {
		t.Fatalf("%d scenarios, want 4", len(all))
	}
	goals := 0
	for _, s := range all {
		var body struct {
			Messages []struct{ Content string }
			Stream   bool
		}
		if err := json.Unmarshal([]byte(s.body), &body); err != nil {
			t.Errorf("%s: the body is no JSON: %v", s.name, err)
		}
		if s.goal {
			goals++
		}
		if s.tokens == smallAnswer && s.connections == 64 && len(s.body) != smallBody {
			t.Errorf("%s: a body of %d bytes, want %d", s.name, len(s.body), smallBody)
		}
	}
	if goals != 1 {
		t.Errorf("%d scenarios are about G1, want one", goals)
	}
	if got := scenarios(&options{only: "SSE"}); len(got) != 1 || !strings.Contains(got[0].body, `"stream":true`) {
		t.Errorf("-only SSE chose %d scenarios", len(got))
	}
}

func TestVerdict(t *testing.T) {
	for _, tt := range []struct {
		name   string
		values []float64
		want   string
	}{
		{name: "none", want: "not measured"},
		{name: "met", values: []float64{1.9, 2.0, 2.1}, want: "2.00 (1.90–2.10) F, met: at most 2.2 F in every round"},
		{name: "met_by_the_median", values: []float64{1.9, 2.0, 2.4}, want: "met by the median, but some rounds are above 2.2 F"},
		{name: "missed", values: []float64{2.1, 2.5, 2.6}, want: "missed by 0.30 F"},
		{name: "beyond_the_limit", values: []float64{2.9, 3.1, 3.2}, want: "missed by 0.90 F (at most 2.2 F) and above the limit of 3.0 F"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := verdict(stats.Of(tt.values)); !strings.Contains(got, tt.want) {
				t.Errorf("verdict %q lacks %q", got, tt.want)
			}
		})
	}
}

// made is an outcome in which the gateway takes so many times the relay's CPU time.
func made(gatewayCosts ...time.Duration) *outcome {
	o := &outcome{scenario: scenario{name: "made", rate: 100, connections: 2, body: "{}", length: time.Second, goal: true}, n: base, answer: 7}
	for _, cost := range gatewayCosts {
		r := make(round, base)
		for which := range r {
			r[which] = sample{
				Result: load.Result{
					Sent: 10, Answered: 10, Elapsed: time.Second, Own: 10 * time.Millisecond,
					Latency: []time.Duration{time.Duration(100*(which+1)) * time.Microsecond},
					Late:    []time.Duration{time.Microsecond},
				},
				cpu: 100 * time.Microsecond,
			}
		}
		r[gateway].cpu *= cost
		o.rounds = append(o.rounds, r)
	}
	return o
}

func TestReport(t *testing.T) {
	late := made(2, 2, 2, 2, 2)
	for i := range late.rounds {
		late.rounds[i][relayed].Late[0] = time.Second
	}
	wrong := made(2, 2, 2, 2, 2)
	wrong.rounds[3][gateway].Failed = map[error]int{load.ErrBody: 2}
	discarded := made(2, 2, 2, 2, 2)
	discarded.void, discarded.rounds = discarded.rounds[:1], discarded.rounds[1:]
	compared := made(2, 2, 2, 2, 2)
	compared.n = mostSubjects
	for i, r := range compared.rounds {
		compared.rounds[i] = append(r, r[gateway])
	}
	for _, tt := range []struct {
		name string
		o    *outcome
		want []string
		err  string
	}{
		{name: "met", o: made(2, 2, 2, 2, 2), want: []string{
			"gateway  20.0 (20.0–20.0)  2.00 (2.00–2.00)  200 (200–200)", "  50        0       100", "G1, made at 100/s: 2.00 (2.00–2.00) F, met", "generator: 1 % of a CPU", "not run",
		}},
		{name: "beyond_the_limit", o: made(4, 3, 4, 4, 4), want: []string{"missed by 1.80 F"}, err: errGoal.Error()},
		{name: "late_generator", o: late, want: []string{"VOID: the generator was late by more than a fifth of a p50 in 5 of the rounds shown"}},
		{name: "repeated_round", o: discarded, want: []string{"void: the generator was late by more than a fifth of a p50 in 1 rounds; they were measured anew"}},
		{name: "wrong_answers", o: wrong, want: []string{"errors of gateway: 2 × another body than wanted"}, err: "2 requests did not get the answer"},
		{name: "two_builds", o: compared, want: []string{"base ", "made, gateway against base: 1.00 (1.00–1.00)"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b strings.Builder
			if err := tt.o.print(&b, [mostSubjects]string{gateway: "v1"}); err != nil {
				t.Fatal(err)
			}
			err := conclude(&b, []*outcome{tt.o})
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
			for _, part := range tt.want {
				if !strings.Contains(b.String(), part) {
					t.Errorf("the report lacks %q:\n%s", part, b.String())
				}
			}
		})
	}
	if err := conclude(io.Discard, []*outcome{made(4)}); !errors.Is(err, errGoal) {
		t.Errorf("error %v, want errGoal", err)
	}
}
