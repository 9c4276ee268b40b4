package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// options is what the command line sets.
type options struct {
	programs string // folder
	seed     uint64
	faults   int
	only     string
	gone     time.Duration // how long all NATS servers are away
	slow     float64
	keep     string

	// Of the site of legs.
	site     string
	requests int
	kind     string
	topology string
}

// healWithin is what a site may take to heal, on a machine that is not slow
// (architecture.md, law 4).
const healWithin = 5 * time.Second

func parse(args []string, stderr io.Writer) (*options, error) {
	o := &options{}
	fs := flag.NewFlagSet("chaos", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&o.programs, "programs", "bin", "`folder` of the programs")
	fs.Uint64Var(&o.seed, "seed", 1, "of the order of faults, whom they hit, and when")
	fs.IntVar(&o.faults, "faults", 24, "rounds: first each kind once, then pairs of them")
	fs.StringVar(&o.only, "only", "", "only these `kinds`, such as kill-engine,no-nats")
	fs.DurationVar(&o.gone, "gone", time.Minute, "how long all NATS servers are away")
	fs.Float64Var(&o.slow, "slow", 1, "how many times longer than 5 s healing may take, for slow machines")
	fs.StringVar(&o.keep, "keep", "", "`folder` to write the processes' logs to; else they are shown only if something is wrong")
	fs.StringVar(&o.site, "site", "fleet", "fleet: services on two hosts; legs: one gateway and engines of all legs, of which -seed and the following flags are taken")
	fs.IntVar(&o.requests, "requests", 10_000, "of the site legs")
	fs.StringVar(&o.kind, "engine", "vllm", "`kind` of the engines of the site legs, vllm or sglang")
	fs.StringVar(&o.topology, "topology", "single", "of the gateway of the site legs, single or split")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	var wrong []error
	if fs.NArg() > 0 {
		wrong = append(wrong, fmt.Errorf("%q: nothing but flags is taken", fs.Arg(0)))
	}
	if o.faults < 1 {
		wrong = append(wrong, fmt.Errorf("-faults %d: at least 1", o.faults))
	}
	if o.gone <= 0 {
		wrong = append(wrong, fmt.Errorf("-gone %s: it has to be positive", o.gone))
	}
	if !(o.slow >= 1) {
		wrong = append(wrong, fmt.Errorf("-slow %g: at least 1", o.slow))
	}
	if o.requests < 1 {
		wrong = append(wrong, fmt.Errorf("-requests %d: at least 1", o.requests))
	}
	for _, c := range []struct{ flag, value, one, other string }{
		{"site", o.site, "fleet", "legs"}, {"engine", o.kind, "vllm", "sglang"}, {"topology", o.topology, "single", "split"},
	} {
		if c.value != c.one && c.value != c.other {
			wrong = append(wrong, fmt.Errorf("-%s %q: it is %s or %s", c.flag, c.value, c.one, c.other))
		}
	}
	if _, err := o.kinds(true); err != nil {
		wrong = append(wrong, err)
	}
	for _, name := range o.needs() {
		if _, err := os.Stat(o.program(name)); err != nil {
			wrong = append(wrong, fmt.Errorf("%w (`make build` makes it)", err))
		}
	}
	return o, errors.Join(wrong...)
}

// needs are the programs of the site.
func (o *options) needs() []string {
	if o.site == "legs" {
		return []string{"smg", "smg-ingress", "smg-selector", "smg-sim"}
	}
	return []string{"smg-ingress", "smg-selector", "smg-sim"}
}

func (o *options) program(name string) string { return filepath.Join(o.programs, name) }

// within is how long healing may take here.
func (o *options) within() time.Duration {
	return time.Duration(o.slow * float64(healWithin))
}

// kinds are the faults to be made; without hosts there are no partitions.
func (o *options) kinds(hosts bool) ([]kind, error) {
	only := kindNames[:]
	if o.only != "" {
		only = strings.Split(o.only, ",")
	}
	var all []kind
	for _, name := range only {
		k := slices.Index(kindNames[:], name)
		switch {
		case k < 0:
			return nil, fmt.Errorf("-only: no fault is called %q; there are %s", name, strings.Join(kindNames[:], ", "))
		case hosts || kind(k) != partition:
			all = append(all, kind(k))
		}
	}
	if len(all) == 0 {
		return nil, errors.New("-only: this machine has no network namespaces for a partition")
	}
	return all, nil
}
