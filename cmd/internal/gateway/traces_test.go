package gateway

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"

	"smg/cmd/internal/flags"
	"smg/policy"
)

// spans is a collector of the names of spans.
type spans struct {
	collector.UnimplementedTraceServiceServer

	mu    sync.Mutex
	names []string
}

func (s *spans) Export(_ context.Context, q *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range q.GetResourceSpans() {
		for _, scope := range r.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				s.names = append(s.names, span.GetName())
			}
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

// TestWhatIsSeenOfAProcess has a gateway send traces of its requests, and show profiles.
func TestWhatIsSeenOfAProcess(t *testing.T) {
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "50") // ms
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	got, srv := &spans{}, grpc.NewServer()
	collector.RegisterTraceServiceServer(srv, got)
	served := make(chan error)
	go func() { served <- srv.Serve(l) }()
	t.Cleanup(func() {
		srv.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	g := running(t, policy.Random, func(cfg *flags.Launch) {
		cfg.Trace.Enabled, cfg.Trace.OTLPEndpoint, cfg.Trace.PprofAddr = true, l.Addr().String(), "127.0.0.1:0"
	})
	fetch := func(method, url, body string) string {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Close = true
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d %s %v", url, resp.StatusCode, b, err)
		}
		return string(b)
	}
	fetch(http.MethodPost, fmt.Sprintf("http://%s/v1/chat/completions", g.api.Addr()), `{"model":"sim","messages":[{"role":"user","content":"a"}],"max_tokens":1}`)
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		got.mu.Lock()
		names := slices.Sorted(slices.Values(got.names))
		got.mu.Unlock()
		if slices.Equal(names, []string{"leg", "request"}) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("spans %v", names)
		}
	}
	if page := fetch(http.MethodGet, fmt.Sprintf("http://%s/debug/pprof/", g.pprof.Addr()), ""); !strings.Contains(page, "goroutine") {
		t.Errorf("profiles: %.80s", page)
	}
}
