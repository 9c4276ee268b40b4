package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"smg/cmd/internal/flags"
	"smg/cmd/internal/gateway"
	"smg/launcher"
)

// planServe prints the engines that serve would start and what the gateway would do
// with them, and returns the exit code. It starts nothing, looks for no program and
// asks for no port.
func planServe(cmd *flags.Command, stdout, stderr io.Writer) int {
	cfg := cmd.Serve.Engines
	cfg.MediaDir = filepath.Join(os.TempDir(), mediaPattern)
	engines, err := cfg.Plan()
	if err != nil {
		return flags.Report(stderr, err)
	}
	if dropped := cfg.Dropped(); len(dropped) > 0 {
		fmt.Fprintf(stderr, "warning: engine flags dropped, the launcher sets them itself: %s\n", strings.Join(dropped, " "))
	}
	if err := printEngines(stdout, engines); err != nil {
		return flags.Report(stderr, fmt.Errorf("writing the plan: %w", err))
	}
	for _, e := range engines {
		join(cmd.Launch, e.Endpoint)
	}
	return gateway.Check(cmd, stdout, stderr)
}

// printEngines writes each engine's command, and beneath it what it finds in its
// environment.
func printEngines(out io.Writer, engines []launcher.Planned) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	for _, e := range engines {
		fmt.Fprintf(w, "%s\t%s\n\t%s\n", e.Name, e.Command, strings.Join(e.Environ, " "))
	}
	return w.Flush()
}
