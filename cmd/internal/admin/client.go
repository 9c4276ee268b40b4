package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"smg/cmd/internal/flags"
)

// client speaks to a gateway.
type client struct {
	gateway string
	key     string
	timeout time.Duration
	http    *http.Client
}

func newClient(o *options) *client {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment}
	return &client{
		gateway: o.gateway, key: o.key, timeout: o.timeout,
		http: &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
}

// maxAnswer is more than a list of a hundred thousand workers takes.
const maxAnswer = 256 << 20

// do sends a request, with body as JSON unless it is nil, and returns the answer to
// one that was accepted.
func (c *client) do(ctx context.Context, method, path string, body any) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var content io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("writing the request: %w", err)
		}
		content = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.gateway+path, content)
	if err != nil {
		return nil, fmt.Errorf("making the request: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreached(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	switch {
	case err != nil:
		return nil, c.unreached(err)
	case resp.StatusCode >= 300:
		return nil, c.refused(method, path, resp.StatusCode, answer)
	case !json.Valid(answer):
		return nil, c.stranger(fmt.Sprintf("%s %s: %d, and no JSON", method, path, resp.StatusCode))
	}
	return answer, nil
}

// failed is a fault that the command line is not to blame for.
func failed(where, hint, format string, args ...any) error {
	return &flags.Fault{What: fmt.Sprintf(format, args...), Where: where, Hint: hint, Code: flags.ExitFailure}
}

// unreached says why nobody answered.
func (c *client) unreached(err error) error {
	where := "--gateway " + c.gateway
	if errors.Is(err, context.Canceled) {
		return errors.New("ended before the gateway had answered")
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // what it adds is known: method and address
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return failed(where, "correct --gateway", "the host name %s cannot be resolved", dns.Name)
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return failed(where, "start one, or say where it is with --gateway: smg launch listens on port 30000, smg serve on 8080", "no gateway listens there")
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return failed(where, "correct --gateway, or wait longer with --timeout-secs", "no answer within %s", c.timeout)
	}
	return failed(where, "correct --gateway, or start a gateway there", "no answer: %v", err)
}

// refused says why a gateway did not do it, in its own words.
func (c *client) refused(method, path string, status int, answer []byte) error {
	where := fmt.Sprintf("%s %s: %d", method, path, status)
	var problem struct {
		Error json.RawMessage `json:"error"`
		Code  string          `json:"code"`
	}
	var envelope struct {
		Message string `json:"message"`
		Code    any    `json:"code"`
	}
	message := ""
	if json.Unmarshal(answer, &problem) == nil && json.Unmarshal(problem.Error, &message) != nil && json.Unmarshal(problem.Error, &envelope) == nil {
		message = envelope.Message
	}
	if problem.Code != "" {
		where += " " + problem.Code
	}
	text := strings.TrimSpace(string(answer))
	switch {
	case message != "":
		hint := ""
		if problem.Code == "WORKER_ALREADY_EXISTS" {
			hint = "smg workers rm takes it out, so that it can be added anew"
		}
		return &refusal{problem.Code, failed(where, hint, "%s", message)}
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return failed(where, "give --api-key, or set SMG_API_KEY", "the gateway wants another key")
	case status == http.StatusBadRequest, status == http.StatusUnprocessableEntity:
		return failed(where, "", "%s", clip(text))
	case status == http.StatusBadGateway, status == http.StatusServiceUnavailable, status == http.StatusGatewayTimeout:
		return failed(where, "", "no gateway behind %s: %s", c.gateway, clip(text))
	}
	return c.stranger(where)
}

// refusal is what a gateway said no with.
type refusal struct {
	code  string
	cause error
}

func (r *refusal) Error() string { return r.cause.Error() }
func (r *refusal) Unwrap() error { return r.cause }

// isUnknown says whether err is that a gateway knows no such worker.
func isUnknown(err error) bool {
	r, ok := errors.AsType[*refusal](err)
	return ok && r.code == "WORKER_NOT_FOUND"
}

// stranger says that somebody answered who is no gateway.
func (c *client) stranger(where string) error {
	return failed(where, "name the port of the API with --gateway, not that of metrics or of an engine; a gateway of an earlier version lacks some routes",
		"what answers at %s is no gateway that knows this", c.gateway)
}

// clip keeps a message to a line that can be read.
func clip(s string) string {
	const most = 300
	s = strings.Join(strings.Fields(s), " ")
	if s == "" {
		return "it gives no reason"
	}
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
