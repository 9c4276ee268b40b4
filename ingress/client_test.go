package ingress

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"smg/worker"
)

// leaves are ways in which a client goes.
var leaves = []struct {
	name  string
	leave func(*client) error
}{
	{"close", func(c *client) error { return c.Close() }},
	{"half_close", func(c *client) error { return c.CloseWrite() }},
	{"reset", func(c *client) error {
		if err := c.SetLinger(0); err != nil {
			return err
		}
		return c.Close()
	}},
}

func TestGatewayClients(t *testing.T) {
	for _, stray := range []struct{ name, bytes string }{
		{"67_stray_crlf", "\r\n"},
		{"67_second_request", chat(chatBody)},
		{"67_begin_of_a_request", "POST /v1/chat"},
		{"68_nothing_behind", ""},
	} {
		for _, l := range leaves {
			t.Run(stray.name+"_then_"+l.name, func(t *testing.T) {
				t.Parallel()
				e, url := hangs(t)
				g := start(t, []string{url})
				c := g.dial()
				c.send(chat(chatBody))
				within(t, patience, "the engine has the request", func() bool { return e.requests() == 1 })
				c.send(stray.bytes) // net/http takes one byte of it and looks away
				if err := l.leave(c); err != nil {
					t.Fatal(err)
				}
				g.idle()
				within(t, patience, "the engine is left", func() bool { return e.gone.Load() == 1 })
				if got := g.selector.last(t); got != (ending{worker.Neutral, false}) {
					t.Errorf("lease: %+v", got)
				}
			})
		}
	}

	t.Run("67_stray_crlf_at_once", func(t *testing.T) {
		t.Parallel()
		e, url := hangs(t)
		g := start(t, []string{url})
		c := g.dial()
		c.send(chat(chatBody) + "\r\n")
		within(t, patience, "the engine has the request", func() bool { return e.requests() == 1 })
		c.Close()
		g.idle()
	})

	for _, l := range leaves {
		t.Run("68_mid_stream_"+l.name, func(t *testing.T) {
			t.Parallel()
			e, url := hangs(t, sseHead+chunk(event))
			g := start(t, []string{url})
			c := g.dial()
			c.send(chat(streamBody))
			resp := c.head()
			b := make([]byte, len(event))
			if _, err := io.ReadFull(resp.Body, b); err != nil || string(b) != event {
				t.Fatalf("%q %v", b, err)
			}
			if err := l.leave(c); err != nil {
				t.Fatal(err)
			}
			g.idle()
			within(t, patience, "the engine is left", func() bool { return e.gone.Load() == 1 })
			if got := g.selector.last(t); got != (ending{worker.Neutral, false}) {
				t.Errorf("lease: %+v", got)
			}
		})
		t.Run("68_body_unread_"+l.name, func(t *testing.T) {
			t.Parallel()
			e, url := hangs(t)
			g := start(t, []string{url})
			c := g.dial()
			c.send("POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nContent-Length: 1000\r\n\r\n{\"model")
			within(t, patience, "the handler runs", func() bool { return g.active.Load() == 1 })
			if err := l.leave(c); err != nil {
				t.Fatal(err)
			}
			within(t, patience, "the handler returns", func() bool { return g.active.Load() == 0 })
			if e.requests() != 0 || g.selector.begins() != 0 {
				t.Error("a half request went on")
			}
		})
	}

	t.Run("47_http2_client_leaves", func(t *testing.T) {
		t.Parallel()
		for _, pieces := range [][]string{nil, {sseHead + chunk(event)}} {
			e, url := hangs(t, pieces...)
			g := start(t, []string{url})
			ctx, cancel := context.WithCancel(t.Context())
			h := g.http2()
			result := make(chan error, 1)
			go func() {
				resp, err := h.post(ctx, g.url+"/v1/chat/completions", streamBody)
				if err == nil {
					_, err = io.ReadAll(resp.Body)
					resp.Body.Close()
				}
				result <- err
			}()
			within(t, patience, "the engine has the request", func() bool { return e.requests() == 1 })
			cancel()
			g.idle()
			within(t, patience, "the engine is left", func() bool { return e.gone.Load() == 1 })
			if err := <-result; err == nil {
				t.Error("the client got an answer")
			}
		}
	})

	t.Run("69_expect_continue_refused", func(t *testing.T) {
		t.Parallel()
		_, url := answers(t, jsonOK)
		g := start(t, []string{url}, withConfig(func(c *Config) { c.MaxPayloadBytes = 100 }))
		const expect = "Expect: 100-continue\r\n\r\n"
		c := g.dial()
		c.send("POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nContent-Length: 101\r\n" + expect)
		c.answer().fails(t, 413, "request_body_too_large")
		if !c.closed() {
			t.Error("the connection stays open")
		}
		c = g.dial()
		c.send("POST /generate HTTP/1.1\r\nHost: g\r\nContent-Length: 10\r\n" + expect)
		if r := c.answer(); r.status != 415 {
			t.Errorf("%d", r.status)
		}
		c = g.dial() // a good one is asked for its body
		c.send(fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nContent-Length: %d\r\n", len(chatBody)) + expect)
		if resp := c.head(); resp.StatusCode != 100 {
			t.Fatalf("%d", resp.StatusCode)
		}
		c.send(chatBody)
		if r := c.answer(); r.status != 200 {
			t.Errorf("%d %s", r.status, r.body)
		}
	})

	t.Run("70_http2_1000_streams", func(t *testing.T) {
		t.Parallel()
		const streams = 1000
		url := gathers(t, streams)
		g := start(t, []string{url})
		h := g.http2()
		resp, err := h.post(t.Context(), g.url+"/nothing", "") // or the client dials once for each
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		var wg sync.WaitGroup
		for range streams {
			wg.Go(func() {
				resp, err := h.post(t.Context(), g.url+"/v1/chat/completions", chatBody)
				if err != nil {
					t.Error(err)
					return
				}
				defer resp.Body.Close()
				if b, err := io.ReadAll(resp.Body); err != nil || string(b) != "ok" || resp.ProtoMajor != 2 {
					t.Errorf("%q %v %s", b, err, resp.Proto)
				}
			})
		}
		wg.Wait()
		if n := h.dials.Load(); n != 1 {
			t.Errorf("%d connections", n)
		}
	})

	t.Run("71_client_stops_reading", func(t *testing.T) {
		t.Parallel()
		for _, proto := range []string{"http1", "http2"} {
			t.Run(proto, func(t *testing.T) {
				t.Parallel()
				closed := make(chan struct{}, 1)
				url := engineAt(t, func(nc net.Conn, br *bufio.Reader) {
					r, err := http.ReadRequest(br)
					if err != nil {
						return
					}
					if _, err = io.Copy(io.Discard, r.Body); err != nil {
						return
					}
					defer func() { closed <- struct{}{} }()
					_, err = io.WriteString(nc, sseHead)
					for piece := chunk(strings.Repeat(event, 1000)); err == nil; {
						_, err = io.WriteString(nc, piece)
					}
				})
				g := start(t, []string{url}, withConfig(func(c *Config) { c.WriteStall = time.Second }))
				if proto == "http1" {
					c := g.dial()
					c.send(chat(streamBody))
					c.head()
				} else {
					resp, err := g.http2().post(t.Context(), g.url+"/v1/chat/completions", streamBody)
					if err != nil {
						t.Fatal(err)
					}
					defer resp.Body.Close()
				}
				within(t, patience, "the handler returns", func() bool { return g.active.Load() == 0 })
				<-closed
				if got := g.selector.last(t); got != (ending{worker.Neutral, false}) {
					t.Errorf("lease: %+v", got)
				}
			})
		}
	})

	t.Run("71_slow_reader_is_no_stalled_one", func(t *testing.T) {
		t.Parallel()
		const size = 12 << 20
		_, url := answers(t, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", size)+strings.Repeat("x", size))
		g := start(t, []string{url}, withConfig(func(c *Config) { c.WriteStall = time.Second }))
		c := g.dial()
		c.send(chat(chatBody))
		resp := c.head()
		buf := make([]byte, size/20)
		total := 0
		for total < size {
			time.Sleep(100 * time.Millisecond) // it takes twice the limit over the whole
			n, err := io.ReadFull(resp.Body, buf)
			if total += n; err != nil && total < size {
				t.Fatalf("after %d bytes: %v", total, err)
			}
		}
	})
}

func TestPolicies(t *testing.T) {
	routingCases(t)
	t.Run("IF-1_stream", func(t *testing.T) {
		s := &script{pieces: []string{sseHead + chunk(event), chunk(event), chunk(done), lastOne}, step: make(chan struct{})}
		g := start(t, []string{engineAt(t, s.serve)})
		c := g.dial()
		c.send(chat(streamBody))
		resp := c.head()
		for i, want := range []string{event, event, done} {
			b := make([]byte, len(want))
			if _, err := io.ReadFull(resp.Body, b); err != nil || string(b) != want {
				t.Fatalf("%q %v", b, err)
			}
			if n := g.selector.active(); n != 1 {
				t.Fatalf("event %d: %d in flight", i, n)
			}
			s.step <- struct{}{}
		}
		if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) > 0 {
			t.Fatalf("%q %v", rest, err)
		}
		g.idle()
		if got := g.selector.last(t); got != (ending{worker.Success, false}) {
			t.Errorf("lease: %+v", got)
		}
	})

	t.Run("IF-2_leaves_after_three_events", func(t *testing.T) {
		e, url := hangs(t, sseHead+chunk(event+event+event))
		g := start(t, []string{url})
		c := g.dial()
		c.send(chat(streamBody))
		if _, err := io.ReadFull(c.head().Body, make([]byte, 3*len(event))); err != nil {
			t.Fatal(err)
		}
		c.Close()
		g.idle()
		within(t, patience, "the engine is left", func() bool { return e.gone.Load() == 1 })
	})

	for _, tt := range []struct{ name, head, first, rest string }{
		{"length", "HTTP/1.1 200 OK\r\nContent-Length: 20000\r\n\r\n", strings.Repeat("a", 10000), strings.Repeat("b", 10000)},
		{"chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", chunk("{"), chunk(strings.Repeat(" ", 10000)+"}") + lastOne},
	} {
		t.Run("IF-3_plain_"+tt.name, func(t *testing.T) {
			s := &script{pieces: []string{"", tt.head, tt.first, tt.rest}, step: make(chan struct{})}
			g := start(t, []string{engineAt(t, s.serve)})
			c := g.dial()
			c.send(chat(chatBody))
			for range 3 { // computing; head out; body half out
				within(t, patience, "one is in flight", func() bool { return g.selector.active() == 1 })
				s.step <- struct{}{}
			}
			g.idle() // nothing was read yet
			if r := c.answer(); r.status != 200 || r.err != nil || len(r.body) < 10000 {
				t.Errorf("%d %v, %d bytes", r.status, r.err, len(r.body))
			}
			if got := g.selector.last(t); got != (ending{worker.Success, false}) {
				t.Errorf("lease: %+v", got)
			}
		})
	}

	t.Run("IF-4_refused", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		g := start(t, []string{"http://" + l.Addr().String()})
		g.do(chat(chatBody)).fails(t, 500, "call_upstream_request_error")
		if n := g.selector.active(); n != 0 {
			t.Errorf("%d in flight", n)
		}
	})
}

func TestBodyStalls(t *testing.T) {
	g := start(t, nil, withConfig(func(c *Config) { c.BodyStall = 500 * time.Millisecond }))
	c := g.dial()
	c.send("POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nContent-Length: 1000\r\n\r\n{\"model")
	c.answer().fails(t, 408, "request_body_stalled")
	if !c.closed() {
		t.Error("the connection stays open")
	}
	h := g.http2()
	pr, pw := io.Pipe()
	defer pw.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.url+"/v1/chat/completions", pr)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := h.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 408 {
		t.Errorf("http2: %d", resp.StatusCode)
	}
}

func TestBodyNeverSent(t *testing.T) {
	_, url := answers(t, jsonOK)
	g := start(t, []string{url}, withConfig(func(c *Config) { c.MaxBufferedBytes = 10 }))
	for _, tt := range []struct {
		target string
		want   int
	}{
		{"POST /nothing", 404}, {"PUT /generate", 405}, {"GET /health", 200}, {"POST /generate", 415}, {"POST /v1/completions", 503},
	} {
		t.Run(tt.target, func(t *testing.T) {
			t.Parallel()
			c := g.dial()
			c.send(tt.target + " HTTP/1.1\r\nHost: g\r\nContent-Length: 20\r\n\r\n")
			if r := c.answer(); r.status != tt.want || !c.closed() {
				t.Errorf("%d", r.status)
			}
		})
	}
}

func TestPipelining(t *testing.T) {
	e, url := answers(t, jsonOK)
	g := start(t, []string{url})
	c := g.dial()
	c.send(strings.Repeat(chat(chatBody)+"\r\n", 5) + get("/health"))
	for range 5 {
		if r := c.answer(); r.status != 200 || r.body != `{"ok":true}` || r.err != nil {
			t.Fatalf("%d %q %v", r.status, r.body, r.err)
		}
	}
	if r := c.answer(); r.body != "OK" || e.requests() != 5 {
		t.Errorf("%q, %d requests", r.body, e.requests())
	}
}
