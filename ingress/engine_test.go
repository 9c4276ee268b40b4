package ingress

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"smg/engine"
	"smg/worker"
)

// splitEvents takes an event stream apart as a client does: events end with a
// blank line, their data lines are joined.
func splitEvents(stream string) (events []string) {
	stream = strings.ReplaceAll(stream, "\r\n", "\n")
	for e := range strings.SplitSeq(stream, "\n\n") {
		var data []string
		for line := range strings.SplitSeq(e, "\n") {
			if d, ok := strings.CutPrefix(line, "data:"); ok {
				data = append(data, strings.TrimPrefix(d, " "))
			}
		}
		if len(data) > 0 {
			events = append(events, strings.Join(data, "\n"))
		}
	}
	return events
}

func errorCode(tb testing.TB, event string) string {
	tb.Helper()
	var e struct{ Error struct{ Code string } }
	if err := json.Unmarshal([]byte(event), &e); err != nil {
		tb.Fatalf("no error event: %v in %q", err, event)
	}
	return e.Error.Code
}

func TestGatewayEngines(t *testing.T) {
	t.Run("72_flush_when_the_engine_pauses", func(t *testing.T) {
		s := &script{pieces: []string{sseHead + chunk(event) + chunk(event) + chunk(event), chunk(done) + lastOne}, step: make(chan struct{})}
		g := start(t, []string{engineAt(t, s.serve)})
		c := g.dial()
		c.send(chat(streamBody))
		resp := c.head()
		b := make([]byte, 3*len(event))
		if _, err := io.ReadFull(resp.Body, b); err != nil || string(b) != event+event+event {
			t.Fatalf("%q %v", b, err)
		}
		s.step <- struct{}{}
		if rest, err := io.ReadAll(resp.Body); err != nil || string(rest) != done {
			t.Fatalf("%q %v", rest, err)
		}
	})

	t.Run("72_first_byte_of_a_chunk", func(t *testing.T) {
		// A chunk whose rest is late must not keep back what is there.
		c1 := chunk(event)
		s := &script{pieces: []string{sseHead + c1[:len(c1)-6], c1[len(c1)-6:] + lastOne}, step: make(chan struct{})}
		g := start(t, []string{engineAt(t, s.serve)})
		c := g.dial()
		c.send(chat(streamBody))
		resp := c.head()
		b := make([]byte, len(event)-4)
		if _, err := io.ReadFull(resp.Body, b); err != nil || string(b) != event[:len(b)] {
			t.Fatalf("%q %v", b, err)
		}
		s.step <- struct{}{}
		if rest, err := io.ReadAll(resp.Body); err != nil || string(rest) != event[len(b):] {
			t.Fatalf("%q %v", rest, err)
		}
	})

	t.Run("72_not_per_chunk", func(t *testing.T) {
		_, url := answers(t, sseHead+strings.Repeat(chunk(event), 100)+chunk(done)+lastOne)
		g := start(t, []string{url})
		c := g.dial()
		c.send(chat(streamBody))
		var all strings.Builder
		buf, reads := make([]byte, 64<<10), 0
		for !strings.Contains(all.String(), done) {
			n, err := c.Read(buf)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(buf[:n])
			reads++
		}
		if got := strings.Count(all.String(), event); got != 100 {
			t.Errorf("%d events", got)
		}
		if reads > 20 {
			t.Errorf("%d reads for 100 events that came at once", reads)
		}
	})

	t.Run("73_early_answer", func(t *testing.T) {
		for _, tt := range []struct{ name, answer string }{
			{"keeps_open", jsonOK},
			{"refuses", "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno"},
		} {
			t.Run(tt.name, func(t *testing.T) {
				conns := make(chan struct{}, 10)
				url := engineAt(t, func(nc net.Conn, br *bufio.Reader) {
					conns <- struct{}{}
					if _, err := http.ReadRequest(br); err != nil {
						return
					}
					if _, err := io.WriteString(nc, tt.answer); err != nil {
						return
					}
					_, _ = br.Peek(1 << 20) // holds the upload up, until the gateway leaves
					buf := make([]byte, 1)
					for nc.SetReadDeadline(time.Now().Add(patience)) == nil {
						time.Sleep(time.Millisecond)
						if _, err := nc.Write(buf[:0]); err != nil {
							return
						}
						if _, err := br.Read(buf); err != nil {
							return
						}
					}
				})
				g := start(t, []string{url})
				big := strings.Replace(chatBody, "hi", strings.Repeat("x", 10<<20), 1)
				for range 2 {
					if r := g.do(chat(big)); r.err != nil || r.status != 200 && r.status != 413 {
						t.Fatalf("%d %v", r.status, r.err)
					}
				}
				if len(conns) != 2 {
					t.Errorf("%d connections for two requests", len(conns))
				}
			})
		}
	})

	t.Run("74_interim_answers", func(t *testing.T) {
		tests := []struct {
			name, answer string
			want         int
		}{
			{"some", strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", 3) + jsonOK, 200},
			{"endless", strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 1000), 500},
			{"switching", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", 500},
		}
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				_, url := hangs(t, tt.answer)
				g := start(t, []string{url})
				r := g.do(chat(chatBody))
				if r.status != tt.want {
					t.Errorf("%d %s", r.status, r.body)
				}
				if tt.want == 500 {
					r.fails(t, 500, "call_upstream_request_error")
				}
			})
		}
		for _, status := range []string{"204 No Content", "304 Not Modified"} {
			_, url := hangs(t, "HTTP/1.1 "+status+"\r\nContent-Length: 100\r\n\r\n")
			if r := start(t, []string{url}).do(chat(chatBody)); r.err != nil || r.body != "" || fmt.Sprint(r.status) != status[:3] {
				t.Errorf("%s: %d %q %v", status, r.status, r.body, r.err)
			}
		}
	})

	t.Run("75_engine_framing", func(t *testing.T) {
		tests := []struct{ name, answer string }{
			{"length_and_encoding", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
			{"two_lengths", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc"},
			{"chunked_twice", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"},
			{"chunk_overflow", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n"},
			{"bare_lf", "HTTP/1.1 200 OK\nContent-Length: 2\r\n\r\nok"},
			{"folded", "HTTP/1.1 200 OK\r\nX-A: b\r\n c\r\nContent-Length: 2\r\n\r\nok"},
			{"line_break_in_a_field", "HTTP/1.1 200 OK\r\nX-A: b\rSet-Cookie: c\r\nContent-Length: 2\r\n\r\nok"},
		}
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				e, url := hangs(t, tt.answer)
				g := start(t, []string{url})
				r := g.do(chat(chatBody))
				if r.status != 500 {
					t.Errorf("%d %q", r.status, r.body)
				}
				r.envelopeCode(t)
				within(t, patience, "the connection is dropped", func() bool { return e.gone.Load() == 1 })
				if got := g.selector.last(t); got != (ending{worker.Failure, false}) {
					t.Errorf("lease: %+v", got)
				}
			})
		}
	})

	t.Run("76_trailers_are_dropped", func(t *testing.T) {
		_, url := answers(t, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n"+chunk("ok")+"0\r\nX-T: 1\r\n\r\n")
		g := start(t, []string{url})
		c := g.dial()
		c.send(chat(chatBody))
		resp := c.head()
		if b, err := io.ReadAll(resp.Body); err != nil || string(b) != "ok" || len(resp.Trailer) > 0 || resp.Header.Get("Trailer") != "" {
			t.Errorf("%q %v, trailer %v", b, err, resp.Trailer)
		}
	})

	t.Run("76_unasked_bytes", func(t *testing.T) {
		e, url := answers(t, jsonOK+"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison")
		g := start(t, []string{url})
		for range 3 {
			if r := g.do(chat(chatBody)); r.status != 200 || r.body != `{"ok":true}` {
				t.Fatalf("%d %q", r.status, r.body)
			}
		}
		if e.requests() != 3 || g.engines.Stats().Dials != 3 {
			t.Errorf("%d requests, %d dials", e.requests(), g.engines.Stats().Dials)
		}
	})

	t.Run("77_ends_of_answers", func(t *testing.T) {
		long := strings.Repeat("x", 100<<10)
		_, url := closes(t, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"+long)
		g := start(t, []string{url})
		if r := g.do(chat(chatBody)); r.status != 200 || r.body != long || r.err != nil {
			t.Errorf("until EOF: %d, %d bytes, %v", r.status, len(r.body), r.err)
		}
		if got := g.selector.last(t); got != (ending{worker.Success, false}) {
			t.Errorf("lease: %+v", got)
		}
		_, url = closes(t, "HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n"+long)
		g = start(t, []string{url})
		if r := g.do(chat(chatBody)); !errors.Is(r.err, io.ErrUnexpectedEOF) {
			t.Errorf("early end: %d, %d bytes, %v", r.status, len(r.body), r.err)
		}
		if got := g.selector.last(t); got != (ending{worker.Failure, false}) {
			t.Errorf("lease: %+v", got)
		}
	})

	t.Run("79_content_encoding", func(t *testing.T) {
		var packed strings.Builder
		zw := gzip.NewWriter(&packed)
		_, _ = zw.Write([]byte(`{"ok":true}`))
		zw.Close()
		_, url := answers(t, fmt.Sprintf("HTTP/1.1 200 OK\r\nConnection: content-encoding\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n", packed.Len())+packed.String())
		r := start(t, []string{url}).do(chat(chatBody, "Accept-Encoding: gzip"))
		if r.header.Get("Content-Encoding") != "gzip" || r.body != packed.String() {
			t.Errorf("%v %q", r.header, r.body)
		}
		// Nothing readable can be put behind encoded bytes.
		_, url = closes(t, strings.Replace(sseHead, "\r\n\r\n", "\r\nContent-Encoding: gzip\r\n\r\n", 1)+chunk(packed.String()))
		if r := start(t, []string{url}).do(chat(streamBody)); r.err == nil || r.body != packed.String() {
			t.Errorf("%v %q", r.err, r.body)
		}
	})

	for _, tt := range []struct {
		name, answer string
		want         []string // events before the error
	}{
		{"between_events", sseHead + chunk(event), []string{`{"a":1}`}},
		{"crlf_events", sseHead + chunk("data: 1\r\n\r\n"), []string{"1"}},
		{"in_an_event", sseHead + chunk(event+"data: {\"b"), []string{`{"a":1}`, `{"b`}},
		{"in_an_event_after_a_line", sseHead + chunk(event+"data: 2\n"), []string{`{"a":1}`, "2"}},
		{"in_a_crlf_event_after_a_line", sseHead + chunk("data: 1\r\n\r\ndata: 2\r\n"), []string{"1", "2"}},
		{"in_a_crlf", sseHead + chunk("data: 1\r\n\r\ndata: 2\r"), []string{"1", "2"}},
		{"in_a_border", sseHead + chunk("data: 1\r\n\r\ndata: 2\r\n\r"), []string{"1", "2"}},
		{"in_a_chunk", sseHead + "20\r\ndata: 1", []string{"1"}},
		{"one_byte_chunks", sseHead + chunk("d") + chunk("a") + chunk("ta: 1") + chunk("\n") + chunk("\n"), []string{"1"}},
		{"bad_chunk", sseHead + chunk(event) + "zz\r\n", []string{`{"a":1}`}},
		{"early_end_of_a_length", "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 1000\r\n\r\n" + event, []string{`{"a":1}`}},
		{"unasked_stream", strings.Replace(sseHead, "text/", "Text/", 1) + chunk(event), []string{`{"a":1}`}},
	} {
		t.Run("83_sse_broken_"+tt.name, func(t *testing.T) {
			_, url := closes(t, tt.answer)
			g := start(t, []string{url})
			body := streamBody
			if tt.name == "unasked_stream" {
				body = chatBody
			}
			r := g.do(chat(body))
			if r.status != 200 || r.err != nil || strings.Contains(r.body, "[DONE]") {
				t.Fatalf("%d %v %q", r.status, r.err, r.body)
			}
			events := splitEvents(r.body)
			if len(events) != len(tt.want)+1 {
				t.Fatalf("%d events in %q", len(events), r.body)
			}
			for i, want := range tt.want {
				if events[i] != want {
					t.Errorf("event %d: %q, want %q", i, events[i], want)
				}
			}
			if code := errorCode(t, events[len(events)-1]); code != "upstream_stream_error" || !strings.Contains(r.body, url) {
				t.Errorf("%s in %q", code, r.body)
			}
			if got := g.selector.last(t); got != (ending{worker.Failure, false}) {
				t.Errorf("lease: %+v", got)
			}
		})
	}

	t.Run("83_sse_broken_messages", func(t *testing.T) {
		_, url := closes(t, sseHead+chunk("event: ping\ndata: {\"type\":\"ping\"}\n\n"))
		r := start(t, []string{url}).do(post("/v1/messages", `{"model":"m","stream":true,"max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`))
		_, last, _ := strings.Cut(r.body, "\n\n")
		if r.status != 200 || !strings.HasPrefix(last, `event: error`+"\n"+`data: {"type":"error","error":{`) || !strings.Contains(last, "upstream_stream_error") {
			t.Errorf("%d %q: Anthropic's clients pass over an error that is not named so", r.status, r.body)
		}
	})

	for _, tt := range []struct{ name, answer, want string }{
		{"length", "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"a\":", `{"a":`},
		{"chunked", "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk("{\"a\":"), `{"a":`},
		{"large", "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(strings.Repeat("{\"a\":", 10000)), strings.Repeat("{\"a\":", 10000)},
		{"refusal", "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"a\":", `{"a":`},
		{"no_json", "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 100\r\n\r\nhel", "hel"},
	} {
		t.Run("83_json_broken_"+tt.name, func(t *testing.T) {
			_, url := closes(t, tt.answer)
			g := start(t, []string{url})
			c := g.dial()
			c.send(chat(chatBody))
			// What has come is the client's, and tells it that the cut is the answer's end and
			// no gateway's that has read nothing: such requests are sent again without a word.
			resp, err := http.ReadResponse(c.br, nil)
			if err != nil {
				t.Fatalf("not even a head: %v", err)
			}
			b, err := io.ReadAll(resp.Body)
			if !errors.Is(err, io.ErrUnexpectedEOF) || string(b) != tt.want {
				t.Errorf("%d bytes, want %d, and %v", len(b), len(tt.want), err)
			}
			if got := g.selector.last(t); got != (ending{worker.Failure, false}) {
				t.Errorf("lease: %+v", got)
			}
			resp, err = g.http2().post(t.Context(), g.url+"/v1/chat/completions", chatBody)
			if err != nil {
				t.Fatalf("http2: not even a head: %v", err)
			}
			b, err = io.ReadAll(resp.Body)
			resp.Body.Close()
			if err == nil || string(b) != tt.want {
				t.Errorf("http2: %d bytes, want %d, and %v", len(b), len(tt.want), err)
			}
		})
		t.Run("83_broken_before_the_first_byte_"+tt.name, func(t *testing.T) {
			head, _, _ := strings.Cut(tt.answer, "\r\n\r\n")
			_, url := closes(t, head+"\r\n\r\n")
			g := start(t, []string{url})
			g.do(chat(chatBody)).fails(t, 500, "read_response_failed")
			g.do(chat(streamBody)).fails(t, 500, "read_response_failed")
			if got := g.selector.last(t); got != (ending{worker.Failure, false}) {
				t.Errorf("lease: %+v", got)
			}
		})
	}

	t.Run("84_broken_body_keeps_the_process", func(t *testing.T) {
		_, broken := closes(t, jsonOK[:len(jsonOK)-3])
		g := start(t, []string{broken})
		for range 20 {
			c := g.dial()
			c.send(chat(chatBody))
			_, _ = io.ReadAll(c)
		}
		if r := g.do(get("/health")); r.status != 200 {
			t.Errorf("%d", r.status)
		}
		// Also where the program itself is at fault: that one request is cut.
		g = start(t, nil, withDeps(func(d *Deps) { d.Dispatcher = panicky{} }))
		g.selector.workers = append(g.selector.workers, &worker.Spec{URL: "http://127.0.0.1:1", Models: []worker.Model{{ID: "m"}}})
		c := g.dial()
		c.send(chat(chatBody))
		if !c.closed() {
			t.Error("the connection stays open")
		}
		if r := g.do(get("/health")); r.status != 200 {
			t.Errorf("%d", r.status)
		}
		if !strings.Contains(g.log.String(), "a fault of the gateway") {
			t.Errorf("log: %s", g.log)
		}
		g.log.b.Reset()
	})
}

// panicky is a Dispatcher with a fault.
type panicky struct{}

func (panicky) Reach(string, *worker.PoolRules) (*engine.Target, error) { return nil, nil }

func (panicky) Send(context.Context, *engine.Target, *engine.Request) (*engine.Response, error) {
	panic("fault")
}

func TestStreamTypes(t *testing.T) {
	tests := []struct {
		name, answer, body string
		wantType           string
	}{
		{"engine_says_json", strings.Replace(jsonOK, "\r\n\r\n", "\r\nx-a: b\r\n\r\n", 1), streamBody, "text/event-stream"},
		{"engine_keeps_charset", sseHead + chunk(event) + lastOne, streamBody, "text/event-stream; charset=utf-8"},
		{"json_error", "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n{\"error\":{}}", streamBody, "application/json"},
		{"not_asked_for", jsonOK, chatBody, "application/json"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, url := answers(t, tt.answer)
			r := start(t, []string{url}).do(chat(tt.body))
			if got := r.header.Get("Content-Type"); got != tt.wantType || r.err != nil {
				t.Errorf("%q, %v", got, r.err)
			}
		})
	}
}
