package engine

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"smg/engine/enginetest"
)

// TestGateway holds the acceptance cases of the gateway that its client
// towards engines, and how it asks them for their load, decide, under their
// numbers.
func TestGateway(t *testing.T) {
	t.Run("53_KV_gauge_of_metrics", testUsageGauge)
	t.Run("72_flush_when_the_reader_would_block", testBuffered)
	t.Run("73_answer_before_the_upload_ends", testEarlyAnswer)
	t.Run("74_interim_answers_and_empty_ones", testInterim)
	t.Run("75_strict_framing", testFraming)
	t.Run("76_trailers_and_unasked_bytes", testUnasked)
	t.Run("77_end_of_an_answer", testEnds)
	t.Run("78_when_a_connection_is_used_again", testReuse)
	t.Run("79_content_encoding", testEncoding)
}

// testBuffered: Buffered counts what can be read at once, and nothing else.
func testBuffered(t *testing.T) {
	type state struct {
		Body     string
		Buffered int
		Ended    bool
	}
	steps := []struct {
		name string
		send string // right behind the bytes before
		want state
	}{
		{"an event and half a size", chunk("data: 1\n\n") + "9", state{"data: 1\n\n", 0, false}},
		{"the rest, no end of the chunk", "\r\ndata: 2\n\n", state{"data: 2\n\n", 0, false}},
		{"two events", "\r\n" + chunk("data: 3\n\n") + chunk("data: 4\n\n"), state{"data: 3\n\ndata: 4\n\n", 0, false}},
		{"half an event", "9\r\ndata", state{"data", 0, false}},
		{"the other half and the next size", ": 5\n\n\r\n9\r\n", state{": 5\n\n", 0, false}},
		{"an event and half the end", "data: 6\n\n\r\n0\r\n", state{"data: 6\n\n", 0, false}},
	}
	send := make(chan string)
	url := enginetest.Serve(t, func(nc net.Conn) {
		readRequest(nc, make([]byte, 1<<10))
		for s := range send {
			if _, err := io.WriteString(nc, s); err != nil {
				return
			}
		}
	})
	defer close(send)
	client := newClient(t, DefaultConfig())
	go func() {
		send <- "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	}()
	resp, err := post(t, client, newTarget(t, client, url))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Close()
	for _, step := range steps {
		send <- step.send
		// What was sent in one piece can arrive in two.
		var got state
		for len(got.Body) < len(step.want.Body) {
			p, err := resp.Next()
			if err != nil {
				t.Fatal(err)
			}
			got = state{got.Body + string(p), resp.Buffered(), resp.Ended()}
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", step.name, diff)
		}
	}
	send <- "\r\n"
	if p, err := resp.Next(); !errors.Is(err, io.EOF) || !resp.Ended() {
		t.Errorf("got %q, %v", p, err)
	}

	t.Run("several reads of one chunk", func(t *testing.T) {
		e := newFakeEngine(t, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"+chunk("hello")+chunk("world")+"0\r\n\r\n")
		client := newClient(t, DefaultConfig())
		resp, err := post(t, client, newTarget(t, client, e.url))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Close()
		var got []state
		buf := make([]byte, 3)
		for range 4 {
			n, err := resp.Read(buf)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, state{string(buf[:n]), resp.Buffered(), resp.Ended()})
		}
		want := []state{{"hel", 2, false}, {"low", 4, false}, {"orl", 1, false}, {"d", 0, true}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
	t.Run("ended with the last chunk", func(t *testing.T) {
		e := newFakeEngine(t, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"+chunk("hello")+"0\r\n\r\n")
		client := newClient(t, DefaultConfig())
		resp, err := post(t, client, newTarget(t, client, e.url))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Close()
		if resp.Ended() || resp.Buffered() != 5 {
			t.Errorf("before the first read: %d bytes, ended %t", resp.Buffered(), resp.Ended())
		}
		if p, err := resp.Next(); string(p) != "hello" || err != nil || !resp.Ended() {
			t.Errorf("got %q, %v, ended %t", p, err, resp.Ended())
		}
	})
}

// testEarlyAnswer: the engine answers without reading the upload, or while
// reading it.
func testEarlyAnswer(t *testing.T) {
	upload := make([]byte, 10<<20)
	refusal := "HTTP/1.1 413 Content Too Large\r\nContent-Length: 7\r\n\r\ntoo big"
	large := strings.Repeat("long answer ", 1<<20)
	tests := []struct {
		name       string
		engine     func(nc net.Conn, answered <-chan struct{})
		wantStatus int
		wantBody   string
	}{
		{"stays and does not read", func(nc net.Conn, answered <-chan struct{}) {
			io.WriteString(nc, refusal)
			<-answered
		}, 413, "too big"},
		{"long answer, does not read", func(nc net.Conn, answered <-chan struct{}) {
			io.WriteString(nc, answer(large))
			<-answered
		}, 200, large},
		{"half closes", func(nc net.Conn, answered <-chan struct{}) {
			io.WriteString(nc, refusal)
			nc.(*net.TCPConn).CloseWrite()
			<-answered
		}, 413, "too big"},
		{"resets", func(nc net.Conn, _ <-chan struct{}) { io.WriteString(nc, refusal) }, 413, "too big"},
		{"reads on after the answer", func(nc net.Conn, answered <-chan struct{}) {
			io.WriteString(nc, refusal)
			<-answered
			io.Copy(io.Discard, nc)
		}, 413, "too big"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			answered := make(chan struct{})
			url := enginetest.Serve(t, func(nc net.Conn) {
				nc.Read(make([]byte, 100))
				tt.engine(nc, answered)
			})
			t.Cleanup(func() { close(answered) })
			client := newClient(t, DefaultConfig())
			target := newTarget(t, client, url)
			resp, err := client.Send(t.Context(), target, &Request{Method: "POST", Path: "/", Body: upload})
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp)
			if err != nil || resp.Status != tt.wantStatus || string(body) != tt.wantBody {
				t.Errorf("got %d, %d bytes, %v", resp.Status, len(body), err)
			}
			resp.Close()
			if got := target.pool.size(); got != 0 {
				t.Errorf("%d idle connections, want 0", got)
			}
		})
	}
}

func testInterim(t *testing.T) {
	tests := []struct {
		name    string
		method  string
		answer  string
		want    string
		wantErr error
		kept    bool
	}{
		{"some", "POST", strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", maxInterim) + answer("ok"), "ok", nil, true},
		{"endless", "POST", strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", maxInterim+1) + answer("ok"), "", ErrProtocol, false},
		{"101", "POST", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", "", ErrProtocol, false},
		{"HEAD", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n", "", nil, true},
		{"HEAD chunked", "HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "", nil, true},
		{"204", "POST", "HTTP/1.1 204 No Content\r\n\r\n", "", nil, true},
		{"204 with length", "POST", "HTTP/1.1 204 No Content\r\nContent-Length: 10\r\n\r\n", "", nil, false},
		{"204 chunked", "POST", "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n", "", nil, false},
		{"304 with length", "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\n\r\n", "", nil, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			client := newClient(t, DefaultConfig())
			target := newTarget(t, client, newFakeEngine(t, tt.answer).url)
			resp, err := client.Send(t.Context(), target, &Request{Method: tt.method, Path: "/"})
			if tt.wantErr != nil {
				if !errors.Is(err, tt.wantErr) {
					t.Errorf("got %v, want %v", err, tt.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp)
			if err != nil || string(body) != tt.want {
				t.Errorf("got %q, %v, want %q", body, err, tt.want)
			}
			resp.Close()
			if got := target.pool.size() == 1; got != tt.kept {
				t.Errorf("connection kept: %t, want %t", got, tt.kept)
			}
		})
	}
}

// testFraming: TestRefuse has the whole table; here the connection's end.
func testFraming(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	tests := []struct{ name, answer string }{
		{"length with coding", ok + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
		{"coding with length", ok + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"},
		{"two lengths", ok + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello"},
		{"chunked, chunked", ok + "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"},
		{"chunk size overflows", ok + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff1\r\n"},
		{"bare LF", "HTTP/1.1 200 OK\nContent-Length: 0\n\n"},
		{"bare LF in a chunk", ok + "Transfer-Encoding: chunked\r\n\r\n0\n\n"},
		{"folded", ok + "Content-Length: 0\r\nx: a\r\n b\r\n\r\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := newFakeEngine(t, tt.answer)
			client := newClient(t, DefaultConfig())
			target := newTarget(t, client, e.url)
			resp, err := post(t, client, target)
			if err == nil {
				_, err = io.ReadAll(resp)
				resp.Close()
			}
			if !errors.Is(err, ErrProtocol) {
				t.Errorf("got %v, want ErrProtocol", err)
			}
			eventually(t, "the connection is closed", func() bool { _, _, gone := e.seen(); return gone == 1 })
		})
	}
}

func testUnasked(t *testing.T) {
	t.Run("trailer", func(t *testing.T) {
		client := newClient(t, DefaultConfig())
		target := newTarget(t, client, newFakeEngine(t,
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x\r\n\r\n"+chunk("hello")+"0\r\nx: y\r\nContent-Length: 3\r\n\r\n",
			answer("next"),
		).url)
		if got := exchange(t, client, target); got != "hello" {
			t.Errorf("got %q", got)
		}
		if got := exchange(t, client, target); got != "next" || client.Stats().Dials != 1 {
			t.Errorf("got %q over %d connections", got, client.Stats().Dials)
		}
	})
	t.Run("bytes on an idle connection", func(t *testing.T) {
		say := make(chan struct{})
		url := enginetest.Serve(t, func(nc net.Conn) {
			buf := make([]byte, 1<<10)
			for n := 0; ; n++ {
				if _, err := readRequest(nc, buf); err != nil {
					return
				}
				io.WriteString(nc, answer("mine"))
				if _, first := <-say; first {
					io.WriteString(nc, answer("foreign"))
					say <- struct{}{}
				}
			}
		})
		client := newClient(t, DefaultConfig())
		target := newTarget(t, client, url)
		exchange(t, client, target)
		say <- struct{}{}
		<-say
		close(say)
		eventually(t, "the bytes arrive", func() bool { return !target.pool.idle[0].quiet() })
		if got := exchange(t, client, target); got != "mine" {
			t.Errorf("got %q", got)
		}
		if got, want := client.Stats(), (Stats{Dials: 2, Stale: 1}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
	t.Run("bytes before the first request", func(t *testing.T) {
		client := newClient(t, DefaultConfig())
		target := newTarget(t, client, enginetest.Serve(t, func(nc net.Conn) {
			io.WriteString(nc, answer("foreign"))
			io.Copy(io.Discard, nc)
		}))
		if err := client.Warm(t.Context(), target, 1); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the bytes arrive", func() bool { return !target.pool.idle[0].quiet() })
		resp, err := post(t, client, target)
		if err == nil {
			// The second, fresh connection may be asked before they arrive.
			resp.Close()
		} else if !errors.Is(err, ErrProtocol) {
			t.Errorf("got %v, want ErrProtocol", err)
		}
		if got := client.Stats().Stale; got != 1 {
			t.Errorf("%d stale connections, want 1", got)
		}
	})
}

func testEnds(t *testing.T) {
	tests := []struct {
		name   string
		answer string
		want   string
		broken bool
	}{
		{"without length", "HTTP/1.1 200 OK\r\n\r\nall of it" + thenClose, "all of it", false},
		{"without length, HTTP/1.0", "HTTP/1.0 200 OK\r\n\r\nall of it" + thenClose, "all of it", false},
		{"without length, empty", "HTTP/1.1 200 OK\r\n\r\n" + thenClose, "", false},
		{"with length", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nall of it" + thenClose, "all of it", false},
		{"with length, early", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nall of it" + thenClose, "all of it", true},
		{"chunked, early", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk("all of it") + thenClose, "all of it", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			client := newClient(t, DefaultConfig())
			target := newTarget(t, client, newFakeEngine(t, tt.answer).url)
			resp, err := post(t, client, target)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp)
			if string(body) != tt.want {
				t.Errorf("got %q", body)
			}
			if tt.broken != errors.Is(err, ErrBroken) || tt.broken != errors.Is(err, io.ErrUnexpectedEOF) || !tt.broken && err != nil {
				t.Errorf("got %v, broken: want %t", err, tt.broken)
			}
			resp.Close()
		})
	}
}

func testReuse(t *testing.T) {
	chunked := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	tests := []struct {
		name   string
		answer string
		cancel bool // before Close
		read   int  // bytes; -1 up to io.EOF
		want   bool
	}{
		{"read to the end", answer("hello"), false, -1, true},
		{"read up to the length", answer("hello"), false, 5, true},
		{"chunked, read to the end", chunked + chunk("hello") + "0\r\n\r\n", false, -1, true},
		{"chunked, end is there", chunked + chunk("hello") + "0\r\n\r\n", false, 5, true},
		{"empty, not read", answer(""), false, 0, true},
		{"not read", answer("hello"), false, 0, false},
		{"not read to the end", answer("hello"), false, 4, false},
		{"chunked, no end", chunked + chunk("hello"), false, 5, false},
		{"bytes behind", answer("hello") + "x", false, -1, false},
		{"bytes behind chunks", chunked + chunk("hello") + "0\r\n\r\nHTTP", false, -1, false},
		{"connection: close", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello", false, -1, false},
		{"HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", false, -1, false},
		{"HTTP/1.0 keep-alive", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello", false, -1, true},
		{"no time left", "HTTP/1.1 200 OK\r\nKeep-Alive: timeout=0\r\nContent-Length: 5\r\n\r\nhello", false, -1, false},
		{"cancelled after the end", answer("hello"), true, -1, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := newFakeEngine(t, tt.answer)
			client := newClient(t, DefaultConfig())
			target := newTarget(t, client, e.url)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			resp, err := client.Send(ctx, target, &Request{Method: "POST", Path: "/", Body: []byte("{}")})
			if err != nil {
				t.Fatal(err)
			}
			if tt.read < 0 {
				_, err = io.ReadAll(resp)
			} else {
				_, err = io.ReadFull(resp, make([]byte, tt.read))
			}
			if err != nil {
				t.Fatal(err)
			}
			if tt.cancel {
				cancel()
			}
			resp.Close()
			if got := target.pool.size() == 1; got != tt.want {
				t.Errorf("kept: %t, want %t", got, tt.want)
			}
			if !tt.want {
				eventually(t, "the connection is closed", func() bool { _, _, gone := e.seen(); return gone == 1 })
			}
		})
	}
	t.Run("large upload that was read whole", func(t *testing.T) {
		// Slowly enough that the socket does not take it at once.
		upload := bytes.Repeat([]byte("0123456789abcdef"), 2<<20)
		same := make(chan bool, 2)
		url := enginetest.Serve(t, func(nc net.Conn) {
			buf := make([]byte, len(upload)+1<<10)
			for {
				req, err := readRequest(nc, buf)
				if err != nil {
					return
				}
				same <- bytes.HasSuffix(req, upload)
				io.WriteString(nc, answer(strconv.Itoa(len(req))))
			}
		})
		client := newClient(t, DefaultConfig())
		target := newTarget(t, client, url)
		for range 2 {
			resp, err := client.Send(t.Context(), target, &Request{Method: "POST", Path: "/", Body: upload})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadAll(resp); err != nil {
				t.Fatal(err)
			}
			resp.Close()
			if !<-same {
				t.Error("another body arrived")
			}
		}
	})
}

// testEncoding: nothing is asked for, nothing is decoded.
func testEncoding(t *testing.T) {
	zipped := "\x1f\x8b\x08\x00not really"
	e := newFakeEngine(t, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: "+strconv.Itoa(len(zipped))+"\r\n\r\n"+zipped)
	client := newClient(t, DefaultConfig())
	resp, err := post(t, client, newTarget(t, client, e.url))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Close()
	body, err := io.ReadAll(resp)
	if err != nil || string(body) != zipped || resp.Get("content-encoding") != "gzip" || resp.ContentLength != int64(len(zipped)) {
		t.Errorf("got %q (%s, %d bytes), %v", body, resp.Get("content-encoding"), resp.ContentLength, err)
	}
	requests, _, _ := e.seen()
	if strings.Contains(strings.ToLower(requests[0]), "accept-encoding") {
		t.Errorf("asked for compression: %q", requests[0])
	}
}
