package ingress

import (
	"cmp"
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

	items  []body.Item
	number int         // of the request's plans, from 0
	local  bool        // decode may compute the prompt, see [exchange.mayBeLocal]
	alone  bool        // decode does
	tried  []worker.ID // by earlier plans
	gone   []worker.ID // of this plan, and not there
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
		return nil, x.unplanned(selectionProblem(err, worker.Regular, cmp.Or(x.query.model, x.sole())))
	}
	x.whole = Plan{Decode: c}
	x.counted(&x.whole)
	return &x.whole, nil
}

// counted counts plans that need no prefill, and tells the client of those that were
// made without a selector.
func (x *exchange) counted(p *Plan) {
	var degraded []string
	if p.alone && !x.noted {
		x.noted = true
		x.srv.metrics.pd.localPrefill.Inc()
	}
	for c := range p.calls() {
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

// plan says who serves the request: which legs it has, who is picked for each, and
// whether they go together. Any refusal releases the others.
func (x *exchange) plan(rt *route, tried []worker.ID) (*Plan, error) {
	number := x.plans
	x.plans++
	if number > 0 && x.srv.cfg.Multi {
		if err := x.settle(rt); err != nil {
			return nil, err
		}
	}
	if x.mode == Regular {
		return x.planWhole(tried)
	}
	p, err := x.legsOf(rt)
	if err != nil {
		return nil, err
	}
	p.number, p.tried = number, tried
	in := x.pickAll(p, tried)
	x.admit(rt, p, in, tried)
	if err := x.judge(rt, p); err != nil {
		p.release()
		return nil, err
	}
	x.counted(p)
	return p, nil
}

// legsOf is a plan with the calls that the request has, of which nobody is picked yet.
func (x *exchange) legsOf(rt *route) (*Plan, error) {
	id := x.srv.selector.Plan()
	p := &Plan{}
	newCall := func(leg worker.Leg, item int) *call {
		c := &call{x: x, lease: id}
		c.lease.Leg, c.lease.Item = leg, uint16(item)
		return c
	}
	if x.mode == EPD && rt.media != nil {
		items, err := rt.media(&x.query.body)
		if err != nil {
			return nil, bodyProblem(err, rt.plain)
		}
		p.items = items
		for i := range items {
			p.Encode = append(p.Encode, newCall(worker.Encode, i))
		}
	}
	p.Decode = newCall(worker.Decode, 0)
	p.Decode.units = x.sequences(rt)
	p.local = x.mayBeLocal(rt, p)
	if x.srv.fleet.Alone(x.query.model) && (x.several(rt) || x.local(p, 0)) {
		p.Decode.fit = &worker.Fit{Class: worker.Class{Runtime: worker.VLLM}} // whoever has come since
	} else {
		p.Prefill = newCall(worker.Prefill, 0)
	}
	return p, nil
}

// askAll asks for all calls' workers at the same time. A call whose selector refused
// says why.
func (x *exchange) askAll(p *Plan, tried []worker.ID) {
	var wg sync.WaitGroup
	for c := range p.calls() {
		if c != p.Decode {
			wg.Go(func() { x.ask(c, p, tried) })
		}
	}
	x.ask(p.Decode, p, tried)
	wg.Wait()
}

// ask asks for the worker of one of a plan's calls.
func (x *exchange) ask(c *call, p *Plan, tried []worker.ID) {
	c.refused = x.contained(func() error { return x.choose(c, p.items, tried, new(wire.Select)) })
	c.ended = c.refused != nil // there is no lease
}

// judge sees whether those who were picked can serve the request together. The first
// check that fails refuses the plan.
func (x *exchange) judge(rt *route, p *Plan) error {
	for _, check := range [...]func(*exchange, *route, *Plan) error{
		(*exchange).spared,
		(*exchange).fallback,
		(*exchange).picked,
		(*exchange).served,
		(*exchange).together,
		(*exchange).fit,
	} {
		if err := check(x, rt, p); err != nil {
			return err
		}
	}
	return nil
}

// release ends what was picked for a plan that is not to be.
func (p *Plan) release() {
	for c := range p.calls() {
		c.end(worker.Neutral, true)
	}
}

// choose has one leg's worker picked and counted. ask is room for the question.
func (x *exchange) choose(c *call, items []body.Item, tried []worker.ID, ask *wire.Select) (err error) {
	q := &x.query
	*ask = wire.Select{Lease: c.lease, Model: q.model, Skip: tried, Fit: c.fit, Units: int(c.units)}
	if c.waits {
		ask.Wait = x.srv.cfg.PD.AdmissionWait
	}
	if c.urgent {
		ask.Priority = 1
	}
	if c.lease.Leg == worker.Encode {
		// The same medium goes to the same encoder, whoever asks.
		ask.Keys.Header = worker.HashKey(items[c.lease.Item].Hash)
	} else {
		q.fill(ask, x.srv.reads(c.lease.Leg))
	}
	c.pick, err = x.srv.selector.Select(&x.ctx, ask)
	c.lease = ask.Lease
	if err == nil {
		x.srv.metrics.selected(&c.pick, x.query.model) // whatever becomes of the other legs
	}
	return err
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

// outdated looks once more at the workers of a plan of several legs, just before
// anything of it is sent: one that was picked first may have been restarted while
// others were picked, and is not where they would meet it. The request is planned anew.
func (x *exchange) outdated(p *Plan) error {
	for c := range p.calls() {
		w := c.pick.Worker
		if c.leg() == worker.Regular || !x.srv.fleet.Outdated(c.leg(), w.ID, c.pick.Epoch) {
			continue
		}
		for c := range p.calls() {
			c.end(worker.Neutral, true)
		}
		again := gatewayProblem(http.StatusServiceUnavailable, "no_available_workers", "%s worker %s was restarted since it was chosen", c.leg(), w.URL)
		again.leg, again.retryable, again.stale = c.leg(), true, true
		return again
	}
	return nil
}

// spared lets go of the legs that the protocol of decode's engine has no use for, of
// which nobody may be there.
func (x *exchange) spared(rt *route, p *Plan) error {
	if p.Decode.refused != nil {
		return nil
	}
	if w := p.Decode.pick.Worker; w.Runtime != worker.VLLM {
		if p.local {
			x.srv.notLocal(w)
		}
		// SGLang's prefill calls the encoders itself.
		for _, c := range p.Encode {
			c.end(worker.Neutral, true)
		}
		p.Encode = nil
		return nil
	}
	if p.Prefill != nil && (x.several(rt) || x.local(p, p.Decode.pick.Matched)) {
		p.Prefill.end(worker.Neutral, true)
		p.Prefill = nil
	}
	return nil
}

// several says whether a request has more than one thing to generate, which vLLM
// hands nothing over for: KV can be fetched once, so it is no use to several answers,
// and of several prompts prefill says only where the first one's is. A decode engine
// that looks there for the others dies of it (seen with 0.32, docs/engines.md).
func (x *exchange) several(rt *route) bool {
	n, ok := x.query.body.N()
	return ok && n > 1 || rt.prompts != nil && rt.prompts(&x.query.body) > 1
}

// picked sees that somebody was picked for every leg.
func (x *exchange) picked(_ *route, p *Plan) error {
	var calls []*call
	var errs []error
	first := -1
	for c := range p.calls() {
		if c.refused != nil && first < 0 {
			first = len(errs)
		}
		calls, errs = append(calls, c), append(errs, c.refused)
	}
	switch {
	case first < 0:
		return nil
	case x.ctx.Err() != nil:
		return contextProblem(&x.ctx, "workers were chosen")
	}
	return x.unplanned(refusal(calls, errs, first, x.query.model))
}
