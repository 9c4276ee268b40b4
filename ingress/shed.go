package ingress

import (
	"fmt"
	"net/http"

	"smg/worker"
)

// codeShed is the code of a request that overload protection refuses. It is not
// tried again here: the client is told when.
const codeShed = "worker_overload_protection_shed"

// Stages of a request at which it is shed.
const (
	stageSelection = "selection"    // every worker was overloaded
	stageDispatch  = "dispatch"     // the chosen one has become so since
	stageAdmission = "pd_admission" // no decode worker had room in time
)

// unplanned counts a plan that could not be made, if too much load is why.
func (x *exchange) unplanned(p *problem) *problem {
	switch {
	case p.code == codeShed:
		return x.shed(p, stageSelection)
	case p.code == codeNoRoom:
		return x.noRoom(p)
	case p.unready:
		if n := x.srv.broken(p.leg, x.query.model); n > 0 {
			p.message = fmt.Sprintf("no %s worker for %s is available: calls to the %d that are ready have failed (circuit breaker)", p.leg, modelName(x.query.model), n)
		}
	}
	return p
}

// broken counts the ready workers of a leg to which nothing is sent, since calls to them
// failed.
func (s *Server) broken(leg worker.Leg, model string) (n int) {
	for _, w := range s.fleet.Workers() {
		if w.Spec.Leg == leg && (model == "" || serves(w.Spec, model)) && w.Status() == worker.Ready && w.Record.Breaker != worker.Closed {
			n++
		}
	}
	return n
}

// overloaded looks once more at the workers of a plan, just before anything of it is
// sent. One that has become overloaded since it was picked ends the request.
func (x *exchange) overloaded(p *Plan) error {
	for c := range p.calls() {
		w := c.pick.Worker
		if !x.srv.fleet.Overloaded(w.ID) {
			continue
		}
		for c := range p.calls() {
			c.end(worker.Neutral, true)
		}
		shed := gatewayProblem(http.StatusServiceUnavailable, codeShed, "%s worker %s for %s has become overloaded", c.leg(), w.URL, modelName(x.query.model))
		shed.leg = c.leg()
		return x.shed(shed, stageDispatch)
	}
	return nil
}

// shed counts a refusal and says when to come back.
func (x *exchange) shed(p *problem, stage string) *problem {
	x.srv.metrics.sheds.WithLabelValues(stage).Inc()
	p.retryAfter = x.srv.cfg.LoadInterval
	return p
}
