package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// ServeProbes answers with h on a port of its own until ctx ends, so that probes wait
// for no other request.
func ServeProbes(ctx context.Context, l net.Listener, h http.Handler, log *slog.Logger) error {
	return serve(ctx, l, h, "probes", log)
}

// serve answers on l until ctx ends. It returns after everything that it began.
func serve(ctx context.Context, l net.Listener, h http.Handler, what string, log *slog.Logger) error {
	srv := &http.Server{Handler: h, ReadHeaderTimeout: readHeaderTimeout, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	done := make(chan error, 1) // one: Serve's result
	go func() { done <- srv.Serve(l) }()
	select {
	case err := <-done:
		return fmt.Errorf("serving %s: %w", what, err)
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	err := srv.Shutdown(end)
	if err != nil {
		err = srv.Close() // one who hangs must not hold up the stop
	}
	if serve := <-done; !errors.Is(serve, http.ErrServerClosed) {
		err = errors.Join(err, serve)
	}
	return err
}
