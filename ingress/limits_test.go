package ingress

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"smg/worker"
)

func TestPayloadLimit(t *testing.T) {
	e, url := answers(t, jsonOK)
	limit := int64(len(chatBody))
	g := start(t, []string{url}, withConfig(func(c *Config) { c.MaxPayloadBytes = limit }))
	chunked := func(parts ...string) string {
		var b strings.Builder
		b.WriteString("POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n")
		for _, p := range parts {
			b.WriteString(chunk(p))
		}
		return b.String() + lastOne
	}
	tests := []struct {
		name, request string
		want          int
	}{
		{"declared", chat(chatBody), 200},
		{"declared_over", chat(chatBody + " "), 413},
		{"declared_far_over", "POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nContent-Length: 99999999999\r\n\r\n", 413},
		{"chunked", chunked(chatBody[:5], chatBody[5:]), 200},
		{"chunked_over", chunked(chatBody, " "), 413},
		{"chunked_far_over", chunked(chatBody, strings.Repeat(" ", 100<<10)), 413},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := e.requests()
			r := g.do(tt.request)
			if r.status != tt.want {
				t.Errorf("%d %s", r.status, r.body)
			}
			if tt.want == 413 {
				if r.fails(t, 413, "request_body_too_large"); e.requests() != before {
					t.Error("a worker was called")
				}
			}
		})
	}
}

func TestChunkedUpload(t *testing.T) {
	// Grows over several steps; the budget is returned in full (start's cleanup).
	e, url := answers(t, jsonOK)
	g := start(t, []string{url})
	body := strings.Replace(chatBody, "hi", strings.Repeat("x", 3*growBy+17), 1)
	c := g.dial()
	c.send("POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n")
	for rest := body; rest != ""; {
		n := min(7777, len(rest))
		c.send(chunk(rest[:n]))
		rest = rest[n:]
	}
	c.send(lastOne)
	if r := c.answer(); r.status != 200 || e.last(t).body != body {
		t.Errorf("%d %s", r.status, r.body)
	}
}

func TestBrokenUpload(t *testing.T) {
	g := start(t, nil)
	c := g.dial()
	c.send("POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(chatBody) + "zz\r\n")
	c.answer().fails(t, 400, "request_body_aborted")
	if !c.closed() {
		t.Error("the connection stays open")
	}
}

func TestAnswerLimit(t *testing.T) {
	limited := withConfig(func(c *Config) { c.MaxPayloadBytes = 1000 })
	long := strings.Repeat("x", 1001)
	t.Run("declared", func(t *testing.T) {
		_, url := answers(t, "HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n"+long)
		start(t, []string{url}, limited).do(chat(chatBody)).fails(t, 502, "upstream_response_too_large")
	})
	t.Run("at_once", func(t *testing.T) {
		_, url := answers(t, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"+chunk(long)+lastOne)
		start(t, []string{url}, limited).do(chat(chatBody)).fails(t, 502, "upstream_response_too_large")
	})
	t.Run("bit_by_bit", func(t *testing.T) {
		s := &script{pieces: []string{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk("x"), chunk(long)}, step: make(chan struct{})}
		g := start(t, []string{engineAt(t, s.serve)}, limited)
		c := g.dial()
		c.send(chat(chatBody))
		resp := c.head()
		s.step <- struct{}{}
		if _, err := io.ReadAll(resp.Body); err == nil {
			t.Error("a whole answer")
		}
	})
	t.Run("not_of_streams", func(t *testing.T) {
		_, url := answers(t, sseHead+chunk(long)+chunk(done)+lastOne)
		if r := start(t, []string{url}, limited).do(chat(streamBody)); r.body != long+done || r.err != nil {
			t.Errorf("%d bytes, %v", len(r.body), r.err)
		}
	})
}

func TestDeadline(t *testing.T) {
	short := withConfig(func(c *Config) { c.RequestTimeout = 300 * time.Millisecond })
	failure := ending{worker.Failure, false}
	t.Run("before_the_head", func(t *testing.T) {
		e, url := hangs(t)
		g := start(t, []string{url}, short)
		g.do(chat(chatBody)).fails(t, 504, "request_timeout")
		within(t, patience, "the engine is left", func() bool { return e.gone.Load() == 1 })
		if got := g.selector.last(t); got != failure {
			t.Errorf("lease: %+v", got)
		}
	})
	t.Run("before_the_first_byte", func(t *testing.T) {
		_, url := hangs(t, sseHead)
		start(t, []string{url}, short).do(chat(streamBody)).fails(t, 504, "request_timeout")
	})
	t.Run("in_a_stream", func(t *testing.T) {
		_, url := hangs(t, sseHead+chunk(event))
		g := start(t, []string{url}, short)
		r := g.do(chat(streamBody))
		events := splitEvents(r.body)
		if r.err != nil || len(events) != 2 || errorCode(t, events[1]) != "request_timeout" {
			t.Errorf("%v %q", r.err, r.body)
		}
		if got := g.selector.last(t); got != failure {
			t.Errorf("lease: %+v", got)
		}
	})
	t.Run("in_an_answer", func(t *testing.T) {
		_, url := hangs(t, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"+chunk("{"))
		g := start(t, []string{url}, short)
		if r := g.do(chat(chatBody)); r.err == nil {
			t.Errorf("%d %q", r.status, r.body)
		}
	})
	t.Run("in_the_upload", func(t *testing.T) {
		g := start(t, nil, short)
		c := g.dial()
		c.send("POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nContent-Length: 1000\r\n\r\n{\"model")
		c.answer().fails(t, 504, "request_timeout")
		if !c.closed() {
			t.Error("the connection stays open")
		}
	})
}

func TestHeadLimits(t *testing.T) {
	g := start(t, nil, withConfig(func(c *Config) { c.MaxHeaderBytes, c.ReadHeaderTimeout = 10<<10, 300*time.Millisecond }))
	for name, request := range map[string]string{
		"one_long_line": "GET /health HTTP/1.1\r\nHost: g\r\nX-A: " + strings.Repeat("a", 20<<10) + "\r\n\r\n",
		"no_line_end":   "GET /health HTTP/1.1\r\nHost: g\r\nX-A: " + strings.Repeat("a", 100<<10),
		"many_lines":    "GET /health HTTP/1.1\r\nHost: g\r\n" + strings.Repeat("X-A: "+strings.Repeat("a", 100)+"\r\n", 200) + "\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			c := g.dial()
			_, _ = io.WriteString(c, request) // the gateway may close before it is out
			if resp, err := http.ReadResponse(c.br, nil); err == nil && resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
				t.Errorf("%d", resp.StatusCode)
			}
		})
	}
	t.Run("slow_head", func(t *testing.T) {
		c := g.dial()
		c.send("GET /health HTTP/1.1\r\nHost:")
		if !c.closed() {
			t.Error("the connection stays open")
		}
	})
	t.Run("fits", func(t *testing.T) {
		if r := g.do(fmt.Sprintf("GET /health HTTP/1.1\r\nHost: g\r\nX-A: %s\r\n\r\n", strings.Repeat("a", 9<<10))); r.status != 200 {
			t.Errorf("%d", r.status)
		}
	})
}

// The client side of case 75. What front refuses in detail is tested there.
func TestGatewayFront(t *testing.T) {
	tests := []struct{ name, request string }{
		{"length_and_encoding", "POST /generate HTTP/1.1\r\nHost: g\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
		{"encoding_and_length", "POST /generate HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"},
		{"two_lengths", "POST /generate HTTP/1.1\r\nHost: g\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef"},
		{"chunked_twice", "POST /generate HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"},
		{"two_encodings", "POST /generate HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
		{"old_encoding", "POST /generate HTTP/1.0\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
		{"chunk_overflow", "POST /generate HTTP/1.1\r\nHost: g\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n{}"},
		{"bare_lf", "POST /generate HTTP/1.1\nHost: g\r\nContent-Length: 0\r\n\r\n"},
		{"bare_lf_field", "POST /generate HTTP/1.1\r\nHost: g\nContent-Length: 0\r\n\r\n"},
		{"folded", "POST /generate HTTP/1.1\r\nHost: g\r\nX-A: b\r\n c\r\nContent-Length: 0\r\n\r\n"},
		{"blank_before_the_colon", "POST /generate HTTP/1.1\r\nHost: g\r\nContent-Length : 0\r\n\r\n"},
		{"negative_length", "POST /generate HTTP/1.1\r\nHost: g\r\nContent-Length: -1\r\n\r\n"},
		{"signed_length", "POST /generate HTTP/1.1\r\nHost: g\r\nContent-Length: +1\r\n\r\n1"},
	}
	for _, tt := range tests {
		t.Run("75_client_"+tt.name, func(t *testing.T) {
			e, url := answers(t, jsonOK)
			g := start(t, []string{url})
			c := g.dial()
			c.send(tt.request + get("/health")) // must not be taken for a request
			r := c.answer()
			if r.status != 400 && r.status != 501 {
				t.Errorf("%d %q", r.status, r.body)
			}
			if !c.closed() {
				t.Error("the connection stays open")
			}
			if e.requests() != 0 {
				t.Error("a worker was called")
			}
		})
	}
}
