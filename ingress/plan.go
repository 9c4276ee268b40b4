package ingress

import (
	"errors"
	"iter"
	"net/http"
	"slices"
	"strings"
	"sync"

	"smg/ingress/body"
	"smg/wire"
	"smg/worker"
)

// Mode is how a fleet serves a request.
type Mode uint8

// The modes.
const (
	Regular Mode = iota // one worker serves it whole
	PD                  // prefill, then decode
	EPD                 // media are encoded before
)

// Legs are the legs that a request in this mode can have.
func (m Mode) Legs() []worker.Leg {
	switch m {
	case PD:
		return []worker.Leg{worker.Prefill, worker.Decode}
	case EPD:
		return []worker.Leg{worker.Encode, worker.Prefill, worker.Decode}
	case Regular:
	}
	return []worker.Leg{worker.Regular}
}

// Plan is who serves a request. It does not change once it is made; a retry is a
// new plan.
type Plan struct {
	Encode  []*call // one for each medium, in order
	Prefill *call   // nil in a regular fleet, and where decode needs none
	Decode  *call   // in a regular fleet: the worker that serves the request whole

	items []body.Item
}

// calls are all calls of the plan.
func (p *Plan) calls() iter.Seq[*call] {
	return func(yield func(*call) bool) {
		for _, c := range p.Encode {
			if !yield(c) {
				return
			}
		}
		if p.Prefill != nil && !yield(p.Prefill) {
			return
		}
		if p.Decode != nil {
			yield(p.Decode)
		}
	}
}

// planWhole has one worker picked that serves the request whole.
func (x *exchange) planWhole(tried []worker.ID) (*Plan, error) {
	c := &x.only
	*c = call{x: x, lease: x.srv.selector.Plan()}
	c.lease.Leg = worker.Regular
	if err := x.choose(c, nil, tried, &x.asked); err != nil {
		if x.ctx.Err() != nil {
			return nil, contextProblem(&x.ctx, "a worker was chosen")
		}
		return nil, x.unplanned(selectionProblem(err, worker.Regular, x.query.model))
	}
	x.whole = Plan{Decode: c}
	x.counted(&x.whole)
	return &x.whole, nil
}

// counted counts the selections of a plan, and tells the client of those that were
// made without a selector.
func (x *exchange) counted(p *Plan) {
	var degraded []string
	for c := range p.calls() {
		x.srv.metrics.selected(&c.pick, x.query.model)
		if name := c.leg().String(); c.pick.Degraded && !slices.Contains(degraded, name) {
			degraded = append(degraded, name)
		}
	}
	const header = "X-Smg-Degraded"
	switch h := x.w.Header(); {
	case len(degraded) > 0:
		h.Set(header, strings.Join(degraded, ","))
	case len(h[header]) > 0:
		h.Del(header) // of an earlier attempt
	}
}

// plan asks all legs at the same time, and counts the selections once all have
// answered. Any refusal releases the others.
func (x *exchange) plan(rt *route, tried []worker.ID) (*Plan, error) {
	if x.srv.cfg.Mode == Regular {
		return x.planWhole(tried)
	}
	id := x.srv.selector.Plan()
	p := &Plan{}
	newCall := func(leg worker.Leg, item int) *call {
		c := &call{x: x, lease: id}
		c.lease.Leg, c.lease.Item = leg, uint16(item)
		return c
	}
	if x.srv.cfg.Mode == EPD && rt.media {
		items, err := x.query.body.Media()
		if err != nil {
			return nil, bodyProblem(err, rt.plain)
		}
		p.items = items
		for i := range items {
			p.Encode = append(p.Encode, newCall(worker.Encode, i))
		}
	}
	p.Prefill, p.Decode = newCall(worker.Prefill, 0), newCall(worker.Decode, 0)
	calls := slices.Collect(p.calls())
	errs := make([]error, len(calls))
	ask := func(i int) {
		errs[i] = x.contained(func() error { return x.choose(calls[i], p.items, tried, new(wire.Select)) })
	}
	var wg sync.WaitGroup
	for i := range calls[1:] {
		wg.Go(func() { ask(i + 1) })
	}
	ask(0)
	wg.Wait()
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		x.release(calls, errs)
		if x.ctx.Err() != nil {
			return nil, contextProblem(&x.ctx, "workers were chosen")
		}
		return nil, x.unplanned(refusal(calls, errs, i, x.query.model))
	}
	if err := x.fit(rt, p); err != nil {
		x.release(calls, errs)
		return nil, err
	}
	x.counted(p)
	return p, nil
}

// choose has one leg's worker picked and counted. ask is room for the question.
func (x *exchange) choose(c *call, items []body.Item, tried []worker.ID, ask *wire.Select) (err error) {
	q := &x.query
	*ask = wire.Select{Lease: c.lease, Model: q.model, Skip: tried}
	if c.lease.Leg == worker.Encode {
		// The same medium goes to the same encoder, whoever asks.
		ask.Keys.Header = worker.HashKey(items[c.lease.Item].Hash)
	} else {
		q.fill(ask, x.srv.reads(c.lease.Leg))
	}
	c.pick, err = x.srv.selector.Select(&x.ctx, ask)
	return err
}

// release ends what was picked for a plan that is not to be.
func (x *exchange) release(calls []*call, errs []error) {
	for i, c := range calls {
		if errs[i] == nil {
			c.end(worker.Neutral, true)
		}
	}
}

// refusal words why a plan could not be made. A model that no leg knows is not
// there; one that another leg knows has no worker on the leg that refused.
func refusal(calls []*call, errs []error, first int, model string) *problem {
	for _, err := range errs {
		if !errors.Is(err, worker.ErrNoWorkers) {
			if errors.Is(errs[first], worker.ErrNoWorkers) {
				return selectionProblem(worker.ErrUnavailable, calls[first].lease.Leg, model)
			}
			break
		}
	}
	return selectionProblem(errs[first], calls[first].lease.Leg, model)
}

// fit sees that the picked workers can hand over to each other, and lets go of
// those that the engines' protocol has no use for.
func (x *exchange) fit(rt *route, p *Plan) error {
	if p.Prefill == nil {
		return nil
	}
	pre, dec := p.Prefill.pick.Worker, p.Decode.pick.Worker
	if pre.Runtime != dec.Runtime {
		return gatewayProblem(http.StatusServiceUnavailable, "no_available_workers",
			"prefill worker %s (%s) cannot hand over to decode worker %s (%s): run the same engine on both legs", pre.URL, pre.Runtime, dec.URL, dec.Runtime)
	}
	if pre.Runtime != worker.VLLM {
		// SGLang's prefill calls the encoders itself.
		for _, c := range p.Encode {
			c.end(worker.Neutral, true)
		}
		p.Encode = nil
		return nil
	}
	if x.several(rt) {
		// Decode does it all.
		p.Prefill.end(worker.Neutral, true)
		p.Prefill = nil
	}
	return nil
}
