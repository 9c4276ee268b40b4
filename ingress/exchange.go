package ingress

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"smg/engine"
	"smg/worker"
)

// errDeadline is the cause of a context whose request's time is up.
var errDeadline = errors.New("the request's time is up")

// exchange is one request on its way, from its bytes to its answer. It belongs to
// the goroutine of its handler.
type exchange struct {
	srv      *Server
	w        http.ResponseWriter
	flusher  flusher
	ctx      context.Context
	query    query
	watch    watch
	headSent bool
}

// flusher is what net/http's writers offer beside http.Flusher.
type flusher interface{ FlushError() error }

// infer serves an inference route. It ends the connection without an answer when
// the client has left or an answer broke off after its first byte.
func (s *Server) infer(w http.ResponseWriter, r *http.Request, rt *route) {
	begun := s.now()
	ctx, cancel := context.WithDeadlineCause(r.Context(), begun.Add(s.cfg.RequestTimeout), errDeadline)
	defer cancel()
	x := &exchange{srv: s, w: w, ctx: ctx}
	x.flusher, _ = w.(flusher)
	x.watch.cancel, x.watch.writer, x.watch.peerGone = cancel, w, peerGone(r)
	s.watcher.add(&x.watch)
	defer s.watcher.remove(&x.watch)
	s.active.Add(1)
	defer s.active.Add(-1)

	err := x.run(rt, r)
	if s.log.Enabled(ctx, slog.LevelDebug) {
		s.log.LogAttrs(ctx, slog.LevelDebug, "request ended", slog.String("uri", r.URL.Path), slog.String("model", x.query.model),
			slog.Duration("latency", s.now().Sub(begun)), slog.Any("error", err))
	}
	if err == nil {
		return
	}
	var p *problem
	if !errors.As(err, &p) || x.headSent {
		panic(http.ErrAbortHandler) // net/http's way to cut a connection
	}
	p.write(w)
}

// run takes the request through plan, dispatch and relay. The error is a *problem,
// errClientGone or errCut; nil means that the answer is out.
func (x *exchange) run(rt *route, r *http.Request) error {
	raw, held, err := x.srv.read(r)
	defer x.srv.budget.give(held)
	if err != nil {
		return err
	}
	if x.query, err = x.srv.parse(rt, r, raw); err != nil {
		return err
	}
	plan, err := x.srv.plan(x.ctx, &x.query)
	if err != nil {
		return err
	}
	end, err := x.dispatch(rt, r, plan)
	x.srv.selector.End(plan.Lease, end.outcome, end.unreached)
	return err
}

// ending is how a lease ends.
type ending struct {
	outcome   worker.Outcome
	unreached bool
}

// dispatch sends the request to the plan's worker and relays its answer.
func (x *exchange) dispatch(rt *route, r *http.Request, plan Plan) (ending, error) {
	url := plan.Pick.Worker.URL
	target, err := x.srv.target(url)
	if err != nil {
		return ending{unreached: true}, gatewayProblem(http.StatusInternalServerError, "internal_error", "worker %s cannot be called: %v", url, err)
	}
	resp, err := x.srv.dispatcher.Send(x.ctx, target, &engine.Request{
		Method: http.MethodPost,
		Path:   rt.path,
		Fields: upstreamFields(r.Header),
		Body:   x.query.bytes,
	})
	if err != nil {
		if x.ctx.Err() != nil {
			e := ending{}
			if errors.Is(context.Cause(x.ctx), errDeadline) {
				e.outcome = worker.Failure
			}
			return e, contextProblem(x.ctx, "worker "+url+" was awaited")
		}
		return ending{worker.Failure, errors.Is(err, engine.ErrConnect)}, upstreamProblem(err, url)
	}
	defer resp.Close()
	end := x.relay(resp, url)
	return ending{outcome: end.outcome}, end.err
}

// upstreamFields are the client's fields that engines get to see, and the body's
// type.
func upstreamFields(h http.Header) []engine.Field {
	fields := make([]engine.Field, 1, 4)
	fields[0] = engine.Field{Name: "Content-Type", Value: "application/json"}
	for name, values := range h {
		if !passesToEngine(name) {
			continue
		}
		for _, v := range values {
			fields = append(fields, engine.Field{Name: name, Value: v})
		}
	}
	return fields
}

// passesToEngine is the allow list of request fields.
func passesToEngine(canonical string) bool {
	switch canonical {
	case "Authorization", "X-Request-Id", "X-Correlation-Id", "Traceparent", "Tracestate", "X-Smg-Routing-Key", "Anthropic-Version", "Anthropic-Beta":
		return true
	}
	const prefix = "X-Request-Id-"
	return len(canonical) > len(prefix) && canonical[:len(prefix)] == prefix
}

// target is a worker's address in the dispatcher's form, parsed once.
func (s *Server) target(url string) (*engine.Target, error) {
	if t, ok := s.targets.Load(url); ok {
		return t.(*engine.Target), nil
	}
	t, err := s.dispatcher.Target(url)
	if err != nil {
		return nil, err
	}
	s.targets.Store(url, t)
	return t, nil
}
