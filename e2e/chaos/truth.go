package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"smg/sim/simctl"
)

// page is a page of metrics: for each name, the values by the worker that they are
// about.
type page map[string]map[string]float64

// What is read of selectors and ingresses.
const (
	counted = "smg_selector_requests_active" // of all ingresses, as a selector counts
	own     = "smg_worker_requests_active"   // of one ingress
	health  = "smg_worker_health"
	breaker = "smg_worker_cb_state"
	pinned  = "smg_worker_routing_keys_active"
)

// page reads a member's page.
func (s *site) page(ctx context.Context, m *member) (page, error) {
	body, err := s.get(ctx, m.metrics)
	if err != nil {
		return nil, fmt.Errorf("the metrics of %s: %w", m.name, err)
	}
	return parsePage(string(body))
}

func parsePage(text string) (page, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	p := page{}
	for _, name := range []string{counted, own, health, breaker, pinned} {
		p[name] = map[string]float64{}
		for _, m := range families[name].GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "worker" {
					p[name][l.GetValue()] = m.GetGauge().GetValue()
				}
			}
		}
	}
	return p, nil
}

// agree returns nil if what everybody knows is the truth, and the same: each selector
// counts for each engine of its leg what that engine has in flight, the ingresses
// count as much together, and the selectors of a leg say the same of each worker. Long
// streams may be open; while short requests come and go it would never be so.
func (s *site) agree(ctx context.Context) error {
	sums := map[string]float64{}
	for _, m := range s.ingresses {
		p, err := s.page(ctx, m)
		if err != nil {
			return err
		}
		for worker, n := range p[own] {
			sums[worker] += n
		}
	}
	first := map[string]page{}
	pages := map[*member]page{}
	for _, m := range s.selectors {
		p, err := s.page(ctx, m)
		if err != nil {
			return err
		}
		pages[m] = p
		if first[m.leg] == nil {
			first[m.leg] = p
		}
		for _, name := range []string{health, breaker, pinned} {
			if !maps.Equal(p[name], first[m.leg][name]) {
				return fmt.Errorf("%s: %s has %v, another of its leg %v", name, m.name, p[name], first[m.leg][name])
			}
		}
	}
	for _, e := range s.engines {
		ledger, err := simctl.NewClient(e.worker(), s.http).Ledger(ctx)
		if err != nil {
			return err
		}
		truth := float64(ledger.InFlight)
		if sums[e.worker()] != truth {
			return fmt.Errorf("%s has %g in flight, the ingresses count %g", e.name, truth, sums[e.worker()])
		}
		for _, m := range s.selectors {
			if m.leg == e.leg && pages[m][counted][e.worker()] != truth {
				return fmt.Errorf("%s has %g in flight, %s counts %g", e.name, truth, m.name, pages[m][counted][e.worker()])
			}
		}
	}
	return nil
}

// well returns nil once every selector holds every worker of its leg for ready, with a
// closed breaker.
func (s *site) well(ctx context.Context) error {
	for _, m := range s.selectors {
		p, err := s.page(ctx, m)
		if err != nil {
			return err
		}
		for _, e := range s.engines {
			if e.leg != m.leg {
				continue
			}
			if h, ok := p[health][e.worker()]; !ok || h != 1 || p[breaker][e.worker()] != 0 {
				return fmt.Errorf("%s says health %g and breaker %g of %s", m.name, h, p[breaker][e.worker()], e.name)
			}
		}
	}
	return nil
}

// idle returns nil if no engine holds anything: no request, no block, no room.
func (s *site) idle(ctx context.Context) error {
	var faults []error
	for _, e := range s.engines {
		ledger, err := simctl.NewClient(e.worker(), s.http).Ledger(ctx)
		if err == nil && !ledger.Idle() {
			err = fmt.Errorf("%s holds %d requests, %d blocks, %d rooms", e.name, ledger.InFlight, ledger.BlocksHeld, ledger.Rooms)
		}
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// pins is the worker of each key.
type pins map[int]string

// moved are the keys that have another worker than before, without those whose worker
// was hit meanwhile: they had to.
func (before pins) moved(now pins, hit func(worker string) bool) error {
	var faults []error
	for _, key := range slices.Sorted(maps.Keys(before)) {
		if was := before[key]; now[key] != was && !hit(was) {
			faults = append(faults, fmt.Errorf("key %d was pinned to %s, and went to %s", key, was, now[key]))
		}
	}
	return errors.Join(faults...)
}
