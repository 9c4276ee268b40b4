package ingress

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"smg/worker"
)

// faultless has a server log nothing but errors, to log.
func faultless(log *logBuffer) option {
	return withDeps(func(d *Deps) {
		d.Log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelError}))
	})
}

// raw sends a client's bytes in two pieces, waits for the begin of an answer as long as
// it is told to, hangs up its own side if it is told to, and returns all that comes until
// the gateway closes.
func (g *gateway) raw(t *testing.T, data []byte, cut int, wait time.Duration, half bool) []byte {
	t.Helper()
	nc, err := net.Dial("tcp", g.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	deadline := func(d time.Duration) {
		if err := nc.SetDeadline(time.Now().Add(d)); err != nil {
			t.Fatal(err)
		}
	}
	deadline(patience)
	cut = min(cut, len(data))
	for _, piece := range [][]byte{data[:cut], data[cut:]} {
		if _, err := nc.Write(piece); err != nil {
			break // the gateway has closed: what it has said comes below
		}
	}
	var out bytes.Buffer
	if wait > 0 {
		deadline(wait)
		first := make([]byte, 4096)
		n, _ := nc.Read(first) // an error comes again below, but for that of the deadline
		out.Write(first[:n])
		deadline(patience)
	}
	if half {
		_ = nc.(*net.TCPConn).CloseWrite() // an error comes again below
	}
	if _, err := out.ReadFrom(nc); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("no end within %v, after %q", patience, out.Bytes())
	}
	return out.Bytes()
}

// over fails unless everything that a request has begun ends.
func (g *gateway) over(t *testing.T, log *logBuffer, goroutines int) {
	t.Helper()
	within(t, patience, "the request ends", func() bool { return g.Server.active.Load() == 0 && g.selector.active() == 0 })
	within(t, patience, "its rooms are free", func() bool { return g.Server.rooms.Len() == 0 })
	within(t, patience, "its goroutines end", func() bool { return runtime.NumGoroutine() <= goroutines })
	if s := log.String(); s != "" {
		t.Errorf("log:\n%s", s)
	}
}

// spare is how many goroutines there may be more than at the begin: of connections that
// are kept, and of those that are being closed.
const spare = 64

// streamError is how the gateway's own error in a stream is called, of any leg.
const streamError = `_stream_error"`

// FuzzRelay: whatever an engine answers, a client that waits gets no more than one
// status, nothing behind the gateway's own error in a stream, and its end within a bound;
// nothing is left of the request.
func FuzzRelay(f *testing.F) {
	for _, seed := range []string{
		jsonOK,
		sseHead + chunk(event) + chunk(done) + lastOne,
		sseHead + chunk(event) + chunk("data: {\"b"),
		sseHead + chunk(event) + "zz\r\n",
		sseHead + chunk("data: {\"error\":{\"message\":\"m\",\"code\":400}}\n\n") + chunk(done) + lastOne,
		sseHead + chunk("data: {\"choices\":[{\"index\":0,\"finish_reason\":\"abort\"}]}\n\n") + lastOne,
		"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"meta_info\":{\"finish_reason\":{\"type\":\"abort\",\"status_code\":400}}}",
		"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk("{\"a\":") + chunk("1}") + lastOne,
		"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Type: text/event-stream\r\n\r\n\x1f\x8b",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.0 503 Busy\r\nRetry-After: 1\r\n\r\nuntil the end",
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nx",
		"HTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\nabc",
		"HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n",
		"HTTP/1.1 429 Too Many\r\nConnection: X-Gone, content-type\r\nX-Gone: 1\r\nContent-Length: 2\r\nTrailer: X\r\n\r\nno",
		"HTTP/1.1 999 ?\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nX-SMG-Error-Code: x\r\nServer-Timing: a\r\nAccess-Control-Allow-Origin: *\r\nDate: now\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
		"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nab",
		"\x00", "",
	} {
		for _, stream := range []bool{false, true} {
			f.Add([]byte(seed), stream, false)
			f.Add([]byte(seed), stream, true)
		}
	}
	var said atomic.Pointer[[]byte]
	said.Store(new([]byte))
	hostile := engineAt(f, func(nc net.Conn, br *bufio.Reader) {
		r, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		_, _ = nc.Write(*said.Load()) // who has left needs no answer
	})
	_, good := answers(f, jsonOK)
	log := &logBuffer{}
	whole := start(f, []string{hostile}, faultless(log))
	shared := start(f, nil, faultless(log), withConfig(func(c *Config) { c.Mode = PD }))
	for _, w := range []struct {
		leg worker.Leg
		url string
	}{{worker.Prefill, good}, {worker.Decode, hostile}} {
		shared.selector.workers = append(shared.selector.workers, &worker.Spec{
			ID: worker.IDOf(w.url), URL: w.url, Leg: w.leg, Runtime: worker.SGLang, Models: []worker.Model{{ID: "m"}},
			BootstrapHost: "127.0.0.1", BootstrapPort: 8998,
		})
	}
	goroutines := runtime.NumGoroutine() + spare
	f.Fuzz(func(t *testing.T, answer []byte, stream, legs bool) {
		said.Store(new(bytes.Clone(answer)))
		g, request := whole, chatBody
		if legs {
			g = shared
		}
		if stream {
			request = streamBody
		}
		out := g.raw(t, []byte(chat(request, "Connection: close")), 0, 0, false)
		g.over(t, log, goroutines)
		rest := bufio.NewReader(bytes.NewReader(out))
		resp, err := http.ReadResponse(rest, &http.Request{Method: http.MethodPost})
		if err != nil { // an answer that breaks off is cut, perhaps before its begin has gone out
			if len(out) > 0 && !bytes.HasPrefix(out, []byte("HTTP/1.1 ")) {
				t.Errorf("no answer: %v in %q", err, out)
			}
			return
		}
		if resp.StatusCode < 200 {
			t.Errorf("status %d", resp.StatusCode)
		}
		body, err := io.ReadAll(resp.Body)
		if n, _ := io.Copy(io.Discard, rest); err == nil && n > 0 { // it reads memory
			t.Errorf("something follows the answer: %q", out)
		}
		if strings.Contains(string(answer), streamError) {
			return // it only looks like the gateway's
		}
		if _, behind, broken := strings.Cut(string(body), streamError); broken && resp.StatusCode == http.StatusOK {
			if _, more, ended := strings.Cut(behind, "\n\n"); !ended || more != "" {
				t.Errorf("something follows the error: %q", body)
			}
		}
	})
}

// FuzzHead: whatever a client sends, in two pieces, it gets an answer or is hung up on
// within a bound; nothing is left of it.
func FuzzHead(f *testing.F) {
	for _, seed := range []string{
		get("/health"), get("/workers"), get("/nothing"), chat(chatBody), chat(streamBody), chat(chatBody, "Expect: 100-continue"),
		chat(chatBody) + chat(chatBody), chat(chatBody) + "\r\n" + get("/v1/models"),
		"POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(chatBody) + lastOne,
		"POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
		"POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nContent-Length: 1000\r\n\r\n{\"model",
		"POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nContent-Length: -1\r\n\r\n",
		post("/workers", `{"url":"http://new:1"}`), "DELETE /workers/http://a:1 HTTP/1.1\r\nHost: g\r\n\r\n",
		"GET /health HTTP/1.0\r\n\r\n", "GET /health HTTP/1.1\r\n\r\n", "GET  /health HTTP/1.1\r\nHost: g\r\n\r\n",
		"GET /health HTTP/1.1\nHost: g\n\n", "GET http://x/health HTTP/1.1\r\nHost: g\r\n\r\n", "OPTIONS * HTTP/1.1\r\nHost: g\r\n\r\n",
		"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n", "GET /%0d%0ahealth HTTP/1.1\r\nHost: g\r\nX: \x00\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00", "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n",
		"\x16\x03\x01\x00\x05hello", "\r\n\r\n", "GET", "",
	} {
		f.Add([]byte(seed), uint16(7), false)
		f.Add([]byte(seed), uint16(len(seed)/2), true)
	}
	_, url := answers(f, jsonOK)
	log := &logBuffer{}
	g := start(f, []string{url}, faultless(log))
	goroutines := runtime.NumGoroutine() + spare
	f.Fuzz(func(t *testing.T, data []byte, cut uint16, wait bool) {
		d := time.Duration(0)
		if wait {
			d = 10 * time.Millisecond
		}
		out := g.raw(t, data, int(cut), d, true)
		g.over(t, log, goroutines)
		if len(out) == 0 || bytes.HasPrefix(data, []byte("PRI * HTTP/2.0\r\n")) {
			return
		}
		line, _, _ := bytes.Cut(out, []byte("\r\n"))
		if !bytes.HasPrefix(line, []byte("HTTP/1.")) || bytes.Contains(line, []byte(" 500 ")) {
			t.Errorf("%q is answered with %q", data, out)
		}
	})
}
