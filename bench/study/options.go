package main

import (
	"errors"
	"flag"
	"fmt"
	"io"

	"smg/bench/study/mooncake"
	"smg/study"
)

// options is what the command line sets.
type options struct {
	trace   string
	site    study.Config
	measure study.Measure
	rate    float64
	spread  bool
	first   int
	rounds  int
	only    string
	sites   bool
}

func parse(args []string, stderr io.Writer) (*options, error) {
	o := &options{site: study.DefaultConfig(), measure: study.DefaultMeasure()}
	set := flag.NewFlagSet("study", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.StringVar(&o.trace, "trace", "", "trace `file` in the form of the Mooncake release (default: $"+mooncake.Variable+", then shared/data/"+mooncake.File+" here or above)")
	set.Float64Var(&o.rate, "rate", defaultRate, "how many times faster than in the trace requests arrive")
	set.BoolVar(&o.spread, "spread", false, "requests with the same timestamp arrive evenly until the next one, instead of together")
	set.IntVar(&o.first, "first", 0, "only the first `n` requests; 0: all")
	set.StringVar(&o.only, "only", "", "only the lines whose names contain `text`")
	set.IntVar(&o.site.Workers, "workers", o.site.Workers, "engines")
	set.IntVar(&o.site.Ingresses, "ingresses", o.site.Ingresses, "ingresses, to which requests come in turn")
	set.IntVar(&o.site.Selectors, "selectors", o.site.Selectors, "replicas of the selector")
	set.DurationVar(&o.site.Select, "select", o.site.Select, "time that an ask takes to a selector, and its answer back")
	set.DurationVar(&o.site.Bus, "bus", o.site.Bus, "time that a message of the lease stream or of a keeper takes")
	set.DurationVar(&o.site.Jitter, "jitter", o.site.Jitter, "what it takes more at most")
	set.Float64Var(&o.site.Lost, "lost", o.site.Lost, "share of these messages that do not get to a selector")
	set.BoolVar(&o.sites, "sites", false, "goal Q6: some policies in one process, with 8 ingresses and 3 selectors, and with 8 processes that share nothing, in place of the table; it sets -ingresses, -selectors, -select, -bus, -jitter and -lost")
	set.IntVar(&o.rounds, "rounds", 3, "runs of each line, which differ in the seed of the policies' chance")
	set.Uint64Var(&o.site.Seed, "seed", o.site.Seed, "seed of the first round")
	set.DurationVar(&o.site.Poll, "poll", o.site.Poll, "time between load polls of a worker")
	set.Float64Var(&o.site.Engine.PrefillTokensPerSecond, "prefill-tps", o.site.Engine.PrefillTokensPerSecond, "prefill tokens per second of an engine")
	set.IntVar(&o.site.Engine.ChunkTokens, "chunk-tokens", o.site.Engine.ChunkTokens, "tokens of an iteration")
	set.IntVar(&o.site.Engine.KVBlocks, "kv-blocks", o.site.Engine.KVBlocks, "KV blocks of an engine, of 512 tokens each")
	set.DurationVar(&o.site.Engine.DecodeStep, "decode-step", o.site.Engine.DecodeStep, "decode step with one sequence")
	set.DurationVar(&o.measure.Goal, "goal", o.measure.Goal, "TTFT below which a request is a good one")
	if err := set.Parse(args); err != nil {
		return nil, err
	}
	if set.NArg() > 0 {
		return nil, fmt.Errorf("%q is not a flag", set.Arg(0))
	}
	return o, o.validate()
}

// defaultRate loads the engines of [study.DefaultConfig] so that queues form.
const defaultRate = 6

func (o *options) validate() error {
	errs := []error{o.site.Validate()}
	if !(o.rate > 0) {
		errs = append(errs, fmt.Errorf("-rate is %v: it must be above 0", o.rate))
	}
	if o.rounds < 1 {
		errs = append(errs, fmt.Errorf("-rounds is %d: it must be at least 1", o.rounds))
	}
	if o.first < 0 {
		errs = append(errs, fmt.Errorf("-first is %d: it must not be negative", o.first))
	}
	if o.measure.Goal <= 0 {
		errs = append(errs, fmt.Errorf("-goal is %v: it must be above 0", o.measure.Goal))
	}
	return errors.Join(errs...)
}

// read reads the trace.
func (o *options) read() ([]mooncake.Line, error) {
	path, err := mooncake.Find(o.trace)
	if err != nil {
		return nil, err
	}
	o.trace = path
	return mooncake.Load(path, o.first)
}
