package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"smg/engine/enginetest"
)

// TestResend: the free re-send and what forbids it.
func TestResend(t *testing.T) {
	big := bytes.Repeat([]byte("x"), 1<<20)
	tests := []struct {
		name    string
		answers []string
		req     Request // the second one
		want    string
		wantErr error
		reused  bool
		resends uint64
	}{
		{
			name: "again", answers: []string{answer("1"), thenClose, answer("2")},
			req:  Request{Method: "POST", Path: "/", Body: []byte("{}")},
			want: "2", resends: 1,
		},
		{
			name: "only once", answers: []string{answer("1"), thenClose, thenClose},
			req:     Request{Method: "POST", Path: "/", Body: []byte("{}")},
			wantErr: ErrNoAnswer, resends: 1,
		},
		{
			name: "forbidden", answers: []string{answer("1"), thenClose},
			req:     Request{Method: "POST", Path: "/", Body: []byte("{}"), NoResend: true},
			wantErr: ErrNoAnswer, reused: true,
		},
		{
			name: "just below the limit", answers: []string{answer("1"), thenClose, answer("2")},
			req:  Request{Method: "POST", Path: "/", Body: big[1:]},
			want: "2", resends: 1,
		},
		{
			name: "too large", answers: []string{answer("1"), thenClose},
			req:     Request{Method: "POST", Path: "/", Body: big},
			wantErr: ErrNoAnswer, reused: true,
		},
		{
			name: "not after a byte", answers: []string{answer("1"), "H" + thenClose},
			req:     Request{Method: "POST", Path: "/", Body: []byte("{}")},
			wantErr: ErrBroken, reused: true,
		},
		{
			name: "not after an interim answer", answers: []string{answer("1"), "HTTP/1.1 102 Processing\r\n\r\n" + thenClose},
			req:     Request{Method: "POST", Path: "/", Body: []byte("{}")},
			wantErr: ErrBroken, reused: true,
		},
		{
			name: "not after garbage", answers: []string{answer("1"), "\x00" + thenClose},
			req:     Request{Method: "POST", Path: "/", Body: []byte("{}")},
			wantErr: ErrBroken, reused: true,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			client := newClient(t, DefaultConfig())
			target := newTarget(t, client, newFakeEngine(t, tt.answers...).url)
			exchange(t, client, target)
			resp, err := client.Send(t.Context(), target, &tt.req)
			if got := client.Stats().Resends; got != tt.resends {
				t.Errorf("%d re-sends, want %d", got, tt.resends)
			}
			if tt.wantErr != nil {
				var e *Error
				if !errors.Is(err, tt.wantErr) || !errors.As(err, &e) || e.Reused != tt.reused {
					t.Errorf("got %v (%+v), want %v", err, e, tt.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Close()
			if body, err := io.ReadAll(resp); err != nil || string(body) != tt.want || !resp.Resent {
				t.Errorf("got %q, %v, resent %t", body, err, resp.Resent)
			}
		})
	}
}

// TestStale: a connection that the engine closed while idle is replaced
// without a re-send.
func TestStale(t *testing.T) {
	e := newFakeEngine(t, answer("1"), answer("2"))
	client := newClient(t, DefaultConfig())
	target := newTarget(t, client, e.url)
	exchange(t, client, target)
	e.hangUp(t, target)
	if got := exchange(t, client, target); got != "2" {
		t.Errorf("got %q", got)
	}
	if got, want := client.Stats(), (Stats{Dials: 2, Stale: 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestFresh: a fresh connection that dies is the caller's affair.
func TestFresh(t *testing.T) {
	tests := []struct {
		name   string
		handle func(nc net.Conn)
		want   error
	}{
		{"closed at once", func(net.Conn) {}, ErrNoAnswer},
		{"closed after the request", func(nc net.Conn) { readRequest(nc, make([]byte, 1<<10)) }, ErrNoAnswer},
		{"reset", func(nc net.Conn) {
			readRequest(nc, make([]byte, 1<<10))
			nc.(*net.TCPConn).SetLinger(0)
		}, ErrNoAnswer},
		{"reset within the body", func(nc net.Conn) {
			readRequest(nc, make([]byte, 1<<10))
			io.WriteString(nc, answerHead("text/plain", 10)+"hello")
			nc.Read(make([]byte, 1)) // the client has the head
			nc.(*net.TCPConn).SetLinger(0)
		}, ErrBroken},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			client := newClient(t, DefaultConfig())
			target := newTarget(t, client, enginetest.Serve(t, tt.handle))
			resp, err := post(t, client, target)
			if err == nil {
				defer resp.Close()
				resp.cn.tcp.Write([]byte("x"))
				_, err = io.ReadAll(resp)
				if !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("%v does not match io.ErrUnexpectedEOF", err)
				}
				if _, again := resp.Next(); !errors.Is(again, err) {
					t.Errorf("the error does not stay: %v", again)
				}
			}
			var e *Error
			if !errors.Is(err, tt.want) || !errors.As(err, &e) || e.Reused {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if got, want := client.Stats(), (Stats{Dials: 1}); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

func TestConnect(t *testing.T) {
	tests := []struct {
		name, url, want string
	}{
		{"refused", refusing(t), "connection refused"},
		{"no such host", "http://host.invalid:1", "lookup host.invalid"},
		{"full backlog", deaf(t), "within 50ms"},
		{"silent TLS", silentTLS(t), "within 50ms"},
		{"no TLS", noTLS(t), "tls: first record does not look like a TLS handshake"},
	}
	cfg := DefaultConfig()
	cfg.ConnectTimeout = 50 * time.Millisecond
	client := newClient(t, cfg)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := post(t, client, newTarget(t, client, tt.url))
			if !errors.Is(err, ErrConnect) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v looks like the caller's deadline", err)
			}
		})
	}
}

// deaf returns a URL whose socket takes no more connections.
func deaf(tb testing.TB) string {
	tb.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		tb.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		tb.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		tb.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", name.(*unix.SockaddrInet4).Port)
	for {
		nc, err := net.DialTimeout("tcp", address, 100*time.Millisecond)
		if err != nil {
			return "http://" + address
		}
		tb.Cleanup(func() { nc.Close() })
	}
}

// silentTLS returns a URL that accepts and then says nothing.
func silentTLS(tb testing.TB) string {
	return strings.Replace(enginetest.Serve(tb, func(nc net.Conn) { io.Copy(io.Discard, nc) }), "http", "https", 1)
}

// noTLS returns an https URL that answers in plain text.
func noTLS(tb testing.TB) string {
	return strings.Replace(enginetest.Serve(tb, func(nc net.Conn) {
		nc.Read(make([]byte, 1<<10))
		io.WriteString(nc, "HTTP/1.0 400 Bad Request\r\n\r\n")
	}), "http", "https", 1)
}

// TestCancel: the end of the context closes the connection, whatever it is
// doing, and the engine sees it.
func TestCancel(t *testing.T) {
	huge := make([]byte, 64<<20)
	cause := errors.New("client left")
	states := []struct {
		name string
		body []byte
		// engine tells that the state is reached, but for inBody.
		engine func(nc net.Conn, reached chan<- struct{})
		secure bool
		inBody bool
	}{
		{name: "handshaking", secure: true, engine: func(_ net.Conn, reached chan<- struct{}) { reached <- struct{}{} }},
		{name: "writing", body: huge, engine: func(nc net.Conn, reached chan<- struct{}) {
			nc.Read(make([]byte, 1))
			reached <- struct{}{}
		}},
		{name: "waiting for the head", body: []byte("{}"), engine: func(nc net.Conn, reached chan<- struct{}) {
			readRequest(nc, make([]byte, 1<<10))
			reached <- struct{}{}
		}},
		{name: "within the head", body: []byte("{}"), engine: func(nc net.Conn, reached chan<- struct{}) {
			readRequest(nc, make([]byte, 1<<10))
			io.WriteString(nc, "HTTP/1.1 200 OK\r\nContent-")
			reached <- struct{}{}
		}},
		{name: "reading the body", body: []byte("{}"), inBody: true, engine: func(nc net.Conn, _ chan<- struct{}) {
			readRequest(nc, make([]byte, 1<<10))
			io.WriteString(nc, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"+chunk("hello"))
		}},
	}
	endings := []struct {
		name    string
		context func(parent context.Context, reached <-chan struct{}) (context.Context, func())
		want    []error
	}{
		{"canceled", func(parent context.Context, reached <-chan struct{}) (context.Context, func()) {
			ctx, cancel := context.WithCancelCause(parent)
			go func() {
				select {
				case <-reached:
					cancel(cause)
				case <-ctx.Done():
				}
			}()
			return ctx, func() { cancel(nil) }
		}, []error{context.Canceled, cause}},
		{"deadline", func(parent context.Context, _ <-chan struct{}) (context.Context, func()) {
			ctx, cancel := context.WithTimeout(parent, 200*time.Millisecond)
			return ctx, cancel
		}, []error{context.DeadlineExceeded}},
	}
	for _, state := range states {
		for _, ending := range endings {
			t.Run(state.name+"/"+ending.name, func(t *testing.T) {
				reached := make(chan struct{}, 1)
				gone := make(chan struct{})
				url := enginetest.Serve(t, func(nc net.Conn) {
					defer close(gone)
					state.engine(nc, reached)
					io.Copy(io.Discard, nc)
				})
				if state.secure {
					url = strings.Replace(url, "http", "https", 1)
				}
				client := newClient(t, DefaultConfig())
				target := newTarget(t, client, url)
				ctx, release := ending.context(t.Context(), reached)
				defer release()
				resp, err := client.Send(ctx, target, &Request{Method: "POST", Path: "/", Body: state.body})
				if state.inBody && err == nil {
					defer resp.Close()
					var p []byte
					if p, err = resp.Next(); err == nil {
						if string(p) != "hello" {
							t.Fatalf("got %q", p)
						}
						reached <- struct{}{}
						_, err = resp.Next()
					}
				}
				for _, want := range append(ending.want, ErrCanceled) {
					if !errors.Is(err, want) {
						t.Errorf("%v does not match %v", err, want)
					}
				}
				if errors.Is(err, ErrNoAnswer) || errors.Is(err, ErrBroken) {
					t.Errorf("%v matches two kinds", err)
				}
				within(t, "the engine sees the end", gone)
				if got := target.pool.size(); got != 0 {
					t.Errorf("%d idle connections, want 0", got)
				}
				if got := client.Stats().Resends; got != 0 {
					t.Errorf("%d re-sends, want 0", got)
				}
			})
		}
	}
	t.Run("dialling", func(t *testing.T) {
		client := newClient(t, DefaultConfig())
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := client.Send(ctx, newTarget(t, client, deaf(t)), &Request{Method: "GET", Path: "/"})
		if !errors.Is(err, ErrCanceled) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("before", func(t *testing.T) {
		client := newClient(t, DefaultConfig())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := client.Send(ctx, newTarget(t, client, refusing(t)), &Request{Method: "GET", Path: "/"})
		if !errors.Is(err, ErrCanceled) || !errors.Is(err, context.Canceled) || client.Stats().Dials != 0 {
			t.Errorf("got %v after %d dials", err, client.Stats().Dials)
		}
	})
	t.Run("reused connection", func(t *testing.T) {
		e := newFakeEngine(t, answer("1"))
		client := newClient(t, DefaultConfig())
		target := newTarget(t, client, e.url)
		exchange(t, client, target)
		hold := make(chan struct{})
		defer close(hold)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		slow := newTarget(t, client, enginetest.Serve(t, func(nc net.Conn) {
			buf := make([]byte, 1<<10)
			readRequest(nc, buf)
			io.WriteString(nc, answer("1"))
			readRequest(nc, buf)
			<-hold
		}))
		exchange(t, client, slow)
		if _, err := client.Send(ctx, slow, &Request{Method: "POST", Path: "/"}); !errors.Is(err, ErrCanceled) {
			t.Errorf("got %v", err)
		}
		if got := client.Stats().Resends; got != 0 {
			t.Errorf("%d re-sends, want 0", got)
		}
	})
}

func TestCloseTwice(t *testing.T) {
	e := newFakeEngine(t, answer("1"), answer("2"))
	client := newClient(t, DefaultConfig())
	target := newTarget(t, client, e.url)
	resp, err := post(t, client, target)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(resp); err != nil {
		t.Fatal(err)
	}
	resp.Close()
	resp.Close()
	if got := target.pool.size(); got != 1 {
		t.Errorf("%d idle connections, want 1", got)
	}
	if _, err := resp.Next(); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
	if _, err := resp.Read(make([]byte, 1)); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
	if resp.Buffered() != 0 {
		t.Error("bytes in a closed response")
	}
}
