package simhttp_test

import (
	"context"
	"io"
	"net/http"
	"strings"

	"smg/sim/simtest"
)

// startIn posts a body to the route that its members fit, on a connection of
// its own that does not outlive the answer, whatever test is running.
func startIn(e *simtest.Engine, body string) *started {
	path := "/v1/completions"
	if strings.Contains(body, `"messages"`) {
		path = "/v1/chat/completions"
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	s := &started{cancel: cancel, done: make(chan answered, 1)}
	go func() {
		defer cancel()
		tr := &http.Transport{}
		defer tr.CloseIdleConnections()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.URL+path, strings.NewReader(body))
		if err != nil {
			s.done <- answered{body: err.Error()}
			return
		}
		resp, err := (&http.Client{Transport: tr}).Do(req)
		if err != nil {
			s.done <- answered{body: err.Error()}
			return
		}
		defer resp.Body.Close()
		raw, err := io.ReadAll(resp.Body)
		if err != nil {
			s.done <- answered{body: err.Error()}
			return
		}
		s.done <- answered{resp.StatusCode, string(raw)}
	}()
	return s
}
