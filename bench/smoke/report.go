package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strconv"
	"text/tabwriter"

	"smg/bench/load"
	"smg/bench/stats"
)

// compare measures all scenarios and prints what came of them.
func compare(ctx context.Context, o *options, w io.Writer) error {
	v, err := versions(ctx, o)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%s in front of one engine, %s/%s, %s, %d CPUs shared by all, loopback, seed %d\n",
		v[gateway], runtime.GOOS, runtime.GOARCH, runtime.Version(), runtime.NumCPU(), o.seed)
	fmt.Fprintf(w, "1 F = CPU time that the relay spends on a request in the same round. Values are medians of rounds (least–most).\n")
	rng := rand.New(rand.NewPCG(o.seed, 1))
	var outcomes []*outcome
	for _, sc := range scenarios(o) {
		out, err := measure(ctx, o, sc, rng)
		if err != nil {
			return fmt.Errorf("%s: %w", sc.name, err)
		}
		if err := out.print(w, v); err != nil {
			return err
		}
		outcomes = append(outcomes, out)
	}
	return conclude(w, outcomes)
}

// series is one value of each round.
func (o *outcome) series(of func(round) float64) []float64 {
	values := make([]float64, len(o.rounds))
	for i := range o.rounds {
		values[i] = of(o.rounds[i])
	}
	return values
}

func (o *outcome) latencies(which int, q float64) []float64 {
	return o.series(func(r round) float64 { return r[which].quantile(q) })
}

func (o *outcome) added(which int, q float64) stats.Spread {
	return stats.Of(stats.Differences(o.latencies(which, q), o.latencies(direct, q)))
}

func (o *outcome) costs(which int) []float64 {
	return o.series(func(r round) float64 { return r[which].perRequest() })
}

// inF is the cost of a subject in F.
func (o *outcome) inF(which int) stats.Spread {
	return stats.Of(stats.Ratios(o.costs(which), o.costs(relayed)))
}

// tally counts what a subject was sent and what failed, void rounds included.
func (o *outcome) tally(which int) (sent, failed int, faults string) {
	all := load.Result{Failed: make(map[error]int)}
	for _, rounds := range [][]round{o.rounds, o.void} {
		for i := range rounds {
			r := &rounds[i][which]
			sent += r.Sent
			for kind, n := range r.Failed {
				all.Failed[kind] += n
			}
		}
	}
	return sent, all.Errors(), all.Faults()
}

// print writes a line for each subject.
func (o *outcome) print(w io.Writer, v [mostSubjects]string) error {
	rate, load := "most", "closed loop, as fast as answers come"
	if o.rate > 0 {
		rate = strconv.FormatFloat(o.rate, 'g', -1, 64)
		load = "open loop, Poisson arrivals"
	}
	fmt.Fprintf(w, "\n%s: %s, %s a round\n", o.name, load, o.length)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "subject\tCPU µs/request\tF\tadded p50 µs\tadded p99 µs\tp50 µs\tp99 µs\tanswers/s\trequests\terrors\toffered/s\tconnections\tbody B\tanswer B\tworkers\tpolicy\trounds\tversion")
	for which := range o.n {
		sent, failed, _ := o.tally(which)
		f, p50, p99, policy := "-", "-", "-", "-"
		if which != direct {
			f, p50, p99 = o.inF(which).Format(2), o.added(which, 0.5).Format(0), o.added(which, 0.99).Format(0)
			if o.late(0.99) {
				p99 = "~" + p99
			}
		}
		if which >= gateway {
			policy = "passthrough"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%.0f\t%.0f\t%.0f\t%d\t%d\t%s\t%d\t%d\t%d\t1\t%s\t%d\t%s\n",
			name(which), stats.Of(o.costs(which)).Format(1), f, p50, p99,
			stats.Of(o.latencies(which, 0.5)).Median, stats.Of(o.latencies(which, 0.99)).Median,
			stats.Of(o.series(func(r round) float64 { return r[which].PerSecond() })).Median,
			sent, failed, rate, o.connections, len(o.body), o.answer, policy, len(o.rounds), v[which])
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	o.remark(w)
	return nil
}

// late says whether the generator was too late for the latencies at q in most of
// the measurements.
func (o *outcome) late(q float64) bool {
	void := 0
	for i := range o.rounds {
		for which := range o.n {
			if o.rounds[i][which].Void(q) {
				void++
			}
		}
	}
	return void > len(o.rounds)*o.n/2
}

// remark says what a reader of the lines has to know.
func (o *outcome) remark(w io.Writer) {
	var own, late50, late99 float64 // the share of a CPU, and the worst lateness in µs
	for i := range o.rounds {
		for which := range o.n {
			r := &o.rounds[i][which].Result
			own += r.Own.Seconds() / r.Elapsed.Seconds() / float64(len(o.rounds)*o.n)
			late50 = max(late50, micros(stats.Quantile(r.Late, 0.5)))
			late99 = max(late99, micros(stats.Quantile(r.Late, 0.99)))
		}
	}
	fmt.Fprintf(w, "generator: %.0f %% of a CPU", 100*own)
	if o.rate > 0 {
		fmt.Fprintf(w, "; late by %.0f µs at p50 and %.0f µs at p99 in its worst measurements", late50, late99)
	}
	fmt.Fprintln(w)
	if n := len(o.void); n > 0 {
		fmt.Fprintf(w, "void: the generator was late by more than a fifth of a p50 in %d rounds; they were measured anew\n", n)
	}
	kept := 0
	for i := range o.rounds {
		if o.rounds[i].void() {
			kept++
		}
	}
	if kept > 0 {
		fmt.Fprintf(w, "VOID: the generator was late by more than a fifth of a p50 in %d of the rounds shown; the latencies mean nothing\n", kept)
	}
	if o.rate > 0 && o.late(0.99) {
		fmt.Fprintln(w, "~ the generator was late by more than a fifth of the p99 in most measurements; that column means nothing")
	}
	for which := range o.n {
		if _, _, faults := o.tally(which); faults != "" {
			fmt.Fprintf(w, "errors of %s: %s\n", name(which), faults)
		}
	}
}

// The goal G1: at most so many F, and what ends the run in failure.
const (
	goal  = 2.2
	limit = 3.0
)

var errGoal = errors.New("the gateway needs more than three times the relay's CPU time for a request")

// conclude says what became of G1.
func conclude(w io.Writer, outcomes []*outcome) error {
	var errs []error
	fmt.Fprintln(w)
	for _, o := range outcomes {
		f := o.inF(gateway)
		if o.goal {
			fmt.Fprintf(w, "G1, %s at %g/s: %s\n", o.name, o.rate, verdict(f))
			if f.Median > limit {
				errs = append(errs, errGoal)
			}
		} else {
			fmt.Fprintf(w, "    %s: %s F\n", o.name, f.Format(2))
		}
		if o.n > base {
			ratio := stats.Of(stats.Ratios(o.costs(gateway), o.costs(base)))
			fmt.Fprintf(w, "    %s, gateway against base: %s\n", o.name, ratio.Format(2))
		}
		failed := 0
		for which := range o.n {
			_, n, _ := o.tally(which)
			failed += n
		}
		if failed > 0 {
			errs = append(errs, fmt.Errorf("%s: %d requests did not get the answer that the engine gives", o.name, failed))
		}
	}
	fmt.Fprintln(w, "G1 against a published smg: not run")
	return errors.Join(errs...)
}

// verdict words how a cost in F stands to the goal.
func verdict(f stats.Spread) string {
	switch {
	case f.N == 0:
		return "not measured"
	case f.Median <= goal && f.Excludes(goal):
		return fmt.Sprintf("%s F, met: at most %.1f F in every round", f.Format(2), goal)
	case f.Median <= goal:
		return fmt.Sprintf("%s F, met by the median, but some rounds are above %.1f F", f.Format(2), goal)
	case f.Median <= limit:
		return fmt.Sprintf("%s F, missed by %.2f F (at most %.1f F)", f.Format(2), f.Median-goal, goal)
	}
	return fmt.Sprintf("%s F, missed by %.2f F (at most %.1f F) and above the limit of %.1f F", f.Format(2), f.Median-goal, goal, limit)
}
