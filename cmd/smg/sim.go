package main

import (
	"bytes"
	"context"
	"os"

	"smg/cmd/internal/simcmd"
	"smg/cmd/internal/terminal"
)

// simulate runs the simulated engine, which ends with a signal.
func simulate(args []string) int {
	var help bytes.Buffer // or the version: it says nothing else there
	code := simcmd.Main(context.Background(), args, &help, os.Stderr)
	_, _ = os.Stdout.WriteString(terminal.Wrap(help.String(), terminal.Width(os.Stdout))) // nobody reads a closed stream
	return code
}
