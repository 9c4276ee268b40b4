package engine

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"smg/engine/enginetest"
)

// patience catches hangs; nothing is expected to take so long.
const patience = 20 * time.Second

func newClient(tb testing.TB, cfg Config) *Client {
	tb.Helper()
	c, err := New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { c.Close() })
	return c
}

func newTarget(tb testing.TB, c *Client, url string) *Target {
	tb.Helper()
	t, err := c.Target(url)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

// readRequest reads one request with a Content-Length into buf and returns
// its bytes.
func readRequest(nc net.Conn, buf []byte) ([]byte, error) {
	n, want := 0, -1
	for want < 0 || n < want {
		m, err := nc.Read(buf[n:])
		if err != nil {
			return buf[:n], err
		}
		n += m
		if want < 0 {
			if end := bytes.Index(buf[:n], []byte("\r\n\r\n")); end >= 0 {
				want = end + 4 + declaredLength(buf[:end])
			}
		}
	}
	if n > want {
		return buf[:n], fmt.Errorf("%d bytes behind the request", n-want)
	}
	return buf[:n], nil
}

func declaredLength(head []byte) int {
	_, after, found := bytes.Cut(head, []byte("\r\nContent-Length: "))
	if !found {
		return 0
	}
	digits, _, _ := bytes.Cut(after, []byte("\r"))
	n, err := strconv.Atoi(string(digits))
	if err != nil {
		panic(err)
	}
	return n
}

func answerHead(contentType string, length int) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\ndate: Mon, 01 Jan 2024 00:00:00 GMT\r\nserver: uvicorn\r\n"+
		"content-length: %d\r\ncontent-type: %s\r\n\r\n", length, contentType)
}

func chunk(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

// eventually polls until ok holds.
func eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			tb.Fatalf("never: %s", what)
		}
	}
}

// within fails the test if wait does not end.
func within(tb testing.TB, what string, wait <-chan struct{}) {
	tb.Helper()
	select {
	case <-wait:
	case <-time.After(patience):
		tb.Fatalf("never: %s", what)
	}
}

// fakeEngine answers the requests of all its connections in the order of
// their coming with answers[0], [1] …; with none left it closes the connection.
//
// Behind thenClose nothing of an answer is sent, but the connection closed.
type fakeEngine struct {
	url string

	mu       sync.Mutex
	answers  []string
	requests []string
	open     []net.Conn
	gone     int // connections that the client ended
}

const thenClose = "\x04"

func newFakeEngine(tb testing.TB, answers ...string) *fakeEngine {
	e := &fakeEngine{answers: answers}
	e.url = enginetest.Serve(tb, e.handle)
	return e
}

func (e *fakeEngine) handle(nc net.Conn) {
	e.mu.Lock()
	e.open = append(e.open, nc)
	e.mu.Unlock()
	buf := make([]byte, 2<<20)
	for {
		req, err := readRequest(nc, buf)
		if err != nil {
			e.mu.Lock()
			e.gone++
			e.mu.Unlock()
			return
		}
		answer, _, last := strings.Cut(e.next(string(req)), thenClose)
		if _, err := nc.Write([]byte(answer)); err != nil || last {
			return
		}
	}
}

func (e *fakeEngine) next(req string) (answer string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.requests = append(e.requests, req)
	if len(e.answers) == 0 {
		return thenClose
	}
	answer, e.answers = e.answers[0], e.answers[1:]
	return answer
}

func (e *fakeEngine) seen() (requests []string, conns, gone int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.requests), len(e.open), e.gone
}

// hangUp closes all connections, and waits until the first idle one shows it.
func (e *fakeEngine) hangUp(tb testing.TB, target *Target) {
	tb.Helper()
	e.mu.Lock()
	for _, nc := range e.open {
		nc.Close()
	}
	e.mu.Unlock()
	idle := target.pool.idle[0]
	eventually(tb, "the end is noticed", func() bool { return !idle.quiet() })
}

// post sends a small POST.
func post(tb testing.TB, c *Client, t *Target) (*Response, error) {
	tb.Helper()
	return c.Send(tb.Context(), t, &Request{Method: "POST", Path: "/generate", Body: []byte("{}")})
}

// exchange is a whole small POST; it returns the body.
func exchange(tb testing.TB, c *Client, t *Target) string {
	tb.Helper()
	resp, err := post(tb, c, t)
	if err != nil {
		tb.Fatal(err)
	}
	defer resp.Close()
	body, err := io.ReadAll(resp)
	if err != nil {
		tb.Fatal(err)
	}
	return string(body)
}

func answer(body string) string { return answerHead("text/plain", len(body)) + body }
