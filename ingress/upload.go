package ingress

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"smg/ingress/body"
	"smg/wire"
	"smg/worker"
)

// UploadConfig is which bodies are passed on as they come, without being read.
type UploadConfig struct {
	// MaxBuffered is the size up to which bodies are kept for another attempt, where
	// requests get one; 0 keeps none.
	MaxBuffered int64
	// Stall ends an upload that brings no byte for so long; 0 is no limit.
	Stall time.Duration
	// Edited says that workers get bodies with something of the gateway's in them, so
	// that all are read.
	Edited bool
}

// DefaultUpload is that of a gateway that was given no flags.
func DefaultUpload() UploadConfig { return UploadConfig{MaxBuffered: 1 << 20, Stall: 5 * time.Minute} }

// Validate reports every value out of range, each by its flag.
func (c UploadConfig) Validate() error {
	var errs []error
	if c.MaxBuffered < 0 {
		errs = append(errs, fmt.Errorf("--max-buffered-request-bytes must not be negative, not %d", c.MaxBuffered))
	}
	if c.Stall < 0 {
		errs = append(errs, errors.New("--stream-body-stall-timeout-secs must not be negative"))
	}
	return errors.Join(errs...)
}

// bodyPath is how a request's body goes to its worker, and why.
type bodyPath uint8

// The paths. Those up to the last but two are of bodies that are read.
const (
	byKeyOverride bodyPath = iota
	byPolicy
	byModels
	byWorker
	byLength
	byRetry
	byNobody
	byPD
	byEPD
	bySelection
	byForfeit // passed on: it is too large to be kept
	byForward // passed on: it would be kept for nothing
	bodyPaths
)

// labels are the path's values of smg_router_request_body_path_total.
func (p bodyPath) labels() (path, reason string) {
	reason = [bodyPaths]string{
		"routing_key_override", "policy_needs_text", "model_ambiguous", "worker_mutates_body", "no_content_length", "retryable",
		"no_available_worker", "pd", "epd", "model_selection", "retry_forfeited", "pure_forward",
	}[p]
	if p.unread() {
		return "streamed", reason
	}
	return "buffered", reason
}

// unread says whether the body is passed on as it comes.
func (p bodyPath) unread() bool { return p == byForfeit || p == byForward }

// bodyPath decides by what is known before the body is read: the first rule that
// applies.
func (x *exchange) bodyPath(r *http.Request) bodyPath {
	cfg := &x.srv.cfg
	switch {
	case cfg.Multi:
		return bySelection
	case x.mode == PD:
		return byPD
	case x.mode == EPD:
		return byEPD
	}
	reads := x.srv.reads(worker.Regular)
	switch {
	case reads&wire.ReadsConversationKey != 0:
		return byKeyOverride
	case reads&wire.NeedsText != 0 && !hinted(r.Header):
		return byPolicy
	case x.ambiguous():
		return byModels
	case cfg.Upload.Edited:
		return byWorker
	case r.ContentLength <= 0:
		return byLength
	case cfg.Retry.Attempts <= 1:
		return byForward
	case r.ContentLength > cfg.Upload.MaxBuffered:
		return byForfeit
	}
	return byRetry
}

// hinted says whether a header says which tokens the prompt has.
func hinted(h http.Header) bool {
	v := h[tokenHint]
	if len(v) == 0 {
		return false
	}
	_, ok := body.ParseTokens(nil, v[0])
	return ok
}

// passOn has a body passed on that nobody reads, in one attempt, with a worker that is
// chosen by the request's head. Where that cannot be and there is no error, it returns
// why the body is read after all; nothing of it is gone then.
func (x *exchange) passOn(rt *route, r *http.Request, why bodyPath) (bodyPath, error) {
	if p := x.unacceptable(rt, r); p != nil {
		forsake(x.w, r)
		return why, p
	}
	q := &x.query
	q.route = rt
	q.model = x.sole() // the only one that it can be for
	x.srv.gatherHead(x.mode, q, r.Header)
	defer x.srv.scatter(q)
	x.attempt, x.last = 1, true
	x.timing.begin(x.elapsed())
	plan, err := x.plan(rt, nil)
	if err != nil {
		p := (*problem)(nil)
		again := errors.As(err, &p) && p.retryable
		if again && why == byForfeit {
			return byNobody, nil // and tried again
		}
		if again {
			why = byNobody
			x.exhausted(p.leg, rt)
		}
		forsake(x.w, r)
		return why, err
	}
	switch {
	case x.rankOf(plan.Decode).known:
		plan.release()
		return byWorker, nil
	case x.ambiguous():
		plan.release()
		return byModels, nil
	}
	x.timing.selected = x.timing.next(x.elapsed())
	x.timing.dispatched = x.timing.step
	return why, x.forward(rt, r, plan)
}

// smallUpload is up to which size a body that is passed on is gathered first: it goes
// out in one piece, and can be sent once more when a connection turns out to be dead.
const smallUpload = 64 << 10

// forward sends a body that nobody reads to the worker of a plan, and relays the answer.
func (x *exchange) forward(rt *route, r *http.Request, plan *Plan) error {
	u := newUpload(x, r)
	x.upload = u
	x.watch.upload.Store(u)
	defer func() {
		x.watch.upload.Store(nil)
		if !u.whole.Load() {
			forsake(x.w, r) // which takes back what has ended a read
		}
	}()
	if r.ContentLength <= smallUpload {
		held, err := u.gather(r.ContentLength)
		defer func() {
			x.srv.buffers.release(held)
			x.only.sent.Body = nil
			x.srv.buffers.put(u.small) // not where a panic leaves the engine's client with it
		}()
		if err != nil {
			plan.release()
			return err
		}
	} else if r.ProtoMajor == 1 {
		// So that an answer that comes early does not wait for the rest of the body.
		_ = http.NewResponseController(x.w).EnableFullDuplex() // the server's own writer can
	}
	err := x.dispatch(rt, r, plan)
	if p := (*problem)(nil); errors.As(err, &p) && !x.headSent {
		u.partial()
		if p.retryable {
			x.exhausted(p.leg, rt)
		}
	}
	return err
}

// unacceptable is what a request's head tells against its body.
func (x *exchange) unacceptable(rt *route, r *http.Request) *problem {
	limit, flag := x.limit(rt)
	switch {
	case rt.plain && !isJSON(r.Header.Get("Content-Type")):
		return &problem{status: http.StatusUnsupportedMediaType, form: text, message: "send the body with Content-Type: application/json"}
	case r.ContentLength > limit:
		return tooLarge(limit, flag)
	}
	return nil
}

// limit is how large a route's bodies may be, and by which flag.
func (x *exchange) limit(rt *route) (limit int64, flag string) {
	limit, flag = x.srv.cfg.MaxPayloadBytes, " (--max-payload-size)"
	if rt.maxBody > 0 && rt.maxBody < limit {
		limit, flag = rt.maxBody, ""
	}
	return limit, flag
}

// ambiguous says whether a request that names no model could mean several.
func (x *exchange) ambiguous() bool {
	_, several := x.srv.fleet.Sole()
	return several
}

// sole is what a request means that names no model, for messages.
func (x *exchange) sole() string {
	model, _ := x.srv.fleet.Sole()
	return model
}
