package main

import (
	"fmt"
	"io"
	"slices"

	"smg/cmd/internal/flags"
)

// flagsCommand is a command that no help lists: the Python package is made from what
// it prints.
const flagsCommand = "flags"

// printFlags prints the table of flags, and returns the exit code.
func printFlags(args []string, stdout, stderr io.Writer) int {
	if !slices.Equal(args, []string{"--json"}) {
		fmt.Fprintf(stderr, "error: unexpected arguments\n  hint: write smg %s --json, or smg launch --help=all for people\n", flagsCommand)
		return flags.ExitUsage
	}
	return flags.Report(stderr, flags.Export(stdout))
}
