package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// serveMetrics answers GET /metrics on a port of its own.
func (g *Gateway) serveMetrics(ctx context.Context) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(g.reg, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(g.log.Handler(), slog.LevelError),
	}))
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: g.cfg.ReadHeaderTimeout, ErrorLog: slog.NewLogLogger(g.log.Handler(), slog.LevelDebug)}
	done := make(chan error, 1) // one: Serve's result
	go func() { done <- srv.Serve(g.metrics) }()
	select {
	case err := <-done:
		return fmt.Errorf("serving metrics: %w", err)
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	err := srv.Shutdown(end)
	if err != nil {
		err = srv.Close() // a scrape that hangs must not hold up the stop
	}
	if serve := <-done; !errors.Is(serve, http.ErrServerClosed) {
		err = errors.Join(err, serve)
	}
	return err
}
