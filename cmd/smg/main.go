// Command smg starts engines and serves them behind one address (serve), or serves
// engines that run already (launch, or bare flags; check says what it would do). What it recorded of that it runs
// again under other policies (replay). It also asks and changes a gateway that runs
// (status, workers).
package main

import (
	"os"

	"smg/cmd/internal/admin"
	"smg/cmd/internal/flags"
	"smg/cmd/internal/gateway"
	"smg/cmd/internal/replay"
	"smg/cmd/internal/selector"
	"smg/cmd/internal/terminal"
)

func main() { os.Exit(run(os.Args[1:])) }

// run is the program without its exit.
func run(args []string) int {
	if len(args) > 0 && args[0] == watchCommand {
		return watchEngines(args[1:])
	}
	if err := heedLauncher(); err != nil {
		return flags.Report(os.Stderr, err)
	}
	if len(args) > 0 && args[0] == flagsCommand {
		return printFlags(args[1:], os.Stdout, os.Stderr)
	}
	cmd, code := terminal.Read("smg", "", args)
	if cmd == nil {
		return code
	}
	switch cmd.Verb {
	case flags.RunLaunch:
		return launch(cmd)
	case flags.RunCheck:
		return gateway.Check(cmd, os.Stdout, os.Stderr)
	case flags.RunServe:
		return serve(cmd)
	case flags.RunIngress:
		return gateway.Ingress(cmd)
	case flags.RunSelector:
		return selector.Main(cmd)
	case flags.RunSim:
		return simulate(cmd.SimArgs)
	case flags.RunReplay:
		return replay.Main(cmd, os.Stdout, os.Stderr)
	case flags.RunWorkers:
		return admin.Main("workers", cmd.AdminArgs)
	case flags.RunStatus:
		return admin.Main("status", cmd.AdminArgs)
	case flags.PrintCompletion:
		return complete(cmd.Shell)
	case flags.Print: // it has been done
	}
	return code
}
