package study

import (
	"fmt"
	"time"

	"smg/sim"
	"smg/worker"
)

// Fleet is the engines of a run. References see it; policies do not.
type Fleet struct {
	specs   []*worker.Spec
	engines []*engine
	index   map[worker.ID]int

	now time.Duration // to which all engines have been brought
	ask sim.Request   // the one that is being placed
}

// engine is one engine and whose sequences it computes.
type engine struct {
	*sim.Engine
	requests []int // by sequence id, from 1
}

// epoch is instant 0 of every run, for what wants a date.
var epoch = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

func newFleet(cfg *Config, leg worker.Leg) (*Fleet, error) {
	f := &Fleet{index: map[worker.ID]int{}}
	for i := range cfg.Workers {
		e, err := sim.New(cfg.Engine)
		if err != nil {
			return nil, err
		}
		url := fmt.Sprintf("http://w%d:8000", i+1)
		spec := &worker.Spec{
			ID: worker.IDOf(url), URL: url, Leg: leg, Mode: worker.HTTP, Runtime: worker.SGLang,
			Models: []worker.Model{{ID: model}}, RegisteredAt: epoch.Add(time.Duration(i-cfg.Workers) * time.Second),
		}
		f.engines = append(f.engines, &engine{Engine: e})
		f.specs = append(f.specs, spec)
		f.index[spec.ID] = i
	}
	return f, nil
}

// model is what all workers serve.
const model = "m"

// Forecast is after how long the request that is being placed would have its first
// token from a worker, if nothing came after it: see [sim.Engine.Forecast]. It is
// meant for references, inside Pick.
func (f *Fleet) Forecast(id worker.ID) time.Duration {
	return f.engines[f.index[id]].Forecast(f.now, f.ask)
}

// step brings all engines to now and tells of everything that happened on the way,
// engine by engine.
func (f *Fleet) step(now time.Duration, tell func(request int, ev sim.Event)) {
	f.now = now
	for _, e := range f.engines {
		if due, some := e.Next(); !some || due > now {
			continue
		}
		for _, ev := range e.Step(now) {
			tell(e.requests[ev.ID-1], ev)
		}
	}
}

// submit gives request i to a worker's engine.
func (f *Fleet) submit(to int, i int, r sim.Request) error {
	e := f.engines[to]
	if _, err := e.Submit(f.now, r); err != nil {
		return err
	}
	e.requests = append(e.requests, i)
	return nil
}
