// Command smg starts engines and serves them behind one address (serve), or serves
// engines that run already (launch, or bare flags).
package main

import (
	"fmt"
	"os"
	"runtime/debug"

	"golang.org/x/term"

	"smg/cmd/internal/flags"
	"smg/cmd/internal/version"
	"smg/worker"
)

func main() { os.Exit(run(os.Args[1:])) }

// gcPercent lets the heap grow to five times what lives before garbage is
// collected. What lives is a few megabytes, so a collector at its default would run
// all the time under load; the price is some tens of megabytes.
const gcPercent = 400

// run is the program without its exit.
func run(args []string) int {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	width, _, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil {
		width = 0 // not a terminal: plain lines
	}
	cmd, err := flags.Parse(flags.Input{
		Args: args, Env: os.LookupEnv, Width: width,
		Version: "smg " + version.String(), VersionVerbose: version.Verbose("smg"),
	})
	if err == nil {
		err = cmd.Validate(worker.CanonicalURL)
	}
	if err != nil {
		return flags.Report(os.Stderr, err)
	}
	switch cmd.Verb {
	case flags.RunLaunch:
		return launch(cmd)
	case flags.RunServe:
		return serve(cmd)
	case flags.RunSim:
		return simulate(cmd.SimArgs)
	case flags.Print:
	}
	fmt.Print(cmd.Output)
	return 0
}
