package ingress

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"

	"smg/bootstrap"
	"smg/engine"
	"smg/ingress/body"
	"smg/worker"
)

// parallel has prefill and decode work at the same time, as SGLang wants it: both
// get the request with the address and the rooms at which they meet. Prefill's
// answer is only watched; decode's goes to the client. The first leg that fails
// ends the other at once.
func (x *exchange) parallel(rt *route, r *http.Request, p *Plan) error {
	if n, ok := x.splits(rt); ok {
		return x.split(rt, r, p, n)
	}
	b := &x.query.body
	join := bootstrap.New(p.Prefill.pick.Worker, x.srv.rooms, rt.prompts(b))
	host, port, room := join.Values(body.AppendString)
	edits := append(ownFields(), body.Set(bootstrap.FieldHost, host), body.Set(bootstrap.FieldPort, port), body.Set(bootstrap.FieldRoom, room))
	edits = renamed(edits, b, p.number)
	q := request{path: rt.engine(), fields: upstreamFields(nil, r.Header), bound: true}
	first, second := x.rankOf(p.Prefill), x.rankOf(p.Decode)
	if first.known || second.known {
		// Each leg gets a body of its own; decode has to know where prefill has the KV.
		n := len(edits)
		q.body = b.Edit(second.set(first.set(edits[:n:n], fieldPrefillRank), fieldRoutedRank)...)
		edits = first.set(edits[:n:n], fieldRoutedRank)
	}
	toPrefill := q
	toPrefill.body = b.Edit(edits...)
	if q.body == nil {
		q.body = toPrefill.body
	}

	x.rewrite = nil
	var keep *promptLogprobs
	if wantsLogprobs(rt, b) {
		keep = &promptLogprobs{srv: x.srv}
	}
	legs := x.newLegs(func() {
		x.srv.rooms.Release(join.Rooms)
		if keep != nil {
			keep.release()
		}
	})
	defer func() {
		if legs.end() {
			p.Prefill = nil // its lease ends with its own answer
		}
	}()
	prefill, begun := p.Prefill, x.timing.step // the plan may have let go of it before the goroutine looks
	legs.watch(func(ctx context.Context) error {
		return x.contained(func() error { return x.watchPrefill(ctx, prefill, toPrefill, begun, keep) })
	})
	resp, err := p.Decode.send(legs.ctx, q)
	if err != nil {
		return x.first(legs.ctx, err)
	}
	defer resp.Close()
	if resp.Status >= 300 {
		return x.first(legs.ctx, x.refused(p.Decode, resp))
	}
	if keep != nil {
		<-legs.done // decode cannot say anything before either
		if legs.ctx.Err() != nil {
			return x.first(legs.ctx, x.broken(p.Decode, false, engine.ErrCanceled))
		}
		x.rewrite = keep
	}
	if err = x.relay(resp, p.Decode); err != nil && !x.headSent {
		return x.first(legs.ctx, err)
	}
	legs.whole = err == nil
	return err
}

// legs are the calls of one attempt that run at the same time. The first failure
// ends them all; so does the end of the request, but for a prefill whose decode has
// answered: its own answer is complete any moment, and its connection can be used
// again.
type legs struct {
	srv   *Server
	ctx   context.Context //nolint:containedctx // it is the legs' own and ends with them
	drop  context.CancelCauseFunc
	leave func() bool // undoes that the request's end ends the legs
	after func()      // to be called when all have ended
	done  chan struct{}
	whole bool // decode has answered to the end
}

// prefillGrace is how long a prefill may go on once decode has answered.
const prefillGrace = 2 * time.Second

func (x *exchange) newLegs(after func()) *legs {
	ctx, drop := context.WithCancelCause(context.WithoutCancel(&x.ctx))
	return &legs{
		srv: x.srv, ctx: ctx, drop: drop, after: after, done: make(chan struct{}),
		leave: context.AfterFunc(&x.ctx, func() { drop(context.Cause(&x.ctx)) }),
	}
}

// watch runs the call that is only watched.
func (l *legs) watch(call func(context.Context) error) {
	l.srv.trailing.Go(func() {
		defer close(l.done)
		if err := call(l.ctx); err != nil {
			l.drop(err)
		}
	})
}

// end ends the legs with the attempt, and says whether the watched call goes on for
// a moment.
func (l *legs) end() (goesOn bool) {
	if l.whole && l.leave() {
		select {
		case <-l.done:
		default:
			l.srv.trailing.Go(l.linger)
			return true
		}
	}
	l.drop(nil)
	<-l.done
	l.after()
	return false
}

// linger lets a prefill whose decode has answered come to its end.
func (l *legs) linger() {
	t := time.NewTimer(prefillGrace)
	defer t.Stop()
	select {
	case <-l.done:
	case <-t.C:
	}
	l.drop(nil)
	<-l.done
	l.after()
}

// first is the error that ended the legs: what a leg's own failure was, and not
// that another one was dropped for it.
func (x *exchange) first(ctx context.Context, err error) error {
	cause, ok := errors.AsType[*problem](context.Cause(ctx))
	if !ok || x.ctx.Err() != nil {
		return err
	}
	if other, ok := errors.AsType[*problem](err); ok {
		// The client is told of one.
		x.srv.log.Warn("both legs have failed", slog.String("request_id", x.id[0]), slog.String("first", clip(cause.message)), slog.String("other", clip(other.message)))
	}
	return cause
}

// watchPrefill sends prefill its request and sees its answer to the end. begun is when
// the legs began. What decode's answer has to say of the prompt goes to keep, which may
// be nil.
func (x *exchange) watchPrefill(ctx context.Context, c *call, q request, begun time.Duration, keep *promptLogprobs) error {
	defer c.end(worker.Neutral, false) // if nothing else has
	resp, err := c.send(ctx, q)
	if err != nil {
		return err
	}
	defer resp.Close()
	if resp.Sent() {
		c.sent.Body = nil
	}
	if resp.Status >= 300 {
		return x.refused(c, resp)
	}
	events := x.answersEvents(resp)
	stream := framer{budget: &x.srv.buffers}
	defer stream.release()
	if keep != nil {
		keep.events = events
	}
	for {
		piece, err := resp.Next()
		switch {
		case errors.Is(err, io.EOF):
			x.timing.prefillTook(x.elapsed() - begun)
			c.end(worker.Success, false)
			if keep != nil {
				keep.ended()
			}
			return nil
		case err != nil && (ctx.Err() != nil):
			c.end(x.givenUp(), false) // neutral, if another leg's failure ended it
			return errLegDropped
		case err != nil:
			c.end(worker.Failure, false)
			return legProblem(c, http.StatusBadGateway, "read_failed", "the answer of prefill worker "+c.pick.Worker.URL+" broke off: "+reason(err).Error(), true)
		}
		if !events {
			if keep != nil {
				keep.piece(piece)
			}
			continue
		}
		// An engine that fails once it has begun a stream tells so in an event.
		stream.add(piece)
		for event, ok := stream.next(); ok; event, ok = stream.next() {
			if stream.raw {
				continue
			}
			if f, ok := streamFault(event); ok {
				c.failed(f)
				return legAnswer(c, f.status, f.message)
			}
			if keep != nil {
				keep.said(event)
			}
		}
	}
}

// refused ends a leg whose worker answered with an error, and words it.
func (x *exchange) refused(c *call, resp *engine.Response) error {
	text, err := io.ReadAll(io.LimitReader(resp, maxFault))
	if x.ctx.Err() != nil {
		c.end(x.givenUp(), false)
		return contextProblem(&x.ctx, "worker "+c.pick.Worker.URL+" was awaited")
	}
	c.end(c.outcome(resp.Status), false)
	if err != nil {
		text = append(text, "…"...)
	}
	p := legAnswer(c, resp.Status, faultText(text))
	if c.leg() == worker.Decode {
		p = x.streamed(p)
	}
	return p
}

// maxFault bounds what is read of a worker's error.
const maxFault = 64 << 10

// ownFields removes what only the gateway may say to engines: a client could point
// them at other hosts with it.
func ownFields() []body.Edit {
	return append(foreignFields(),
		body.Remove(fieldRank), body.Remove("data_parallel_rank_decode"), body.Remove(fieldRoutedRank), body.Remove(fieldPrefillRank))
}

// foreignFields removes what no client may say in any mode: where an engine fetches KV
// from. An engine that serves a request alone may be told its rank.
func foreignFields() []body.Edit {
	return []body.Edit{body.Remove(bootstrap.FieldHost), body.Remove(bootstrap.FieldPort), body.Remove(bootstrap.FieldRoom), body.Remove(fieldKV)}
}
