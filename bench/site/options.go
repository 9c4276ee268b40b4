package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"smg/bench/study/mooncake"
	"smg/policy"
	"smg/study"
)

// options is what the command line sets.
type options struct {
	bin       string
	trace     string
	first     int
	rate      float64
	spread    bool
	scale     float64
	prompts   string
	policies  []string
	engines   int
	ingresses int
	selectors int
	private   bool
	rounds    int
	seed      uint64
}

// poll is how often engines are asked for their loads, in the engines' time: as in
// the study, and as a gateway does by default.
const poll = 10 * time.Second

// maxEngines is how many addresses 127.0.0.x there are for them.
const maxEngines = 200

func parse(args []string, stderr io.Writer) (*options, error) {
	o := &options{}
	set := flag.NewFlagSet("site", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.StringVar(&o.bin, "bin", "bin", "`folder` of the programs")
	set.StringVar(&o.trace, "trace", "", "trace `file` in the form of the Mooncake release (default: $"+mooncake.Variable+", then shared/data/"+mooncake.File+" here or above)")
	set.IntVar(&o.first, "first", 1700, "only the first `n` requests; 0: all")
	set.Float64Var(&o.rate, "rate", 1, "how many times faster than in the trace requests arrive, in the engines' time")
	set.BoolVar(&o.spread, "spread", true, "requests with the same timestamp arrive evenly until the next one; together, they wait for the CPUs of this machine")
	set.Float64Var(&o.scale, "time-scale", 0.2, "how long a second of the engines and of the trace takes; 10 s should be whole seconds then, as polls come every so many")
	set.StringVar(&o.prompts, "prompts", text, "`form` of prompts: text or tokens, which cost the engines five times as much CPU time to read")
	names := set.String("policies", policy.CacheAware+","+policy.RoundRobin, "`names` of policies, with commas")
	set.IntVar(&o.engines, "engines", study.DefaultConfig().Workers, "simulated engines")
	set.IntVar(&o.ingresses, "ingresses", 8, "ingresses, of which chance gives each request one")
	set.IntVar(&o.selectors, "selectors", 3, "replicas of the selector")
	set.BoolVar(&o.private, "private", false, "also as many gateways as ingresses which know nothing of each other: what the goal is missed by")
	set.IntVar(&o.rounds, "rounds", 1, "runs of each policy on each site")
	set.Uint64Var(&o.seed, "seed", 1, "seed of the first round: which ingress gets which request, and in which order runs come")
	if err := set.Parse(args); err != nil {
		return nil, err
	}
	if set.NArg() > 0 {
		return nil, fmt.Errorf("%q is not a flag", set.Arg(0))
	}
	o.policies = strings.Split(*names, ",")
	return o, o.validate()
}

func (o *options) validate() error {
	var errs []error
	for _, n := range []struct {
		flag               string
		value, least, most int
	}{
		{"first", o.first, 0, math.MaxInt},
		{"engines", o.engines, 1, maxEngines},
		{"ingresses", o.ingresses, 1, math.MaxInt},
		{"selectors", o.selectors, 1, math.MaxInt},
		{"rounds", o.rounds, 1, math.MaxInt},
	} {
		if n.value < n.least || n.value > n.most {
			errs = append(errs, fmt.Errorf("-%s is %d: it must be from %d to %d", n.flag, n.value, n.least, n.most))
		}
	}
	if !(o.rate > 0) {
		errs = append(errs, fmt.Errorf("-rate is %v: it must be above 0", o.rate))
	}
	if !(o.scale > 0) {
		errs = append(errs, fmt.Errorf("-time-scale is %v: it must be above 0", o.scale))
	}
	if o.prompts != text && o.prompts != tokens {
		errs = append(errs, fmt.Errorf("-prompts is %q: it must be %s or %s", o.prompts, text, tokens))
	}
	for _, name := range o.policies {
		if !slices.Contains(policy.Names(), name) {
			errs = append(errs, fmt.Errorf("-policies: there is no policy %q", name))
		}
	}
	for _, name := range []string{gatewayProgram, ingressProgram, selectorProgram, simProgram} {
		if _, err := os.Stat(o.program(name)); err != nil {
			errs = append(errs, fmt.Errorf("%w (`make build` makes it)", err))
		}
	}
	return errors.Join(errs...)
}

func (o *options) program(name string) string { return filepath.Join(o.bin, name) }

// sites are those that are compared.
func (o *options) sites() site {
	if o.private {
		return sites
	}
	return private
}

// pollSeconds is poll as the gateway is told it: whole seconds of real time.
func (o *options) pollSeconds() int {
	return max(int(math.Round(poll.Seconds()*o.scale)), 1)
}

// virtual is a real time in the engines' time.
func (o *options) virtual(d time.Duration) time.Duration {
	return time.Duration(float64(d) / o.scale)
}

// real is a time of the engines or of the trace as it takes.
func (o *options) real(d time.Duration) time.Duration {
	return time.Duration(float64(d) * o.scale)
}

// version is what the gateway says it is.
func (o *options) version(ctx context.Context) (string, error) {
	said, err := exec.CommandContext(ctx, o.program(gatewayProgram), "--version").Output()
	if err != nil {
		return "", fmt.Errorf("asking %s for its version: %w", o.program(gatewayProgram), err)
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(said)), "\n")
	return first, nil
}
