package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// options are the flags.
type options struct {
	lasts    time.Duration
	rate     int
	seed     uint64
	topology string
	mode     string
	bin      string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(1)
	}
}

func parse(args []string, stderr io.Writer) (*options, error) {
	o := &options{}
	fs := flag.NewFlagSet("soak", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.DurationVar(&o.lasts, "for", 30*time.Minute, "`time` under load")
	fs.IntVar(&o.rate, "rate", 100, "`requests` a second")
	fs.Uint64Var(&o.seed, "seed", 1, "`number` from which requests are drawn")
	fs.StringVar(&o.topology, "topology", "single", "of the gateway: single or split")
	fs.StringVar(&o.mode, "mode", "legs", "of the engines: whole, or legs (prefill and decode)")
	fs.StringVar(&o.bin, "bin", "bin", "`folder` of the programs")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	switch {
	case fs.NArg() > 0:
		return nil, fmt.Errorf("soak takes no arguments, only flags: %q", fs.Args())
	case o.lasts < 10*time.Second:
		return nil, fmt.Errorf("-for must be 10s or more, not %v", o.lasts)
	case o.rate < 1:
		return nil, fmt.Errorf("-rate must be 1 or more, not %d", o.rate)
	case o.topology != "single" && o.topology != "split":
		return nil, fmt.Errorf("-topology must be single or split, not %q", o.topology)
	case o.mode != "whole" && o.mode != "legs":
		return nil, fmt.Errorf("-mode must be whole or legs, not %q", o.mode)
	}
	bin, err := filepath.Abs(o.bin)
	if err != nil {
		return nil, fmt.Errorf("-bin: %w", err)
	}
	o.bin = bin
	return o, nil
}

// run is a whole run: it starts a site, loads it, watches it, and reports.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	s := newSite(o)
	defer s.close()
	if err := s.start(ctx); err != nil {
		return fmt.Errorf("%w\n%s", err, s.said())
	}
	l := newLoad(o, s.url)
	if err := l.learn(ctx); err != nil {
		return err
	}
	before, err := s.sample()
	if err != nil {
		return err
	}
	loading, done := context.WithTimeout(ctx, o.lasts)
	defer done()
	watched := make(chan []sample, 1)
	go func() { watched <- s.watch(loading, max(o.lasts/180, time.Second)) }()
	l.run(loading)
	samples := <-watched
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("stopped: %w", err)
	}
	rest := s.rests(ctx, before)
	report(stdout, l, samples)
	return errors.Join(l.fault(), grows(samples), rest)
}
