package service

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"smg/bus"
	"smg/cmd/internal/flags"
)

// Join connects to the message bus: the built-in server, or without one the external
// servers that cfg names. Where those do not answer yet, the connection is made as
// soon as they do, and until then a log line says what is waited for.
func Join(cfg flags.Bus, server bus.Dialer, name string, reg prometheus.Registerer, log *slog.Logger) (*bus.Conn, error) {
	c := bus.DefaultConfig()
	c.Name = name
	if server != nil {
		c.Server = server
	} else {
		c.URL, c.Creds, c.CA, c.Replicas = strings.Join(cfg.URLs, ","), cfg.Creds, cfg.CA, cfg.Replicas
	}
	conn, err := bus.Connect(c, reg, log)
	if err != nil {
		return nil, fmt.Errorf("joining the message bus: %w", err)
	}
	return conn, nil
}
