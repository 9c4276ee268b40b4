package ingress

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"smg/engine"
	"smg/wire"
	"smg/worker"
)

const (
	// forwardLimit bounds how long an engine may take for a question that is passed on:
	// it generates a token for one of them.
	forwardLimit = 45 * time.Second
	// maxForwarded bounds its answer.
	maxForwarded = 4 << 20
)

// forwarded passes a question on to the first ready worker: of regular ones, or of
// prefill where several workers share requests.
func (s *Server) forwarded(x *exchange, r *http.Request) error {
	forsake(x.w, r)
	leg, spec := s.questioned(x.mode)
	if spec == nil {
		if leg == worker.Prefill {
			return gatewayProblem(http.StatusServiceUnavailable, "no_prefill_servers", "no prefill worker is ready")
		}
		return gatewayProblem(http.StatusServiceUnavailable, "no_workers", "No workers are available")
	}
	ctx, cancel := context.WithTimeout(&x.ctx, forwardLimit)
	defer cancel()
	req := engine.Request{Method: http.MethodGet, Path: r.URL.Path, Fields: questionFields(r.Header)}
	resp, err := s.question(ctx, spec, &req)
	if err != nil {
		return x.unforwarded(leg, spec, err)
	}
	defer resp.Close()
	body, held, err := s.whole(resp, maxForwarded)
	defer s.buffers.release(held)
	switch {
	case errors.Is(err, errAnswerTooLarge):
		return gatewayProblem(http.StatusBadGateway, "upstream_response_too_large", "the answer of worker %s is larger than %d bytes", spec.URL, maxForwarded)
	case errors.Is(err, errNoRoom):
		return gatewayProblem(http.StatusServiceUnavailable, "buffer_budget_exhausted", "%v", err)
	case x.ctx.Err() != nil:
		return contextProblem(&x.ctx, "worker "+spec.URL+" answered")
	case err != nil:
		return gatewayProblem(http.StatusInternalServerError, "read_response_failed", "the answer of worker %s broke off: %v", spec.URL, reason(err))
	case leg == worker.Prefill && !good(resp.Status):
		return replaced(resp.Status, spec.URL, body)
	}
	x.writeHead(resp, spec.URL, false, int64(len(body)))
	if x.write(body, false) != nil {
		return errClientGone
	}
	return nil
}

// unforwarded words why a question was not answered.
func (x *exchange) unforwarded(leg worker.Leg, spec *worker.Spec, err error) error {
	if x.ctx.Err() != nil {
		return contextProblem(&x.ctx, "worker "+spec.URL+" was awaited")
	}
	if errors.Is(err, engine.ErrRequest) {
		return gatewayProblem(http.StatusBadRequest, "request_preparation_failed", "the request cannot be passed to worker %s: %v", spec.URL, reason(err))
	}
	if leg == worker.Prefill {
		return gatewayProblem(http.StatusInternalServerError, "proxy_request_failed", "prefill worker %s did not answer: %v", spec.URL, reason(err))
	}
	return unreachableProblem(leg, err, spec.URL)
}

// replaced is what a client sees of a prefill worker's refusal.
func replaced(status int, url string, body []byte) *problem {
	code := "server_error"
	switch status {
	case http.StatusBadRequest:
		code = "server_bad_request"
	case http.StatusNotFound:
		code = "server_not_found"
	case http.StatusInternalServerError:
		code = "server_internal_error"
	case http.StatusBadGateway:
		code = "server_bad_gateway"
	case http.StatusServiceUnavailable:
		code = "server_unavailable"
	default:
		return gatewayProblem(http.StatusInternalServerError, code, "prefill worker %s answered %d: %s", url, status, quote(body))
	}
	return gatewayProblem(status, code, "prefill worker %s answered %d: %s", url, status, quote(body))
}

func good(status int) bool { return 200 <= status && status < 300 }

// questionFields are the client's fields that engines get to see, of a request without
// a body.
func questionFields(h http.Header) []engine.Field {
	return slices.DeleteFunc(upstreamFields(nil, h), func(f engine.Field) bool { return f.Name == "Content-Type" })
}

// questioned is who answers for the fleet, nil if nobody is ready. Where each model has a
// mode of its own, prefill workers stand in for regular ones.
func (s *Server) questioned(mode Mode) (leg worker.Leg, spec *worker.Spec) {
	if mode != Regular {
		return worker.Prefill, s.firstReady(worker.Prefill)
	}
	spec = s.firstReady(worker.Regular)
	if spec == nil && s.cfg.Multi {
		if spec = s.firstReady(worker.Prefill); spec != nil {
			return worker.Prefill, spec
		}
	}
	return worker.Regular, spec
}

// firstReady is the first worker of a leg that is ready, in the order of registration,
// or nil.
func (s *Server) firstReady(leg worker.Leg) *worker.Spec {
	for _, m := range s.fleet.Workers() {
		if m.Spec.Leg == leg && m.Spec.Mode == worker.HTTP && m.Record.Status == worker.Ready {
			return m.Spec
		}
	}
	return nil
}

// healthGenerate has an engine generate a token; where several workers share requests,
// one pair of them.
func (s *Server) healthGenerate(x *exchange, r *http.Request) error {
	if leg, _ := s.questioned(x.mode); leg == worker.Regular {
		return s.forwarded(x, r)
	}
	forsake(x.w, r)
	var pair [2]*worker.Spec
	plan := s.selector.Plan()
	for i, leg := range [...]worker.Leg{worker.Prefill, worker.Decode} {
		ask := wire.Select{Lease: plan, Now: s.now()}
		ask.Lease.Leg = leg
		pick, err := s.selector.Select(&x.ctx, &ask)
		switch {
		case x.ctx.Err() != nil:
			if err == nil {
				s.selector.End(ask.Lease, worker.Neutral, true)
			}
			return contextProblem(&x.ctx, "a pair of workers was chosen")
		case errors.Is(err, worker.ErrOverloaded):
			return selectionProblem(err, leg, "")
		case err != nil:
			return gatewayProblem(http.StatusServiceUnavailable, "no_healthy_worker_pair", "no pair of workers can be asked: %v", selectionProblem(err, leg, ""))
		}
		// What is asked says nothing about how the worker serves requests.
		defer s.selector.End(ask.Lease, worker.Neutral, false)
		pair[i] = pick.Worker
	}
	return x.askPair(pair, questionFields(r.Header))
}

// askPair asks two workers at once.
func (x *exchange) askPair(pair [2]*worker.Spec, fields []engine.Field) error {
	var said [2]error
	var calls sync.WaitGroup
	for i, spec := range pair {
		calls.Go(func() {
			said[i] = x.contained(func() error {
				ctx, cancel := context.WithTimeout(&x.ctx, forwardLimit)
				defer cancel()
				req := engine.Request{
					Method: http.MethodGet, Path: "/health_generate", NoResend: true,
					Fields: fields,
				}
				return x.healthy(ctx, spec, &req)
			})
		})
	}
	calls.Wait()
	if x.ctx.Err() != nil {
		return contextProblem(&x.ctx, "a pair of workers was awaited")
	}
	failed := ""
	for i, err := range said {
		if err != nil {
			if failed != "" {
				failed += "; "
			}
			failed += pair[i].Leg.String() + " worker " + pair[i].URL + ": " + err.Error()
		}
	}
	if failed != "" {
		return gatewayProblem(http.StatusServiceUnavailable, "health_generate_failed", "%s", failed)
	}
	x.watch.begin(taking)
	writeText(x.w, http.StatusOK, "prefill worker "+pair[0].URL+" and decode worker "+pair[1].URL+" are healthy")
	return nil
}

// healthy says why a worker is not.
func (x *exchange) healthy(ctx context.Context, spec *worker.Spec, req *engine.Request) error {
	resp, err := x.srv.question(ctx, spec, req)
	if err != nil {
		return inTime(ctx, forwardLimit, err)
	}
	one := heard{worker: spec}
	defer resp.Close()
	one.body, one.held, err = x.srv.whole(resp, maxForwarded)
	defer x.srv.buffers.release(one.held)
	if !good(resp.Status) {
		return errors.New("it answered " + resp.Reason + ": " + quote(one.body))
	}
	return inTime(ctx, forwardLimit, err)
}
