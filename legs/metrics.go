package legs

import "github.com/prometheus/client_golang/prometheus"

var activeDesc = prometheus.NewDesc("smg_selector_requests_active",
	"Calls in flight at a worker, of all ingresses, as this selector counts them.", []string{"worker"}, nil)

// activeCollector reads the counts when somebody scrapes, so that counting costs
// nothing more.
type activeCollector struct{ s *Service }

// Describe describes nothing, which makes the collector an unchecked one: several
// legs of one process export the same metric, each for its own workers.
func (c activeCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (c activeCollector) Collect(ch chan<- prometheus.Metric) {
	for _, w := range c.s.registry.Workers() {
		if w.Spec.Leg == c.s.cfg.Leg {
			ch <- prometheus.MustNewConstMetric(activeDesc, prometheus.GaugeValue, float64(w.Load.Active()), w.Spec.URL)
		}
	}
}
