// Package tracing sends OpenTelemetry traces of requests to a collector, by OTLP over
// gRPC. It never holds a request up: what a collector does not take is dropped.
package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"smg/ingress"
)

// Config is where traces go.
type Config struct {
	Endpoint string // host and port of the collector
	Version  string // of this program
}

// Tracer makes spans of requests and sends them. It is safe for concurrent use.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	context  propagation.TraceContext
}

var _ ingress.Tracer = (*Tracer)(nil)

const (
	// exportTimeout bounds one message to the collector, flushWithin what is sent at the
	// end.
	exportTimeout = 5 * time.Second
	flushWithin   = 2 * time.Second
)

// New is a Tracer that sends once it has something to send: whether the collector is there
// shows then. [Tracer.Run] ends it.
func New(ctx context.Context, cfg Config, log *slog.Logger) (*Tracer, error) {
	exporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpoint(cfg.Endpoint), otlptracegrpc.WithInsecure(),
		otlptracegrpc.WithTimeout(exportTimeout), otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{}))
	if err != nil {
		return nil, fmt.Errorf("making the client of --otlp-traces-endpoint %s: %w", cfg.Endpoint, err)
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(&quiet{SpanExporter: exporter, endpoint: cfg.Endpoint, log: log, now: time.Now}),
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", "smg"), attribute.String("service.version", cfg.Version))),
	)
	return &Tracer{provider: provider, tracer: provider.Tracer("smg/ingress")}, nil
}

// Run waits for the end of ctx and sends what is left, for 2 s at most.
func (t *Tracer) Run(ctx context.Context) error {
	<-ctx.Done()
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushWithin)
	defer cancel()
	_ = t.provider.Shutdown(end) // what could not be sent was told of
	return nil
}

// Request implements [ingress.Tracer].
func (t *Tracer) Request(r *http.Request, route, id string) ingress.Span {
	parent := t.context.Extract(context.Background(), propagation.HeaderCarrier(r.Header))
	ctx, s := t.tracer.Start(parent, "request", trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String("http.request.method", r.Method), attribute.String("http.route", route), attribute.String("smg.request_id", id),
	))
	return &span{t: t, ctx: ctx, span: s}
}

// span is one of a request or of a call.
type span struct {
	t    *Tracer
	ctx  context.Context //nolint:containedctx // it is how spans find their parents
	span trace.Span
}

// Call implements [ingress.Span].
func (s *span) Call(c ingress.TracedCall) ingress.Span {
	ctx, child := s.t.tracer.Start(s.ctx, "leg", trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("smg.leg", c.Leg), attribute.String("smg.worker", c.Worker), attribute.String("smg.policy", c.Policy),
		attribute.Int("smg.attempt", c.Attempt),
	))
	return &span{t: s.t, ctx: ctx, span: child}
}

// Context implements [ingress.Span].
func (s *span) Context() (parent, state string) {
	var fields propagation.MapCarrier = map[string]string{}
	s.t.context.Inject(s.ctx, fields)
	return fields["traceparent"], fields["tracestate"]
}

// End implements [ingress.Span].
func (s *span) End(status int, failed bool) {
	if status != 0 {
		s.span.SetAttributes(attribute.Int("http.response.status_code", status))
	}
	if failed {
		s.span.SetStatus(codes.Error, "")
	}
	s.span.End()
}

// quiet tells of a collector that cannot be reached once a minute. It is never the
// batcher that does.
type quiet struct {
	sdktrace.SpanExporter
	endpoint string
	log      *slog.Logger
	now      func() time.Time

	mu      sync.Mutex
	told    time.Time
	dropped int // since
}

// tellEvery is how often it is worth a line that spans are lost.
const tellEvery = time.Minute

// ExportSpans implements [sdktrace.SpanExporter].
func (q *quiet) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := q.SpanExporter.ExportSpans(ctx, spans)
	if err == nil {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.dropped += len(spans)
	if now := q.now(); q.told.IsZero() || now.Sub(q.told) >= tellEvery {
		q.log.Warn("traces cannot be sent, and are lost", slog.String("endpoint", q.endpoint), slog.Int("spans", q.dropped), slog.Any("error", err))
		q.told, q.dropped = now, 0
	}
	return nil
}
