package service

import (
	"context"
	"log/slog"
	"net"
	"net/http"
)

// ServeProbes answers with h on a port of its own until ctx ends, so that probes wait
// for no other request.
func ServeProbes(ctx context.Context, l net.Listener, h http.Handler, log *slog.Logger) error {
	return serveUntil(ctx, l, h, "probes", log)
}
