package selector

import (
	"context"
	"fmt"
	"log/slog"

	"smg/cmd/internal/certs"
	"smg/cmd/internal/flags"
	"smg/cmd/internal/service"
	"smg/engine"
)

// Engines is how a process connects to engines, for requests and for probes.
type Engines struct {
	Config engine.Config
	own    *certs.Pair // nil: the process shows no certificate
}

// EnginesOf reads what the flags name.
func EnginesOf(cfg *flags.Launch, log *slog.Logger) (*Engines, error) {
	e := &Engines{Config: engine.DefaultConfig()}
	e.Config.IdleTimeout = cfg.UpstreamPoolIdleTimeout
	var err error
	if e.Config.RootCAs, err = certs.Authorities(cfg.Auth.CACerts); err != nil {
		return nil, fmt.Errorf("reading --ca-cert-paths: %w", err)
	}
	if cfg.Auth.ClientCert == "" {
		return e, nil
	}
	if e.own, err = certs.Load(cfg.Auth.ClientCert, cfg.Auth.ClientKey, log); err != nil {
		return nil, fmt.Errorf("reading --client-cert-path and --client-key-path: %w", err)
	}
	e.Config.Certificates = e.own.Client
	return e, nil
}

// Stages keep what was read up to date.
func (e *Engines) Stages() []service.Stage {
	if e.own == nil {
		return nil
	}
	return []service.Stage{{Name: "client certificate", Run: func(ctx context.Context) error { return e.own.Run(ctx) }}}
}
