package main

import (
	"smg/cmd/internal/flags"
	"smg/cmd/internal/gateway"
	"smg/cmd/internal/terminal"
)

// launch serves engines that run already.
func launch(cmd *flags.Command) int {
	con, err := terminal.NewConsole(cmd)
	if err != nil {
		return con.Fail(err)
	}
	g, err := gateway.Bind(cmd, con)
	if err != nil {
		return con.Fail(err)
	}
	sig := terminal.WatchSignals(con.Log)
	defer sig.Stop()
	sig.OnSecond(g.Hurry)
	sig.OnThird(g.Kill)
	g.Introduce()
	return con.Fail(withBus(cmd, con.Log, func(server gateway.Server) error {
		return g.Run(sig.Context(), server, g.ReportReady)
	}))
}
