package ingress

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"

	"smg/wire"
	"smg/worker"
)

// pickAll has workers picked for all calls of a plan: at the same time, but for decode
// in a fleet of groups, which is asked once it is known which group prefill is of. Those
// whose picks do not go together are asked once more, for one class. What is still
// wrong then is for judge to find. It returns who can share the request, nil if all can.
func (x *exchange) pickAll(p *Plan, tried []worker.ID) (in *worker.Pairing) {
	if p.Prefill != nil {
		in = x.able(x.srv.fleet.Pairing(x.query.model))
	}
	if in == nil {
		x.askAll(p, tried)
		return nil
	}
	for _, c := range p.Encode {
		c.fit = &worker.Fit{Class: worker.Class{Runtime: worker.VLLM}} // nobody else is sent media
	}
	switch {
	case len(in.Classes) == 1:
		p.Prefill.fit, p.Decode.fit = worker.Like(in.Classes[0]), worker.Like(in.Classes[0])
		x.askAll(p, tried)
	case in.Grouped:
		x.askInTurn(p, in, tried)
	default:
		x.askAll(p, tried)
	}
	x.match(p, in, tried)
	return in
}

// able narrows whom a request can be shared by to those whose engines have its route. Where
// none of them has it, who is picked does not matter: judge refuses the request.
func (x *exchange) able(in *worker.Pairing) *worker.Pairing {
	if in == nil || x.query.route.aloneVLLM == "" {
		return in
	}
	var classes []worker.Class
	for _, c := range in.Classes {
		if c.Runtime != worker.VLLM {
			classes = append(classes, c)
		}
	}
	if len(classes) == 0 {
		return in
	}
	return &worker.Pairing{Classes: classes, Grouped: in.Grouped}
}

// askInTurn asks for decode's worker after the others: one of prefill's class.
func (x *exchange) askInTurn(p *Plan, in *worker.Pairing, tried []worker.ID) {
	if groups := in.Groups(); len(groups) > 0 && len(groups) <= wire.MaxList {
		p.Prefill.fit = &worker.Fit{Groups: groups}
	}
	var wg sync.WaitGroup
	for _, c := range p.Encode {
		wg.Go(func() { x.ask(c, p, tried) })
	}
	x.ask(p.Prefill, p, tried)
	if p.Prefill.refused == nil {
		p.Decode.fit = worker.Like(p.Prefill.class())
		x.ask(p.Decode, p, tried)
	} else {
		p.Decode.refused, p.Decode.ended = p.Prefill.refused, true // nobody was asked
	}
	wg.Wait()
}

// match asks once more where the legs' picks do not go together, or where a leg has
// nobody who does: for a class that both have.
func (x *exchange) match(p *Plan, in *worker.Pairing, tried []worker.ID) {
	if x.ctx.Err() != nil || p.Prefill.refused == nil && p.Decode.refused == nil && p.Prefill.class() == p.Decode.class() {
		return
	}
	class, ok := common(in, p.Prefill, p.Decode)
	if !ok {
		return
	}
	var wg sync.WaitGroup
	for _, leg := range [...]**call{&p.Prefill, &p.Decode} {
		old := *leg
		if old.refused == nil && old.class() == class {
			continue
		}
		old.end(worker.Neutral, true)
		again := x.anew(old)
		again.fit = worker.Like(class)
		*leg = again
		wg.Go(func() { x.ask(again, p, tried) })
	}
	wg.Wait()
}

// common is a class that two legs have: that of a worker who is picked, if the other
// leg has it too. There is none if a leg has refused for another reason.
func common(in *worker.Pairing, legs ...*call) (worker.Class, bool) {
	classes := in.Classes
	for _, c := range legs {
		if c.refused == nil {
			continue
		}
		if !errors.Is(c.refused, worker.ErrMismatch) {
			return worker.Class{}, false
		}
		there := classesIn(c.refused)
		classes = slices.DeleteFunc(slices.Clone(classes), func(c worker.Class) bool { return !slices.Contains(there, c) })
	}
	for _, c := range legs {
		if c.refused == nil && slices.Contains(classes, c.class()) {
			return c.class(), true
		}
	}
	if len(classes) == 0 {
		return worker.Class{}, false
	}
	return classes[rand.IntN(len(classes))], true
}

// classesIn are those that a refusal says are available.
func classesIn(err error) []worker.Class {
	if m, ok := errors.AsType[*worker.Mismatch](err); ok {
		return m.Classes
	}
	if e, ok := errors.AsType[*wire.Error](err); ok {
		return e.Classes
	}
	return nil
}

// class is that of the picked worker.
func (c *call) class() worker.Class { return c.pick.Worker.Class() }

// fit sees that the picked workers can hand over to each other.
func (x *exchange) fit(_ *route, p *Plan) error {
	dec := p.Decode.pick.Worker
	switch {
	case p.Prefill == nil && dec.Runtime != worker.VLLM:
		alone := gatewayProblem(http.StatusServiceUnavailable, "no_available_workers", "decode worker %s (%s) cannot serve a request by itself", dec.URL, dec.Class())
		alone.leg, alone.retryable = worker.Decode, true
		return alone
	case p.Prefill == nil || p.Prefill.class() == p.Decode.class():
		return nil
	}
	pre := p.Prefill.pick.Worker
	misfit := gatewayProblem(http.StatusServiceUnavailable, "no_available_workers",
		"no decode worker for %s that prefill worker %s (%s) can hand over to is available: decode worker %s is of another kind (%s)",
		modelName(x.query.model), pre.URL, pre.Class(), dec.URL, dec.Class())
	misfit.leg, misfit.retryable = worker.Decode, true
	return misfit
}

// served sees that the picked workers serve the request's model on their legs, which
// their selectors have to know, too.
func (x *exchange) served(_ *route, p *Plan) error {
	for c := range p.calls() {
		w := c.pick.Worker
		if x.srv.fleet.Serves(c.leg(), x.query.model, w.ID) {
			continue
		}
		x.srv.metrics.pd.mismatch.Inc()
		x.srv.log.Error("a worker was chosen that does not serve the request", slog.String("worker", w.URL),
			slog.String("leg", c.leg().String()), slog.String("model", clip(x.query.model)))
		wrong := gatewayProblem(http.StatusInternalServerError, "internal_error",
			"worker %s was chosen for the %s leg of %s, which it does not serve", w.URL, c.leg(), modelName(x.query.model))
		wrong.leg, wrong.retryable = c.leg(), true
		return wrong
	}
	return nil
}
