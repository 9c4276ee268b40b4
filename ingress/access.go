package ingress

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
)

// AccessConfig is what is told of each request: by which id, and where.
type AccessConfig struct {
	// RequestIDHeaders are read in order for a request's id; lower case.
	RequestIDHeaders []string
	// LogRequests has the two lines of each request logged at info and above, and not at
	// debug.
	LogRequests bool
	// DurationBuckets are the upper bounds of all histograms of durations, in seconds.
	DurationBuckets []float64
}

// DefaultAccess is that of a gateway that was given no flags.
func DefaultAccess() AccessConfig {
	return AccessConfig{
		RequestIDHeaders: []string{"x-request-id", "x-correlation-id", "x-trace-id", "request-id"},
		DurationBuckets:  durationBuckets(),
	}
}

// Validate reports every value out of range, each by its flag.
func (c AccessConfig) Validate() error {
	for i, b := range c.DurationBuckets {
		if !(b > 0) || math.IsInf(b, 0) || i > 0 && b <= c.DurationBuckets[i-1] {
			return fmt.Errorf("--prometheus-duration-buckets must be above 0 and ascend, which %v do not", c.DurationBuckets)
		}
	}
	return nil
}

// durationBuckets are those of a gateway that was given no flags.
func durationBuckets() []float64 {
	return []float64{
		0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 30, 45, 60, 90, 120, 180, 240, 300, 480, 900, 1200, 1800, 2700,
		3600, 5400, 7200,
	}
}

// What the two lines of a request are told apart by.
const (
	targetRequest  = "smg::request"
	targetResponse = "smg::response"
)

// statusGone stands for the status of a client that has left before it got one.
const statusGone = 499

// arrived notes that a request has come: its route is known, if there is one.
func (x *exchange) arrived(r *http.Request) {
	x.countArrival(r)
	x.trace(r)
	if level := x.accessLevel(slog.LevelInfo); x.srv.log.Enabled(&x.ctx, level) {
		x.srv.log.LogAttrs(&x.ctx, level, "request", slog.String("target", targetRequest), x.about(r))
	}
}

// departed notes what has become of it: see exchange.out and exchange.err. It is
// called however the request ends, also where the connection is cut.
func (x *exchange) departed(r *http.Request) {
	x.countServed()
	severity := x.severity()
	if x.span != nil {
		x.span.End(x.out.status, severity == slog.LevelError)
	}
	level := x.accessLevel(severity)
	if !x.srv.log.Enabled(&x.ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("target", targetResponse),
		x.about(r, slog.Int("status_code", x.status()), slog.Int64("latency", x.elapsed().Microseconds())),
		slog.Int64("bytes", x.out.bytes),
	}
	if x.query.model != "" {
		attrs = append(attrs, slog.String("model", clip(x.query.model)))
	}
	if x.planned != 0 {
		attrs = append(attrs, slog.Uint64("plan", x.planned), slog.Int("attempts", x.attempt))
	}
	if x.out.code != "" {
		attrs = append(attrs, slog.String("error_code", x.out.code))
	}
	// What an engine says of a request may repeat it, and does not belong here.
	var p *problem
	switch {
	case x.failed != nil:
		attrs = append(attrs, slog.String("error", errCut.Error()))
	case x.err != nil && !errors.As(x.err, &p):
		attrs = append(attrs, slog.Any("error", x.err))
	}
	x.srv.log.LogAttrs(&x.ctx, level, "response", attrs...)
}

// about is what all lines of a request say of it.
func (x *exchange) about(r *http.Request, more ...any) slog.Attr {
	return slog.Group("span", append([]any{
		slog.String("method", clip(r.Method)), slog.String("uri", clip(r.URL.Path)), slog.String("version", r.Proto),
		slog.String("module", "smg"), slog.String("request_id", x.id[0]),
	}, more...)...)
}

// status is the answer's, as far as there is one.
func (x *exchange) status() int {
	if x.out.status == 0 {
		return statusGone
	}
	return x.out.status
}

// severity is how much the end of a request matters to those who run the gateway.
func (x *exchange) severity() slog.Level {
	switch status := x.status(); {
	case x.failed != nil, errors.Is(x.err, errCut), status >= http.StatusInternalServerError:
		return slog.LevelError
	case status >= http.StatusBadRequest && status != statusGone:
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

// accessLevel is the level of a line about the request that matters so much.
func (x *exchange) accessLevel(l slog.Level) slog.Level {
	if !x.srv.cfg.Access.LogRequests || x.route != nil && x.route.probe {
		return slog.LevelDebug
	}
	return l
}
