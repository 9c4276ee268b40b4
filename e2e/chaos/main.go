package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// What this program also is, by its first argument.
const (
	natsVerb = "nats" // a NATS server: the site kills it as any other process
	hostVerb = "host" // keeps the network namespace of a host
)

// insideVariable says that the program runs in a network namespace of its own.
const insideVariable = "SMG_CHAOS_INSIDE"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := command(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

func command(ctx context.Context, args []string) int {
	var err error
	switch {
	case len(args) > 0 && args[0] == natsVerb:
		err = serveNATS(ctx, args[1:])
	case len(args) > 0 && args[0] == hostVerb:
		_, err = io.Copy(io.Discard, os.Stdin)
	default:
		err = run(ctx, args, os.Stdout, os.Stderr)
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode() // of the same program in a namespace, which has said why
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		return 1
	}
	return 0
}

// run is a whole run: it starts a site, breaks it, and reports.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	if o.site == "legs" {
		return chaosOfLegs(ctx, o, stdout, stderr)
	}
	if os.Getenv(insideVariable) == "" {
		began, err := inNamespace(ctx, args, stdout, stderr)
		if began {
			return err
		}
		fmt.Fprintf(stderr, "no partition: %v\n", err)
	}
	return trial(ctx, o, stdout, stderr)
}

// trial breaks a site as o says and prints what became of it.
func trial(ctx context.Context, o *options, stdout, stderr io.Writer) (err error) {
	s, err := newSite(o, stderr)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, s.close(err != nil))
	}()
	if err := s.start(ctx); err != nil {
		return err
	}
	t := newTrial(o, s, stderr)
	return errors.Join(t.run(ctx), t.report(stdout))
}
