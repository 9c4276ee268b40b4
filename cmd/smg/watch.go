package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"smg/cmd/internal/flags"
	"smg/launcher"
)

// watchCommand is a command that no help lists: serve runs it.
const watchCommand = "watch-engines"

// watchdog is the command line of the process that ends the engines if this one is
// killed, nil if this program cannot be found.
func watchdog() []string {
	self, err := os.Executable()
	if err != nil {
		return nil
	}
	return []string{self, watchCommand}
}

// watchEngines is that process. It ends with the pipe from its parent and not before:
// whoever ends both has the engines to end as well.
func watchEngines(args []string) int {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	pipe := os.NewFile(3, "pipe") // the first file that is inherited
	info, err := pipe.Stat()
	if err != nil || info.Mode()&os.ModeNamedPipe == 0 || len(args) != 1 {
		fmt.Fprintf(os.Stderr, "error: %s is started by smg serve, and by nobody else\n", watchCommand)
		return flags.ExitUsage
	}
	limit, err := time.ParseDuration(args[0])
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return flags.ExitUsage
	}
	launcher.Watch(pipe, limit)
	return 0
}
