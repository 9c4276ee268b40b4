package engine

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
)

// maxProbeBody bounds what a probe reads of an answer; an engine's server
// info has some kilobytes.
const maxProbeBody = 4 << 20

// Prober asks engines how they are and what they are, over a connection per question,
// so that nothing of it lingers. Large fleets are asked a thousand times a second: the
// exchange is the Client's, without its pool. It is safe for concurrent use.
type Prober struct {
	client *Client
}

// NewProber returns a Prober that connects to engines as a client of cfg does, which
// must be valid. It keeps no connection, and sends nothing twice.
func NewProber(cfg Config) *Prober {
	cfg.MaxIdlePerTarget, cfg.ResendLimit = 0, 0
	return &Prober{client: clientOf(cfg)}
}

// Close refuses further questions.
func (p *Prober) Close() { _ = p.client.Close() } // it returns nil

// Health asks baseURL+endpoint, with apiKey as bearer unless it is empty. Any
// 2xx is good; the error tells in words what was not. ctx sets the time.
func (p *Prober) Health(ctx context.Context, baseURL, endpoint, apiKey string) error {
	status, body, err := p.fetch(ctx, baseURL, endpoint, apiKey)
	if err != nil {
		return err
	}
	if !good(status) {
		return statusError(baseURL, endpoint, status, body)
	}
	return nil
}

func good(status int) bool { return 200 <= status && status < 300 }

// statusError quotes the beginning of what the engine said.
func statusError(baseURL, path string, status int, body []byte) error {
	err := fmt.Sprintf("GET %s%s: answered %d", strings.TrimRight(baseURL, "/"), path, status)
	if text := http.StatusText(status); text != "" {
		err += " " + text
	}
	const quoted = 200
	if said := strings.ToValidUTF8(strings.Join(strings.Fields(string(body[:min(len(body), quoted)])), " "), ""); said != "" {
		err += ": " + said
	}
	return errors.New(err)
}

// closing asks the engine to end the connection after its answer.
var closing = Field{"Connection", "close"}

// fetch gets one path. An error means that no whole answer came.
func (p *Prober) fetch(ctx context.Context, baseURL, path, apiKey string) (status int, body []byte, err error) {
	url := strings.TrimRight(baseURL, "/") + path
	t, err := p.client.Target(baseURL)
	if err != nil {
		return 0, nil, fmt.Errorf("probe %s: %w", baseURL, err)
	}
	defer p.client.Forget(t)
	req := Request{Method: http.MethodGet, Path: path}
	if apiKey != "" {
		req.Fields = append(req.Fields, Field{"Authorization", "Bearer " + apiKey})
	}
	if err := req.check(); err != nil {
		return 0, nil, fmt.Errorf("probe %s: %w: %w", baseURL, ErrRequest, err)
	}
	req.Fields = append(req.Fields, closing)
	resp, err := p.ask(ctx, t, &req)
	if err != nil {
		return 0, nil, &unanswered{fmt.Sprintf("GET %s: %s", url, explain(ctx, err, t.pool.hostport)), err}
	}
	defer resp.Close()
	body, err = io.ReadAll(io.LimitReader(resp, maxProbeBody+1))
	switch {
	case err != nil:
		return 0, nil, fmt.Errorf("GET %s: answer broken off: %w", url, cause(err))
	case len(body) > maxProbeBody:
		return 0, nil, fmt.Errorf("GET %s: answer over %d bytes", url, maxProbeBody)
	}
	return resp.Status, body, nil
}

// ask sends a question over a connection of its own.
func (p *Prober) ask(ctx context.Context, t *Target, req *Request) (*Response, error) {
	cn, err := p.client.connection(ctx, t)
	if err != nil {
		return nil, err
	}
	return cn.send(ctx, t, req)
}

// cause is what an Error says besides whose it is.
func cause(err error) error {
	if e, ok := errors.AsType[*Error](err); ok && e.Err != nil {
		return e.Err
	}
	return err
}

// unanswered is a question without an answer. Its text says why in words, and the
// same words each time; what the client said, with ports that differ from
// try to try, is left to errors.Is and errors.As.
type unanswered struct {
	text  string
	cause error
}

func (u *unanswered) Error() string { return u.text }
func (u *unanswered) Unwrap() error { return u.cause }

// explain says in words why there is no answer.
func explain(ctx context.Context, err error, host string) string {
	var (
		dns         *net.DNSError
		op          *net.OpError
		unknownCA   x509.UnknownAuthorityError
		certificate *tls.CertificateVerificationError
		record      tls.RecordHeaderError
	)
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return "probe given up"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused, nothing listens on " + host
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "no route to " + host
	case errors.As(err, &dns) && dns.IsNotFound:
		return "host name " + dns.Name + " not found"
	case errors.As(err, &unknownCA), errors.As(err, &certificate):
		return "certificate not trusted"
	case errors.As(err, &record):
		return host + " does not speak TLS"
	case errors.As(err, &op) && op.Op == "dial" && isTimeout(err):
		return "no connection to " + host + " in time"
	case isTimeout(err) || ctx.Err() != nil:
		return "no answer from " + host + " in time"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return host + " closed the connection without an answer"
	}
	return "no answer: " + cause(err).Error()
}
