package legs

import "github.com/prometheus/client_golang/prometheus"

// Why a stream of KV-cache events has failed, as label values.
const (
	noEvents = "unimplemented" // the engine publishes none
	lost     = "lost"          // the engine has no more what was missed
	gap      = "gap"           // numbers are missing, and are asked for
	broken   = "broken"        // it could not be opened, or ended
	badData  = "decode"        // a message could not be read
)

// eventMetrics are those of streams of KV-cache events. The services of a process share
// them.
type eventMetrics struct {
	failures  *prometheus.CounterVec // worker, reason
	connected *prometheus.GaugeVec   // worker
}

func newEventMetrics() *eventMetrics {
	return &eventMetrics{
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "smg_kv_event_subscription_failures_total",
			Help: "Failures of subscriptions to workers' KV-cache events.",
		}, []string{"worker", "reason"}),
		connected: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "smg_kv_events_connected",
			Help: "Open subscriptions to a worker's KV-cache events.",
		}, []string{"worker"}),
	}
}

// opened counts a subscription until it is told that it has ended.
func (m *eventMetrics) opened(url string) (ended func()) {
	g := m.connected.WithLabelValues(url)
	g.Inc()
	return g.Dec
}

func (m *eventMetrics) failed(url, reason string) { m.failures.WithLabelValues(url, reason).Inc() }

// forget drops what is told of a worker that is gone.
func (m *eventMetrics) forget(url string) {
	m.connected.DeleteLabelValues(url)
	m.failures.DeletePartialMatch(prometheus.Labels{"worker": url})
}

func (m *eventMetrics) describe(ch chan<- *prometheus.Desc) {
	m.failures.Describe(ch)
	m.connected.Describe(ch)
}

func (m *eventMetrics) collect(ch chan<- prometheus.Metric) {
	m.failures.Collect(ch)
	m.connected.Collect(ch)
}
