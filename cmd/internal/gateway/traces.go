package gateway

import (
	"context"

	"smg/cmd/internal/service"
	"smg/cmd/internal/tracing"
	"smg/cmd/internal/version"
	"smg/ingress"
)

// tracer is who traces requests, with the stage that sends what is left in the end; nil
// and none without --enable-trace.
func (g *Gateway) tracer() (ingress.Tracer, []service.Stage, error) {
	if !g.cfg.Trace.Enabled {
		return nil, nil, nil
	}
	t, err := tracing.New(context.Background(), tracing.Config{Endpoint: g.cfg.Trace.OTLPEndpoint, Version: version.String()}, g.log)
	if err != nil {
		return nil, nil, err
	}
	return t, []service.Stage{{Name: "traces", Run: t.Run}}, nil
}
