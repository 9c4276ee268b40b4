package ingress

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"smg/engine"
	"smg/ingress/body"
	"smg/wire"
	"smg/worker"
)

// problem is an error as a client sees it. The zero code stands for the plain
// forms that some routes answer with.
type problem struct {
	status  int
	code    string // of the envelope, and of X-SMG-Error-Code
	message string
	form    form
}

// form is the shape of an error's body.
type form uint8

const (
	envelope form = iota // the gateway's own: type, code, message, param
	openai               // invalid_request_error, as OpenAI's API words it
	text                 // plain text
)

func (p *problem) Error() string { return p.message }

// errorCodeHeader is where clients find the gateway's error code.
const errorCodeHeader = "X-Smg-Error-Code"

// write sends the problem as the whole answer.
func (p *problem) write(w http.ResponseWriter) {
	h := w.Header()
	switch p.form {
	case text:
		h.Set("Content-Type", "text/plain; charset=utf-8")
		h.Set("Content-Length", strconv.Itoa(len(p.message)))
		w.WriteHeader(p.status)
		_, _ = w.Write([]byte(p.message)) // a client that has left needs no error
		return
	case envelope:
		h.Set(errorCodeHeader, p.code)
	case openai:
	}
	b := p.json()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(p.status)
	_, _ = w.Write(b) // a client that has left needs no error
}

// json is the problem's body, without a line end.
func (p *problem) json() []byte {
	type fields struct {
		Type    string  `json:"type"`
		Code    any     `json:"code"`
		Message string  `json:"message"`
		Param   *string `json:"param"`
	}
	f := fields{Type: http.StatusText(p.status), Code: p.code, Message: p.message}
	if p.form == openai {
		f.Type = "invalid_request_error"
		if p.code == "" {
			f.Code = p.status
		}
	}
	b, err := json.Marshal(map[string]fields{"error": f})
	if err != nil { // strings and numbers always marshal
		return []byte(`{"error":{"type":"Internal Server Error","code":"internal_error","message":"","param":null}}`)
	}
	return b
}

func gatewayProblem(status int, code, format string, args ...any) *problem {
	return &problem{status: status, code: code, message: fmt.Sprintf(format, args...)}
}

// errClientGone says that nobody waits for the answer any more.
var errClientGone = errors.New("the client has left")

// maxEcho is how much of a client's own text an error repeats.
const maxEcho = 256

func clip(s string) string {
	if len(s) <= maxEcho {
		return s
	}
	return strings.ToValidUTF8(s[:maxEcho], "") + "…"
}

// selectionProblem words why no worker was picked for a leg.
func selectionProblem(err error, leg worker.Leg, model string) *problem {
	name := clip(model)
	if name == "" {
		name = "any model"
	}
	switch {
	case errors.Is(err, worker.ErrNoWorkers):
		return gatewayProblem(http.StatusNotFound, "model_not_found", "no worker serves the model %q; GET /v1/models lists what is served", name)
	case errors.Is(err, worker.ErrOverloaded):
		return gatewayProblem(http.StatusServiceUnavailable, "worker_overload_protection_shed", "every %s worker for %s is overloaded", leg, name)
	case errors.Is(err, worker.ErrUnavailable):
		return gatewayProblem(http.StatusServiceUnavailable, "no_available_workers", "no %s worker for %s is available: none is ready", leg, name)
	case errors.Is(err, worker.ErrDeclined):
		return gatewayProblem(http.StatusServiceUnavailable, "no_available_workers", "no %s worker for %s could be chosen: %v", leg, name, err)
	case errors.Is(err, wire.ErrSelectionUnavailable):
		return gatewayProblem(http.StatusServiceUnavailable, "selection_unavailable", "no selector for the %s leg answers", leg)
	}
	return gatewayProblem(http.StatusInternalServerError, "internal_error", "choosing a %s worker for %s failed: %v", leg, name, err)
}

// upstreamProblem words why a worker gave no answer.
func upstreamProblem(err error, url string) *problem {
	return gatewayProblem(http.StatusInternalServerError, "call_upstream_request_error", "worker %s did not answer: %v", url, reason(err))
}

// brokenProblem words that an answer broke off. code depends on what the client
// has seen of it.
func brokenProblem(code string, err error, url string) *problem {
	return gatewayProblem(http.StatusInternalServerError, code, "the answer of worker %s broke off: %v", url, reason(err))
}

// reason is the cause of an engine error without what its wrapper repeats.
func reason(err error) error {
	var e *engine.Error
	if errors.As(err, &e) && e.Err != nil {
		return e.Err
	}
	return err
}

// contextProblem turns the end of a request's context into an answer, or into
// errClientGone when there is nobody to answer.
func contextProblem(ctx context.Context, what string) error {
	if errors.Is(context.Cause(ctx), errDeadline) {
		return gatewayProblem(http.StatusGatewayTimeout, "request_timeout", "the request's time was up while %s", what)
	}
	return errClientGone
}

// bodyProblem words a fault of the body in the form of its route.
func bodyProblem(err error, plain bool) error {
	var e *body.Error
	if !errors.As(err, &e) {
		return err
	}
	if e.Kind == body.KindTooLarge {
		return gatewayProblem(http.StatusRequestEntityTooLarge, "request_body_too_large", "%v", e)
	}
	p := &problem{status: http.StatusBadRequest, message: e.Error(), form: openai}
	switch class := e.Kind.Class(); {
	case plain:
		p.form = text
		if class == body.ClassType {
			p.status = http.StatusUnprocessableEntity
		}
	case class != body.ClassRule:
		p.code = "json_parse_error"
	}
	return p
}
