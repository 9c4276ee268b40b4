package ingress

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"smg/worker"
)

// attempts tries the request until an answer is out, or until trying again would
// not help: new plans with new rooms, workers that were tried before avoided. The
// error is that of the last attempt.
func (x *exchange) attempts(rt *route, r *http.Request) error {
	var tried []worker.ID
	retry := &x.srv.cfg.Retry
	replans := 1 // for connections that died unused and workers that were restarted, not charged as attempts
	for n := 0; ; n++ {
		x.attempt, x.last = n+1, n+1 >= retry.Attempts
		x.timing.begin(x.elapsed())
		plan, err := x.plan(rt, tried)
		if err == nil {
			x.planned = plan.Decode.lease.Plan
			x.timing.selected = x.timing.next(x.elapsed())
			x.timing.dispatched = x.timing.step
			err = x.dispatch(rt, r, plan)
		}
		if err == nil || x.headSent {
			return err
		}
		var p *problem
		if !errors.As(err, &p) {
			return err
		}
		if plan != nil {
			x.srv.metrics.unmet(plan, p, x.query.model)
			for c := range plan.calls() {
				tried = append(tried, c.pick.Worker.ID)
			}
			tried = append(tried, plan.gone...)
		}
		if p.stale && replans > 0 {
			if p.resend {
				x.srv.metrics.router.replanned.Add(1)
			}
			replans--
			n--
			continue
		}
		if !p.retryable {
			return err
		}
		leg := p.leg
		if x.last {
			x.exhausted(leg, rt)
			return err
		}
		x.srv.metrics.retrying(leg, rt)
		delay := retry.delay(n, jitter())
		x.srv.metrics.router.backedOff(n+1, delay)
		if !x.pause(delay) {
			return contextProblem(&x.ctx, "the next attempt was awaited")
		}
	}
}

// attemptsHeader tells a client that its request was tried as often as allowed.
const attemptsHeader = "X-Smg-Attempts"

// exhausted counts a request that has used up its attempts, and tells its client so.
func (x *exchange) exhausted(leg worker.Leg, rt *route) {
	x.srv.metrics.exhausted(leg, rt)
	x.w.Header().Set(attemptsHeader, strconv.Itoa(x.attempt))
}

// pause waits for d and says whether the request is still wanted.
func (x *exchange) pause(d time.Duration) bool {
	if paused := x.srv.paused; paused != nil {
		d = paused(d)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-x.ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// dispatch sends the plan's requests in the engines' protocol, and relays the
// answer. Whatever has not ended for a better reason ends with it.
func (x *exchange) dispatch(rt *route, r *http.Request, p *Plan) error {
	defer func() {
		for c := range p.calls() {
			c.end(worker.Neutral, false)
		}
	}()
	if err := x.overloaded(p); err != nil {
		return err
	}
	if err := x.outdated(p); err != nil {
		return err
	}
	err := protocolOf(p)(x, rt, r, p)
	if err == nil && p.Decode.leg() == worker.Decode {
		x.srv.metrics.answered(p, x.query.model, &x.timing)
	}
	return err
}
