package legs

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"smg/worker"
)

var (
	turnsDesc = prometheus.NewDesc("smg_worker_cb_transitions_total",
		"Changes of a worker's circuit breaker.", []string{"worker", "from", "to"}, nil)
	toldDesc = prometheus.NewDesc("smg_worker_cb_outcomes_total",
		"Outcomes of calls that a worker's circuit breaker was told.", []string{"worker", "outcome"}, nil)
	failuresDesc = prometheus.NewDesc("smg_worker_cb_consecutive_failures",
		"Failures in a row that a worker's circuit breaker counts.", []string{"worker"}, nil)
	successesDesc = prometheus.NewDesc("smg_worker_cb_consecutive_successes",
		"Good calls in a row that a half-open circuit breaker counts.", []string{"worker"}, nil)
)

// outcomes are the numbers of what keepers learn of their workers: only the replica
// that keeps a worker counts. The services of a process share them.
type outcomes struct {
	probes *prometheus.CounterVec // worker_type, result
	events *eventMetrics
}

func newOutcomes() *outcomes {
	return &outcomes{probes: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "smg_worker_health_checks_total",
		Help: "Probes of workers.",
	}, []string{"worker_type", "result"}), events: newEventMetrics()}
}

// probed counts a health probe.
func (o *outcomes) probed(leg worker.Leg, ok bool) {
	result := "failure"
	if ok {
		result = "success"
	}
	o.probes.WithLabelValues(leg.String(), result).Inc()
}

// turns are the changes of a breaker, by the states before and after.
type turns [worker.HalfOpen + 1][worker.HalfOpen + 1]uint64

// tally is what a worker's breaker has lived through as long as this replica kept it.
type tally struct {
	failures, successes uint64
	turns               turns

	// Now, and in a row.
	failing, passing int
}

// turned counts a change of the breaker, if it is one of the replica that keeps it.
func (k *keeping) turned(before worker.Breaker) {
	if after := k.Record().Breaker; k.Active() && before != after && before <= worker.HalfOpen && after <= worker.HalfOpen {
		k.tally.turns[before][after]++
	}
}

// outcome tells the keeper what became of a call, and counts it. s.mu is held.
func (s *Service) outcome(k *keeping, e worker.Event, now time.Time) {
	before := k.Record().Breaker
	s.tell(k.Outcome(e, now))
	if !k.Active() {
		return
	}
	switch e.Outcome {
	case worker.Failure:
		k.tally.failures++
	case worker.Success:
		k.tally.successes++
	case worker.Neutral:
	}
	k.turned(before)
}

// tallied is the tally with what is in a row now.
func (k *keeping) tallied() tally {
	t := k.tally
	if k.Active() {
		t.failing, t.passing = k.Streaks()
	}
	return t
}

// outcomes shows a worker's tally.
func (p *scrape) outcomes(url string, t *tally) {
	counter := func(d *prometheus.Desc, n uint64, labels ...string) {
		p.ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	counter(toldDesc, t.failures, url, "failure")
	counter(toldDesc, t.successes, url, "success")
	for from := range t.turns {
		for to, n := range t.turns[from] {
			if n > 0 {
				counter(turnsDesc, n, url, worker.Breaker(from).String(), worker.Breaker(to).String())
			}
		}
	}
	p.gauge(failuresDesc, float64(t.failing), url)
	p.gauge(successesDesc, float64(t.passing), url)
}
