// Command smg-selector is the command selector of smg as a program of its own.
package main

import (
	"os"

	"smg/cmd/internal/selector"
	"smg/cmd/internal/terminal"
)

func main() { os.Exit(run(os.Args[1:])) }

// run is the program without its exit.
func run(args []string) int {
	cmd, code := terminal.Read("smg-selector", "selector", args)
	if cmd == nil {
		return code
	}
	return selector.Main(cmd)
}
