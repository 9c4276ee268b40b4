// Command fleet measures what registered workers cost that nobody sends anything to,
// and what a request costs among many of them: a large fleet and a small one, in front
// of one gateway process, and in front of a NATS server with three selectors and an
// ingress. It prints how long the start takes, CPU time and memory of each process at
// rest, what GET /workers costs, the CPU time of a request, and what became of the
// goals G11 and G12. It fails if answers were wrong or missing; a goal that is missed
// is only said to be.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"smg/bench/internal/command"
)

// natsVerb makes this program the NATS server: its own process, the same binary.
const natsVerb = "nats"

func main() { command.Main(run) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 2 && args[0] == natsVerb {
		return serveNATS(ctx, args[1])
	}
	own, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding the program of the NATS server: %w", err)
	}
	opts, err := parse(args, stderr)
	if err != nil {
		return err
	}
	opts.nats = own
	return compare(ctx, opts, stdout)
}

// options is what the command line sets.
type options struct {
	smg, sim string
	nats     string // this program

	workers, few int
	idle         time.Duration // of the look at a fleet at rest
	settle       time.Duration // before it
	rate         float64       // requests a second
	length       time.Duration // of each load
	warm         time.Duration // of the load before it that is not counted
	keep         int           // seconds that unused connections to workers are kept, 0 for ever
	rounds       int           // loads of each kind on one start
	seed         uint64
	only         string
}

// mostWorkers is what the addresses of the loopback network that are used here and
// most limits of open files are enough for.
const mostWorkers = 60000

func parse(args []string, stderr io.Writer) (*options, error) {
	o := &options{}
	fs := flag.NewFlagSet("fleet", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&o.smg, "smg", "bin/smg", "program `file` of the services")
	fs.StringVar(&o.sim, "sim", "bin/smg-sim", "program `file` of the simulated engine")
	fs.IntVar(&o.workers, "workers", 10000, "workers of the large fleet")
	fs.IntVar(&o.few, "few", 256, "workers of the small fleet, which the large one is compared with")
	fs.DurationVar(&o.settle, "settle", 5*time.Second, "rest after the start before anything is measured")
	fs.DurationVar(&o.idle, "idle", 20*time.Second, "length of the look at a fleet at rest: loads are polled every 10 s, health is probed every 60 s")
	fs.Float64Var(&o.rate, "rate", 400, "small requests a second")
	fs.DurationVar(&o.length, "length", 4*time.Second, "length of each measured load")
	fs.DurationVar(&o.warm, "warm", time.Second, "load before each measured one that is not counted")
	fs.IntVar(&o.keep, "keep", 0, "`seconds` that unused connections to workers are kept, 0 for ever; 3 is the gateway's default, with which a request among many workers finds none")
	fs.IntVar(&o.rounds, "rounds", 3, "measured loads of each kind")
	fs.Uint64Var(&o.seed, "seed", 1, "of arrivals")
	fs.StringVar(&o.only, "only", "", "measure the sites alone whose names contain this `text`")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	var faults []error
	if fs.NArg() > 0 {
		faults = append(faults, fmt.Errorf("%q: nothing but flags is taken", fs.Arg(0)))
	}
	if o.few < 1 || o.workers <= o.few || o.workers > mostWorkers {
		faults = append(faults, fmt.Errorf("-workers %d, -few %d: both have to be positive, the first the greater and at most %d", o.workers, o.few, mostWorkers))
	}
	if o.idle <= 0 || o.length <= 0 || o.warm <= 0 || o.settle < 0 {
		faults = append(faults, errors.New("-idle, -length and -warm have to be positive, -settle must not be negative"))
	}
	if o.rate <= 0 || o.rounds < 1 || o.keep < 0 {
		faults = append(faults, errors.New("-rate and -rounds have to be positive, -keep must not be negative"))
	}
	for _, path := range []string{o.smg, o.sim} {
		if _, err := os.Stat(path); err != nil {
			faults = append(faults, fmt.Errorf("%w (`make build` makes it)", err))
		}
	}
	return o, errors.Join(faults...)
}
