package front

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// running is a listener whose connections tell, until the test ends.
func running(t *testing.T) *Listener {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("nobody tells here")
	}
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := NewListener(inner, testConfig)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	t.Cleanup(func() {
		l.Close()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l
}

// accept is a connection of l, and the client's end.
func accept(t *testing.T, l net.Listener) (*Conn, *net.TCPConn) {
	t.Helper()
	nc, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		nc.Close()
	})
	return c.(*Conn), nc.(*net.TCPConn)
}

// exchange counts how often it is told.
type exchange struct{ told atomic.Int32 }

func (e *exchange) ClientGone() { e.told.Add(1) }

func (e *exchange) wait(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(patience); e.told.Load() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not told")
		}
	}
}

func TestHangups(t *testing.T) {
	l := running(t)
	leaves := []struct {
		name  string
		leave func(*net.TCPConn) error
	}{
		{"close", (*net.TCPConn).Close},
		{"half_close", (*net.TCPConn).CloseWrite},
		{"reset", func(nc *net.TCPConn) error { return errors.Join(nc.SetLinger(0), nc.Close()) }},
	}
	for _, tt := range leaves {
		for _, sent := range []string{"", "\r\nGET /"} {
			t.Run(fmt.Sprintf("%s_%d_unread", tt.name, len(sent)), func(t *testing.T) {
				c, nc := accept(t, l)
				var before, e, after exchange
				if !c.Begin(&before) {
					t.Fatal("nobody tells")
				}
				c.End()
				c.Begin(&e)
				if _, err := io.WriteString(nc, sent); err != nil {
					t.Fatal(err)
				}
				if e.told.Load() != 0 {
					t.Fatal("told while the client is there")
				}
				if err := tt.leave(nc); err != nil {
					t.Fatal(err)
				}
				e.wait(t)
				c.End()
				c.Begin(&after) // is told at once
				if before.told.Load() != 0 || after.told.Load() != 1 {
					t.Errorf("told: the one before %d times, the one after %d", before.told.Load(), after.told.Load())
				}
			})
		}
	}
	t.Run("each_its_own", func(t *testing.T) {
		const n = 100
		var exchanges [n]exchange
		var clients [n]*net.TCPConn
		for i := range n {
			c, nc := accept(t, l)
			c.Begin(&exchanges[i])
			clients[i] = nc
		}
		for i := 0; i < n; i += 2 {
			clients[i].Close()
		}
		for i := range n {
			if i%2 == 0 {
				exchanges[i].wait(t)
			} else if exchanges[i].told.Load() != 0 {
				t.Errorf("%d was told", i)
			}
		}
	})
	t.Run("closed_ones_are_forgotten", func(t *testing.T) {
		c, _ := accept(t, l)
		c.Close()
		l.hangups.mu.Lock()
		defer l.hangups.mu.Unlock()
		if l.hangups.conns[c.number] != nil {
			t.Error("kept")
		}
	})
}

// Without hangups the HTTP server has to watch, so its read must really read.
func TestNoHangups(t *testing.T) {
	c, err := NewListener(&pipeListener{in: "G"}, testConfig).Accept()
	if err != nil {
		t.Fatal(err)
	}
	if c.(*Conn).Begin(&exchange{}) {
		t.Error("nobody can tell")
	}
	if n, err := c.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Errorf("%d %v", n, err)
	}
}

// Only the read between two requests returns nothing.
func TestReadBetweenRequests(t *testing.T) {
	c, nc := accept(t, running(t))
	steps := []struct {
		send string
		want int // bytes that a read of one byte gets after what was sent is read
	}{
		{"", 0},
		{"GET / HTTP/1.1\r\nHost: h\r\nContent-Le", 1},
		{"ngth: 3\r\n\r\nab", 1},
		{"c", 0},
		{"\r\n", 0}, // stray
		{"G", 1},
	}
	for i, s := range steps {
		if _, err := io.WriteString(nc, s.send); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(readerOf(c), make([]byte, len(s.send))); err != nil {
			t.Fatal(err)
		}
		var one [1]byte
		if s.want == 1 { // the next step's first byte
			if _, err := io.WriteString(nc, "x"); err != nil {
				t.Fatal(err)
			}
			c2 := c.framing
			c2.line = append([]byte(nil), c.framing.line...)
			if n, err := c.Read(one[:]); n != 1 || err != nil {
				t.Fatalf("step %d: %d %v", i, n, err)
			}
			c.framing = c2 // as if it had not been there
			continue
		}
		if n, err := c.Read(one[:]); n != 0 || err != nil {
			t.Fatalf("step %d: %d %v", i, n, err)
		}
	}
}

// readerOf reads at least two bytes at a time from c, as net/http does.
func readerOf(c *Conn) io.Reader { return bufio.NewReader(c) }

// counted counts the reads of one byte.
type counted struct {
	*Conn
	ones *atomic.Int32
}

func (c counted) Read(p []byte) (int, error) {
	if len(p) == 1 {
		c.ones.Add(1)
	}
	return c.Conn.Read(p)
}

type countedListener struct {
	*Listener
	ones atomic.Int32
}

func (l *countedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return counted{c.(*Conn), &l.ones}, nil
}

// net/http takes a read that returns nothing for what it is: it tries no more, and
// serves what comes next on the connection. This is to fail should it change.
func TestHTTPServerTakesNothing(t *testing.T) {
	l := &countedListener{Listener: running(t)}
	release := make(chan struct{})
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		<-release
		if err := r.Context().Err(); err != nil {
			t.Error(err)
		}
		_, _ = w.Write(b)
	}), ReadHeaderTimeout: time.Minute}
	var wg sync.WaitGroup
	wg.Go(func() { _ = srv.Serve(l) })
	defer wg.Wait()
	defer srv.Close()
	nc, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	in := bufio.NewReader(nc)
	const rounds = 3
	for i := range rounds {
		body := fmt.Sprintf("body %d", i)
		request := fmt.Sprintf("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s\r\n", len(body), body)
		if _, err := io.WriteString(nc, request+request); err != nil { // pipelined, with stray line ends
			t.Fatal(err)
		}
		for range 2 {
			select {
			case release <- struct{}{}:
			case <-time.After(patience):
				t.Fatal("the request does not come")
			}
			resp, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(resp.Body)
			if err != nil || string(got) != body {
				t.Fatalf("%q %v", got, err)
			}
		}
	}
	if n := l.ones.Load(); n > 2*rounds {
		t.Errorf("%d reads of one byte in %d requests", n, 2*rounds)
	}
}

func TestReadDeadline(t *testing.T) {
	const soon = 50 * time.Millisecond
	timesOut := func(t *testing.T, c *Conn) {
		t.Helper()
		_, err := c.Read(make([]byte, 10))
		var ne net.Error
		if !errors.As(err, &ne) || !ne.Timeout() {
			t.Errorf("%v", err)
		}
	}
	gets := func(t *testing.T, c *Conn, nc net.Conn) {
		t.Helper()
		var wg sync.WaitGroup
		wg.Go(func() {
			time.Sleep(3 * soon) // past the deadline that was
			_, _ = io.WriteString(nc, "ab")
		})
		if n, err := c.Read(make([]byte, 10)); n != 2 || err != nil {
			t.Errorf("%d %v", n, err)
		}
		wg.Wait()
	}
	tests := []struct {
		name string
		do   func(t *testing.T, c *Conn, nc net.Conn)
	}{
		{"set", func(t *testing.T, c *Conn, _ net.Conn) {
			c.SetReadDeadline(time.Now().Add(soon))
			timesOut(t, c)
			timesOut(t, c)
		}},
		{"passed", func(t *testing.T, c *Conn, _ net.Conn) {
			c.SetReadDeadline(time.Unix(1, 0))
			timesOut(t, c)
		}},
		{"both", func(t *testing.T, c *Conn, _ net.Conn) {
			c.SetDeadline(time.Now().Add(soon))
			timesOut(t, c)
			if _, err := c.Write([]byte("x")); err == nil {
				t.Error("written")
			}
		}},
		{"earlier", func(t *testing.T, c *Conn, nc net.Conn) {
			c.SetReadDeadline(time.Now().Add(time.Hour))
			gets(t, c, nc)
			c.SetReadDeadline(time.Now().Add(soon))
			timesOut(t, c)
		}},
		{"later", func(t *testing.T, c *Conn, nc net.Conn) {
			c.SetReadDeadline(time.Now().Add(soon))
			timesOut(t, c)
			c.SetReadDeadline(time.Now().Add(time.Hour))
			gets(t, c, nc)
		}},
		{"cleared", func(t *testing.T, c *Conn, nc net.Conn) {
			c.SetReadDeadline(time.Now().Add(soon))
			timesOut(t, c)
			c.SetReadDeadline(time.Time{})
			gets(t, c, nc)
		}},
		{"of_a_blocked_read", func(t *testing.T, c *Conn, _ net.Conn) {
			for _, first := range []time.Time{{}, time.Now().Add(time.Hour)} {
				c.SetReadDeadline(first)
				var wg sync.WaitGroup
				wg.Go(func() {
					time.Sleep(soon) // most often it blocks by then
					c.SetReadDeadline(time.Unix(1, 0))
				})
				timesOut(t, c)
				wg.Wait()
			}
		}},
		{"of_a_blocked_read_put_off", func(t *testing.T, c *Conn, nc net.Conn) {
			c.SetReadDeadline(time.Now().Add(2 * soon))
			var wg sync.WaitGroup
			wg.Go(func() {
				time.Sleep(soon / 2)
				c.SetReadDeadline(time.Time{})
			})
			gets(t, c, nc)
			wg.Wait()
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, nc := pair(t, testConfig)
			tt.do(t, c, nc)
		})
	}
}

// Large transfers, and errors that net/http knows.
func TestSocket(t *testing.T) {
	c, nc := pair(t, testConfig)
	sent := strings.Repeat("0123456789abcdef", 64<<10)
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = io.WriteString(nc, sent)
		nc.CloseWrite()
	})
	c.framing.place = opaque // no HTTP
	got, err := io.ReadAll(c)
	wg.Wait()
	if err != nil || string(got) != sent {
		t.Fatalf("%d bytes of %d: %v", len(got), len(sent), err)
	}
	if n, err := c.Read(nil); n != 0 || err != nil {
		t.Errorf("%d %v", n, err)
	}
	if n, err := c.Write(nil); n != 0 || err != nil {
		t.Errorf("%d %v", n, err)
	}
	c.Close()
	var op *net.OpError
	if _, err := c.Read(make([]byte, 1)); !errors.As(err, &op) || op.Op != "read" || !errors.Is(err, net.ErrClosed) {
		t.Errorf("%v", err)
	}
	if _, err := c.Write([]byte("x")); !errors.As(err, &op) || op.Op != "write" || !errors.Is(err, net.ErrClosed) {
		t.Errorf("%v", err)
	}
}
