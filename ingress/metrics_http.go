package ingress

import (
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// httpMetrics are the numbers of requests as clients send them. Their label path is
// [route.name].
type httpMetrics struct {
	requests  *prometheus.CounterVec   // method, path
	duration  *prometheus.HistogramVec // method, path: until the head is out
	responses *prometheus.CounterVec   // path, status_code, error_code
	active    prometheus.GaugeFunc
	ages      *prometheus.GaugeVec // gt, le: see ageBounds

	arrivals *table[arrivalKey, *arrivals]
	answers  *table[answerKey, prometheus.Counter]
	binned   []prometheus.Gauge // of ages, in the order of their bins

	limited  *prometheus.CounterVec // result
	inflight prometheus.Gauge       // that have a permit
	queued   prometheus.Gauge       // that wait for one
	refused  *prometheus.CounterVec // reason
}

// Results of smg_http_rate_limit_total, and reasons of smg_admission_queue_rejected_total.
const (
	limitAllowed  = "allowed"
	limitRejected = "rejected"
	queueFull     = "full"
	queueTimeout  = "timeout"
)

// ageBounds are the ages of running requests, in seconds, between which they are
// counted: each in one bin alone.
func ageBounds() []int {
	return []int{0, 30, 60, 180, 300, 600, 1200, 3600, 7200, 14400, 28800, 86400}
}

// ageBins are the labels gt and le of the bins.
func ageBins() (bins [][2]string) {
	bounds := ageBounds()
	for i, from := range bounds {
		to := "+Inf"
		if i+1 < len(bounds) {
			to = strconv.Itoa(bounds[i+1])
		}
		bins = append(bins, [2]string{strconv.Itoa(from), to})
	}
	return bins
}

// newHTTPMetrics has durations in buckets, and active for what is in flight.
func newHTTPMetrics(buckets []float64, active *atomic.Int64) *httpMetrics {
	m := &httpMetrics{
		requests:  counterVec("smg_http_requests_total", "Requests that have come.", "method", "path"),
		duration:  secondsVec(buckets, "smg_http_request_duration_seconds", "From a request to the head of its answer.", "method", "path"),
		responses: counterVec("smg_http_responses_total", "Answers, with the gateway's own error code.", "path", "status_code", "error_code"),
		active: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "smg_http_connections_active",
			Help: "Requests in flight, with their answers' bodies.",
		}, func() float64 { return float64(active.Load()) }),
		ages: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "smg_http_inflight_request_age_count",
			Help: "Requests in flight by their age in seconds, as of the last look.",
		}, []string{"gt", "le"}),
		limited:  counterVec("smg_http_rate_limit_total", "Requests that got a permit or did not.", "result"),
		inflight: gauge("smg_admission_inflight", "Requests that have a permit."),
		queued:   gauge("smg_admission_queue_depth", "Requests that wait for a permit."),
		refused:  counterVec("smg_admission_queue_rejected_total", "Requests that were refused a permit.", "reason"),
	}
	from0(m.limited, limitAllowed, limitRejected)
	from0(m.refused, queueFull, queueTimeout)
	for _, bin := range ageBins() {
		m.binned = append(m.binned, m.ages.WithLabelValues(bin[0], bin[1]))
	}
	m.arrivals = newTable(func(k arrivalKey) (*arrivals, bool) {
		labels := []string{k.method, k.route.name()}
		return &arrivals{m.requests.WithLabelValues(labels...), m.duration.WithLabelValues(labels...)}, true
	})
	m.answers = newTable(func(k answerKey) (prometheus.Counter, bool) {
		return m.responses.WithLabelValues(k.route.name(), strconv.Itoa(k.status), k.code), true
	})
	return m
}

// collectors are all of them.
func (m *httpMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.requests, m.duration, m.responses, m.active, m.ages, m.limited, m.inflight, m.queued, m.refused}
}

func counterVec(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func secondsVec(buckets []float64, name, help string, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}

func gauge(name, help string) prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
}

// from0 shows the series of a single label before they have moved.
func from0(vec *prometheus.CounterVec, values ...string) {
	for _, v := range values {
		vec.WithLabelValues(v)
	}
}
