package tracing

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"

	"smg/ingress"
)

// receiver is a collector that keeps what it gets.
type receiver struct {
	collector.UnimplementedTraceServiceServer

	mu    sync.Mutex
	spans []*otlp.Span
	from  map[string]string // attributes of the resource
}

func (r *receiver) Export(_ context.Context, q *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rs := range q.GetResourceSpans() {
		for _, a := range rs.GetResource().GetAttributes() {
			r.from[a.GetKey()] = a.GetValue().GetStringValue()
		}
		for _, ss := range rs.GetScopeSpans() {
			r.spans = append(r.spans, ss.GetSpans()...)
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

func listen(t *testing.T) (*receiver, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &receiver{from: map[string]string{}}
	srv := grpc.NewServer()
	collector.RegisterTraceServiceServer(srv, r)
	done := make(chan error)
	go func() { done <- srv.Serve(l) }()
	t.Cleanup(func() {
		srv.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return r, l.Addr().String()
}

// traced runs a Tracer for as long as do takes, and returns once it has sent everything.
func traced(t *testing.T, endpoint string, log *slog.Logger, do func(*Tracer)) {
	t.Helper()
	tr, err := New(t.Context(), Config{Endpoint: endpoint, Version: "1.2.3"}, log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- tr.Run(ctx) }()
	do(tr)
	stop()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("Run does not end")
	}
}

func request(t *testing.T, fields ...string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://g/generate", nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	return r
}

const (
	traceID = "4bf92f3577b34da6a3ce929d0e0e4736"
	spanID  = "00f067aa0ba902b7"
)

// TestSpans sends a request's span and its call's, under the client's trace.
func TestSpans(t *testing.T) {
	rec, endpoint := listen(t)
	var parent, state string
	traced(t, endpoint, slog.New(slog.DiscardHandler), func(tr *Tracer) {
		s := tr.Request(request(t, "Traceparent", "00-"+traceID+"-"+spanID+"-01", "Tracestate", "a=b"), "/generate", "id")
		c := s.Call(ingress.TracedCall{Leg: "decode", Worker: "http://w:1", Policy: "random", Attempt: 2})
		parent, state = c.Context()
		c.End(500, true)
		s.End(200, false)
	})
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if len(rec.spans) != 2 {
		t.Fatalf("%d spans", len(rec.spans))
	}
	leg, whole := rec.spans[0], rec.spans[1]
	type said struct {
		Name, Trace, Parent, Status string
		Attributes                  map[string]string
	}
	of := func(s *otlp.Span) said {
		all := map[string]string{}
		for _, a := range s.GetAttributes() {
			all[a.GetKey()] = strings.TrimSpace(strings.Join(strings.Split(a.GetValue().String(), ":")[1:], ":"))
		}
		return said{s.GetName(), hex.EncodeToString(s.GetTraceId()), hex.EncodeToString(s.GetParentSpanId()), s.GetStatus().GetCode().String(), all}
	}
	own := hex.EncodeToString(whole.GetSpanId())
	want := []said{
		{"leg", traceID, own, "STATUS_CODE_ERROR", map[string]string{
			"smg.leg": `"decode"`, "smg.worker": `"http://w:1"`, "smg.policy": `"random"`, "smg.attempt": "2", "http.response.status_code": "500",
		}},
		{"request", traceID, spanID, "STATUS_CODE_UNSET", map[string]string{
			"http.request.method": `"POST"`, "http.route": `"/generate"`, "smg.request_id": `"id"`, "http.response.status_code": "200",
		}},
	}
	if diff := cmp.Diff(want, []said{of(leg), of(whole)}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if wanted := "00-" + traceID + "-" + hex.EncodeToString(leg.GetSpanId()) + "-01"; parent != wanted || state != "a=b" {
		t.Errorf("the worker is told %s %s, not %s", parent, state, wanted)
	}
	if rec.from["service.name"] != "smg" || rec.from["service.version"] != "1.2.3" {
		t.Errorf("of %v", rec.from)
	}
}

// TestParents sees that a trace that is not sampled is not sent, and that one with no
// parent, or a faulty one, is a trace of its own.
func TestParents(t *testing.T) {
	rec, endpoint := listen(t)
	traced(t, endpoint, slog.New(slog.DiscardHandler), func(tr *Tracer) {
		s := tr.Request(request(t, "Traceparent", "00-"+traceID+"-"+spanID+"-00"), "/generate", "id")
		if p, _ := s.Context(); !strings.HasPrefix(p, "00-"+traceID) || !strings.HasSuffix(p, "-00") {
			t.Errorf("%s", p)
		}
		s.End(200, false)
		for _, parent := range []string{"", "nonsense", "00-" + strings.Repeat("0", 32) + "-" + spanID + "-01"} {
			tr.Request(request(t, "Traceparent", parent), "/generate", "id").End(200, false)
		}
	})
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if len(rec.spans) != 3 {
		t.Fatalf("%d spans", len(rec.spans))
	}
	for _, s := range rec.spans {
		if len(s.GetParentSpanId()) != 0 {
			t.Errorf("a parent %x", s.GetParentSpanId())
		}
	}
}

// TestNobodyIsThere ends in time, with one line, where there is no collector.
func TestNobodyIsThere(t *testing.T) {
	var out bytes.Buffer
	began := time.Now()
	traced(t, "127.0.0.1:1", slog.New(slog.NewTextHandler(&out, nil)), func(tr *Tracer) {
		for range 5000 { // more than are kept
			tr.Request(request(t), "/generate", "id").End(200, false)
		}
	})
	if n := strings.Count(out.String(), "traces cannot be sent"); n != 1 {
		t.Errorf("%d lines:\n%s", n, out.String())
	}
	if d := time.Since(began); d > 15*time.Second {
		t.Errorf("it took %v", d)
	}
}

// broken is an exporter that fails.
type broken struct{ sdktrace.SpanExporter }

func (broken) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return errors.New("no") }

// TestFaultsAreToldOnceAMinute holds how often lost spans are worth a line.
func TestFaultsAreToldOnceAMinute(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(1, 0)
	q := &quiet{SpanExporter: broken{}, endpoint: "e", log: slog.New(slog.NewTextHandler(&out, nil)), now: func() time.Time { return now }}
	for range 3 {
		for range 4 {
			if err := q.ExportSpans(t.Context(), make([]sdktrace.ReadOnlySpan, 2)); err != nil {
				t.Error(err)
			}
		}
		now = now.Add(tellEvery)
	}
	if n := strings.Count(out.String(), "level=WARN"); n != 3 || strings.Count(out.String(), "spans=2") != 1 || strings.Count(out.String(), "spans=8") != 2 {
		t.Errorf("%s", out.String())
	}
}
