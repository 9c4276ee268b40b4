package ingress

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

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

	retryable  bool
	unready    bool          // no worker of the leg can be chosen
	leg        worker.Leg    // the leg that failed
	stale      bool          // nothing was sent: the connection had died unused
	resend     bool          // to be sent at once on another connection
	retryAfter time.Duration // when the client may come back, 0 for no word of it
}

// form is the shape of an error's body.
type form uint8

const (
	envelope  form = iota // the gateway's own: type, code, message, param
	openai                // invalid_request_error, as OpenAI's API words it
	text                  // plain text
	bare                  // error and code, as the routes of workers have it
	eventForm             // an event stream of one error and its end
	empty                 // no body: the status says it all
)

func (p *problem) Error() string { return p.message }

// codeUnknownModel is the code of a request for a model that nobody serves.
const codeUnknownModel = "model_not_found"

// errorCodeHeader is where clients find the gateway's error code.
const errorCodeHeader = "X-Smg-Error-Code"

// write sends the problem as the whole answer.
func (p *problem) write(w http.ResponseWriter) {
	h := w.Header()
	if p.retryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(max(1, int64(math.Ceil(p.retryAfter.Seconds()))), 10))
	}
	switch p.form {
	case empty:
		h.Set("Content-Length", "0")
		w.WriteHeader(p.status)
		return
	case eventForm:
		h.Set("Content-Type", eventStream)
		h.Set(errorCodeHeader, p.code)
		w.WriteHeader(p.status)
		_, _ = w.Write(p.event()) // a client that has left needs no error
		return
	case text:
		writeText(w, p.status, p.message)
		return
	case envelope:
		h.Set(errorCodeHeader, p.code)
	case openai, bare:
	}
	b := p.json()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(p.status)
	_, _ = w.Write(b) // a client that has left needs no error
}

// json is the problem's body, without a line end.
func (p *problem) json() []byte {
	if p.form == bare {
		return p.bare()
	}
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

// namedEvent appends the problem as an event that Anthropic's clients know as an error:
// they pass over events without a name.
func (p *problem) namedEvent(b []byte) []byte {
	b = append(b, "event: error\ndata: {\"type\":\"error\","...)
	b = append(b, p.json()[1:]...)
	return append(b, "\n\n"...)
}

func (p *problem) bare() []byte {
	b, err := json.Marshal(struct {
		Error string `json:"error"`
		Code  string `json:"code"`
	}{p.message, p.code})
	if err != nil { // strings always marshal
		return []byte(`{"error":"","code":"INTERNAL_SERVER_ERROR"}`)
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
	p := refusedSelection(err, leg, modelName(model))
	p.leg = leg
	return p
}

// modelName is a request's model as messages have it.
func modelName(model string) string {
	if model == "" {
		return "any model"
	}
	return clip(model)
}

func refusedSelection(err error, leg worker.Leg, name string) *problem {
	unavailable := func(format string, args ...any) *problem {
		p := gatewayProblem(http.StatusServiceUnavailable, "no_available_workers", format, args...)
		p.retryable = true
		return p
	}
	switch {
	case errors.Is(err, worker.ErrNoWorkers):
		return gatewayProblem(http.StatusNotFound, codeUnknownModel, "no worker serves the model %q; GET /v1/models lists what is served", name)
	case errors.Is(err, worker.ErrOverloaded):
		return gatewayProblem(http.StatusServiceUnavailable, codeShed, "every %s worker for %s is overloaded", leg, name)
	case errors.Is(err, worker.ErrFull):
		return gatewayProblem(http.StatusServiceUnavailable, codeNoRoom, "no %s worker for %s had room: every one has as many requests as it takes", leg, name)
	case errors.Is(err, worker.ErrUnavailable):
		p := unavailable("no %s worker for %s is available: none is ready", leg, name)
		p.unready = true
		return p
	case errors.Is(err, worker.ErrMismatch):
		return unavailable("no %s worker for %s that the other leg can share the request with is available: %v", leg, name, err)
	case errors.Is(err, worker.ErrDeclined):
		return unavailable("no %s worker for %s could be chosen: %v", leg, name, err)
	case errors.Is(err, wire.ErrSelectionUnavailable):
		return gatewayProblem(http.StatusServiceUnavailable, "selection_unavailable", "no selector for the %s leg answers", leg)
	}
	return gatewayProblem(http.StatusInternalServerError, "internal_error", "choosing a %s worker for %s failed: %v", leg, name, err)
}

// event is the problem as an event stream: one event, and its end.
func (p *problem) event() []byte {
	type fields struct {
		Message string `json:"message"`
		Status  int    `json:"status"`
	}
	b, err := json.Marshal(map[string]fields{"error": {p.message, p.status}})
	if err != nil { // strings and numbers always marshal
		b = []byte(`{"error":{}}`)
	}
	b = append([]byte("data: "), b...)
	return append(b, "\n\ndata: [DONE]\n\n"...)
}

// brokenProblem words that the answer of a leg's worker broke off, before or after
// the client has seen something of it.
func brokenProblem(c *call, begun bool, err error) *problem {
	status, code := http.StatusInternalServerError, "read_response_failed"
	if begun {
		code = "upstream_stream_error"
	}
	if c.leg() == worker.Decode {
		if status, code = http.StatusBadGateway, "decode_read_failed"; begun {
			code = "decode_stream_error"
		}
	}
	p := gatewayProblem(status, code, "the answer of worker %s broke off: %v", c.pick.Worker.URL, reason(err))
	p.retryable, p.leg = !begun, c.leg()
	return p
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
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
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
