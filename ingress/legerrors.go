package ingress

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"

	"smg/worker"
)

// statusCodes are the ends of the codes of a leg's answer; every other status has
// its own.
var statusCodes = map[int]string{
	http.StatusBadRequest:          "bad_request",
	http.StatusNotFound:            "not_found",
	http.StatusInternalServerError: "internal_error",
	http.StatusBadGateway:          "bad_gateway",
	http.StatusServiceUnavailable:  "unavailable",
}

// legAnswer words the error that a leg's worker answered with, under its status.
func legAnswer(c *call, status int, message string) *problem {
	end, ok := statusCodes[status]
	if !ok || c.leg() == worker.Encode {
		end = "upstream_error"
	}
	return legProblem(c, status, end, fmt.Sprintf("%s worker %s answered %d: %s", c.leg(), c.pick.Worker.URL, status, message), retried(status))
}

// legProblem is an error of a leg; end follows the leg's name in the code.
func legProblem(c *call, status int, end, message string, retryable bool) *problem {
	return &problem{status: status, code: c.leg().String() + "_" + end, message: message, retryable: retryable, leg: c.leg()}
}

// unreachableProblem words why a leg's worker gave no answer.
func unreachableProblem(leg worker.Leg, err error, url string) *problem {
	if leg == worker.Regular {
		p := gatewayProblem(http.StatusInternalServerError, "call_upstream_request_error", "worker %s did not answer: %v", url, reason(err))
		p.retryable, p.leg = true, leg
		return p
	}
	p := gatewayProblem(http.StatusBadGateway, leg.String()+"_request_failed", "%s worker %s did not answer: %v", leg, url, reason(err))
	p.retryable, p.leg = true, leg
	return p
}

// faultText is what an engine's error body says: its message, where it has one.
func faultText(b []byte) string {
	var e struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
	}
	if json.Unmarshal(b, &e) == nil {
		var inner struct {
			Message string `json:"message"`
		}
		if json.Unmarshal(e.Error, &inner) == nil && inner.Message != "" {
			return inner.Message
		}
		if e.Message != "" {
			return e.Message
		}
	}
	return string(bytes.ToValidUTF8(bytes.TrimSpace(b), []byte("…")))
}

// fault is an error that an engine put into an event stream.
type fault struct {
	status  int
	message string
}

// streamFault finds the error that an event tells of: engines whose stream has begun
// cannot tell by a status any more. OpenAI's APIs have an error there, SGLang's own has
// an answer that was aborted.
func streamFault(event []byte) (fault, bool) {
	data := eventData(event)
	const begin = 32 // where an error would be named
	named := bytes.Contains(data[:min(len(data), begin)], []byte(`"error"`))
	if !named && !bytes.Contains(data, []byte(`"abort"`)) {
		return fault{}, false // the usual case
	}
	var e struct {
		Error json.RawMessage `json:"error"`
		Meta  struct {
			Finish json.RawMessage `json:"finish_reason"`
		} `json:"meta_info"`
	}
	if json.Unmarshal(data, &e) != nil {
		return fault{}, false
	}
	var finish struct {
		Type    string `json:"type"`
		Message string `json:"message"`
		Status  int    `json:"status_code"`
	}
	if json.Unmarshal(e.Meta.Finish, &finish) == nil && finish.Type == "abort" {
		return fault{faultStatus(finish.Status), finish.Message}, true
	}
	var inner struct {
		Code json.RawMessage `json:"code"`
	}
	if len(e.Error) == 0 || string(e.Error) == "null" {
		return fault{}, false
	}
	var code int
	if json.Unmarshal(e.Error, &inner) == nil {
		_ = json.Unmarshal(inner.Code, &code) // it may be a word
	}
	return fault{faultStatus(code), faultText(data)}, true
}

// faultStatus is the status that an engine would have answered with.
func faultStatus(code int) int {
	if code < http.StatusBadRequest || code > 599 {
		return http.StatusInternalServerError
	}
	return code
}
