package engine

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"smg/engine/enginetest"
)

// TestWire compares what leaves, byte by byte.
func TestWire(t *testing.T) {
	tests := []struct {
		name   string
		prefix string
		req    Request
		want   string
	}{
		{
			name: "post",
			req: Request{
				Method: "POST", Path: "/v1/chat/completions?a=%0d%0a", Body: []byte(`{"a":1}`),
				Fields: []Field{{"authorization", "Bearer k"}, {"X-Request-Id", "1"}, {"x-request-id-a", ""}},
			},
			want: "POST /v1/chat/completions?a=%0d%0a HTTP/1.1\r\nHost: HOST\r\nauthorization: Bearer k\r\n" +
				"X-Request-Id: 1\r\nx-request-id-a: \r\nContent-Length: 7\r\n\r\n{\"a\":1}",
		},
		{
			name: "post without body",
			req:  Request{Method: "POST", Path: "/flush"},
			want: "POST /flush HTTP/1.1\r\nHost: HOST\r\nContent-Length: 0\r\n\r\n",
		},
		{
			name: "get under a prefix", prefix: "/engines/a/",
			req:  Request{Method: "GET", Path: "/v1/models"},
			want: "GET /engines/a/v1/models HTTP/1.1\r\nHost: HOST\r\n\r\n",
		},
		{
			name: "head beyond the buffer",
			req:  Request{Method: "POST", Path: "/p", Fields: []Field{{"a", strings.Repeat("b", 9000)}}, Body: []byte("x")},
			want: "POST /p HTTP/1.1\r\nHost: HOST\r\na: " + strings.Repeat("b", 9000) + "\r\nContent-Length: 1\r\n\r\nx",
		},
		{
			name: "body beyond the buffer",
			req:  Request{Method: "POST", Path: "/p", Body: []byte(strings.Repeat("y", 70000))},
			want: "POST /p HTTP/1.1\r\nHost: HOST\r\nContent-Length: 70000\r\n\r\n" + strings.Repeat("y", 70000),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := newFakeEngine(t, answer("ok"))
			client := newClient(t, DefaultConfig())
			resp, err := client.Send(t.Context(), newTarget(t, client, e.url+tt.prefix), &tt.req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Close()
			requests, _, _ := e.seen()
			want := []string{strings.Replace(tt.want, "HOST", strings.TrimPrefix(e.url, "http://"), 1)}
			if diff := cmp.Diff(want, requests); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestRefuseRequest covers case 80 on this side: nothing is split.
func TestRefuseRequest(t *testing.T) {
	client := newClient(t, DefaultConfig())
	target := newTarget(t, client, "http://127.0.0.1:1")
	tests := []struct {
		name string
		req  Request
		want string
	}{
		{"no method", Request{Path: "/"}, `method ""`},
		{"blank in method", Request{Method: "GET /x", Path: "/"}, `method "GET /x"`},
		{"CONNECT", Request{Method: "CONNECT", Path: "/"}, "method CONNECT"},
		{"no path", Request{Method: "GET"}, `path ""`},
		{"path with host", Request{Method: "GET", Path: "http://h/"}, `path "http://h/"`},
		{"CR LF in path", Request{Method: "GET", Path: "/a\r\nb"}, `path "/a\r\nb"`},
		{"blank in path", Request{Method: "GET", Path: "/a b"}, `path "/a b"`},
		{"fragment", Request{Method: "GET", Path: "/a#b"}, `path "/a#b"`},
		{"two bodies", Request{Method: "POST", Path: "/", Body: []byte("x"), Stream: io.NopCloser(strings.NewReader("x"))}, "two bodies"},
		{"CR in name", Request{Method: "GET", Path: "/", Fields: []Field{{"a\r", "b"}}}, `field name "a\r"`},
		{"no name", Request{Method: "GET", Path: "/", Fields: []Field{{"", "b"}}}, `field name ""`},
		{"LF in value", Request{Method: "GET", Path: "/", Fields: []Field{{"Authorization", "secret\nx: y"}}}, "value of field Authorization has a control character"},
		{"NUL in value", Request{Method: "GET", Path: "/", Fields: []Field{{"a", "b\x00"}}}, "value of field a has a control character"},
		{"host", Request{Method: "GET", Path: "/", Fields: []Field{{"Host", "h"}}}, "field Host is written by the client alone"},
		{"length", Request{Method: "GET", Path: "/", Fields: []Field{{"content-length", "1"}}}, "field content-length is written by the client alone"},
		{"coding", Request{Method: "GET", Path: "/", Fields: []Field{{"Transfer-Encoding", "chunked"}}}, "field Transfer-Encoding is written by the client alone"},
		{"connection", Request{Method: "GET", Path: "/", Fields: []Field{{"CONNECTION", "close"}}}, "field CONNECTION is written by the client alone"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := client.Send(t.Context(), target, &tt.req)
			if !errors.Is(err, ErrRequest) {
				t.Fatalf("got %v", err)
			}
			want := "engine http://127.0.0.1:1: invalid request: " + tt.want
			if err.Error() != want {
				t.Errorf("got %q, want %q", err, want)
			}
		})
	}
}

func TestTarget(t *testing.T) {
	type result struct{ String, Prefix, Host, Key string }
	tests := []struct {
		url  string
		want result
	}{
		{"http://h:1", result{"http://h:1", "", "h:1", "http://h:1"}},
		{"http://h", result{"http://h", "", "h", "http://h:80"}},
		{"https://h/", result{"https://h", "", "h", "https://h:443"}},
		{"HTTP://h:1/a/b//", result{"http://h:1/a/b", "/a/b", "h:1", "http://h:1"}},
		{"http://[::1]:8000", result{"http://[::1]:8000", "", "[::1]:8000", "http://[::1]:8000"}},
		{"http://[::1]", result{"http://[::1]", "", "[::1]", "http://[::1]:80"}},
		{"http://[fe80::1%25eth0]:1", result{"http://[fe80::1%eth0]:1", "", "[fe80::1]:1", "http://[fe80::1%eth0]:1"}},
	}
	client := newClient(t, DefaultConfig())
	for _, tt := range tests {
		t.Run(tt.url, func(t *testing.T) {
			target := newTarget(t, client, tt.url)
			host := strings.TrimSuffix(strings.TrimPrefix(target.host, " HTTP/1.1\r\nHost: "), "\r\n")
			got := result{target.String(), target.prefix, host, target.pool.name}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	for _, bad := range []string{
		"", "h:1", "grpc://h:1", "http://", "http://:80", "http://u:p@h", "http://h?a", "http://h#a", "http://h:x", "http://h /",
		"http://h\r\n", "http://[::1", "http://h/%zz",
	} {
		if target, err := client.Target(bad); err == nil {
			t.Errorf("%q: got %v, want an error", bad, target)
		}
	}
}

func TestValidate(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	_, err := New(Config{IdleTimeout: -1, KeepAlive: -1, MaxIdlePerTarget: -1, ResendLimit: -1})
	want := `engine connect timeout must be above 0, got 0s
--upstream-pool-idle-timeout-secs must not be negative, got -1ns
engine TCP keep-alive must not be negative, got -1ns
engine idle connections must not be negative, got -1
engine head limit must lie between 1 KiB and 16 MiB, got 0
engine re-send limit must not be negative, got -1
engine client needs a clock`
	if err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}

func TestIPv6(t *testing.T) {
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skip("no IPv6 here: ", err)
	}
	e := &fakeEngine{answers: []string{answer("six")}}
	enginetest.ServeOn(t, l, e.handle)
	client := newClient(t, DefaultConfig())
	if got := exchange(t, client, newTarget(t, client, "http://"+l.Addr().String())); got != "six" {
		t.Errorf("got %q", got)
	}
}

// clock is set by hand.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func TestPool(t *testing.T) {
	ok := answer("ok")
	hinted := "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nKeep-Alive: timeout=2\r\n\r\nok"
	tests := []struct {
		name   string
		idle   time.Duration
		answer string
		pass   time.Duration
		want   uint64 // dials for two requests
	}{
		{"at once", 3 * time.Second, ok, 0, 1},
		{"within the limit", 3 * time.Second, ok, 3 * time.Second, 1},
		{"beyond the limit", 3 * time.Second, ok, 3*time.Second + 1, 2},
		{"for ever", 0, ok, 1000 * time.Hour, 1},
		{"within the hint", 3 * time.Second, hinted, time.Second, 1},
		{"beyond the hint", 3 * time.Second, hinted, time.Second + 1, 2},
		{"beyond the hint, else for ever", 0, hinted, time.Second + 1, 2},
		{"hint above the limit", 100 * time.Millisecond, hinted, 101 * time.Millisecond, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := newFakeEngine(t, tt.answer, tt.answer)
			clock := &clock{now: time.Unix(1000, 0)}
			cfg := DefaultConfig()
			cfg.IdleTimeout, cfg.Now = tt.idle, clock.Now
			client := newClient(t, cfg)
			target := newTarget(t, client, e.url)
			exchange(t, client, target)
			clock.pass(tt.pass)
			exchange(t, client, target)
			if diff := cmp.Diff(Stats{Dials: tt.want}, client.Stats()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestPoolOrder: the connection used last goes out first, and no more than
// the limit are kept.
func TestPoolOrder(t *testing.T) {
	e := newFakeEngine(t, slices.Repeat([]string{answer("ok")}, 5)...)
	cfg := DefaultConfig()
	cfg.MaxIdlePerTarget = 2
	client := newClient(t, cfg)
	target := newTarget(t, client, e.url)
	var open []*Response
	for range 4 {
		resp, err := post(t, client, target)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(resp); err != nil {
			t.Fatal(err)
		}
		open = append(open, resp)
	}
	last := open[1].cn
	for _, resp := range open {
		resp.Close()
	}
	if got := target.pool.size(); got != 2 {
		t.Errorf("%d idle connections, want 2", got)
	}
	resp, err := post(t, client, target)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Close()
	if resp.cn != last {
		t.Error("not the connection used last")
	}
}

func TestReap(t *testing.T) {
	for _, idle := range []time.Duration{time.Second, 0} {
		t.Run(idle.String(), func(t *testing.T) {
			e := newFakeEngine(t, answer("ok"), "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			clock := &clock{now: time.Unix(1000, 0)}
			cfg := DefaultConfig()
			cfg.IdleTimeout, cfg.Now = idle, clock.Now
			client := newClient(t, cfg)
			target := newTarget(t, client, e.url)
			exchange(t, client, target)
			client.reap()
			if got := target.pool.size(); got != 1 {
				t.Fatalf("%d idle connections, want 1", got)
			}
			if idle > 0 {
				clock.pass(idle + 1)
				client.reap()
				eventually(t, "the engine sees the end", func() bool { _, _, gone := e.seen(); return gone == 1 })
			} else {
				e.hangUp(t, target)
				client.reap()
			}
			if got := target.pool.size(); got != 0 {
				t.Errorf("%d idle connections, want 0", got)
			}
		})
	}
}

func TestRun(t *testing.T) {
	e := newFakeEngine(t, answer("ok"), answer("ok"))
	cfg := DefaultConfig()
	cfg.IdleTimeout = 10 * time.Millisecond
	client := newClient(t, cfg)
	target := newTarget(t, client, e.url)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := client.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	exchange(t, client, target)
	eventually(t, "the idle connection is closed", func() bool { _, _, gone := e.seen(); return gone == 1 })
	cancel()
	within(t, "Run returns", ended)
	if _, err := post(t, client, target); !errors.Is(err, ErrClosed) {
		t.Errorf("after Run: got %v, want ErrClosed", err)
	}
	if _, err := client.Target(e.url); !errors.Is(err, ErrClosed) {
		t.Errorf("after Run: got %v, want ErrClosed", err)
	}
}

func TestForget(t *testing.T) {
	e := newFakeEngine(t, answer("1"), answer("2"), answer("3"), answer("4"))
	client := newClient(t, DefaultConfig())
	a, b := newTarget(t, client, e.url), newTarget(t, client, e.url+"/rank")
	exchange(t, client, a)
	client.Forget(a)
	client.Forget(a)
	if got := exchange(t, client, b); got != "2" || client.Stats().Dials != 1 {
		t.Errorf("got %q over %d connections; the other target shares the pool", got, client.Stats().Dials)
	}
	running, err := post(t, client, b)
	if err != nil {
		t.Fatal(err)
	}
	client.Forget(b)
	if body, err := io.ReadAll(running); err != nil || string(body) != "3" {
		t.Errorf("a running request: got %q, %v", body, err)
	}
	running.Close()
	eventually(t, "no connection is left", func() bool { _, conns, gone := e.seen(); return conns == gone })
	again := newTarget(t, client, e.url)
	if again.pool == b.pool {
		t.Error("a new target got the closed pool")
	}
	exchange(t, client, again)
	if got := again.pool.size(); got != 1 {
		t.Errorf("%d idle connections, want 1", got)
	}
}

func TestWarm(t *testing.T) {
	e := newFakeEngine(t, answer("ok"))
	cfg := DefaultConfig()
	cfg.MaxIdlePerTarget = 20
	client := newClient(t, cfg)
	target := newTarget(t, client, e.url)
	for _, n := range []int{3, 2, 12, 100} {
		if err := client.Warm(t.Context(), target, n); err != nil {
			t.Fatal(err)
		}
	}
	if got := client.Stats().Dials; got != 20 || target.pool.size() != 20 {
		t.Errorf("%d connections opened, %d idle, want 20", got, target.pool.size())
	}
	exchange(t, client, target)
	if got := client.Stats().Dials; got != 20 {
		t.Errorf("%d connections opened, want 20", got)
	}
	if err := client.Warm(t.Context(), newTarget(t, client, refusing(t)), 2); !errors.Is(err, ErrConnect) {
		t.Errorf("got %v, want ErrConnect", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := client.Warm(ctx, newTarget(t, client, e.url+"/"), 40); err != nil {
		t.Errorf("nothing to do: got %v", err)
	}
	client.Forget(target)
}

// refusing returns a URL where nothing listens.
func refusing(tb testing.TB) string {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	return "http://" + l.Addr().String()
}
