package study

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"smg/stats"
)

// Site is a configuration under a name: one way to run the same engines.
type Site struct {
	Name string
	Config
}

// Block is one contender on several sites, the first of which the others are
// compared with. All rows have the same seeds in the same order.
type Block struct {
	Name string
	Rows []Row // by site
}

// CompareSites runs the contenders on each site in place of the trial's own and
// returns a block for each contender.
func (t *Trial) CompareSites(ctx context.Context, sites []Site, contenders []Contender) ([]Block, error) {
	blocks := make([]Block, len(contenders))
	for i, c := range contenders {
		blocks[i].Name = c.Name
	}
	for _, s := range sites {
		trial := *t
		trial.Site = s.Config
		rows, err := trial.Compare(ctx, contenders)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
		for i, row := range rows {
			row.Name = s.Name
			blocks[i].Rows = append(blocks[i].Rows, row)
		}
	}
	return blocks, nil
}

// DescribeSites writes what all blocks have in common, and how each site is run.
func (t *Trial) DescribeSites(w io.Writer, rate string, sites []Site) {
	t.describeWork(w, rate)
	fmt.Fprintln(w, t.rounds())
	for _, s := range sites {
		fmt.Fprintf(w, "%s: ingresses %d, selectors %d; asks and answers take %v each, the bus %v to %v, and loses %g %%\n",
			s.Name, s.Ingresses, s.Selectors, s.Select, s.Bus, s.Bus+s.Jitter, 100*s.Lost)
	}
	fmt.Fprintln(w)
}

// PrintSites writes a line for each contender and site: medians of the runs, and p99
// and hits as multiples of those of the first site in the same run, with the least
// and the most of them.
func PrintSites(w io.Writer, m Measure, blocks []Block) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "policy\tsite\thits\tof one\tTTFT p50, s\tp99, s\tof one\t< %v, %%\timbalance\tfailed\t\n", m.Goal)
	for _, b := range blocks {
		for i := range b.Rows {
			r := &b.Rows[i]
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t\n", b.Name, r.Name,
				r.median(3, hits), r.of(&b.Rows[0], hits),
				r.median(3, func(s *Summary) float64 { return s.P50.Seconds() }),
				r.median(3, p99), r.of(&b.Rows[0], p99),
				r.median(1, func(s *Summary) float64 { return 100 * s.Good }),
				r.median(3, func(s *Summary) float64 { return s.Imbalance }),
				r.failed())
		}
	}
	return t.Flush()
}

func hits(s *Summary) float64 { return s.Hits }

// of is a value as a multiple of that of another row, run by run; "" for the row
// itself.
func (r *Row) of(first *Row, value func(*Summary) float64) string {
	if r == first {
		return ""
	}
	return spread(stats.Of(stats.Ratios(r.series(value), first.series(value))), 2)
}
