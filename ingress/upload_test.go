package ingress

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"smg/wire"
	"smg/worker"
)

// arrival is a request as it came over the wire to an engine.
type arrival struct {
	length  int64 // that was declared, -1 if none was
	chunked bool
	kind    string
	body    string
}

// takes is an engine that says how bodies come.
func takes(tb testing.TB) (string, <-chan arrival) {
	tb.Helper()
	all := make(chan arrival, 100)
	return engineAt(tb, func(nc net.Conn, br *bufio.Reader) {
		for {
			r, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			b, err := io.ReadAll(r.Body)
			if err != nil {
				return
			}
			all <- arrival{r.ContentLength, len(r.TransferEncoding) > 0, r.Header.Get("Content-Type"), string(b)}
			if _, err := io.WriteString(nc, jsonOK); err != nil {
				return
			}
		}
	}), all
}

// unread has bodies passed on as a gateway does that was given no flags, but for retries.
func unread(attempts int, reads wire.Reads) option {
	return func(c *Config, d *Deps) {
		c.Upload = DefaultUpload()
		c.Retry.Attempts = attempts
		d.Reads = func(worker.Leg) wire.Reads { return reads }
	}
}

// paths is how bodies went, by path and reason, without those of which there are none.
func (g *gateway) paths() string {
	var all []string
	for p := range bodyPaths {
		path, reason := p.labels()
		if n := testutil.ToFloat64(g.Server.metrics.router.paths[p]); n > 0 {
			all = append(all, fmt.Sprintf("%s %s %v", path, reason, n))
		}
	}
	return strings.Join(all, ", ")
}

func TestGatewayBodies(t *testing.T) {
	large := strings.Replace(chatBody, "hi", strings.Repeat("x", 2<<20), 1)
	exact := strings.Replace(chatBody, "hi", strings.Repeat("x", 1<<20-len(chatBody)+2), 1)
	small := strings.Replace(chatBody, "hi", strings.Repeat("y", 1<<10), 1)
	const hint = "X-SMG-Routing-Tokens: 1,2,3"
	for _, tt := range []struct {
		name     string
		attempts int
		reads    wire.Reads
		several  bool
		request  string
		want     string // path and reason
		body     string
	}{
		{"42_a_over_the_limit", 5, 0, false, chat(large), "streamed retry_forfeited", large},
		{"42_b_kept_for_a_retry", 5, 0, false, chat(small), "buffered retryable", small},
		{"42_c_no_retries", 1, 0, false, chat(small), "streamed pure_forward", small},
		{"42_c_no_retries_large", 1, 0, false, chat(large), "streamed pure_forward", large},
		{
			"42_d_chunked", 1, 0, false, "POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(small) + lastOne,
			"buffered no_content_length", small,
		},
		{"42_e_two_models", 1, 0, true, chat(large), "buffered model_ambiguous", large},
		{"42_f_the_policy_needs_text", 1, wire.ReadsText | wire.ReadsTokens | wire.NeedsText, false, chat(large), "buffered policy_needs_text", large},
		{"42_f_a_bad_hint", 1, wire.ReadsText | wire.NeedsText, false, chat(large, "X-SMG-Routing-Tokens: 1, 2"), "buffered policy_needs_text", large},
		{"42_f_with_tokens", 1, wire.ReadsText | wire.ReadsTokens | wire.NeedsText, false, chat(large, hint), "streamed pure_forward", large},
		{"42_f_text_is_of_use", 1, wire.ReadsText | wire.ReadsKey, false, chat(large), "streamed pure_forward", large},
		{"42_g_sticky_sessions", 1, wire.ReadsConversationKey, false, chat(large), "buffered routing_key_override", large},
		{"42_h_the_limit_itself", 5, 0, false, chat(exact), "buffered retryable", exact},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			url, got := takes(t)
			g := start(t, []string{url}, unread(tt.attempts, tt.reads))
			g.fleet.several.Store(tt.several)
			r := g.do(tt.request)
			if r.status != 200 || r.body != `{"ok":true}` || r.err != nil {
				t.Fatalf("%d %s %v", r.status, r.body, r.err)
			}
			a := <-got
			if a.body != tt.body {
				t.Errorf("the engine got %d bytes, want the %d of the client", len(a.body), len(tt.body))
			}
			if streamed := strings.HasPrefix(tt.want, "streamed"); a.chunked != streamed || (a.length < 0) != streamed || a.kind != "application/json" {
				t.Errorf("chunked %v, length %d, %s", a.chunked, a.length, a.kind)
			}
			if got := g.paths(); got != tt.want+" 1" {
				t.Errorf("counted %q", got)
			}
			if ask := g.selector.lastAsk(t); strings.Contains(tt.request, hint) && (ask.Tokens != 3 || len(ask.TokenIDs) != 3) {
				t.Errorf("asked with %+v", ask)
			}
		})
	}

	t.Run("42_other_ways", func(t *testing.T) {
		t.Parallel()
		url, _ := takes(t)
		none := start(t, []string{url}, unread(5, 0))
		none.Server.cfg.Upload.MaxBuffered = 0 // nothing is kept
		none.do(chat(chatBody))
		if got := none.paths(); got != "streamed retry_forfeited 1" {
			t.Errorf("with nothing kept: %q", got)
		}
		bad := start(t, []string{url}, unread(1, 0))
		if r := bad.do(chat("{")); r.status != 200 { // nobody reads it
			t.Errorf("%d %s", r.status, r.body)
		}
		if r := bad.do(post("/v1/responses", `{"model":"m","input":"x"}`)); r.status != 200 {
			t.Errorf("%d %s", r.status, r.body)
		}
		if got := bad.paths(); got != "streamed pure_forward 1" { // responses are none of the routes
			t.Errorf("%q", got)
		}
		if r := bad.do("POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\n\r\n"); r.status != 400 {
			t.Errorf("without a body: %d %s", r.status, r.body)
		}
		if r := bad.do("POST /generate HTTP/1.1\r\nHost: g\r\nContent-Length: 2\r\n\r\n{}"); r.status != 415 {
			t.Errorf("without a type: %d %s", r.status, r.body)
		}
		c := bad.dial() // one connection for several
		for range 3 {
			for _, b := range []string{chatBody, large} {
				c.send(chat(b))
				if r := c.answer(); r.status != 200 {
					t.Errorf("%d %s", r.status, r.body)
				}
			}
		}
		h := bad.http2()
		for _, b := range []string{chatBody, large} {
			resp, err := h.post(t.Context(), bad.url+"/v1/chat/completions", b)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != 200 {
				t.Errorf("HTTP/2: %d %v", resp.StatusCode, err)
			}
			resp.Body.Close()
		}
	})

	t.Run("42_nobody_is_there", func(t *testing.T) {
		t.Parallel()
		g := start(t, nil, unread(1, 0))
		g.selector.err = worker.ErrUnavailable
		g.do(chat(chatBody)).fails(t, 503, "no_available_workers")
		if got := g.paths(); got != "buffered no_available_worker 1" || len(g.selector.asks) != 1 {
			t.Errorf("%q, %d selections", got, len(g.selector.asks))
		}
		g.selector.err = worker.ErrOverloaded
		g.do(chat(chatBody)).fails(t, 503, "worker_overload_protection_shed")
		if got := g.sheds()["selection"]; got != 1 {
			t.Errorf("%d sheds", got)
		}
	})

	t.Run("42_a_rank_is_written_into_the_body", func(t *testing.T) {
		t.Parallel()
		url, got := takes(t)
		g := start(t, []string{url}, unread(1, 0))
		g.selector.workers[0].DPSize, g.selector.workers[0].DPRank = 2, 1
		if r := g.do(chat(chatBody)); r.status != 200 {
			t.Fatalf("%d %s", r.status, r.body)
		}
		if a := <-got; a.chunked || !strings.Contains(a.body, `"data_parallel_rank":1`) {
			t.Errorf("%+v", a)
		}
		if got := g.paths(); got != "buffered worker_mutates_body 1" {
			t.Errorf("%q", got)
		}
	})

	t.Run("42_budget", func(t *testing.T) {
		t.Parallel()
		url, _ := takes(t)
		g := start(t, []string{url}, unread(1, 0), withConfig(func(c *Config) { c.MaxBufferedBytes = 10 }))
		g.do(chat(chatBody)).fails(t, 503, "buffer_budget_exhausted")
		if r := g.do(chat(large)); r.status != 200 { // it is not kept
			t.Errorf("%d %s", r.status, r.body)
		}
	})
}

func TestGatewayUploads(t *testing.T) {
	declare := func(n int) string {
		return fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nContent-Length: %d\r\n\r\n{\"model\":\"m\"", n)
	}
	sizes := map[string]int{"small": 1 << 10, "large": 8 << 20}

	t.Run("43_too_large", func(t *testing.T) {
		t.Parallel()
		e, url := answers(t, jsonOK)
		g := start(t, []string{url}, unread(1, 0), withConfig(func(c *Config) { c.MaxPayloadBytes = 1 << 20 }))
		g.do(declare(1<<20+1)).fails(t, 413, "request_body_too_large")
		if e.requests() != 0 || g.selector.begins() != 0 {
			t.Error("a worker was chosen")
		}
	})

	for name, n := range sizes {
		t.Run("43_stalled_"+name, func(t *testing.T) {
			t.Parallel()
			url, left := swallows(t)
			g := start(t, []string{url}, unread(1, 0), withConfig(func(c *Config) { c.Upload.Stall = 300 * time.Millisecond }))
			c := g.dial()
			c.send(declare(n))
			c.answer().fails(t, 408, "request_body_stalled")
			if !c.closed() {
				t.Error("the connection stays open")
			}
			g.idle()
			if e := g.selector.last(t); e.Outcome != worker.Neutral {
				t.Errorf("the worker is charged: %+v", e)
			}
			if n > smallUpload {
				within(t, patience, "the engine is left", func() bool { return left.Load() == 1 })
			}
		})

		t.Run("43_aborted_"+name, func(t *testing.T) {
			t.Parallel()
			url, left := swallows(t)
			g := start(t, []string{url}, unread(1, 0))
			c := g.dial()
			c.send(declare(n))
			within(t, patience, "a worker is chosen", func() bool { return g.selector.begins() == 1 })
			if err := c.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			if resp, err := http.ReadResponse(c.br, nil); err == nil && resp.StatusCode != 400 { // or nothing
				t.Errorf("%d", resp.StatusCode)
			}
			g.idle()
			if e := g.selector.last(t); e.Outcome != worker.Neutral {
				t.Errorf("the worker is charged: %+v", e)
			}
			if n > smallUpload {
				within(t, patience, "the engine is left", func() bool { return left.Load() == 1 })
			}
		})

		t.Run("43_time_is_up_"+name, func(t *testing.T) {
			t.Parallel()
			url, _ := swallows(t)
			g := start(t, []string{url}, unread(1, 0), withConfig(func(c *Config) { c.RequestTimeout = 300 * time.Millisecond }))
			c := g.dial()
			c.send(declare(n))
			c.answer().fails(t, 504, "request_timeout")
			g.idle()
			if e := g.selector.last(t); e.Outcome != worker.Neutral {
				t.Errorf("the worker is charged: %+v", e)
			}
		})
	}

	t.Run("43_http2", func(t *testing.T) {
		t.Parallel()
		url, left := swallows(t)
		g := start(t, []string{url}, unread(1, 0), withConfig(func(c *Config) { c.Upload.Stall = 300 * time.Millisecond }))
		body, client := io.Pipe()
		defer client.Close()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.url+"/v1/chat/completions", body)
		if err != nil {
			t.Fatal(err)
		}
		req.ContentLength = 8 << 20
		go func() { _, _ = client.Write([]byte(`{"model"`)) }()
		resp, err := g.http2().RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != 408 {
			t.Errorf("%d", resp.StatusCode)
		}
		within(t, patience, "the engine is left", func() bool { return left.Load() == 1 })
	})

	t.Run("73_early_answer_to_an_upload", func(t *testing.T) {
		t.Parallel()
		for _, answer := range []string{jsonOK, "HTTP/1.1 422 No\r\nContent-Length: 2\r\n\r\nno"} {
			url := engineAt(t, func(nc net.Conn, br *bufio.Reader) {
				if _, err := http.ReadRequest(br); err != nil {
					return
				}
				_, _ = io.WriteString(nc, answer)
				_, _ = br.WriteTo(io.Discard) // until the gateway leaves
			})
			g := start(t, []string{url}, unread(1, 0))
			c := g.dial()
			c.send(declare(8 << 20)) // and no more of it
			r := c.answer()
			if r.status != 200 && r.status != 422 || r.err != nil {
				t.Errorf("%d %v", r.status, r.err)
			}
			if !r.close {
				t.Error("the client is not told that the connection ends")
			}
			if !c.closed() {
				t.Error("the connection stays open")
			}
			g.idle()
		}
	})

	t.Run("43_down", func(t *testing.T) {
		t.Parallel()
		g := start(t, []string{"http://127.0.0.1:1"}, unread(5, 0))
		g.do(chat(strings.Repeat(" ", 2<<20))).fails(t, 500, "call_upstream_request_error")
		if n := g.selector.begins(); n != 1 {
			t.Errorf("%d attempts", n)
		}
	})
}

// swallows is an engine that answers nothing. left counts connections that the gateway
// has closed.
func swallows(tb testing.TB) (url string, left *atomic.Int32) {
	tb.Helper()
	left = &atomic.Int32{}
	return engineAt(tb, func(_ net.Conn, br *bufio.Reader) {
		_, _ = br.WriteTo(io.Discard)
		left.Add(1)
	}), left
}
