package simhttp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"smg/sim/simctl"
)

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/_sim/") {
		s.control.ServeHTTP(w, r)
		return
	}
	if !s.handlers.enter() {
		panic(http.ErrAbortHandler)
	}
	defer s.handlers.leave()
	if isInference(r.URL.Path) {
		s.inFlight.Add(1)
		defer s.inFlight.Add(-1)
	}
	faults := s.faults.get()
	e := s.records.begin(r, faults.Record)
	stop := s.records.watch(r.Context(), e)
	a := &answer{ResponseWriter: w, req: r, faults: s.faults}
	defer func() {
		if stop() && r.Context().Err() != nil {
			s.records.left(e) // the handler has noticed it before the watch did
		}
		s.records.end(e, a.status)
		s.log.Debug("request", "method", r.Method, "path", r.URL.Path, "status", a.status)
	}()
	s.handle(a, r, e, faults)
	if r.Context().Err() != nil {
		// Whoever still listens must not take what has been sent for a
		// complete answer.
		panic(http.ErrAbortHandler)
	}
}

// handle applies the faults, in the order in which a real request would meet
// them, and leaves the rest to the routes.
func (s *Server) handle(a *answer, r *http.Request, e *entry, faults simctl.Faults) {
	if !s.authorized(r, faults) {
		// Both engines use the same words.
		writeJSON(a, http.StatusUnauthorized, map[string]string{"error": "Unauthorized"})
		return
	}
	if rule := s.faults.match(r.Method, r.URL.Path, nil, true); rule != nil {
		s.obey(a, r, rule)
		return
	}
	body, ok := s.readBody(a, r, e)
	if !ok || s.faults.frozen(r.Context()) != nil {
		return
	}
	rule := s.faults.match(r.Method, r.URL.Path, body, false)
	if rule != nil && s.obey(a, r, rule) {
		return
	}
	a.rule = rule
	r.Body = io.NopCloser(bytes.NewReader(body))
	s.route(a, r)
}

// authorized checks the API key of the configuration, where the real engine
// does, and the one of the faults, everywhere.
func (s *Server) authorized(r *http.Request, f simctl.Faults) bool {
	got := r.Header.Get("Authorization")
	if f.Auth != "" && got != "Bearer "+f.Auth {
		return false
	}
	return s.cfg.APIKey == "" || s.dialect.open(r.URL.Path) || got == "Bearer "+s.cfg.APIKey
}

// kernelBuffer is what the operating system would take in for a process that
// does not read.
const kernelBuffer = 64 << 10

// readBody reads the whole body, while frozen only what nobody has to read. It
// answers itself if that is not possible.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request, e *entry) ([]byte, bool) {
	if (r.ContentLength < 0 || r.ContentLength > kernelBuffer) && s.faults.frozen(r.Context()) != nil {
		return nil, false
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.cfg.MaxBodyBytes))
	s.records.body(e, body)
	if err == nil {
		return body, true
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		s.writeError(w, &apiError{status: http.StatusRequestEntityTooLarge, message: "the request body is too large"})
	} else {
		s.writeError(w, badRequest("", "reading the request body: %v", err))
	}
	return nil, false
}

// obey does what rule demands before the engine's own answer, and reports
// whether that was all.
func (s *Server) obey(a *answer, r *http.Request, rule *simctl.Rule) (finished bool) {
	if rule.Delay > 0 && sleep(r.Context(), time.Duration(rule.Delay)) != nil {
		return true
	}
	if rule.Hold && s.faults.hold(r.Context()) != nil {
		return true
	}
	if rule.Drop {
		panic(http.ErrAbortHandler)
	}
	if rule.Status == 0 {
		return false
	}
	for k, v := range rule.Header {
		a.Header().Set(k, v)
	}
	a.rule = rule
	if len(rule.Body) == 0 {
		s.writeError(a, &apiError{status: rule.Status, message: "the simulated engine was told to answer " + http.StatusText(rule.Status)})
		return true
	}
	body, contentType := []byte(rule.Body), "application/json"
	var text string
	if json.Unmarshal(rule.Body, &text) == nil {
		body, contentType = []byte(text), "text/plain; charset=utf-8"
	}
	if a.Header().Get("Content-Type") == "" {
		a.Header().Set("Content-Type", contentType)
	}
	a.whole(rule.Status, body)
	return true
}

func isInference(path string) bool {
	switch path {
	case "/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/generate", "/v1/messages", "/v1/responses", "/v1/rerank", "/encode":
		return true
	}
	return false
}

// route hands over to the routes, with the errors of the web framework that
// both engines use.
func (s *Server) route(w http.ResponseWriter, r *http.Request) {
	if _, pattern := s.mux.Handler(r); pattern != "" {
		s.mux.ServeHTTP(w, r)
		return
	}
	if s.knownPath(r) {
		writeJSON(w, http.StatusMethodNotAllowed, detail("Method Not Allowed"))
		return
	}
	writeJSON(w, http.StatusNotFound, detail("Not Found"))
}

func (s *Server) writeError(w http.ResponseWriter, e *apiError) {
	s.stats.refused.Add(1)
	writeJSON(w, e.status, s.dialect.errorBody(e))
}

// inference turns a handler of request bodies into one of requests.
func (s *Server) inference(handle func(w *answer, r *http.Request, f *fields)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		a, ok := w.(*answer)
		if !ok {
			a = &answer{ResponseWriter: w, req: r, faults: s.faults}
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			s.writeError(a, badRequest("", "reading the request body: %v", err))
			return
		}
		f := parseFields(body, s.cfg.Tokens)
		if f.err == nil && s.faults.get().Strict {
			f.checkStrict()
			s.checkStray(f)
		}
		if f.err == nil {
			s.readRank(f, r.Header)
		}
		handle(a, r, f)
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
