package ingress

import (
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
)

// ServeHTTP answers one request. Here is what every request passes on its way, from
// the outside in; each layer has a file of its own. A layer costs nothing where it has
// nothing to do: what it keeps lies in the exchange.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.active.Add(1)
	defer s.active.Add(-1)
	x := s.open(w, r)
	defer s.report(r, x)
	defer x.close()
	x.identify(r)
	if x.cors(r) {
		return
	}
	x.arrived(r)
	defer x.departed(r)
	x.conclude(x.pass(r))
}

// pass has a request answered that may pass: one of a route there is, of somebody who
// may come in, in his turn. Whoever is refused is so before his body is read.
func (x *exchange) pass(r *http.Request) error {
	act, err := x.action(r)
	if err == nil {
		err = x.mayEnter(r)
	}
	if err == nil {
		err = x.takePermit(r)
	}
	if err != nil {
		forsake(x.w, r)
		return err
	}
	defer x.givePermit()
	return act(x, r)
}

// conclude words an error, if that is still possible, and sees the answer out. It
// ends the connection without an answer when nobody waits for one, and when one broke
// off after its first byte.
func (x *exchange) conclude(err error) {
	if x.err = err; err != nil {
		var p *problem
		if !errors.As(err, &p) || x.headSent {
			panic(http.ErrAbortHandler) // net/http's way to cut a connection
		}
		x.watch.begin(taking)
		p.write(x.w)
	}
	_ = x.finish() // a client that has left needs no error
}

// report logs a panic, which is a fault of this program, and lets it cut the one
// connection that it concerns: net/http's own report goes to the debug log.
func (s *Server) report(r *http.Request, x *exchange) {
	v := recover()
	if v == nil {
		return
	}
	if err, ok := v.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
		s.log.Error("a request hit a fault of the gateway", slog.String("uri", r.URL.Path), slog.String("request_id", x.id[0]), slog.Any("panic", v), slog.String("stack", string(debug.Stack())))
	}
	panic(http.ErrAbortHandler)
}

// contained runs what another goroutine than the handler's does for a request. A
// panic there, of which net/http would not know, costs the request and not the
// process.
func (x *exchange) contained(work func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			x.srv.log.Error("a request hit a fault of the gateway", slog.String("request_id", x.id[0]), slog.Any("panic", v), slog.String("stack", string(debug.Stack())))
			err = gatewayProblem(http.StatusInternalServerError, "internal_error", "the gateway has a fault, which its log tells of")
		}
	}()
	return work()
}
