// Command study runs a public trace over simulated engines, in virtual time, under
// every policy and under references that no site could run, and prints one table:
// block hits against what an endless cache would have had, time to the first token,
// and how unevenly work fell on the workers. With -sites it compares ways to run a
// gateway instead: one process, shared state, private state. docs/performance.md says
// how to read both.
package main

import (
	"context"
	"fmt"
	"io"

	"smg/bench/internal/command"
	"smg/bench/study/mooncake"
	"smg/study"
)

func main() { command.Main(run) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	trace, err := o.read()
	if err != nil {
		return err
	}
	all := contenders(trace)
	if o.sites {
		all = siteContenders(trace)
	}
	chosen, err := choose(all, o.only)
	if err != nil {
		return err
	}
	work := mooncake.Workload(o.trace, trace, o.rate, o.spread)
	trial := study.Trial{Site: o.site, Work: work, Measure: o.measure, Rounds: o.rounds, Progress: stderr}
	if o.sites {
		return trialOfSites(ctx, o, &trial, chosen, stdout)
	}
	trial.Describe(stdout, fmt.Sprintf("the trace at %g times its rate", o.rate))
	rows, err := trial.Compare(ctx, chosen)
	if err != nil {
		return err
	}
	return study.Print(stdout, o.measure, rows)
}
