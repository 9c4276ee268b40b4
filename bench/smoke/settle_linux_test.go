package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"smg/bench/load"
)

// TestSettle: measuring begins once a gateway asks its selectors.
func TestSettle(t *testing.T) {
	for _, tt := range []struct {
		name     string
		degraded int64 // answers
		status   int
		want     string // in the error; "" for none
	}{
		{name: "at_once", status: http.StatusOK},
		{name: "after_a_while", degraded: 2, status: http.StatusOK},
		{name: "never", degraded: 1 << 30, status: http.StatusOK, want: "without a selector"},
		{name: "fails", status: http.StatusServiceUnavailable, want: "another status"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var n atomic.Int64
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if n.Add(1) <= tt.degraded {
					w.Header().Set("x-smg-degraded", "prefill")
				}
				w.WriteHeader(tt.status)
			}))
			defer s.Close()
			cfg := load.Config{
				Addr: netip.MustParseAddrPort(s.Listener.Addr().String()), Connections: 1, Timeout: 10 * time.Second,
				Request: load.Post("gateway", path, "{}"), Mark: []byte(degradedField),
			}
			ctx := t.Context()
			if tt.want == "without a selector" {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeoutCause(ctx, 500*time.Millisecond, errors.New(tt.want))
				defer cancel()
			}
			err := settle(ctx, cfg)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("settle: %v, want %q", err, tt.want)
			}
			if err == nil && n.Load() != tt.degraded+1 {
				t.Errorf("%d requests, want %d", n.Load(), tt.degraded+1)
			}
		})
	}
}
