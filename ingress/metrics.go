package ingress

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"smg/bootstrap"
	"smg/wire"
	"smg/worker"
)

// maxModels bounds the distinct values of the label model: clients choose it.
const maxModels = 1024

// metrics are the counters of the request path.
type metrics struct {
	selections *prometheus.CounterVec
	retries    *prometheus.CounterVec
	exhaustion *prometheus.CounterVec
	sheds      *prometheus.CounterVec
	pd         *pdMetrics
	http       *httpMetrics
	router     *routerMetrics

	mu     sync.Mutex
	series atomic.Pointer[map[series]prometheus.Counter] // copied to add, so that reads take no lock
	models map[string]struct{}
}

// series is one combination of label values of smg_worker_selection_total.
type series struct{ workerType, mode, model, policy string }

func newMetrics(cfg *Config, reg prometheus.Registerer, rooms *bootstrap.Rooms, active *atomic.Int64) (*metrics, error) {
	buckets := cfg.Access.DurationBuckets
	m := &metrics{
		selections: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "smg_worker_selection_total",
			Help: "Selections that yielded a worker, one for each leg and attempt.",
		}, []string{"worker_type", "connection_mode", "model", "policy"}),
		retries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "smg_worker_retries_total",
			Help: "Waits before another attempt, by the leg that failed.",
		}, []string{"worker_type", "endpoint"}),
		exhaustion: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "smg_worker_retries_exhausted_total",
			Help: "Requests whose last allowed attempt could have been tried again.",
		}, []string{"worker_type", "endpoint"}),
		sheds: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "smg_worker_overload_shed_total",
			Help: "Requests that were refused because workers had too much to do.",
		}, []string{"stage"}),
		pd:     newPDMetrics(buckets),
		http:   newHTTPMetrics(buckets, active),
		router: newRouterMetrics(buckets),
		models: map[string]struct{}{},
	}
	for _, stage := range []string{stageSelection, stageDispatch, stageAdmission} {
		m.sheds.WithLabelValues(stage) // from 0 on
	}
	m.series.Store(&map[series]prometheus.Counter{})
	m.router.served = newTable(m.addServed)
	inUse := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "smg_bootstrap_rooms_active",
		Help: "Bootstrap rooms of requests in flight.",
	}, func() float64 { return float64(rooms.Len()) })
	for _, c := range slices.Concat(m.pd.collectors(), m.http.collectors(), m.router.collectors(),
		[]prometheus.Collector{m.selections, m.retries, m.exhaustion, m.sheds, inUse}) {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// retrying counts a wait before another attempt.
func (m *metrics) retrying(leg worker.Leg, rt *route) {
	m.retries.WithLabelValues(leg.String(), rt.endpoint).Inc()
}

// exhausted counts a request that has used up its attempts.
func (m *metrics) exhausted(leg worker.Leg, rt *route) {
	m.exhaustion.WithLabelValues(leg.String(), rt.endpoint).Inc()
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
	label := m.admit(k.model)
	c := m.selections.WithLabelValues(k.workerType, k.mode, label, k.policy)
	if label != k.model {
		return c // one of any number
	}
	old := *m.series.Load()
	next := make(map[series]prometheus.Counter, len(old)+1)
	maps.Copy(next, old)
	next[k] = c
	m.series.Store(&next)
	return c
}

// modelLabel is a model as a value of the label model.
func (m *metrics) modelLabel(model string) string {
	if model == "" {
		return "unknown"
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.admit(model)
}

// maxModelLabel is the longest name of a model in bytes that becomes a label: where
// workers do not say what they serve, names are the clients'.
const maxModelLabel = 256

// admit is a model, or what stands for those that are too many or too long. m.mu is
// held.
func (m *metrics) admit(model string) string {
	if len(model) > maxModelLabel {
		return "other"
	}
	if _, known := m.models[model]; !known {
		if len(m.models) >= maxModels {
			return "other"
		}
		m.models[model] = struct{}{}
	}
	return model
}
