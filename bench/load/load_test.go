//go:build linux

package load_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"smg/bench/load"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve answers with h and returns a configuration that asks it.
func serve(t *testing.T, h http.HandlerFunc) load.Config {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return load.Config{
		Addr: netip.MustParseAddrPort(s.Listener.Addr().String()), Connections: 3,
		Request: load.Post("engine", "/v1/chat/completions", `{"a":1}`), Timeout: 10 * time.Second,
	}
}

func dial(t *testing.T, cfg load.Config) *load.Driver {
	t.Helper()
	d, err := load.Dial(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return d
}

func every(step time.Duration, n int) []time.Duration {
	var at []time.Duration
	for i := range n {
		at = append(at, time.Duration(i)*step)
	}
	return at
}

func TestPoisson(t *testing.T) {
	at := load.Poisson(1, 1000, 10*time.Second)
	if n := len(at); n < 9500 || n > 10500 {
		t.Errorf("%d arrivals, want about 10000", n)
	}
	if !slices.IsSorted(at) || at[0] < 0 || at[len(at)-1] >= 10*time.Second {
		t.Error("arrivals are out of order or out of range")
	}
	// Of exponential gaps, 1 - 1/e are below the mean.
	short := 0
	for i := 1; i < len(at); i++ {
		if at[i]-at[i-1] < time.Millisecond {
			short++
		}
	}
	if share := float64(short) / float64(len(at)); share < 0.60 || share > 0.66 {
		t.Errorf("%.3f of the gaps are below the mean, want about 0.632", share)
	}
	if diff := cmp.Diff(at, load.Poisson(1, 1000, 10*time.Second)); diff != "" {
		t.Error("the same seed gave other arrivals")
	}
	if got := load.Poisson(1, 0, time.Second); got != nil {
		t.Errorf("%d arrivals at rate 0, want none", len(got))
	}
}

func TestOpen(t *testing.T) {
	large := strings.Repeat("x", 300<<10)
	for _, tt := range []struct {
		name   string
		handle func(n int64, w http.ResponseWriter)
		want   string
		failed map[error]int
	}{
		{name: "length", want: "pong", handle: func(_ int64, w http.ResponseWriter) { _, _ = io.WriteString(w, "pong") }},
		{name: "chunks", want: "onetwo", handle: func(_ int64, w http.ResponseWriter) {
			_, _ = io.WriteString(w, "one")
			w.(http.Flusher).Flush()
			_, _ = io.WriteString(w, "two")
		}},
		{name: "empty", want: "", handle: func(int64, http.ResponseWriter) {}},
		{name: "large", want: large, handle: func(_ int64, w http.ResponseWriter) { _, _ = io.WriteString(w, large) }},
		{name: "connection_close", want: "pong", handle: func(_ int64, w http.ResponseWriter) {
			w.Header().Set("Connection", "close")
			_, _ = io.WriteString(w, "pong")
		}},
		{
			name: "status", want: "pong", failed: map[error]int{load.ErrStatus: 5},
			handle: func(n int64, w http.ResponseWriter) {
				if n%2 == 0 {
					w.WriteHeader(http.StatusServiceUnavailable)
				}
				_, _ = io.WriteString(w, "pong")
			},
		},
		{
			name: "body_differs", want: "pong", failed: map[error]int{load.ErrBody: 1},
			handle: func(n int64, w http.ResponseWriter) {
				_, _ = io.WriteString(w, map[bool]string{true: "pony", false: "pong"}[n == 3])
			},
		},
		{
			name: "body_too_short", want: "pong", failed: map[error]int{load.ErrBody: 1},
			handle: func(n int64, w http.ResponseWriter) {
				_, _ = io.WriteString(w, map[bool]string{true: "po", false: "pong"}[n == 3])
			},
		},
		{
			name: "body_too_long", want: "pong", failed: map[error]int{load.ErrBody: 1},
			handle: func(n int64, w http.ResponseWriter) {
				_, _ = io.WriteString(w, map[bool]string{true: "pongs", false: "pong"}[n == 3])
			},
		},
		{
			name: "cut", want: "pong", failed: map[error]int{load.ErrLost: 2},
			handle: func(n int64, w http.ResponseWriter) {
				if n > 8 {
					panic(http.ErrAbortHandler)
				}
				_, _ = io.WriteString(w, "pong")
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var n atomic.Int64
			cfg := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if body, err := io.ReadAll(r.Body); err != nil || string(body) != `{"a":1}` {
					t.Errorf("the request's body is %q, error %v", body, err)
				}
				tt.handle(n.Add(1), w)
			})
			cfg.Body = []byte(tt.want)
			res, err := dial(t, cfg).Open(t.Context(), every(time.Millisecond, 10))
			if err != nil {
				t.Fatal(err)
			}
			failed := 0
			for _, k := range tt.failed {
				failed += k
			}
			if res.Sent != 10 || res.Answered != 10-failed || res.Errors() != failed {
				t.Errorf("sent %d, answered %d, errors %d (%s); want 10, %d, %d", res.Sent, res.Answered, res.Errors(), res.Faults(), 10-failed, failed)
			}
			if tt.failed != nil {
				for kind, k := range tt.failed {
					if res.Failed[kind] != k {
						t.Errorf("failed: %s; want %d × %v", res.Faults(), k, kind)
					}
				}
			}
			if len(res.Latency) != res.Answered || len(res.FirstByte) != res.Answered || len(res.Late) != res.Sent {
				t.Errorf("%d latencies, %d first bytes, %d latenesses", len(res.Latency), len(res.FirstByte), len(res.Late))
			}
			if !slices.IsSorted(res.Latency) || !slices.IsSorted(res.FirstByte) || !slices.IsSorted(res.Late) {
				t.Error("the results are not sorted")
			}
		})
	}
}

// TestIntended: with one connection and a slow subject, latency counts from the
// moment that was intended, and the wait for the connection is not the generator's.
func TestIntended(t *testing.T) {
	const pause = 30 * time.Millisecond
	cfg := serve(t, func(http.ResponseWriter, *http.Request) { time.Sleep(pause) })
	cfg.Connections = 1
	res, err := dial(t, cfg).Open(t.Context(), make([]time.Duration, 4))
	if err != nil {
		t.Fatal(err)
	}
	if res.Answered != 4 || res.Waited != 3 {
		t.Fatalf("answered %d, waited %d; want 4, 3", res.Answered, res.Waited)
	}
	for i, l := range res.Latency {
		if least := time.Duration(i+1) * pause; l < least {
			t.Errorf("latency %d is %v, want %v at least", i, l, least)
		}
	}
	if late := res.Late[3]; late >= pause {
		t.Errorf("the generator claims to be late by %v for what the subject did", late)
	}
}

func TestUpload(t *testing.T) {
	body := strings.Repeat("x", 8<<20)
	cfg := serve(t, func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(5 * time.Millisecond) // let the socket fill
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			t.Errorf("reading the upload: %v", err)
		}
		fmt.Fprint(w, n)
	})
	cfg.Request = load.Post("engine", "/", body)
	cfg.Body = fmt.Append(nil, len(body))
	res, err := dial(t, cfg).Open(t.Context(), make([]time.Duration, 4))
	if err != nil || res.Answered != 4 {
		t.Errorf("answered %d (%s), error %v; want 4", res.Answered, res.Faults(), err)
	}
}

func TestSaturate(t *testing.T) {
	var running, most atomic.Int64
	cfg := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		n := running.Add(1)
		defer running.Add(-1)
		for {
			m := most.Load()
			if n <= m || most.CompareAndSwap(m, n) {
				break
			}
		}
		time.Sleep(time.Millisecond)
		_, _ = io.WriteString(w, "pong")
	})
	cfg.Body = []byte("pong")
	res, err := dial(t, cfg).Saturate(t.Context(), 100*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if res.Answered != res.Sent || res.Answered < 6 || res.Errors() != 0 || len(res.Late) != 0 {
		t.Errorf("sent %d, answered %d, errors %d, latenesses %d", res.Sent, res.Answered, res.Errors(), len(res.Late))
	}
	if res.Elapsed < 100*time.Millisecond || res.PerSecond() <= 0 || res.Own <= 0 {
		t.Errorf("elapsed %v, %v a second, own CPU %v", res.Elapsed, res.PerSecond(), res.Own)
	}
	if got := most.Load(); got > 3 {
		t.Errorf("%d requests at once over 3 connections", got)
	}
}

func TestOne(t *testing.T) {
	cfg := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "one")
		w.(http.Flusher).Flush()
		_, _ = io.WriteString(w, "two")
	})
	d := dial(t, cfg)
	for range 2 {
		got, err := d.One(t.Context())
		if err != nil || string(got) != "onetwo" {
			t.Errorf("One = %q, %v; want onetwo", got, err)
		}
	}
	cfg = serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	if got, err := dial(t, cfg).One(t.Context()); err == nil {
		t.Errorf("One = %q of a 404, want an error", got)
	}
}

func TestNoAnswer(t *testing.T) {
	held := make(chan struct{})
	cfg := serve(t, func(http.ResponseWriter, *http.Request) { <-held })
	defer close(held)
	cfg.Timeout = 50 * time.Millisecond
	res, err := dial(t, cfg).Open(t.Context(), make([]time.Duration, 2))
	if err != nil || res.Failed[load.ErrNoAnswer] != 2 || res.Answered != 0 {
		t.Errorf("failed: %s, error %v; want 2 without answer", res.Faults(), err)
	}
}

func TestCancel(t *testing.T) {
	held := make(chan struct{})
	cfg := serve(t, func(http.ResponseWriter, *http.Request) { <-held })
	defer close(held)
	ctx, cancel := context.WithCancel(t.Context())
	stop := time.AfterFunc(20*time.Millisecond, cancel)
	defer stop.Stop()
	if _, err := dial(t, cfg).Saturate(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
}

// TestRaw: subjects that no HTTP server would be.
func TestRaw(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer string
		want   error
	}{
		{name: "no_length", answer: "HTTP/1.1 200 OK\r\n\r\n", want: load.ErrFraming},
		{name: "bad_length", answer: "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", want: load.ErrFraming},
		{name: "bad_chunk", answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", want: load.ErrFraming},
		{name: "surplus", answer: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabc", want: load.ErrSurplus},
		{name: "cut_in_body", answer: "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", want: load.ErrLost},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					buf := make([]byte, 4096)
					if _, err := c.Read(buf); err == nil {
						_, _ = io.WriteString(c, tt.answer)
					}
					_ = c.Close()
				}
			}()
			defer func() {
				_ = l.Close()
				<-done
			}()
			cfg := load.Config{
				Addr: netip.MustParseAddrPort(l.Addr().String()), Connections: 1,
				Request: load.Post("engine", "/", "{}"), Timeout: 10 * time.Second,
			}
			d, err := load.Dial(cfg)
			if err != nil {
				t.Fatal(err)
			}
			res, err := d.Open(t.Context(), []time.Duration{0})
			if err != nil || res.Failed[tt.want] != 1 || res.Errors() != 1 {
				t.Errorf("failed: %q, error %v; want 1 × %v", res.Faults(), err, tt.want)
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestVoid(t *testing.T) {
	for _, tt := range []struct {
		name string
		late time.Duration
		want bool
	}{
		{name: "punctual", late: 20, want: false},
		{name: "late", late: 21, want: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := load.Result{Latency: []time.Duration{100, 100, 500}, Late: []time.Duration{0, tt.late, 90}}
			if got := r.Void(0.5); got != tt.want {
				t.Errorf("Void(0.5) = %v, want %v", got, tt.want)
			}
			if r.Void(0.99) {
				t.Error("Void(0.99), but 90 is no fifth of 500")
			}
		})
	}
	if (&load.Result{Latency: []time.Duration{1}}).Void(0.5) {
		t.Error("a closed loop cannot be late")
	}
}

func TestConfig(t *testing.T) {
	_, err := load.Dial(load.Config{})
	if err == nil {
		t.Fatal("an empty configuration passed")
	}
	for _, part := range []string{"address", "connections", "request", "timeout"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error %q does not name the %s", err, part)
		}
	}
	nobody, errListen := net.Listen("tcp", "127.0.0.1:0")
	if errListen != nil {
		t.Fatal(errListen)
	}
	addr := netip.MustParseAddrPort(nobody.Addr().String())
	_ = nobody.Close()
	if _, err := load.Dial(load.Config{Addr: addr, Connections: 2, Request: []byte("x"), Timeout: 1}); err == nil {
		t.Error("Dial succeeded where nobody listens")
	}
}

func TestRequestsInTurn(t *testing.T) {
	got := make(chan string, 5) // what is sent
	cfg := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got <- string(b)
	})
	cfg.Connections = 1
	cfg.Requests = [][]byte{load.Post("engine", "/", "1"), load.Post("engine", "/", "22")}
	res, err := dial(t, cfg).Open(t.Context(), every(0, 5))
	if err != nil || res.Answered != 5 {
		t.Fatalf("Open: %d answered, %v", res.Answered, err)
	}
	var bodies []string
	for range res.Answered {
		bodies = append(bodies, <-got)
	}
	if diff := cmp.Diff([]string{"1", "22", "1", "22", "1"}, bodies); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
}
