package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"smg/cmd/internal/decisions"
)

// liveHeap is what the collector of garbage last found to be in use. What the process has
// of the system swings with the garbage; this shows what is kept.
var liveHeap = regexp.MustCompile("^/gc/heap/live:bytes$")

// NewRegistry is a registry that has the metrics of the process itself.
func NewRegistry() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	runtime := collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(collectors.GoRuntimeMetricsRule{Matcher: liveHeap}))
	reg.MustRegister(runtime, collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return reg
}

// readHeaderTimeout bounds how long a scraper may take to ask.
const readHeaderTimeout = 10 * time.Second

// Page is what a process shows to those who run it.
type Page struct {
	Metrics   prometheus.Gatherer
	Decisions http.Handler // nil where nobody decides
	Ready     func() bool  // nil where another port tells
	// Readiness is what a parent asks for in place of it, nil where there is none.
	Readiness func() (ready bool, healthy, total int)
	Profiles  bool // show those of the process, too
}

// ReadinessPath is where a child shows its readiness.
const ReadinessPath = "/readiness"

// Readiness is how ready a child is.
type Readiness struct {
	Ready   bool `json:"ready"`
	Healthy int  `json:"healthy_workers"`
	Total   int  `json:"total_workers"`
}

// readiness shows it, with 503 while the child is not ready.
func (p Page) readiness(w http.ResponseWriter, _ *http.Request) {
	var r Readiness
	r.Ready, r.Healthy, r.Total = p.Readiness()
	w.Header().Set("Content-Type", "application/json")
	if !r.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(r) // a parent that has left asks again
}

// ServePage answers GET /metrics, GET /debug/decisions, GET /health with 200, and GET
// /readiness with 200 or 503, on a port of their own until ctx ends.
func ServePage(ctx context.Context, l net.Listener, page Page, log *slog.Logger) error {
	mux := http.NewServeMux()
	metrics := promhttp.HandlerFor(page.Metrics, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelError),
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) { metrics.ServeHTTP(&plainText{ResponseWriter: w}, r) })
	if page.Decisions != nil {
		mux.Handle("GET "+decisions.Path, page.Decisions)
	}
	if page.Readiness != nil {
		mux.HandleFunc("GET "+ReadinessPath, page.readiness)
	}
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	if page.Ready != nil {
		mux.HandleFunc("GET /readiness", func(w http.ResponseWriter, _ *http.Request) {
			if !page.Ready() {
				http.Error(w, "not ready", http.StatusServiceUnavailable)
			}
		})
	}
	if page.Profiles {
		handleProfiles(mux)
	}
	return serveUntil(ctx, l, mux, "metrics", log)
}

// serveUntil serves what on l until ctx ends.
func serveUntil(ctx context.Context, l net.Listener, h http.Handler, what string, log *slog.Logger) error {
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
		err = srv.Close() // who hangs must not hold up the stop
	}
	if serve := <-done; !errors.Is(serve, http.ErrServerClosed) {
		err = errors.Join(err, serve)
	}
	return err
}

// plainText takes a remark out of the type of a page, which not every scraper knows:
// names have no characters that would have to be escaped.
type plainText struct {
	http.ResponseWriter
	begun bool
}

// WriteHeader implements [http.ResponseWriter].
func (p *plainText) WriteHeader(status int) {
	p.begin()
	p.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (p *plainText) Write(b []byte) (int, error) {
	p.begin()
	return p.ResponseWriter.Write(b)
}

func (p *plainText) begin() {
	if p.begun {
		return
	}
	p.begun = true
	h := p.Header()
	if kind, _, ok := strings.Cut(h.Get("Content-Type"), "; escaping="); ok {
		h.Set("Content-Type", kind)
	}
}
