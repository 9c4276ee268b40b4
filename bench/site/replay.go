package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"
)

// Faults of an exchange.
var (
	errStatus = errors.New("another status than 200")
	errBroken = errors.New("a stream that ended early")
	errEvent  = errors.New("an error event")
	errLength = errors.New("another length of prompt or answer")
)

// exchange is what became of a shot. Times count from its intended moment.
type exchange struct {
	late     time.Duration // until the generator had a connection to write to
	ttft     time.Duration // until the first event
	latency  time.Duration // until the last
	cached   int           // tokens of the prompt, as the engine says
	worker   string        // its URL
	degraded bool          // chosen without a selector
	err      error
}

// replay sends each shot at its moment, whatever became of earlier ones, and returns
// when all have ended. Its own error is that of ctx alone.
func replay(ctx context.Context, client *http.Client, shots []shot) ([]exchange, error) {
	done := make([]exchange, len(shots))
	var g sync.WaitGroup
	defer g.Wait()
	begin := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for i := range shots {
		moment := begin.Add(shots[i].at)
		timer.Reset(time.Until(moment))
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		g.Go(func() { done[i].err = done[i].run(ctx, client, &shots[i], moment) })
	}
	g.Wait()
	return done, context.Cause(ctx)
}

// run sends the shot and follows its answer.
func (x *exchange) run(ctx context.Context, client *http.Client, s *shot, moment time.Time) error {
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { x.late = time.Since(moment) },
	})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(s.body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	x.worker = resp.Header.Get("X-Smg-Routed-Worker-Id")
	x.degraded = resp.Header.Get("X-Smg-Degraded") != ""
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%w: %d", errStatus, resp.StatusCode)
	}
	u, err := x.follow(resp.Body, moment)
	if err == nil && (u.Prompt != s.prompt || u.Output != s.output) {
		err = fmt.Errorf("%w: %d and %d tokens, want %d and %d", errLength, u.Prompt, u.Output, s.prompt, s.output)
	}
	x.cached = u.Details.Cached
	return err
}

// usage is what an engine counted of an exchange, in tokens.
type usage struct {
	Prompt  int `json:"prompt_tokens"`
	Output  int `json:"completion_tokens"`
	Details struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// follow reads the events of an answer up to its end.
func (x *exchange) follow(body io.Reader, moment time.Time) (u usage, err error) {
	for lines := bufio.NewScanner(body); lines.Scan(); {
		event, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		switch {
		case !ok:
		case bytes.HasPrefix(event, []byte(`{"error"`)):
			return u, fmt.Errorf("%w: %s", errEvent, event)
		case bytes.Equal(event, []byte("[DONE]")):
			x.latency = time.Since(moment)
			_, err := io.Copy(io.Discard, body) // so that the connection can be used again
			return u, err
		case x.ttft == 0:
			x.ttft = time.Since(moment)
		case bytes.Contains(event, []byte(`"usage":{`)):
			if err := json.Unmarshal(event, &struct{ Usage *usage }{&u}); err != nil {
				return u, fmt.Errorf("reading %q: %w", event, err)
			}
		}
	}
	return u, errBroken
}
