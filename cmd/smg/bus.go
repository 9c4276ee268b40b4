package main

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"smg/bus/natsd"
	"smg/cmd/internal/flags"
	"smg/cmd/internal/gateway"
)

// withBus has f run with the built-in NATS server, or with nil where the command line
// names another.
func withBus(cmd *flags.Command, log *slog.Logger, f func(gateway.Server) error) error {
	cfg := cmd.Launch
	if cfg.Bus.External() {
		return f(nil)
	}
	c := natsd.DefaultConfig()
	c.Listen, c.User, c.Password, c.StateDir = cfg.Bus.Listen, cfg.Bus.User, cfg.Bus.Password, cfg.Bus.StateDir
	if c.Listen == "" && cfg.Topology == flags.Split {
		c.Listen = "127.0.0.1:0"
	}
	server, err := natsd.Start(c, log)
	if err != nil {
		return cmd.Sourced(busFault(cmd, err))
	}
	return errors.Join(f(server), server.Stop())
}

// busFault is err of the built-in server, and the flag that it has to do with.
func busFault(cmd *flags.Command, err error) error {
	prefix, b := "--"+cmd.Prefix(), cmd.Launch.Bus
	f := &flags.Fault{What: fmt.Sprintf("starting the built-in message bus: %v", err), Code: flags.ExitFailure}
	switch {
	case b.StateDir != "" && strings.Contains(err.Error(), b.StateDir):
		f.Where, f.Hint = prefix+"state-dir "+b.StateDir, "give a folder that can be made and written to, and that no other gateway has"
	case b.Listen != "":
		f.Where, f.Hint = prefix+"nats-listen "+b.Listen, "give a free address of this machine"
	}
	return f
}
