package main

import (
	"context"
	"os"

	"smg/cmd/internal/simcmd"
)

// simulate runs the simulated engine, which ends with a signal.
func simulate(args []string) int {
	return simcmd.Main(context.Background(), args, os.Stdout, os.Stderr)
}
