package terminal

import (
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"strings"

	"smg/cmd/internal/flags"
	"smg/cmd/internal/logging"
	"smg/cmd/internal/service"
	"smg/cmd/internal/version"
	"smg/launcher"
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
	cmd, err := flags.Parse(flags.Input{
		Command: command, Args: args, Env: os.LookupEnv, Variables: variables(), Width: Width(os.Stdout), Child: service.IsChild(),
		Version: program + " " + version.String(), VersionVerbose: version.Verbose(program),
	})
	if err == nil {
		err = cmd.Validate(worker.CanonicalURL)
	}
	if err != nil {
		if flags.AsksForJSON(args, os.LookupEnv) {
			return nil, Console{Console: launcher.NewConsole(os.Stderr, false), Log: logging.New(os.Stderr, slog.LevelInfo, true), JSON: true}.Fail(err)
		}
		return nil, flags.Report(os.Stderr, err)
	}
	if cmd.Verb == flags.Print {
		fmt.Print(Wrap(cmd.Output, Width(os.Stdout)))
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
