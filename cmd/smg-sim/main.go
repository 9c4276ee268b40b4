// Command smg-sim runs simulated inference engines; see docs/sim.md.
package main

import (
	"context"
	"os"

	"smg/cmd/internal/simcmd"
)

func main() {
	os.Exit(simcmd.Main(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}
