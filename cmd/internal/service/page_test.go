package service

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// TestPageTellsReadiness: whoever starts services one after another looks at
// /readiness, and only where there is one.
func TestPageTellsReadiness(t *testing.T) {
	var ready atomic.Bool
	for _, tt := range []struct {
		name  string
		page  Page
		state bool
		want  int
	}{
		{"not ready", Page{Ready: ready.Load}, false, http.StatusServiceUnavailable},
		{"ready", Page{Ready: ready.Load}, true, http.StatusOK},
		{"told elsewhere", Page{}, true, http.StatusNotFound},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ready.Store(tt.state)
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan error, 1)
			tt.page.Metrics = prometheus.NewRegistry()
			go func() { done <- ServePage(ctx, l, tt.page, slog.New(slog.DiscardHandler)) }()
			for path, want := range map[string]int{"/readiness": tt.want, "/health": http.StatusOK} {
				r, err := http.Get("http://" + l.Addr().String() + path)
				if err != nil {
					t.Fatal(err)
				}
				_ = r.Body.Close()
				if r.StatusCode != want {
					t.Errorf("%s: got %d, want %d", path, r.StatusCode, want)
				}
			}
			http.DefaultClient.CloseIdleConnections()
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}
