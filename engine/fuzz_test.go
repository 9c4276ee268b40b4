package engine

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/iotest"
)

// FuzzResponse: no panic, no hang, bounded memory, the same result however
// the bytes come in; and where net/http accepts the answer too, the same
// status and body.
func FuzzResponse(f *testing.F) {
	for _, seed := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\na: b\r\n\r\n",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\nuntil the end",
		"HTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\nContent-Length: 1\n\na",
		"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
		"HTTP/1.1 200 OK\r\nKeep-Alive: timeout=5, max=100\r\nTransfer-Encoding: chunked\r\n\r\n00000000000000005\r\nhello\r\n",
	} {
		f.Add([]byte(seed), false)
		f.Add([]byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, data []byte, head bool) {
		got, err := parse(bytes.NewReader(data), head)
		slow, slowErr := parse(iotest.OneByteReader(bytes.NewReader(data)), head)
		if (err == nil) != (slowErr == nil) {
			t.Fatalf("whole: %v, byte by byte: %v", err, slowErr)
		}
		if err != nil {
			return
		}
		if got.Status != slow.Status || got.Body != slow.Body || got.Persist != slow.Persist {
			t.Fatalf("whole: %+v, byte by byte: %+v", got, slow)
		}
		if len(got.Body) > len(data) {
			t.Fatalf("%d bytes out of %d", len(got.Body), len(data))
		}
		status, body, ok := standard(data, head)
		if ok && (status != got.Status || body != got.Body) {
			t.Fatalf("net/http has %d %q, we have %d %q", status, body, got.Status, got.Body)
		}
	})
}

// standard is what net/http makes of an answer.
func standard(data []byte, head bool) (status int, body string, ok bool) {
	method := http.MethodPost
	if head {
		method = http.MethodHead
	}
	r := bufio.NewReader(bytes.NewReader(data))
	for {
		resp, err := http.ReadResponse(r, &http.Request{Method: method})
		if err != nil {
			return 0, "", false
		}
		b, err := io.ReadAll(resp.Body)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, "", false
		}
		if resp.StatusCode >= 200 {
			return resp.StatusCode, string(b), true
		}
	}
}
