// Command smoke compares, in one run of about two minutes, a gateway in front of one
// engine with the engine alone and with the smallest relay there is, and a gateway
// in front of a prefill and a decode engine, as one process and as several, with
// the two engines alone: latency that they add, and CPU time that they spend on a
// request. It prints a line for each and what became of the goals G1, G9 and G10,
// and fails if answers were wrong or the gateway in front of one engine is beyond
// three times the relay.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"smg/bench/internal/command"
	"smg/bench/relay"
)

// relayVerb makes this program the relay: its own process, the same binary.
const relayVerb = "relay"

func main() { command.Main(run) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 3 && args[0] == relayVerb {
		return serveRelay(ctx, args[1], args[2])
	}
	opts, err := parse(args, stderr)
	if err != nil {
		return err
	}
	return compare(ctx, opts, stdout)
}

func serveRelay(ctx context.Context, listen, engine string) error {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("relay: %w", err)
	}
	return relay.New(engine).Serve(ctx, l)
}

// options is what the command line sets.
type options struct {
	smg, sim  string
	base      string
	rounds    int
	length    time.Duration // of a measurement
	warm      time.Duration // before each
	rate      float64       // of the small requests
	rateLarge float64
	rateSSE   float64
	ratePair  float64
	seed      uint64
	only      string
}

// leastRounds is what a comparison needs to be one.
const leastRounds = 5

func parse(args []string, stderr io.Writer) (*options, error) {
	o := &options{}
	fs := flag.NewFlagSet("smoke", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&o.smg, "smg", "bin/smg", "program `file` of the gateway")
	fs.StringVar(&o.sim, "sim", "bin/smg-sim", "program `file` of the simulated engine")
	fs.StringVar(&o.base, "base", "", "program `file` of another build of the gateway, to be compared in the same rounds")
	fs.IntVar(&o.rounds, "rounds", 7, "measurements of each subject")
	fs.DurationVar(&o.length, "length", 600*time.Millisecond, "length of each measurement")
	fs.DurationVar(&o.warm, "warm", 150*time.Millisecond, "load before each measurement that is not counted")
	fs.Float64Var(&o.rate, "rate", 2000, "small requests a second")
	fs.Float64Var(&o.rateLarge, "rate-large", 400, "requests a second with a prompt of 32 KB")
	fs.Float64Var(&o.rateSSE, "rate-stream", 100, "streams a second of 100 events each")
	fs.Float64Var(&o.ratePair, "rate-pair", 1000, "small requests a second through prefill and decode")
	fs.Uint64Var(&o.seed, "seed", 1, "of arrivals and orders")
	fs.StringVar(&o.only, "only", "", "measure the scenarios alone whose names contain this `text`")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	var faults []error
	if fs.NArg() > 0 {
		faults = append(faults, fmt.Errorf("%q: nothing but flags is taken", fs.Arg(0)))
	}
	if o.rounds < leastRounds {
		faults = append(faults, fmt.Errorf("-rounds %d: %d are the least", o.rounds, leastRounds))
	}
	if o.length <= 0 || o.warm <= 0 {
		faults = append(faults, fmt.Errorf("-length %s, -warm %s: both have to be positive", o.length, o.warm))
	}
	if o.rate <= 0 || o.rateLarge <= 0 || o.rateSSE <= 0 || o.ratePair <= 0 {
		faults = append(faults, errors.New("rates have to be positive"))
	}
	programs := []string{o.smg, o.sim}
	if o.base != "" {
		programs = append(programs, o.base)
	}
	for _, path := range programs {
		if _, err := os.Stat(path); err != nil {
			faults = append(faults, fmt.Errorf("%w (`make build` makes it)", err))
		}
	}
	return o, errors.Join(faults...)
}
