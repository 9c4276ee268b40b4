package ingress

import (
	"errors"
	"log/slog"
	"slices"

	"smg/worker"
)

// fallback leaves media to the prefill worker, if the operator wants that, where no
// encode worker is available for them and the prefill worker has said that it takes
// them.
func (x *exchange) fallback(_ *route, p *Plan) error {
	if !x.srv.cfg.PD.EncodeOnPrefill || len(p.Encode) == 0 {
		return nil
	}
	lacking := slices.IndexFunc(p.Encode, func(c *call) bool { return c.refused != nil })
	if lacking < 0 {
		if x.srv.encodeless.Load() && x.srv.encodeless.CompareAndSwap(true, false) {
			x.srv.log.Info("media go to encode workers again")
		}
		return nil
	}
	why := p.Encode[lacking].refused
	absent := errors.Is(why, worker.ErrUnavailable) || errors.Is(why, worker.ErrNoWorkers) || errors.Is(why, worker.ErrOverloaded)
	if !absent || p.Prefill == nil || p.Prefill.refused != nil || !x.takes(p.Prefill.pick.Worker.ID, p) {
		return nil
	}
	for _, c := range p.Encode {
		c.end(worker.Neutral, true)
	}
	p.Encode = nil
	x.srv.metrics.pd.encodeFallback.Inc()
	if x.srv.encodeless.CompareAndSwap(false, true) {
		x.srv.log.Warn("media go to prefill workers (--encode-fallback), since no encode worker is available", slog.Any("reason", why))
	}
	return nil
}

// takes says whether a worker takes all media of a plan.
func (x *exchange) takes(id worker.ID, p *Plan) bool {
	w := x.srv.fleet.Lookup(id)
	if w == nil {
		return false
	}
	for _, item := range p.items {
		if !slices.Contains(w.Spec.Media, item.Kind) {
			return false
		}
	}
	return true
}
