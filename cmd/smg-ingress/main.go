// Command smg-ingress is the command ingress of smg as a program of its own.
package main

import (
	"os"

	"smg/cmd/internal/gateway"
	"smg/cmd/internal/terminal"
)

func main() { os.Exit(run(os.Args[1:])) }

// run is the program without its exit.
func run(args []string) int {
	cmd, code := terminal.Read("smg-ingress", "ingress", args)
	if cmd == nil {
		return code
	}
	return gateway.Ingress(cmd)
}
