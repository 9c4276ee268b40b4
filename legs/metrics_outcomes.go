package legs

import "github.com/prometheus/client_golang/prometheus"

// outcomes are the numbers of what keepers learn of their workers: only the replica
// that keeps a worker counts. The services of a process share them.
type outcomes struct {
	probes      *prometheus.CounterVec // worker_type, result
	transitions *prometheus.CounterVec // worker, from, to: of its breaker
	counted     *prometheus.CounterVec // worker, outcome: what its breaker was told
	failures    *prometheus.GaugeVec   // worker: in a row, now
	successes   *prometheus.GaugeVec   // worker: in a row, now
}

func newOutcomes() *outcomes {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	streak := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"worker"})
	}
	return &outcomes{
		probes:      counter("smg_worker_health_checks_total", "Probes of workers.", "worker_type", "result"),
		transitions: counter("smg_worker_cb_transitions_total", "Changes of a worker's circuit breaker.", "worker", "from", "to"),
		counted:     counter("smg_worker_cb_outcomes_total", "Outcomes of calls that a worker's circuit breaker was told.", "worker", "outcome"),
		failures:    streak("smg_worker_cb_consecutive_failures", "Failures in a row that a worker's circuit breaker counts."),
		successes:   streak("smg_worker_cb_consecutive_successes", "Good calls in a row that a half-open circuit breaker counts."),
	}
}

// all are the collectors of all of them.
func (o *outcomes) all() []prometheus.Collector {
	return []prometheus.Collector{o.probes, o.transitions, o.counted, o.failures, o.successes}
}
