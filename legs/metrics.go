package legs

import (
	"github.com/prometheus/client_golang/prometheus"

	"smg/worker"
)

var (
	activeDesc = prometheus.NewDesc("smg_selector_requests_active",
		"Calls in flight at a worker, of all ingresses, as this selector counts them.", []string{"worker"}, nil)
	keysDesc = prometheus.NewDesc("smg_worker_routing_keys_active",
		"Different routing keys among the calls in flight at a worker, of all ingresses.", []string{"worker"}, nil)
	healthDesc = prometheus.NewDesc("smg_worker_health",
		"Whether a worker is ready (1) or not (0).", []string{"worker"}, nil)
	breakerDesc = prometheus.NewDesc("smg_worker_cb_state",
		"A worker's circuit breaker: closed (0), open (1) or half open (2).", []string{"worker"}, nil)
)

// fleetCollector reads what is known of the leg's workers when somebody scrapes, so
// that knowing it costs nothing more.
type fleetCollector struct{ s *Service }

// Describe describes nothing, which makes the collector an unchecked one: several
// legs of one process export the same metrics, each for its own workers.
func (c fleetCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (c fleetCollector) Collect(ch chan<- prometheus.Metric) {
	for _, w := range c.s.registry.Workers() {
		if w.Spec.Leg != c.s.cfg.Leg {
			continue
		}
		health := 0.0
		if w.Record.Status == worker.Ready {
			health = 1
		}
		gauge := func(d *prometheus.Desc, v float64) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, w.Spec.URL)
		}
		gauge(activeDesc, float64(w.Load.Active()))
		gauge(keysDesc, float64(w.Load.Keys()))
		gauge(healthDesc, health)
		gauge(breakerDesc, float64(w.Record.Breaker))
	}
}
