package ingress

import (
	"cmp"
	"math/rand/v2"
	"net/http"

	"smg/worker"
)

// allLegs are those of a gateway whose models may each be served in another mode.
var allLegs = []worker.Leg{worker.Regular, worker.Encode, worker.Prefill, worker.Decode}

// Legs are the legs that requests can have.
func (c *Config) Legs() []worker.Leg {
	if c.Multi {
		return allLegs
	}
	return c.Mode.Legs()
}

// settle decides in which mode a request is served whose model is known by now, where
// each model has its own.
func (x *exchange) settle(rt *route) error {
	if x.query.model == "" {
		return gatewayProblem(http.StatusBadRequest, "missing_model", "the request names no model, and this gateway serves several (--enable-igw): send a model that GET /v1/models lists")
	}
	x.draw(rt)
	if x.mode != Regular && rt.alone != "" {
		return unshared(rt, rt.alone)
	}
	return nil
}

// draw has chance decide, by how many of the model's workers can be chosen, whether a
// regular one serves the request whole or others share it: so the first worker of a kind
// is not flooded, and none that is there goes unused.
func (x *exchange) draw(rt *route) {
	roles := x.srv.fleet.Roles(x.query.model)
	shares := rt.alone == "" && (rt.aloneVLLM == "" || !x.srv.fleet.Alone(x.query.model))
	regular, shared := weights(roles.Available, shares)
	if regular+shared == 0 { // the refusal is to name what lacks
		regular, shared = weights(roles.Registered, shares)
	}
	switch {
	case regular+shared == 0:
		// Workers of a leg that another leg lacks serve nothing, which is another fault
		// than that of a model nobody has.
		x.mode = Regular
		if cmp.Or(roles.Registered[worker.Prefill], roles.Registered[worker.Decode]) > 0 {
			x.mode = PD
		}
	case rand.IntN(regular+shared) < regular:
		x.mode = Regular
		return
	default:
		x.mode = PD
	}
	if x.mode == PD && roles.Available[worker.Encode] > 0 {
		x.mode = EPD
	}
}

// weights are what the two ways to serve a request weigh; shares says whether there is
// more than one.
func weights(of [worker.Legs]int, shares bool) (regular, shared int) {
	if p, d := of[worker.Prefill], of[worker.Decode]; shares && p > 0 && d > 0 {
		shared = p + d
	}
	return of[worker.Regular], shared
}
