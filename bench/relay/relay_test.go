package relay_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"smg/bench/relay"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start serves a relay to engine and returns its address.
func start(t *testing.T, engine string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- relay.New(engine).Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return l.Addr().String()
}

// echo answers with what it was sent, in the manner that the path names.
func echo(t *testing.T) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("the engine reads its request: %v", err)
		}
		switch r.URL.Path {
		case "/chunks":
			for part := range bytes.SplitSeq(body, []byte{'\n'}) {
				_, _ = w.Write(part)
				w.(http.Flusher).Flush()
			}
		case "/teapot":
			w.WriteHeader(http.StatusTeapot)
			_, _ = w.Write(body)
		case "/close":
			w.Header().Set("Connection", "close")
			_, _ = w.Write(body)
		case "/cut":
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write(body)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		default:
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
			_, _ = w.Write(body)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func TestRelay(t *testing.T) {
	addr := start(t, echo(t).Listener.Addr().String())
	large := strings.Repeat("0123456789abcdef", 40<<10)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for _, tt := range []struct {
		name   string
		path   string
		body   string
		status int
		want   string
		cut    bool
	}{
		{name: "length", path: "/", body: "hello", status: 200, want: "hello"},
		{name: "empty", path: "/", body: "", status: 200, want: ""},
		{name: "larger_than_the_buffer", path: "/", body: large, status: 200, want: large},
		{name: "chunks", path: "/chunks", body: "one\ntwo\nthree", status: 200, want: "onetwothree"},
		{name: "large_chunks", path: "/chunks", body: large + "\n" + large, status: 200, want: large + large},
		{name: "other_status", path: "/teapot", body: "short and stout", status: 418, want: "short and stout"},
		{name: "engine_closes", path: "/close", body: "bye", status: 200, want: "bye"},
		{name: "engine_breaks_off", path: "/cut", body: "half", status: 200, want: "half", cut: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for range 3 { // on one connection, with a pool that has seen the last answer
				resp, err := client.Post("http://"+addr+tt.path, "text/plain", strings.NewReader(tt.body))
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(resp.Body)
				if errClose := resp.Body.Close(); errClose != nil {
					t.Error(errClose)
				}
				if (err != nil) != tt.cut {
					t.Errorf("reading the answer: %v; cut: %v", err, tt.cut)
				}
				if resp.StatusCode != tt.status || string(got) != tt.want {
					t.Errorf("status %d with %d bytes, want %d with %d", resp.StatusCode, len(got), tt.status, len(tt.want))
				}
			}
		})
	}
}

func TestConcurrent(t *testing.T) {
	addr := start(t, echo(t).Listener.Addr().String())
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 50 {
				body := fmt.Sprintf("%d-%d", i, j)
				resp, err := client.Post("http://"+addr+"/", "text/plain", strings.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				got, err := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if err != nil || string(got) != body {
					t.Errorf("answer %q, %v; want %q", got, err, body)
				}
			}
		})
	}
	wg.Wait()
}

// TestRefusals: what the relay says where it cannot pass a request on.
func TestRefusals(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := l.Addr().String()
	_ = l.Close()
	for _, tt := range []struct {
		name    string
		request string
		want    int
	}{
		{name: "no_engine", request: "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab", want: http.StatusBadGateway},
		{name: "chunked_request", request: "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", want: http.StatusLengthRequired},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := net.Dial("tcp", start(t, nobody))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := io.WriteString(c, tt.request); err != nil {
				t.Fatal(err)
			}
			in := bufio.NewReader(c)
			resp, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != tt.want {
				t.Errorf("status %d, want %d", resp.StatusCode, tt.want)
			}
			if _, err := in.ReadByte(); err != io.EOF {
				t.Errorf("the connection goes on: %v", err)
			}
		})
	}
}
