package ingress

import (
	"context"
	"time"

	"smg/engine"
	"smg/worker"
)

// lingerFor is how long a decode engine that nobody waits for any more may take to the
// first byte of its answer. vLLM that is left while it fetches KV may crash, or never
// give the blocks back.
const lingerFor = 30 * time.Second

// sent is what came of sending a request.
type sent struct {
	resp *engine.Response
	err  error
}

// sendPatiently is [call.send] for a decode engine. One that fetches what h hands over
// does not see, up to the first byte of its answer, that the client leaves or that the
// time is up: the request and the lease end as ever, and what is left of the call by
// itself. done is to be called when the answer is not needed any more.
func (c *call) sendPatiently(h *handoff, q request) (resp *engine.Response, done func(), err error) {
	x := c.x
	done = func() {}
	if h.params == nil {
		resp, err = c.send(&x.ctx, q)
		return resp, done, err
	}
	url := c.pick.Worker.URL
	if x.ctx.Err() != nil {
		c.end(worker.Neutral, true)
		return nil, done, contextProblem(&x.ctx, "worker "+url+" was to be called")
	}
	c.ctx = &x.ctx
	target, err := c.address(q)
	if err != nil {
		return nil, done, err
	}
	ctx, drop := context.WithCancel(context.WithoutCancel(x.ctx.request))
	answer, left := make(chan sent), make(chan struct{})
	kept := c.sent // the call's own ends with it
	x.srv.trailing.Go(func() {
		a := x.sendKept(ctx, target, &kept)
		select {
		case answer <- a:
		case <-left:
			if a.err == nil {
				_ = a.resp.Close()
			}
			drop()
		}
	})
	select {
	case a := <-answer:
		stop := context.AfterFunc(&x.ctx, drop)
		resp, err = c.answered(ctx, a.resp, a.err)
		return resp, func() { stop(); drop() }, err
	case <-x.ctx.Done():
		h.taken = true
		x.srv.linger(ctx, drop)
		close(left)
		c.end(x.givenUp(), false)
		return nil, done, contextProblem(&x.ctx, "worker "+url+" was awaited")
	}
}

// sendKept sends a request of which nothing changes, and waits for the first byte of a
// good answer's body.
func (x *exchange) sendKept(ctx context.Context, t *engine.Target, q *engine.Request) (a sent) {
	if err := x.contained(func() error {
		if a.resp, a.err = x.srv.dispatcher.Send(ctx, t, q); a.err == nil && a.resp.Status < 300 {
			a.resp.Await()
		}
		return nil
	}); err != nil {
		return sent{err: err}
	}
	return a
}

// linger ends a call that nobody waits for when its time is up, or the server's.
func (s *Server) linger(ctx context.Context, drop func()) {
	t := time.AfterFunc(lingerFor, drop)
	stop := context.AfterFunc(s.life, drop)
	context.AfterFunc(ctx, func() {
		t.Stop()
		stop()
	})
}
