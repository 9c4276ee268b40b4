package ingress

import (
	"errors"
	"log/slog"
	"math"
	"sync"
	"time"

	"smg/wire"
	"smg/worker"
)

// codeNoRoom is the code of a request that no decode worker had room for in time.
const codeNoRoom = "pd_admission_timeout"

// mostSequences bounds what a body can make a request count for.
const mostSequences = 1 << 20

// sequences is how many the request has decode compute at the same time, 0 for one.
func (x *exchange) sequences(rt *route) int32 {
	b := &x.query.body
	var all int64
	if rt.prompts != nil {
		all = int64(rt.prompts(b))
	}
	if n, ok := b.N(); ok && n > 1 && rt.path != chatPath { // a chat's are counted as prompts
		all = max(1, all) * min(n, math.MaxInt32)
	}
	if all <= 1 {
		return 0
	}
	return int32(min(all, mostSequences))
}

// admit waits for a decode worker with room, if none has any and nothing else is in the
// way. Others that were picked are let go of meanwhile, and picked anew afterwards: so
// nobody prefills what decode cannot take yet, and what prefill computes is fetched at
// once.
func (x *exchange) admit(rt *route, p *Plan, in *worker.Pairing, tried []worker.ID) {
	if p.Decode.refused == nil || !errors.Is(p.Decode.refused, worker.ErrFull) || x.srv.cfg.PD.AdmissionWait <= 0 || x.ctx.Err() != nil {
		return
	}
	if c := p.Prefill; c != nil && c.refused != nil && !errors.Is(c.refused, worker.ErrMismatch) && !p.local && !x.several(rt) {
		return // nobody waits for what will not be
	}
	x.srv.crowded.Do(func() {
		x.srv.log.Warn("requests wait for decode workers, all of which have as many as they take; further ones are only counted",
			slog.Int("pd_max_rooms_per_decode", x.srv.cfg.PD.MaxRooms), slog.Duration("longest_wait", x.srv.cfg.PD.AdmissionWait))
	})
	p.release()
	x.srv.metrics.pd.admissionWaits.Inc()
	p.Decode = x.anew(p.Decode)
	p.Decode.waits = true
	if in != nil {
		p.Decode.fit = admissible(in)
	}
	x.ask(p.Decode, p, tried)
	if p.Decode.refused != nil {
		return
	}
	var others sync.WaitGroup
	again := func(c **call) {
		*c = x.anew(*c)
		if in != nil && (*c).leg() == worker.Prefill {
			(*c).fit = worker.Like(p.Decode.class())
		}
		one := *c
		others.Go(func() { x.ask(one, p, tried) })
	}
	for i := range p.Encode {
		again(&p.Encode[i])
	}
	if p.Prefill != nil {
		again(&p.Prefill)
	}
	others.Wait()
}

// admissible are those decode workers for whom there are others to share with, or all if
// these are too many to name.
func admissible(in *worker.Pairing) *worker.Fit {
	if len(in.Classes) == 1 {
		return worker.Like(in.Classes[0])
	}
	if groups := in.Groups(); in.Grouped && len(groups) > 0 && len(groups) <= wire.MaxList {
		return &worker.Fit{Groups: groups}
	}
	return nil
}

// anew is a call for what another one was, of which nobody is picked.
func (x *exchange) anew(c *call) *call {
	again := &call{x: x, lease: x.srv.selector.Plan(), fit: c.fit, units: c.units}
	again.lease.Leg, again.lease.Item = c.lease.Leg, c.lease.Item
	return again
}

// noRoom words that a request has waited in vain.
func (x *exchange) noRoom(p *problem) *problem {
	x.srv.metrics.pd.admissionSheds.Inc()
	if wait := x.srv.cfg.PD.AdmissionWait; wait > 0 {
		p.message += " for " + wait.Round(time.Millisecond).String()
	}
	return x.shed(p, stageAdmission)
}
