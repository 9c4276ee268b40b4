package simhttp_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"smg/sim/simctl"
	"smg/sim/simhttp"
	"smg/sim/simtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait; it only catches hangs.
const patience = 20 * time.Second

func ctxFor(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func config(kind simhttp.Kind) simhttp.Config {
	cfg := simtest.Config()
	cfg.Kind = kind
	return cfg
}

func kinds() []simhttp.Kind { return []simhttp.Kind{simhttp.SGLang, simhttp.VLLM} }

// caller makes requests on connections of its own.
type caller struct {
	t      *testing.T
	url    string
	client *http.Client
}

func callerOf(t *testing.T, e *simtest.Engine) *caller {
	t.Helper()
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	return &caller{t: t, url: e.URL, client: &http.Client{Transport: tr}}
}

// try sends a request and leaves the answer to the test.
func (c *caller) try(ctx context.Context, method, path, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	return c.client.Do(req)
}

// do sends a request and returns its status and body.
func (c *caller) do(method, path, body string) (int, string) {
	c.t.Helper()
	resp, err := c.try(ctxFor(c.t), method, path, body)
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatalf("%s %s: read: %v", method, path, err)
	}
	return resp.StatusCode, string(raw)
}

func (c *caller) post(path, body string) (int, string) {
	c.t.Helper()
	return c.do(http.MethodPost, path, body)
}

// reply is the union of the answers that tests look into.
type reply struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Model   string `json:"model"`
	Choices []struct {
		Index   int    `json:"index"`
		Text    string `json:"text"`
		Message struct {
			Role    string `json:"role"`
			Content string `json:"content"`
		} `json:"message"`
		Delta struct {
			Role    string `json:"role"`
			Content string `json:"content"`
		} `json:"delta"`
		FinishReason string `json:"finish_reason"`
		MatchedStop  any    `json:"matched_stop"`
		StopReason   any    `json:"stop_reason"`
	} `json:"choices"`
	Usage *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Total      int `json:"total_tokens"`
		Details    struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
}

func decode[T any](t *testing.T, body string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatalf("decode %q: %v", body, err)
	}
	return v
}

// ask posts a body that must be answered with 200.
func (c *caller) ask(path, body string) reply {
	c.t.Helper()
	status, text := c.post(path, body)
	if status != http.StatusOK {
		c.t.Fatalf("POST %s: %d %s", path, status, text)
	}
	return decode[reply](c.t, text)
}

// frames reads the payloads of an event stream.
func frames(t *testing.T, r io.Reader) []string {
	t.Helper()
	var out []string
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		if data, ok := bytes.CutPrefix(scanner.Bytes(), []byte("data: ")); ok {
			out = append(out, string(data))
		} else if len(scanner.Bytes()) > 0 {
			t.Errorf("stray line %q", scanner.Text())
		}
	}
	return out
}

// streamed posts a body with "stream":true and joins the deltas per choice.
func (c *caller) streamed(path, body string) (text map[int]string, replies []reply) {
	c.t.Helper()
	resp, err := c.try(ctxFor(c.t), http.MethodPost, path, body)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	if got := resp.Header.Get("Content-Type"); !strings.HasPrefix(got, "text/event-stream") {
		raw, _ := io.ReadAll(resp.Body)
		c.t.Fatalf("content type %q, status %d: %s", got, resp.StatusCode, raw)
	}
	all := frames(c.t, resp.Body)
	if len(all) == 0 || all[len(all)-1] != "[DONE]" {
		c.t.Fatalf("the stream does not end with [DONE]: %q", all)
	}
	text = map[int]string{}
	for _, frame := range all[:len(all)-1] {
		r := decode[reply](c.t, frame)
		replies = append(replies, r)
		for _, choice := range r.Choices {
			text[choice.Index] += choice.Text + choice.Delta.Content
		}
	}
	return text, replies
}

// idle demands that the engine comes to rest.
func idle(t *testing.T, e *simtest.Engine) simctl.Ledger {
	t.Helper()
	l, err := e.WaitIdle(ctxFor(t))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func setFaults(t *testing.T, e *simtest.Engine, f simctl.Faults) {
	t.Helper()
	if err := e.SetFaults(ctxFor(t), f); err != nil {
		t.Fatal(err)
	}
}

func records(t *testing.T, e *simtest.Engine, path string) []simctl.Record {
	t.Helper()
	r, err := e.Records(ctxFor(t), path)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
