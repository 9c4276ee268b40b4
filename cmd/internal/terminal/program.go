package terminal

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"golang.org/x/term"

	"smg/cmd/internal/flags"
	"smg/cmd/internal/service"
	"smg/cmd/internal/version"
	"smg/worker"
)

// gcPercent lets the heap grow to five times what lives before garbage is
// collected. What lives is a few megabytes, so a collector at its default would run
// all the time under load; the price is some tens of megabytes.
const gcPercent = 400

// Read understands the command line of a program and judges it. command is the one
// that the program has if it has no others. What only has to be printed is printed;
// then, and when something is wrong, cmd is nil and code is the exit code.
func Read(program, command string, args []string) (cmd *flags.Command, code int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	width, _, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil {
		width = 0 // not a terminal: plain lines
	}
	cmd, err = flags.Parse(flags.Input{
		Command: command, Args: args, Env: os.LookupEnv, Variables: variables(), Width: width, Child: service.IsChild(),
		Version: program + " " + version.String(), VersionVerbose: version.Verbose(program),
	})
	if err == nil {
		err = cmd.Validate(worker.CanonicalURL)
	}
	if err != nil {
		return nil, flags.Report(os.Stderr, err)
	}
	if cmd.Verb == flags.Print {
		fmt.Print(cmd.Output)
		return nil, 0
	}
	return cmd, 0
}

// variables are the names of those that are set.
func variables() (names []string) {
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		names = append(names, name)
	}
	return names
}
