// Command site is goal Q6 with real processes: it lets the same slice of a public
// trace arrive at one gateway process and at many (ingresses, selectors and a NATS
// server), each in front of fresh simulated engines whose time is compressed, and
// prints a table of both: time to the first token and block hits, as multiples of the
// one process. A second table is the same slice in virtual time, and says whether
// both agree. docs/performance.md says how to read them.
package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"

	"smg/bench/internal/command"
	"smg/bench/study/mooncake"
)

func main() { command.Main(run) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	path, err := mooncake.Find(o.trace)
	if err != nil {
		return err
	}
	trace, err := mooncake.Load(path, o.first)
	if err != nil {
		return err
	}
	version, err := o.version(ctx)
	if err != nil {
		return err
	}
	w := &work{Workload: mooncake.Workload(path, trace, o.rate, o.spread), lines: trace, bodies: bodies(trace, o.prompts)}
	t := table{o: o, work: w, version: version}
	t.describe(stdout)
	n := int(o.sites())
	rng := rand.New(rand.NewPCG(o.seed, 1))
	for round := range o.rounds {
		seed := o.seed + uint64(round)
		for _, i := range rng.Perm(len(o.policies) * n) {
			policy, s := o.policies[i/n], site(i%n)
			m, err := measure(ctx, o, w, s, policy, seed)
			if err != nil {
				return fmt.Errorf("%s, %s, round %d: %w", policy, s.name(o), round+1, err)
			}
			fmt.Fprintf(stderr, "%s, %s, round %d: %s\n", policy, s.name(o), round+1, m)
			t.add(policy, s, m)
		}
	}
	virtual, err := inVirtualTime(ctx, o, w, stderr)
	if err != nil {
		return err
	}
	return t.print(stdout, virtual)
}
