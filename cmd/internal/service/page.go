package service

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"smg/cmd/internal/decisions"
)

// NewRegistry is a registry that has the metrics of the process itself.
func NewRegistry() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return reg
}

// readHeaderTimeout bounds how long a scraper may take to ask.
const readHeaderTimeout = 10 * time.Second

// Page is what a process shows to those who run it.
type Page struct {
	Metrics   prometheus.Gatherer
	Decisions http.Handler // nil where nobody decides
	Ready     func() bool  // nil where another port tells
}

// ServePage answers GET /metrics, GET /debug/decisions, GET /health with 200, and GET
// /readiness with 200 or 503, on a port of their own until ctx ends.
func ServePage(ctx context.Context, l net.Listener, page Page, log *slog.Logger) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(page.Metrics, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelError),
	}))
	if page.Decisions != nil {
		mux.Handle("GET "+decisions.Path, page.Decisions)
	}
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	if page.Ready != nil {
		mux.HandleFunc("GET /readiness", func(w http.ResponseWriter, _ *http.Request) {
			if !page.Ready() {
				http.Error(w, "not ready", http.StatusServiceUnavailable)
			}
		})
	}
	return serve(ctx, l, mux, "metrics", log)
}
