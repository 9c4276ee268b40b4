package ingress

import "github.com/prometheus/client_golang/prometheus"

// routerMetrics are the numbers of requests to workers. A client's request is counted
// once in the first three, each of its attempts in the others.
type routerMetrics struct {
	requests *prometheus.CounterVec   // router_type, backend_type, connection_mode, model, endpoint, streaming
	duration *prometheus.HistogramVec // router_type, backend_type, connection_mode, model, endpoint
	errors   *prometheus.CounterVec   // router_type, backend_type, connection_mode, model, endpoint, error_type

	upstream *prometheus.CounterVec // router_type, status_code, error_code
	resends  *prometheus.CounterVec // router_type
	bodies   *prometheus.CounterVec // path, reason
	paths    [bodyPaths]prometheus.Counter

	workerErrors *prometheus.CounterVec // worker_type, connection_mode, error_type
	backoff      *prometheus.SummaryVec // attempt
}

func newRouterMetrics() *routerMetrics {
	of := []string{"router_type", "backend_type", "connection_mode", "model", "endpoint"}
	m := &routerMetrics{
		requests: counterVec("smg_router_requests_total", "Requests to workers, each of a client's once.", append(of, "streaming")...),
		duration: secondsVec("smg_router_request_duration_seconds", "From a request to the end of its answer, of those that were served.", of...),
		errors:   counterVec("smg_router_request_errors_total", "Requests that were answered with an error.", append(of, "error_type")...),

		upstream: counterVec("smg_router_upstream_responses_total", "Answers of workers, of every attempt.", "router_type", "status_code", "error_code"),
		resends:  counterVec("smg_router_upstream_send_retries_total", "Requests that were sent once more since their connection had died unused.", "router_type"),
		bodies:   counterVec("smg_router_request_body_path_total", "Requests by how their bodies went to workers, and why.", "path", "reason"),

		workerErrors: counterVec("smg_worker_errors_total", "Answers of workers with a status of 500 and above.", "worker_type", "connection_mode", "error_type"),
		backoff: prometheus.NewSummaryVec(prometheus.SummaryOpts{
			Name: "smg_worker_retry_backoff_seconds",
			Help: "Waits before another attempt.",
		}, []string{"attempt"}),
	}
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
	return []prometheus.Collector{m.requests, m.duration, m.errors, m.upstream, m.resends, m.bodies, m.workerErrors, m.backoff}
}
