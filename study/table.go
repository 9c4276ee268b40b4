package study

import (
	"fmt"
	"io"
	"text/tabwriter"

	"smg/stats"
)

// Row is a line of the table: one contender in several runs that differ in their
// seeds. All rows of a table have the same seeds in the same order.
type Row struct {
	Name string
	Runs []Summary
}

// Print writes one line for each row: medians of the runs, and around p99 the least
// and the most. The column "of greedy" is p99 over that of the greedy reference in
// the same run, and empty if no row has its name.
func Print(w io.Writer, m Measure, rows []Row) error {
	var greedy []float64
	for _, r := range rows {
		if r.Name == greedyName {
			greedy = r.series(p99)
		}
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "policy\thits\tof ideal\tTTFT p50, s\tp99, s\tof greedy\t< %v, %%\timbalance\tfailed\t\n", m.Goal)
	for _, r := range rows {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t\n", r.Name,
			r.median(3, func(s *Summary) float64 { return s.Hits }),
			r.median(3, func(s *Summary) float64 { return s.OfIdeal }),
			r.median(3, func(s *Summary) float64 { return s.P50.Seconds() }),
			spread(stats.Of(r.series(p99)), 3),
			spread(stats.Of(stats.Ratios(r.series(p99), greedy)), 2),
			r.median(1, func(s *Summary) float64 { return 100 * s.Good }),
			r.median(3, func(s *Summary) float64 { return s.Imbalance }),
			r.failed())
	}
	return t.Flush()
}

func p99(s *Summary) float64 { return s.P99.Seconds() }

// series is one value of each run.
func (r *Row) series(of func(*Summary) float64) []float64 {
	values := make([]float64, len(r.Runs))
	for i := range r.Runs {
		values[i] = of(&r.Runs[i])
	}
	return values
}

func (r *Row) median(digits int, of func(*Summary) float64) string {
	return fmt.Sprintf("%.*f", digits, stats.Of(r.series(of)).Median)
}

// failed counts over all runs.
func (r *Row) failed() int {
	n := 0
	for _, s := range r.Runs {
		n += s.Failed
	}
	return n
}

// spread leaves out extremes that are no different.
func spread(s stats.Spread, digits int) string {
	if s.N > 0 && s.Min == s.Max {
		return fmt.Sprintf("%.*f", digits, s.Median)
	}
	return s.Format(digits)
}
