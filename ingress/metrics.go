package ingress

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"smg/wire"
)

// maxModels bounds the distinct values of the label model: clients choose it.
const maxModels = 1024

// metrics are the counters of the request path.
type metrics struct {
	selections *prometheus.CounterVec

	mu     sync.Mutex
	series atomic.Pointer[map[series]prometheus.Counter] // copied to add, so that reads take no lock
	models map[string]struct{}
}

// series is one combination of label values of smg_worker_selection_total.
type series struct{ workerType, mode, model, policy string }

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		selections: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "smg_worker_selection_total",
			Help: "Selections that yielded a worker, one for each leg and attempt.",
		}, []string{"worker_type", "connection_mode", "model", "policy"}),
		models: map[string]struct{}{},
	}
	m.series.Store(&map[series]prometheus.Counter{})
	return m, reg.Register(m.selections)
}

// selected counts a selection for the requested model ("" is unknown).
func (m *metrics) selected(p *wire.Pick, model string) {
	if model == "" {
		model = "unknown"
	}
	k := series{p.Worker.Leg.String(), p.Worker.Mode.String(), model, p.Policy}
	c, ok := (*m.series.Load())[k]
	if !ok {
		c = m.add(k)
	}
	c.Inc()
}

func (m *metrics) add(k series) prometheus.Counter {
	m.mu.Lock()
	defer m.mu.Unlock()
	label := k.model
	if _, known := m.models[label]; !known {
		if len(m.models) >= maxModels {
			return m.selections.WithLabelValues(k.workerType, k.mode, "other", k.policy)
		}
		m.models[label] = struct{}{}
	}
	c := m.selections.WithLabelValues(k.workerType, k.mode, label, k.policy)
	old := *m.series.Load()
	next := make(map[series]prometheus.Counter, len(old)+1)
	maps.Copy(next, old)
	next[k] = c
	m.series.Store(&next)
	return c
}
