package main

import (
	"errors"
	"fmt"
	"log/slog"

	"smg/bus/natsd"
	"smg/cmd/internal/flags"
	"smg/cmd/internal/gateway"
)

// withBus has f run with the built-in NATS server, or with nil where the command line
// names another.
func withBus(cfg *flags.Launch, log *slog.Logger, f func(gateway.Server) error) error {
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
		return fmt.Errorf("starting the built-in message bus: %w", err)
	}
	return errors.Join(f(server), server.Stop())
}
