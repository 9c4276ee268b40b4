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
	"net/url"
	"strings"
	"syscall"
	"time"
)

// maxProbeBody bounds what a probe reads of an answer; an engine's server
// info has some kilobytes.
const maxProbeBody = 4 << 20

// Prober asks engines how they are and what they are, with the standard
// client and a connection per question, so that nothing of it lingers. It is
// safe for concurrent use.
type Prober struct {
	client *http.Client
}

// NewProber returns a Prober. roots verifies https engines; nil is the
// system's set.
func NewProber(roots *x509.CertPool) *Prober {
	return &Prober{client: &http.Client{
		Transport: &http.Transport{
			DialContext:            (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:    10 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
			DisableKeepAlives:      true,
			DisableCompression:     true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close ends what is left of the Prober's connections.
func (p *Prober) Close() { p.client.CloseIdleConnections() }

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

// fetch gets one path. An error means that no whole answer came.
func (p *Prober) fetch(ctx context.Context, baseURL, path, apiKey string) (status int, body []byte, err error) {
	url := strings.TrimRight(baseURL, "/") + path
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, fmt.Errorf("probe %s: %w", baseURL, err)
	}
	if apiKey != "" {
		req.Header.Set("Authorization", "Bearer "+apiKey)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return 0, nil, &unanswered{fmt.Sprintf("GET %s: %s", url, explain(ctx, err, req.URL.Host)), err}
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxProbeBody+1))
	switch {
	case err != nil:
		return 0, nil, fmt.Errorf("GET %s: answer broken off: %w", url, err)
	case len(body) > maxProbeBody:
		return 0, nil, fmt.Errorf("GET %s: answer over %d bytes", url, maxProbeBody)
	}
	return resp.StatusCode, body, nil
}

// unanswered is a question without an answer. Its text says why in words, and the
// same words each time; what the standard client said, with ports that differ from
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
	if outer, ok := errors.AsType[*url.Error](err); ok {
		err = outer.Err
	}
	return "no answer: " + err.Error()
}
