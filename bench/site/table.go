package main

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"smg/stats"
	"smg/study"
)

// Goal Q6: what many processes may have at most of one's p99, and must have at least
// of its hits.
const (
	mostP99   = 1.10
	leastHits = 0.95
)

// table is what all runs gave.
type table struct {
	o       *options
	work    *work
	version string
	runs    map[string]*[sites][]*measurement // by policy; in the order of rounds
}

func (t *table) add(policy string, s site, m *measurement) {
	if t.runs == nil {
		t.runs = map[string]*[sites][]*measurement{}
	}
	if t.runs[policy] == nil {
		t.runs[policy] = new([sites][]*measurement)
	}
	t.runs[policy][s] = append(t.runs[policy][s], m)
}

// describe writes what all runs have in common.
func (t *table) describe(w io.Writer) {
	o, length := t.o, max(t.work.Length(), time.Millisecond)
	fmt.Fprintf(w, "%s, %s/%s, %s, %d CPUs shared by all, loopback, seed %d, %d round(s)\n",
		t.version, runtime.GOOS, runtime.GOARCH, runtime.Version(), runtime.NumCPU(), o.seed, o.rounds)
	n, body := len(t.work.Requests), 0
	for _, b := range t.work.bodies {
		body += len(b)
	}
	fmt.Fprintf(w, "%s: %d requests in %s at %g times its rate; a second takes %g s: %s, %.1f/s, prompts as %s, %d KB on average\n",
		t.work.Name, n, length.Round(time.Second), o.rate, o.scale, o.real(length).Round(time.Second), float64(n)/o.real(length).Seconds(), o.prompts, body/n>>10)
	fmt.Fprintf(w, "%d engines, asked for their loads every %v; all times below are the engines' own\n\n", o.engines, o.site().Poll)
}

// print writes the tables and what became of the goal. The error is that of answers
// that were missing or wrong.
func (t *table) print(w io.Writer, virtual []study.Block) error {
	measure, live := study.DefaultMeasure(), t.blocks()
	fmt.Fprintln(w, "Real processes")
	if err := study.PrintSites(w, measure, live); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nVirtual time, the same requests and engines")
	if err := study.PrintSites(w, measure, virtual); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nReal as a multiple of virtual")
	if err := t.printAgreement(w, live, virtual); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nThe runs: the generator's lateness and CPU time, real")
	if err := t.printRuns(w); err != nil {
		return err
	}
	t.printCommands(w)
	return t.conclude(w, live)
}

// blocks are the runs in the form of the study.
func (t *table) blocks() []study.Block {
	var all []study.Block
	for _, policy := range t.o.policies {
		b := study.Block{Name: policy}
		for s := range t.o.sites() {
			row := study.Row{Name: s.name(t.o)}
			for _, m := range t.runs[policy][s] {
				row.Runs = append(row.Runs, m.Summary)
			}
			b.Rows = append(b.Rows, row)
		}
		all = append(all, b)
	}
	return all
}

// series is one value of each run.
func series(r study.Row, of func(study.Summary) float64) []float64 {
	values := make([]float64, len(r.Runs))
	for i, s := range r.Runs {
		values[i] = of(s)
	}
	return values
}

func p50(s study.Summary) float64  { return s.P50.Seconds() }
func p99(s study.Summary) float64  { return s.P99.Seconds() }
func hits(s study.Summary) float64 { return s.Hits }

func (t *table) printAgreement(w io.Writer, live, virtual []study.Block) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(tw, "policy\tsite\thits\tTTFT p50\tp99\timbalance\t\n")
	for i, b := range live {
		for s, row := range b.Rows {
			of := func(value func(study.Summary) float64) string {
				base := stats.Of(series(virtual[i].Rows[s], value)).Median
				if base == 0 {
					return "-"
				}
				return fmt.Sprintf("%.2f", stats.Of(series(row, value)).Median/base)
			}
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t\n", b.Name, row.Name, of(hits), of(p50), of(p99),
				of(func(s study.Summary) float64 { return s.Imbalance }))
		}
	}
	return tw.Flush()
}

func (t *table) printRuns(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(tw, "policy\tsite\tround\tTTFT p50, ms\tp99, ms\tlate p50, ms\tp99, ms\tfailed\tdegraded\tCPUs busy, %\tengines, s\tNATS\tselectors\tingresses\tgenerator\t\n")
	for _, policy := range t.o.policies {
		for s := range t.o.sites() {
			for round, m := range t.runs[policy][s] {
				fmt.Fprintf(tw, "%s\t%s\t%d\t%.1f\t%.1f%s\t%.2f\t%.2f\t%d\t%d\t%.0f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t\n", policy, s.name(t.o), round+1,
					millis(stats.Quantile(m.ttft, 0.5)), millis(stats.Quantile(m.ttft, 0.99)), mark(m),
					millis(stats.Quantile(m.late, 0.5)), millis(stats.Quantile(m.late, 0.99)), m.Failed, m.degraded, 100*m.busy(),
					m.cpu[engines].Seconds(), m.cpu[natsServer].Seconds(), m.cpu[selectors].Seconds(), m.cpu[ingresses].Seconds(), m.own.Seconds())
			}
		}
	}
	return tw.Flush()
}

// mark is what is said of a run whose times, or whose p99, are not to be believed.
func mark(m *measurement) string {
	switch {
	case m.void(0.5):
		return " VOID"
	case m.void(0.99):
		return "~"
	}
	return ""
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func (t *table) printCommands(w io.Writer) {
	for s := range t.o.sites() {
		fmt.Fprintf(w, "\n%s\n", s.name(t.o))
		for _, c := range t.runs[t.o.policies[0]][s][0].commands {
			fmt.Fprintln(w, "  "+c)
		}
	}
}

// conclude says what became of the goal, policy by policy.
func (t *table) conclude(w io.Writer, live []study.Block) error {
	fmt.Fprintln(w)
	var faults []string
	for _, b := range live {
		slow := stats.Of(stats.Ratios(series(b.Rows[many], p99), series(b.Rows[one], p99)))
		hit := stats.Of(stats.Ratios(series(b.Rows[many], hits), series(b.Rows[one], hits)))
		verdict := "met"
		if slow.Median > mostP99 || hit.N > 0 && hit.Median < leastHits {
			verdict = "missed"
		}
		for s, runs := range t.runs[b.Name] {
			if site(s) != private && slices.ContainsFunc(runs, func(m *measurement) bool { return m.void(0.5) }) {
				verdict = "void: the generator was late by more than a fifth of a p50"
			}
			for _, m := range runs {
				if m.Failed > 0 {
					faults = append(faults, fmt.Sprintf("%s: %d of %d requests failed, the first with: %v", b.Name, m.Failed, m.Requests, m.firstFault))
				}
			}
		}
		fmt.Fprintf(w, "Q6, %s: p99 %s of one process (at most %.2f), hits %s (at least %.2f): %s\n",
			b.Name, slow.Format(2), mostP99, hit.Format(2), leastHits, verdict)
	}
	if len(faults) > 0 {
		return fmt.Errorf("answers were missing or wrong: %s", strings.Join(faults, "; "))
	}
	return nil
}
