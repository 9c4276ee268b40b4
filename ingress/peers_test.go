package ingress

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"smg/engine/enginetest"
)

// engineAt serves every connection to a socket of its own with handle. The test
// ends once all have returned.
func engineAt(tb testing.TB, handle func(net.Conn, *bufio.Reader)) (url string) {
	tb.Helper()
	return enginetest.Serve(tb, func(nc net.Conn) { handle(nc, bufio.NewReader(nc)) })
}

// gathers is an engine that answers ok once it has so many requests in flight.
func gathers(tb testing.TB, requests int) (url string) {
	tb.Helper()
	var arrived sync.WaitGroup
	arrived.Add(requests)
	return engineAt(tb, func(nc net.Conn, br *bufio.Reader) {
		r, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		if _, err = io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		arrived.Done()
		arrived.Wait()
		_, _ = io.WriteString(nc, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
	})
}

// seen is a request as an engine got it.
type seen struct {
	head   http.Header
	target string
	host   string
	body   string
}

// script is an engine that answers each request with the same raw bytes, piece by
// piece, and keeps what it was sent. After the last piece it goes on, hangs until
// the gateway leaves, or closes.
type script struct {
	pieces []string
	then   byte // 0: next request, 'h': hang, 'c': close
	step   chan struct{}

	mu   sync.Mutex
	got  []seen
	gone atomic.Int32 // connections that the gateway closed while the engine hung
}

func (s *script) serve(nc net.Conn, br *bufio.Reader) {
	for {
		r, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		s.mu.Lock()
		s.got = append(s.got, seen{r.Header, r.RequestURI, r.Host, string(b)})
		s.mu.Unlock()
		for i, p := range s.pieces {
			if i > 0 && s.step != nil {
				select {
				case <-s.step:
				case <-time.After(patience): // the test has failed
					return
				}
			}
			if _, err := io.WriteString(nc, p); err != nil {
				s.gone.Add(1)
				return
			}
		}
		switch s.then {
		case 'h':
			_, err := br.ReadByte()
			if err != nil {
				s.gone.Add(1)
			}
			return
		case 'c':
			return
		}
	}
}

func (s *script) last(tb testing.TB) seen {
	tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.got) == 0 {
		tb.Fatal("the engine got no request")
	}
	return s.got[len(s.got)-1]
}

func (s *script) requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.got)
}

// answers is an engine that always says the same.
func answers(tb testing.TB, pieces ...string) (*script, string) {
	tb.Helper()
	s := &script{pieces: pieces}
	return s, engineAt(tb, s.serve)
}

func hangs(tb testing.TB, pieces ...string) (*script, string) {
	tb.Helper()
	s := &script{pieces: pieces, then: 'h'}
	return s, engineAt(tb, s.serve)
}

func closes(tb testing.TB, pieces ...string) (*script, string) {
	tb.Helper()
	s := &script{pieces: pieces, then: 'c'}
	return s, engineAt(tb, s.serve)
}

const (
	jsonOK  = "HTTP/1.1 200 OK\r\nserver: uvicorn\r\ncontent-type: application/json\r\ncontent-length: 11\r\n\r\n{\"ok\":true}"
	sseHead = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
	lastOne = "0\r\n\r\n"
	event   = "data: {\"a\":1}\n\n"
	done    = "data: [DONE]\n\n"

	chatBody   = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
	streamBody = `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true}`
)

func chunk(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

// post renders a request with a body.
func post(path, body string, fields ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "POST %s HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\nContent-Length: %d\r\n", path, len(body))
	for _, f := range fields {
		b.WriteString(f + "\r\n")
	}
	return b.String() + "\r\n" + body
}

func chat(body string, fields ...string) string { return post("/v1/chat/completions", body, fields...) }

// client is a raw connection to a gateway.
type client struct {
	*net.TCPConn
	tb testing.TB
	br *bufio.Reader
}

func (g *gateway) dial() *client {
	g.tb.Helper()
	nc, err := net.Dial("tcp", g.addr)
	if err != nil {
		g.tb.Fatal(err)
	}
	if err := nc.SetDeadline(time.Now().Add(patience)); err != nil {
		g.tb.Fatal(err)
	}
	g.tb.Cleanup(func() { nc.Close() })
	return &client{nc.(*net.TCPConn), g.tb, bufio.NewReader(nc)}
}

func (c *client) send(s string) {
	c.tb.Helper()
	if _, err := io.WriteString(c, s); err != nil {
		c.tb.Fatal(err)
	}
}

// head reads an answer's head; the body is the caller's.
func (c *client) head() *http.Response {
	c.tb.Helper()
	resp, err := http.ReadResponse(c.br, &http.Request{Method: http.MethodPost})
	if err != nil {
		c.tb.Fatalf("reading the head: %v", err)
	}
	return resp
}

// reply is a whole answer. err says how its body ended, nil for well.
type reply struct {
	status int
	header http.Header
	body   string
	err    error
	close  bool // the connection ends with it
}

func (c *client) answer() reply {
	c.tb.Helper()
	resp := c.head()
	b, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, string(b), err, resp.Close}
}

// closed says whether the gateway closes the connection without another byte.
func (c *client) closed() bool {
	c.tb.Helper()
	_, err := c.br.ReadByte()
	var timeout net.Error
	return err != nil && (!errors.As(err, &timeout) || !timeout.Timeout())
}

// do sends one request on a connection of its own.
func (g *gateway) do(request string) reply {
	g.tb.Helper()
	c := g.dial()
	defer c.Close()
	c.send(request)
	return c.answer()
}

// envelopeCode checks the shape of a gateway error and returns its code.
func (r reply) envelopeCode(tb testing.TB) string {
	tb.Helper()
	var e map[string]map[string]any
	if err := json.Unmarshal([]byte(r.body), &e); err != nil {
		tb.Fatalf("no envelope: %v in %q", err, r.body)
	}
	f := e["error"]
	for _, k := range []string{"type", "code", "message", "param"} {
		if _, ok := f[k]; !ok || len(f) != 4 || len(e) != 1 {
			tb.Fatalf("envelope without %q, or with more: %s", k, r.body)
		}
	}
	code, _ := f["code"].(string)
	if f["type"] != http.StatusText(r.status) {
		tb.Errorf("type %v for status %d", f["type"], r.status)
	}
	if got := r.header.Get("X-SMG-Error-Code"); got != code {
		tb.Errorf("header says %q, body %q", got, code)
	}
	if r.header.Get("Content-Type") != "application/json" {
		tb.Errorf("content type %q", r.header.Get("Content-Type"))
	}
	return code
}

// fails checks that an answer is the gateway's error of that status and code.
func (r reply) fails(tb testing.TB, status int, code string) {
	tb.Helper()
	if r.err != nil {
		tb.Errorf("the body broke off: %v", r.err)
	}
	if got := r.envelopeCode(tb); r.status != status || got != code {
		tb.Errorf("got %d %s, want %d %s: %s", r.status, got, status, code, r.body)
	}
}

// http2 is a client that speaks HTTP/2 without TLS.
type http2 struct {
	http.Transport
	dials atomic.Int32
}

func (g *gateway) http2() *http2 {
	h := &http2{}
	h.Protocols = new(http.Protocols)
	h.Protocols.SetUnencryptedHTTP2(true)
	h.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		h.dials.Add(1)
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	}
	g.tb.Cleanup(h.CloseIdleConnections)
	return h
}

func (h *http2) post(ctx context.Context, url, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	return h.RoundTrip(req)
}
