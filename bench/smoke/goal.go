package main

import (
	"errors"
	"fmt"
	"io"

	"smg/stats"
)

// goal is what a subject should keep to.
type goal struct {
	name  string
	of    kind
	most  float64 // F
	added float64 // µs of added p50; 0 if the goal says nothing about that
	limit float64 // F that end the run in failure; 0 if none do
}

// The goals that are looked at, and what more than that ends the run in failure.
var (
	g1  = goal{name: "G1", of: gateway, most: 2.2, limit: 3}
	g9  = goal{name: "G9", of: single, most: 4}
	g10 = goal{name: "G10", of: split, most: 6, added: 700}
)

var errGoal = errors.New("the gateway needs more than three times the relay's CPU time for a request")

// conclude says what became of the goals.
func conclude(w io.Writer, outcomes []*outcome) error {
	var errs []error
	fmt.Fprintln(w)
	for _, o := range outcomes {
		for _, g := range o.goals {
			if err := o.judge(w, g); err != nil {
				errs = append(errs, err)
			}
		}
		if len(o.goals) == 0 {
			fmt.Fprintf(w, "    %s: %s F\n", o.name, o.inF(gateway).Format(2))
		}
		if reference := o.compared(); reference != base {
			ratio := stats.Of(stats.Ratios(o.costs(reference), o.costs(base)))
			fmt.Fprintf(w, "    %s, %s against base: %s\n", o.name, reference, ratio.Format(2))
		}
		failed := 0
		for _, k := range o.subjects {
			_, n, _ := o.tally(k)
			failed += n
		}
		if failed > 0 {
			errs = append(errs, fmt.Errorf("%s: %d requests did not get the answer that the engine gives", o.name, failed))
		}
	}
	fmt.Fprintln(w, "G1, G9 and G10 against a published smg: not run")
	return errors.Join(errs...)
}

// judge says what became of one goal.
func (o *outcome) judge(w io.Writer, g goal) error {
	load := fmt.Sprintf("%s, %s, %s at %g/s", g.name, g.of, o.name, o.rate)
	if !o.ran(g.of) {
		fmt.Fprintf(w, "%s: not run\n", load)
		return nil
	}
	f := o.inF(g.of)
	beyond := g.limit > 0 && f.Median > g.limit
	text := verdict(f, g.most, 1, "F")
	if beyond {
		text += fmt.Sprintf(" and above the limit of %.1f F", g.limit)
	}
	fmt.Fprintf(w, "%s: %s\n", load, text)
	if g.added > 0 {
		text := "not measured, as the generator was late"
		if !o.late(0.5) {
			text = verdict(o.added(g.of, 0.5), g.added, 0, "µs")
		}
		fmt.Fprintf(w, "%s, added p50: %s\n", load, text)
	}
	if beyond {
		return errGoal
	}
	return nil
}

// compared is the subject that base is another build of, or base if there is none.
func (o *outcome) compared() kind {
	switch {
	case !o.ran(base):
		return base
	case o.ran(single):
		return single
	}
	return gateway
}

// verdict words how what was measured stands to what it should be at most.
func verdict(s stats.Spread, most float64, digits int, unit string) string {
	switch said := s.Format(digits + 1); {
	case s.N == 0:
		return "not measured"
	case s.Median <= most && s.Excludes(most):
		return fmt.Sprintf("%s %s, met: at most %.*f %s in every round", said, unit, digits, most, unit)
	case s.Median <= most:
		return fmt.Sprintf("%s %s, met by the median, but some rounds are above %.*f %s", said, unit, digits, most, unit)
	default:
		return fmt.Sprintf("%s %s, missed by %.*f %s (at most %.*f %s)", said, unit, digits+1, s.Median-most, unit, digits, most, unit)
	}
}
