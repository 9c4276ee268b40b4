package ingress

import (
	"errors"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"smg/engine"
	"smg/worker"
)

// routerMetrics are the numbers of requests to workers. A client's request is counted
// once in the first three, each of its attempts in the others.
type routerMetrics struct {
	requests *prometheus.CounterVec   // router_type, backend_type, connection_mode, model, endpoint, streaming
	duration *prometheus.HistogramVec // router_type, backend_type, connection_mode, model, endpoint
	errors   *prometheus.CounterVec   // router_type, backend_type, connection_mode, model, endpoint, error_type

	upstream *prometheus.CounterVec // router_type, status_code, error_code
	bodies   *prometheus.CounterVec // path, reason
	paths    [bodyPaths]prometheus.Counter

	workerErrors *prometheus.CounterVec // worker_type, connection_mode, error_type
	backoff      *prometheus.SummaryVec // attempt

	served    *table[servedKey, served]
	heardOf   *table[heardKey, prometheus.Counter]
	replanned atomic.Uint64 // requests that were planned anew since a connection had died unused
}

// Label values of the only kind of engines that there is.
const (
	routerHTTP     = "http"
	connectionHTTP = "http"
)

// servedKey tells requests to workers apart, served are their series.
type (
	servedKey struct {
		mode   Mode
		model  string
		route  *route
		stream bool
	}
	served struct {
		requests prometheus.Counter
		duration prometheus.Observer
	}
	heardKey struct {
		status int
		code   string
	}
)

func newRouterMetrics(buckets []float64) *routerMetrics {
	of := []string{"router_type", "backend_type", "connection_mode", "model", "endpoint"}
	m := &routerMetrics{
		requests: counterVec("smg_router_requests_total", "Requests to workers, each of a client's once.", append(of, "streaming")...),
		duration: secondsVec(buckets, "smg_router_request_duration_seconds", "From a request to the end of its answer, of those that were served.", of...),
		errors:   counterVec("smg_router_request_errors_total", "Requests that were answered with an error that is not worth another attempt.", append(of, "error_type")...),

		upstream: counterVec("smg_router_upstream_responses_total", "Answers of workers, of every attempt.", "router_type", "status_code", "error_code"),
		bodies:   counterVec("smg_router_request_body_path_total", "Requests by how their bodies went to workers, and why.", "path", "reason"),

		workerErrors: counterVec("smg_worker_errors_total", "Answers of workers with a status of 500 and above.", "worker_type", "connection_mode", "error_type"),
		backoff: prometheus.NewSummaryVec(prometheus.SummaryOpts{
			Name:       "smg_worker_retry_backoff_seconds",
			Help:       "Waits before another attempt.",
			Objectives: map[float64]float64{0: 0.05, 0.5: 0.05, 0.9: 0.01, 0.95: 0.01, 0.99: 0.001, 0.999: 0.0001, 1: 0.0001},
		}, []string{"attempt"}),
	}
	m.heardOf = newTable(func(k heardKey) (prometheus.Counter, bool) {
		return m.upstream.WithLabelValues(routerHTTP, strconv.Itoa(k.status), k.code), true
	})
	for p := range bodyPaths {
		path, reason := p.labels()
		m.paths[p] = m.bodies.WithLabelValues(path, reason)
	}
	return m
}

// body counts a request by how its body goes to its worker.
func (m *routerMetrics) body(p bodyPath) { m.paths[p].Inc() }

// collectors are all of them.
func (m *routerMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.requests, m.duration, m.errors, m.upstream, m.bodies, m.workerErrors, m.backoff}
}

// resends shows how often requests were sent once more: the engines' client tells, if it
// can.
func (m *metrics) resends(reg prometheus.Registerer, d Dispatcher) error {
	teller, _ := d.(interface{ Stats() engine.Stats })
	return reg.Register(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name:        "smg_router_upstream_send_retries_total",
		Help:        "Requests that were sent once more since their connection had died unused.",
		ConstLabels: prometheus.Labels{"router_type": routerHTTP},
	}, func() float64 {
		n := m.router.replanned.Load()
		if teller != nil {
			n += teller.Stats().Resends
		}
		return float64(n)
	}))
}

// backend is the mode as a value of the label backend_type.
func (m Mode) backend() string {
	switch m {
	case PD:
		return "pd"
	case EPD:
		return "epd"
	case Regular:
	}
	return "regular"
}

func (m *metrics) addServed(k servedKey) (served, bool) {
	model := m.modelLabel(k.model)
	labels := []string{routerHTTP, k.mode.backend(), connectionHTTP, model, k.route.endpoint}
	s := served{duration: m.router.duration.WithLabelValues(labels...)}
	s.requests = m.router.requests.WithLabelValues(append(labels, strconv.FormatBool(k.stream))...)
	return s, model == k.model || k.model == ""
}

// countServed counts a request for workers, once it is over. A model of which it is not
// known that somebody serves it has no series: clients could make up as many as they
// like, in faulty bodies too, and by leaving before an answer.
func (x *exchange) countServed() {
	if !x.routed {
		return
	}
	m := x.srv.metrics
	k := servedKey{x.mode, x.query.model, x.route, x.query.stream}
	var p *problem
	errors.As(x.err, &p)
	if refused := p != nil && p.status == http.StatusServiceUnavailable; x.planned == 0 && !refused {
		k.model = ""
	}
	s := m.router.served.of(k)
	s.requests.Inc()
	switch status := x.out.status; {
	case status == 0: // nobody was there to be answered
	case status < http.StatusMultipleChoices:
		if x.err == nil {
			s.duration.Observe(x.elapsed().Seconds())
		}
	case !x.worthAnother():
		m.router.errors.WithLabelValues(routerHTTP, k.mode.backend(), connectionHTTP, m.modelLabel(k.model), k.route.endpoint, errorType(status)).Inc()
	}
}

// worthAnother says whether another attempt might have bettered the answer.
func (x *exchange) worthAnother() bool {
	if p, ok := errors.AsType[*problem](x.err); ok {
		return p.retryable
	}
	return retried(x.out.status)
}

// errorType is a status as a value of the label error_type.
func errorType(status int) string {
	switch {
	case status == http.StatusBadRequest:
		return "validation_error"
	case status == http.StatusNotFound:
		return "no_workers"
	case status == http.StatusRequestTimeout, status == http.StatusGatewayTimeout:
		return "timeout"
	case status >= http.StatusInternalServerError:
		return "backend_error"
	}
	return "internal_error"
}

// heard counts what became of a call: the worker's status, or that of an error of the
// gateway's own, with its code.
func (m *metrics) heard(w *worker.Spec, status int, code string) {
	m.router.heardOf.of(heardKey{status, code}).Inc()
	if code == "" && status >= http.StatusInternalServerError {
		m.router.workerErrors.WithLabelValues(w.Leg.String(), w.Mode.String(), errorType(status)).Inc()
	}
}

// backedOff notes the wait before an attempt, counted from the second as 1.
func (m *routerMetrics) backedOff(n int, d time.Duration) {
	m.backoff.WithLabelValues(strconv.Itoa(n)).Observe(d.Seconds())
}
