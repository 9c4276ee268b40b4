package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"text/tabwriter"

	"smg/bench/load"
	"smg/stats"
)

// compare measures all scenarios and prints what came of them.
func compare(ctx context.Context, o *options, w io.Writer) error {
	v, err := versions(ctx, o)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%s, %s/%s, %s, %d CPUs shared by all, loopback, seed %d\n",
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

func (o *outcome) latencies(which kind, q float64) []float64 {
	return o.series(func(r round) float64 { return r[which].quantile(q) })
}

// added is what a subject adds to the latency of the engines alone.
func (o *outcome) added(which kind, q float64) stats.Spread {
	return stats.Of(stats.Differences(o.latencies(which, q), o.latencies(o.subjects[0], q)))
}

func (o *outcome) costs(which kind) []float64 {
	return o.series(func(r round) float64 { return r[which].perRequest() })
}

// inF is the cost of a subject in F.
func (o *outcome) inF(which kind) stats.Spread {
	return stats.Of(stats.Ratios(o.costs(which), o.costs(relayed)))
}

// tally counts what a subject was sent and what failed, void rounds included.
func (o *outcome) tally(which kind) (sent, failed int, faults string) {
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

// degraded counts the answers in the rounds shown for which an engine was chosen
// without a selector.
func (o *outcome) degraded(which kind) (answered, marked int) {
	for i := range o.rounds {
		answered += o.rounds[i][which].Answered
		marked += o.rounds[i][which].Marked
	}
	return answered, marked
}

// ran says whether a subject was measured.
func (o *outcome) ran(which kind) bool { return slices.Contains(o.subjects, which) }

// workers is how many engines a subject has: regular, or prefill and decode.
func (o *outcome) workers(which kind) string {
	if o.subjects[0] == pair && which != relayed {
		return "1+1"
	}
	return "1"
}

// print writes a line for each subject.
func (o *outcome) print(w io.Writer, v [kinds]string) error {
	rate, load := "most", "closed loop, as fast as answers come"
	if o.rate > 0 {
		rate = strconv.FormatFloat(o.rate, 'g', -1, 64)
		load = "open loop, Poisson arrivals"
	}
	fmt.Fprintf(w, "\n%s: %s, %s a round\n", o.name, load, o.length)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "subject\tCPU µs/request\tF\tadded p50 µs\tadded p99 µs\tp50 µs\tp99 µs\tanswers/s\trequests\terrors\toffered/s\tconnections\tbody B\tanswer B\tworkers\tpolicy\trounds\tversion")
	for _, which := range o.subjects {
		sent, failed, _ := o.tally(which)
		f, p50, p99, policy := "-", "-", "-", "-"
		if !which.engines() {
			f, p50, p99 = o.inF(which).Format(2), o.added(which, 0.5).Format(0), o.added(which, 0.99).Format(0)
			if o.late(0.99) {
				p99 = "~" + p99
			}
		}
		if which.routes() {
			policy = o.policy
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%.0f\t%.0f\t%.0f\t%d\t%d\t%s\t%d\t%d\t%d\t%s\t%s\t%d\t%s\n",
			which, stats.Of(o.costs(which)).Format(1), f, p50, p99,
			stats.Of(o.latencies(which, 0.5)).Median, stats.Of(o.latencies(which, 0.99)).Median,
			stats.Of(o.series(func(r round) float64 { return r[which].PerSecond() })).Median,
			sent, failed, rate, o.connections, len(o.body), o.answer, o.workers(which), policy, len(o.rounds), v[which])
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
		for _, which := range o.subjects {
			if o.rounds[i][which].Void(q) {
				void++
			}
		}
	}
	return void > len(o.rounds)*len(o.subjects)/2
}

// remark says what a reader of the lines has to know.
func (o *outcome) remark(w io.Writer) {
	var own, late50, late99 float64 // the share of a CPU, and the worst lateness in µs
	for i := range o.rounds {
		for _, which := range o.subjects {
			r := &o.rounds[i][which].Result
			own += r.Own.Seconds() / r.Elapsed.Seconds() / float64(len(o.rounds)*len(o.subjects))
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
	for which := range kinds {
		if why, ok := o.notRun[which]; ok {
			fmt.Fprintf(w, "%s: not run, as the program does not know it: %s\n", which, why)
		}
	}
	for _, which := range o.subjects {
		if _, _, faults := o.tally(which); faults != "" {
			fmt.Fprintf(w, "errors of %s: %s\n", which, faults)
		}
		if sent, chosen := o.degraded(which); chosen > 0 {
			fmt.Fprintf(w, "DEGRADED: %s chose for %d of %d requests without a selector; its costs are not those of selecting\n", which, chosen, sent)
		}
	}
}
