// Command study runs a public trace over simulated engines, in virtual time, under
// every policy and under references that no site could run, and prints one table:
// block hits against what an endless cache would have had, time to the first token,
// and how unevenly work fell on the workers. docs/performance.md says how to read it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"smg/study"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	trace, err := o.read()
	if err != nil {
		return err
	}
	all, missing := contenders(trace)
	chosen, err := choose(all, o.only)
	if err != nil {
		return err
	}
	work := workload(o, trace)
	describe(stdout, o, work)
	if len(missing) > 0 {
		fmt.Fprintf(stdout, "left out, since they are not built yet: %s\n\n", strings.Join(missing, ", "))
	}
	trial := study.Trial{Site: o.site, Work: work, Measure: o.measure, Rounds: o.rounds, Progress: stderr}
	rows, err := trial.Compare(ctx, chosen)
	if err != nil {
		return err
	}
	return study.Print(stdout, o.measure, rows)
}

// describe prints what all lines of the table have in common.
func describe(w io.Writer, o *options, work *study.Workload) {
	e := o.site.Engine
	fmt.Fprintf(w, "%s: %d requests in %v, %.2f/s (the trace at %g times its rate); an endless cache would hit %.3f of %d blocks\n",
		work.Name, len(work.Requests), work.Length().Round(time.Second), float64(len(work.Requests))/work.Length().Seconds(),
		o.rate, float64(work.IdealHits())/float64(work.Blocks()), work.Blocks())
	fmt.Fprintf(w, "%d workers: prefill %.0f tokens/s in chunks of %d, decode step %v + %v a sequence, %d tokens of KV in blocks of %d\n",
		o.site.Workers, e.PrefillTokensPerSecond, e.ChunkTokens, e.DecodeStep, e.DecodePerSequence, e.KVBlocks*e.BlockSize, e.BlockSize)
	fmt.Fprintf(w, "ingresses %d, selectors %d, load polls every %v; medians of %d rounds (least–most), seeds from %d; %s\n\n",
		o.site.Ingresses, o.site.Selectors, o.site.Poll, o.rounds, o.site.Seed, runtime.Version())
}
