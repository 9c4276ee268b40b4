package ingress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"smg/engine"
	"smg/wire"
	"smg/worker"
)

// call is one leg's call of its worker, with the lease that counts it. It belongs
// to one goroutine at a time.
type call struct {
	x       *exchange
	lease   worker.LeaseID // begun, unless nobody was picked
	fit     *worker.Fit    // who may be picked, nil for anybody
	pick    wire.Pick
	refused error // why nobody was picked
	sent    engine.Request
	ctx     context.Context //nolint:containedctx // under which it was sent
	why     string          // what its failure was
	cached  []byte          // of prefill's prompt, as its answer says
	share   *share          // of which it is a part, nil for a call of its own
	ended   bool
	unmet   bool  // there was no connection: the worker has seen nothing
	waits   bool  // for a worker with room, as long as the operator allows
	urgent  bool  // others wait in line, and it does not
	units   int32 // sequences, 0 for one
	span    Span  // nil for none
	status  int   // of the answer
}

// end ends the lease, once. A worker is charged with one failure of a request at
// most, however many attempts it fails.
func (c *call) end(o worker.Outcome, unreached bool) {
	if c.ended {
		return
	}
	c.ended = true
	c.untrace(o)
	if c.share != nil {
		c.share.end(c, o, unreached)
		return
	}
	if o == worker.Failure {
		c.x.srv.complain(c.pick.Worker, c.why, c.x.id[0])
		if !c.x.charge(c.pick.Worker.ID) {
			o = worker.Neutral
		}
	}
	c.x.srv.selector.End(c.lease, o, unreached)
}

// request is what a leg is sent.
type request struct {
	path   string
	fields []engine.Field
	body   []byte
	// bound says that the body holds a room or a transfer id: it must not be sent
	// twice, since the engine may know it already.
	bound bool
	// chunked says that the body is in the chunked coding; stream is one that is passed
	// on in its place.
	chunked bool
	stream  io.ReadCloser
}

// send calls the worker. On error the lease has ended, and the error is a *problem
// or errClientGone.
func (c *call) send(ctx context.Context, q request) (*engine.Response, error) {
	c.ctx = ctx
	target, err := c.address(q)
	if err != nil {
		return nil, err
	}
	resp, err := c.x.srv.dispatcher.Send(ctx, target, &c.sent)
	return c.answered(ctx, resp, err)
}

// address makes what is to be sent, and says where.
func (c *call) address(q request) (*engine.Target, error) {
	url := c.pick.Worker.URL
	target, err := c.x.srv.target(c.pick.Worker)
	if err != nil {
		c.end(worker.Neutral, true)
		return nil, gatewayProblem(http.StatusInternalServerError, "internal_error", "worker %s cannot be called: %v", url, err)
	}
	if q.fields, err = c.x.srv.authorized(q.fields, c.pick.Worker); err != nil {
		c.end(worker.Neutral, true)
		return nil, gatewayProblem(http.StatusInternalServerError, "internal_error", "worker %s cannot be called: %v", url, err)
	}
	if c.pick.Worker.Runtime == worker.VLLM {
		q.fields = c.x.rankOf(c).header(q.fields)
	}
	q.fields = c.traced(q.fields)
	c.sent = engine.Request{Method: http.MethodPost, Path: q.path, Fields: q.fields, Body: q.body, NoResend: q.bound, Chunked: q.chunked, Stream: q.stream}
	return target, nil
}

// answered judges what came of sending: see send. ctx is that of the sending.
func (c *call) answered(ctx context.Context, resp *engine.Response, err error) (*engine.Response, error) {
	url := c.pick.Worker.URL
	switch {
	case err == nil:
		c.status = resp.Status
		c.x.srv.metrics.heard(c.pick.Worker, resp.Status, "")
		if resp.Status >= http.StatusInternalServerError {
			c.why = fmt.Sprintf("it answered %d", resp.Status)
		}
		if c.pick.Probe && c.outcome(resp.Status) == worker.Success {
			c.x.srv.selector.Head(c.lease)
		}
		return resp, nil
	case c.x.upload.fault() != nil:
		c.end(worker.Neutral, false)
		return nil, c.x.upload.fault()
	case c.x.ctx.Err() != nil:
		c.end(c.x.givenUp(), false)
		return nil, contextProblem(&c.x.ctx, "worker "+url+" was awaited")
	case ctx.Err() != nil: // another leg's failure ended this one
		c.end(worker.Neutral, false)
		return nil, errLegDropped
	case errors.Is(err, engine.ErrRequest):
		c.end(worker.Neutral, true)
		return nil, gatewayProblem(http.StatusBadRequest, "request_preparation_failed", "the request cannot be passed to worker %s: %v", url, reason(err))
	}
	c.why = reason(err).Error()
	c.unmet = errors.Is(err, engine.ErrConnect)
	c.end(worker.Failure, c.unmet)
	p := unreachableProblem(c.leg(), err, url)
	var e *engine.Error
	p.stale = c.sent.NoResend && errors.As(err, &e) && e.Reused && errors.Is(err, engine.ErrNoAnswer)
	p.resend = p.stale
	c.x.srv.metrics.heard(c.pick.Worker, p.status, p.code)
	return nil, p
}

// errLegDropped is the error of a leg that was ended because another one failed.
var errLegDropped = errors.New("another leg has failed")

// failed ends the lease of a worker that told of a failure in its stream.
func (c *call) failed(f fault) {
	c.why = fmt.Sprintf("its stream told of a failure with status %d: %s", f.status, clip(f.message))
	c.end(c.outcome(f.status), false)
}

// dropped is what the leg said for whose failure this one was ended.
func (c *call) dropped() error {
	if p, ok := errors.AsType[*problem](context.Cause(c.ctx)); ok {
		return p
	}
	return errLegDropped
}

// isLeg says whether others have a part in the request.
func (c *call) isLeg() bool { return c.leg() != worker.Regular }

// leg is the leg that the call serves.
func (c *call) leg() worker.Leg { return c.lease.Leg }

// charge says whether a failure is this request's first at the worker.
func (x *exchange) charge(id worker.ID) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if slices.Contains(x.charged, id) {
		return false
	}
	x.charged = append(x.charged, id)
	return true
}
