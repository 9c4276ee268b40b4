package simhttp

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// apiError is a refusal that each engine words in its own way.
type apiError struct {
	status  int
	message string
	param   string // the field at fault, if there is one
}

func (e *apiError) Error() string { return e.message }

func badRequest(param, format string, args ...any) *apiError {
	return &apiError{status: http.StatusBadRequest, param: param, message: fmt.Sprintf(format, args...)}
}

// kind is the exception name that goes with the status.
func (e *apiError) kind() string {
	switch e.status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge:
		return "BadRequestError"
	case http.StatusUnauthorized:
		return "AuthenticationError"
	case http.StatusNotFound:
		return "NotFoundError"
	case http.StatusTooManyRequests:
		return "RateLimitError"
	case http.StatusServiceUnavailable:
		return "ServiceUnavailableError"
	default:
		return "InternalServerError"
	}
}

// errorFields is what both engines say about an error.
type errorFields struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    int     `json:"code"`
}

func (e *apiError) fields() errorFields {
	f := errorFields{Message: e.message, Type: e.kind(), Code: e.status}
	if e.param != "" {
		f.Param = &e.param
	}
	return f
}

// sglangError is flat: {"object":"error","message":…}.
func sglangError(e *apiError) any {
	return struct {
		Object string `json:"object"`
		errorFields
	}{"error", e.fields()}
}

// vllmError is nested: {"error":{"message":…}}.
func vllmError(e *apiError) any {
	return map[string]errorFields{"error": e.fields()}
}

// generateError is how SGLang's own /generate reports errors.
func generateError(e *apiError) any {
	return map[string]map[string]string{"error": {"message": e.message}}
}

// detail is how the web framework of both engines reports errors before the
// engine has a say.
func detail(text string) any { return map[string]string{"detail": text} }

// writeJSON answers with v. Nothing can be done about a caller that has gone.
func writeJSON(w http.ResponseWriter, status int, v any) {
	raw, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(raw)
}
