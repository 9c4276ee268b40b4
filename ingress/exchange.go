package ingress

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"smg/engine"
	"smg/ingress/body"
	"smg/wire"
	"smg/worker"
)

// exchange is one request on its way, from its bytes to its answer. It belongs to
// the goroutine of its handler.
type exchange struct {
	srv       *Server
	w         http.ResponseWriter // out, as all write to it
	out       answer
	ctx       life
	route     *route // nil where the path has none
	mode      Mode   // how the request is served
	err       error  // what became of it, once it is concluded
	query     query
	id        [1]string // the request's, as a header field has it
	plans     int       // that were made, or tried to be
	attempt   int       // the one under way, from 1
	last      bool      // it is the last one
	headSent  bool
	noted     bool     // as one whose prompt decode computes
	permitted bool     // it has a permit
	rewrite   rewriter // of the attempt's answer, nil in the usual case
	timing    timing
	watch     watch
	unlink    func() bool // nil where the connection tells that the client leaves

	mu      sync.Mutex // below it: what calls of several legs share
	charged []worker.ID

	// What a regular request hands others a pointer to, in one allocation with the
	// rest.
	whole  Plan
	only   call
	asked  wire.Select
	fields [4]engine.Field // room for the request's

	came   *arrivals // nil for what is not counted among the API's requests
	named  bool      // its id is the gateway's
	routed bool      // it is one for workers, and has got as far
	failed error     // what broke an answer that had begun, where its client was told

	span    Span     // nil where nothing is traced
	planned uint64   // the last plan, as selectors know it
	upload  *upload  // nil: the body is read
	raw     []byte   // the body as it came, nil once nobody needs it
	held    int64    // that it takes of the budget
	handed  *request // what decode is sent, where another one may be after it

	ranking *ranking // of a request for one, else nil
}

// open begins an exchange, and has it watched until close.
func (s *Server) open(w http.ResponseWriter, r *http.Request) *exchange {
	x := &exchange{srv: s, mode: s.cfg.Mode, route: s.route(r.URL.Path)}
	x.out.x, x.out.to = x, w
	x.w = &x.out
	x.ctx.request, x.ctx.deadline = r.Context(), s.now().Add(s.cfg.RequestTimeout)
	x.watch.ctx, x.watch.conn, x.watch.writer = &x.ctx, clientConn(r), w
	if x.watch.conn == nil || !x.watch.conn.Begin(&x.watch) {
		x.unlink = context.AfterFunc(r.Context(), x.watch.ClientGone)
	}
	s.watcher.add(&x.watch)
	return x
}

func (x *exchange) close() {
	x.srv.watcher.remove(&x.watch)
	if x.unlink != nil {
		x.unlink()
	} else {
		x.watch.conn.End()
	}
	x.ctx.end(left)
}

// elapsed is how long the request has been here.
func (x *exchange) elapsed() time.Duration {
	return x.srv.now().Sub(x.ctx.deadline) + x.srv.cfg.RequestTimeout
}

// run takes the request through plan, dispatch and relay. The error is a *problem,
// errClientGone or errCut; nil means that the answer is out.
func (x *exchange) run(rt *route, r *http.Request) error {
	if err := x.apart(rt, r); err != nil {
		return err
	}
	if rt.counted {
		path := x.bodyPath(r)
		if path.unread() {
			var err error
			if path, err = x.passOn(rt, r, path); path.unread() || err != nil {
				x.srv.metrics.router.body(path)
				return err
			}
		}
		x.srv.metrics.router.body(path)
	}
	var err error
	x.raw, x.held, err = x.read(rt, r)
	defer func() {
		x.srv.buffers.release(x.held)
		x.held = 0
	}()
	if err != nil {
		return err
	}
	if err = x.parse(rt, r, x.raw); err != nil {
		return err
	}
	x.ranks(rt, x.raw)
	err = x.attempts(rt, r)
	x.dropBody(&x.only) // not where a panic leaves the engine's client with it
	return err
}

// dropBody gives the memory of the request's body back once nobody needs it any more:
// the last call that it was for, c, has it, and there is no other attempt.
func (x *exchange) dropBody(c *call) {
	x.srv.scatter(&x.query)
	x.asked = wire.Select{}
	x.query.bytes, x.query.body, c.sent.Body = nil, body.Body{}, nil
	if x.handed != nil {
		x.handed.body = nil
	}
	x.srv.buffers.put(x.raw)
	x.srv.buffers.release(x.held)
	x.raw, x.held = nil, 0
}

// givenUp is the outcome of a call whose context has ended: only a worker that let
// the time pass is to blame.
func (x *exchange) givenUp() worker.Outcome {
	if x.upload.unfinished() {
		return worker.Neutral // it waited for the client
	}
	if errors.Is(x.ctx.Err(), context.DeadlineExceeded) {
		return worker.Failure
	}
	return worker.Neutral
}

// upstreamFields appends the client's fields that engines get to see, and the body's
// type.
func upstreamFields(fields []engine.Field, h http.Header) []engine.Field {
	fields = append(fields, engine.Field{Name: "Content-Type", Value: "application/json"})
	for name, values := range h {
		if !passesToEngine(name) {
			continue
		}
		if name == "Authorization" {
			values = values[:1] // engines must not see two, whichever they take
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
func (s *Server) target(w *worker.Spec) (*engine.Target, error) {
	url := w.Base()
	if t, ok := s.targets.Load(url); ok && t.(*engine.Target).Follows(w.Pool) {
		return t.(*engine.Target), nil
	}
	s.targeting.Lock()
	defer s.targeting.Unlock()
	old, ok := s.targets.Load(url)
	if ok && old.(*engine.Target).Follows(w.Pool) {
		return old.(*engine.Target), nil
	}
	t, err := s.dispatcher.Reach(url, w.Pool)
	if err != nil {
		return nil, err
	}
	s.targets.Store(url, t)
	if ok && s.forgetter != nil {
		s.forgetter.Forget(old.(*engine.Target))
	}
	return t, nil
}
