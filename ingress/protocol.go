package ingress

import (
	"net/http"
	"slices"

	"smg/worker"
)

// protocol is how the engines of a plan work together. It sends the requests, relays
// the answer, and ends the leases of which it knows how.
type protocol func(x *exchange, rt *route, r *http.Request, p *Plan) error

// protocolOf is that of the plan's engines.
func protocolOf(p *Plan) protocol {
	if p.Decode.leg() == worker.Regular {
		return (*exchange).single
	}
	switch p.runtime() {
	case worker.VLLM:
		return (*exchange).sequential
	default:
		return (*exchange).parallel
	}
}

// runtime is what runs on the plan's legs.
func (p *Plan) runtime() worker.Runtime {
	if p.Prefill != nil {
		return p.Prefill.pick.Worker.Runtime
	}
	return p.Decode.pick.Worker.Runtime
}

// single has one worker serve the request.
func (x *exchange) single(rt *route, r *http.Request, p *Plan) error {
	c := p.Decode
	x.rewrite = nil // of an attempt that legs shared
	q := request{path: rt.engine(), fields: upstreamFields(x.fields[:0], r.Header), body: x.query.bytes}
	if rank := x.rankOf(c); rank.known {
		q.body = x.query.body.Edit(rank.set(slices.Clip(x.srv.foreign), fieldRank)...)
	}
	switch u := x.upload; {
	case u == nil:
	case u.small != nil:
		q.body, q.chunked = u.small, true
	default:
		q.stream = u
	}
	resp, err := c.send(&x.ctx, q)
	if err != nil {
		return err
	}
	defer resp.Close()
	return x.relay(resp, c)
}
