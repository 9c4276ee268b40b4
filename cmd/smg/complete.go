package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"smg/cmd/internal/admin"
	"smg/cmd/internal/flags"
	"smg/cmd/internal/simcmd"
)

// complete prints what a shell needs to complete command lines of smg.
func complete(shell string) int {
	fmt.Print(flags.Completion(shell, map[string][]cli.Flag{
		"sim": simcmd.Flags(), "workers": admin.Flags("workers add"), "status": admin.Flags("status"),
	}))
	return 0
}
