package ingress

import (
	"net/http"
	"slices"

	"smg/engine"
	"smg/worker"
)

// Tracer traces requests. It is safe for concurrent use, and holds nobody up.
type Tracer interface {
	// Request begins the span of a request, whose parent its fields may name.
	Request(r *http.Request, route, id string) Span
}

// Span is what a request or a call takes, from its begin to End.
type Span interface {
	// Call begins the span of a call that is made for this one.
	Call(c TracedCall) Span
	// Context names the span to others, as the fields traceparent and tracestate have it;
	// the second may be empty.
	Context() (parent, state string)
	// End ends the span, once. Status is that of an answer, 0 if there was none.
	End(status int, failed bool)
}

// TracedCall is what is told of a call of a worker.
type TracedCall struct {
	Leg, Worker, Policy string
	Attempt             int // from 1
}

// TraceConfig is what is traced.
type TraceConfig struct{}

// DefaultTrace is that of a gateway that was given no flags.
func DefaultTrace() TraceConfig { return TraceConfig{} }

// Validate reports every value out of range, each by its flag.
func (TraceConfig) Validate() error { return nil }

// trace begins the request's span, if requests are traced.
func (x *exchange) trace(r *http.Request) {
	if t := x.srv.tracer; t != nil && (x.route == nil || !x.route.probe) {
		x.span = t.Request(r, x.route.name(), x.id[0])
	}
}

// traced begins the span of a call, and names it to the worker in the client's place.
// Other legs have the same fields: they are copied.
func (c *call) traced(fields []engine.Field) []engine.Field {
	if c.x.span == nil {
		return fields
	}
	if c.span == nil {
		c.span = c.x.span.Call(TracedCall{Leg: c.leg().String(), Worker: c.pick.Worker.URL, Policy: c.pick.Policy, Attempt: c.x.attempt})
	}
	fields = slices.DeleteFunc(slices.Clone(fields), func(f engine.Field) bool { return f.Name == traceParent || f.Name == traceState })
	parent, state := c.span.Context()
	if parent != "" {
		fields = append(fields, engine.Field{Name: traceParent, Value: parent})
	}
	if state != "" {
		fields = append(fields, engine.Field{Name: traceState, Value: state})
	}
	return fields
}

// The fields of W3C's trace context.
const (
	traceParent = "Traceparent"
	traceState  = "Tracestate"
)

// untrace ends the span of a call whose outcome is known.
func (c *call) untrace(o worker.Outcome) {
	if c.span != nil {
		c.span.End(c.status, o == worker.Failure)
	}
}
