package legs

import (
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"smg/worker"
)

var (
	activeDesc = prometheus.NewDesc("smg_selector_requests_active",
		"Calls in flight at a worker, of all ingresses, as this selector counts them.", []string{"worker"}, nil)
	roomsDesc = prometheus.NewDesc("smg_selector_rooms_active",
		"Sequences of the calls in flight at a decode worker, of all ingresses, as this selector counts them.", []string{"worker"}, nil)
	waitingDesc = prometheus.NewDesc("smg_selector_requests_waiting",
		"Requests that wait at this selector for a worker with room.", []string{"leg"}, nil)
	keysDesc = prometheus.NewDesc("smg_worker_routing_keys_active",
		"Different routing keys among the calls in flight at a worker, of all ingresses.", []string{"worker"}, nil)
	healthDesc = prometheus.NewDesc("smg_worker_health",
		"Whether a worker is ready (1), not (0) or removed (-1).", []string{"worker"}, nil)
	breakerDesc = prometheus.NewDesc("smg_worker_cb_state",
		"A worker's circuit breaker: closed (0), open (1), half open (2), or -1 once the worker is removed.", []string{"worker"}, nil)
	overloadedDesc = prometheus.NewDesc("smg_workers_overloaded",
		"Workers of a model that overload protection keeps requests from.", []string{"model"}, nil)
	poolDesc = prometheus.NewDesc("smg_worker_pool_size",
		"Registered workers.", []string{"worker_type", "connection_mode", "model"}, nil)
)

// removed is the value of a removed worker's gauges.
const removed = -1

// goneFor is how long they have it: two scrapes, as people scrape.
const goneFor = 2 * time.Minute

// gone is a worker that was removed.
type gone struct {
	spec   *worker.Spec
	engine *engineLoad
	tally  tally
	at     time.Time
}

// bury forgets workers that were removed long ago. s.mu is held.
func (s *Service) bury(now time.Time) {
	for id, g := range s.gone {
		if now.Sub(g.at) > goneFor {
			delete(s.gone, id)
		}
	}
}

// collector reads what a process's selectors know of their workers when somebody
// scrapes, so that knowing it costs nothing more. Several legs share it: what is
// counted by model is counted over all of them, and a worker that moves from leg to
// leg is shown once.
type collector struct {
	models   labelled
	outcomes *outcomes

	mu   sync.Mutex
	legs []*Service
}

// export has reg show what s knows.
func export(reg prometheus.Registerer, s *Service) error {
	c := &collector{outcomes: newOutcomes()}
	if err := reg.Register(c); err != nil {
		already := new(prometheus.AlreadyRegisteredError)
		if !errors.As(err, already) {
			return err
		}
		shared, ok := already.ExistingCollector.(*collector)
		if !ok {
			return err
		}
		c = shared
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.legs = append(c.legs, s)
	s.outcomes = c.outcomes
	return nil
}

// Describe implements [prometheus.Collector].
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{activeDesc, roomsDesc, waitingDesc, keysDesc, healthDesc, breakerDesc, overloadedDesc, poolDesc, turnsDesc, toldDesc, failuresDesc, successesDesc} {
		ch <- d
	}
	for _, g := range engineGauges {
		ch <- g.desc
	}
	c.outcomes.probes.Describe(ch)
	c.outcomes.events.describe(ch)
}

// Collect implements [prometheus.Collector].
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	page := scrape{ch: ch, models: &c.models, shown: map[string]bool{}, waiting: map[string]float64{}, overloaded: map[string]float64{}, pools: map[poolLabels]float64{}}
	lost := make([][]gone, len(c.legs))
	for i, s := range c.legs {
		var loads map[worker.ID]*engineLoad
		var tallies map[worker.ID]tally
		loads, tallies, lost[i] = s.exported()
		for _, w := range s.registry.Workers() {
			if w.Spec.Leg == s.cfg.Leg {
				page.worker(w, loads[w.Spec.ID], tallies[w.Spec.ID], s.cfg.Rooms.Bound)
			}
		}
		if s.cfg.Rooms.Bound {
			page.waiting[s.cfg.Leg.String()] += float64(s.queue.waiting())
		}
	}
	for _, workers := range lost {
		for _, g := range workers {
			page.gone(g)
		}
	}
	page.totals()
	c.outcomes.probes.Collect(ch)
	c.outcomes.events.collect(ch)
}

// exported is the engines' gauges of the workers that this replica keeps, what their
// breakers have lived through, and the workers that were removed lately.
func (s *Service) exported() (loads map[worker.ID]*engineLoad, tallies map[worker.ID]tally, lost []gone) {
	s.mu.Lock()
	defer s.mu.Unlock()
	loads, tallies = make(map[worker.ID]*engineLoad, len(s.keepers)), make(map[worker.ID]tally, len(s.keepers))
	for id, k := range s.keepers {
		tallies[id] = k.tallied()
		switch e := k.engine; {
		case e == nil || !k.Active():
		case e.stay != k.Stay():
			loads[id] = e.ended()
		default:
			loads[id] = e
		}
	}
	for _, g := range s.gone {
		if g.engine != nil {
			g.engine = g.engine.ended()
		}
		lost = append(lost, g)
	}
	return loads, tallies, lost
}

// scrape is one page of metrics on its way.
type scrape struct {
	ch         chan<- prometheus.Metric
	models     *labelled
	shown      map[string]bool // URLs of workers
	waiting    map[string]float64
	overloaded map[string]float64
	pools      map[poolLabels]float64
}

type poolLabels struct{ workerType, mode, model string }

func (p *scrape) gauge(d *prometheus.Desc, v float64, labels ...string) {
	p.ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

// worker shows a worker that is registered, with its rooms if they are bounded.
func (p *scrape) worker(w *worker.Worker, load *engineLoad, t tally, rooms bool) {
	url := w.Spec.URL
	if p.shown[url] {
		return
	}
	p.shown[url] = true
	health, vetoed := 0.0, 0.0
	if w.Status() == worker.Ready {
		health = 1
	}
	if w.Record.Overloaded {
		vetoed = 1
	}
	p.gauge(activeDesc, float64(w.Load.Active()), url)
	if rooms {
		p.gauge(roomsDesc, float64(w.Load.Rooms()), url)
	}
	p.gauge(keysDesc, float64(w.Load.Keys()), url)
	p.gauge(healthDesc, health, url)
	p.gauge(breakerDesc, float64(w.Record.Breaker), url)
	load.show(p)
	p.outcomes(url, &t)
	p.count(w.Spec, 1, vetoed)
}

// gone shows a worker that is not registered any more.
func (p *scrape) gone(g gone) {
	url := g.spec.URL
	p.count(g.spec, 0, 0)
	if p.shown[url] {
		return
	}
	p.shown[url] = true
	p.gauge(healthDesc, removed, url)
	p.gauge(breakerDesc, removed, url)
	g.engine.show(p)
	p.outcomes(url, &g.tally)
}

// count adds to what is counted by model.
func (p *scrape) count(s *worker.Spec, workers, vetoed float64) {
	for g := range groupsOf(s) {
		model := p.models.label(g.model)
		p.pools[poolLabels{s.Leg.String(), s.Mode.String(), model}] += workers
		p.overloaded[model] += vetoed
	}
}

func (p *scrape) totals() {
	for l, n := range p.pools {
		p.gauge(poolDesc, n, l.workerType, l.mode, l.model)
	}
	for leg, n := range p.waiting {
		p.gauge(waitingDesc, n, leg)
	}
	for model, n := range p.overloaded {
		p.gauge(overloadedDesc, n, model)
	}
}

// maxModels bounds the distinct values of the label model.
const maxModels = 1024

// labelled are the models that have a value of their own. The zero value has none.
type labelled struct{ known map[string]bool }

// label is a model's value; what comes too late is "other".
func (l *labelled) label(model string) string {
	switch {
	case model == "":
		return "unknown"
	case l.known[model]:
		return model
	case len(l.known) >= maxModels:
		return "other"
	case l.known == nil:
		l.known = map[string]bool{}
	}
	l.known[model] = true
	return model
}
