package engine

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"smg/engine/enginetest"
)

// pipe is a stream that tells when it is closed.
type pipe struct {
	*io.PipeReader
	closes atomic.Int32
}

func newPipe() (*pipe, *io.PipeWriter) {
	r, w := io.Pipe()
	return &pipe{PipeReader: r}, w
}

func (p *pipe) Close() error {
	p.closes.Add(1)
	return p.PipeReader.Close()
}

// TestStreamOfABrokenConnection: that nothing more could be written is no reason to leave
// the stream open.
func TestStreamOfABrokenConnection(t *testing.T) {
	s, w := newPipe()
	defer w.Close()
	out, in := net.Pipe()
	in.Close()
	u := startStream(out, []byte("head"), s, func() {})
	<-u.done
	u.stop()
	if s.closes.Load() != 1 {
		t.Errorf("closed %d times", s.closes.Load())
	}
}

func TestStream(t *testing.T) {
	// echoes answers with what it is sent, or, early, with no and the connection kept.
	echoes := func(early bool) func(net.Conn) {
		return func(nc net.Conn) {
			br := bufio.NewReader(nc)
			for {
				r, err := http.ReadRequest(br)
				if err != nil {
					return
				}
				if early {
					_, _ = io.WriteString(nc, answer("no"))
					_, _ = br.WriteTo(io.Discard)
					return
				}
				b, err := io.ReadAll(r.Body)
				if err != nil {
					return
				}
				_, _ = io.WriteString(nc, answer(string(b)))
			}
		}
	}
	send := func(c *Client, url string, s io.ReadCloser) (*Response, error) {
		return c.Send(t.Context(), newTarget(t, c, url), &Request{Method: "POST", Path: "/", Stream: s})
	}

	t.Run("whole", func(t *testing.T) {
		c := newClient(t, DefaultConfig())
		url := enginetest.Serve(t, echoes(false))
		long := strings.Repeat("0123456789abcdef", 10<<10)
		for _, body := range []string{"", "x", long} {
			resp, err := send(c, url, io.NopCloser(strings.NewReader(body)))
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(resp)
			if string(b) != body || err != nil || !resp.Sent() {
				t.Errorf("%d of %d bytes came back, %v", len(b), len(body), err)
			}
			resp.Close()
		}
		if s := c.Stats(); s.Dials != 1 {
			t.Errorf("%d connections for three requests", s.Dials)
		}
	})

	t.Run("chunked at hand", func(t *testing.T) {
		c := newClient(t, DefaultConfig())
		url := enginetest.Serve(t, echoes(false))
		resp, err := c.Send(t.Context(), newTarget(t, c, url), &Request{Method: "POST", Path: "/", Chunked: true, Body: []byte("3\r\nabc\r\n0\r\n\r\n")})
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Close()
		if b, err := io.ReadAll(resp); string(b) != "abc" || err != nil {
			t.Errorf("%q %v", b, err)
		}
	})

	t.Run("answered early", func(t *testing.T) {
		c := newClient(t, DefaultConfig())
		url := enginetest.Serve(t, echoes(true))
		for range 2 {
			s, w := newPipe()
			go func() { _, _ = w.Write([]byte("x")) }()
			resp, err := send(c, url, s)
			if err != nil {
				t.Fatal(err)
			}
			if b, err := io.ReadAll(resp); string(b) != "no" || err != nil || resp.Sent() {
				t.Errorf("%q %v", b, err)
			}
			resp.Close()
			if s.closes.Load() != 1 {
				t.Errorf("the stream was closed %d times", s.closes.Load())
			}
		}
		if s := c.Stats(); s.Dials != 2 {
			t.Errorf("%d connections for two requests", s.Dials)
		}
	})

	t.Run("fails", func(t *testing.T) {
		c := newClient(t, DefaultConfig())
		why := errors.New("the client stumbled")
		s, w := newPipe()
		go func() {
			_, _ = w.Write([]byte("x"))
			w.CloseWithError(why)
		}()
		if _, err := send(c, enginetest.Serve(t, echoes(false)), s); !errors.Is(err, why) {
			t.Errorf("got %v, want it to be %v", err, why)
		}
	})

	t.Run("given up", func(t *testing.T) {
		c := newClient(t, DefaultConfig())
		s, w := newPipe()
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_, _ = w.Write([]byte("x"))
			cancel()
		}()
		_, err := c.Send(ctx, newTarget(t, c, enginetest.Serve(t, echoes(false))), &Request{Method: "POST", Path: "/", Stream: s})
		if !errors.Is(err, ErrCanceled) || s.closes.Load() != 1 {
			t.Errorf("got %v, closed %d times", err, s.closes.Load())
		}
	})

	t.Run("a dead connection costs nothing", func(t *testing.T) {
		conns := make(chan net.Conn, 2)
		serve := echoes(false)
		url := enginetest.Serve(t, func(nc net.Conn) {
			conns <- nc
			serve(nc)
		})
		c := newClient(t, DefaultConfig())
		target := newTarget(t, c, url)
		exchange(t, c, target)
		(<-conns).Close()
		idle := target.pool.idle[0]
		eventually(t, "the end is noticed", func() bool { return !idle.quiet() })
		resp, err := c.Send(t.Context(), target, &Request{Method: "POST", Path: "/", Stream: io.NopCloser(strings.NewReader("all of it"))})
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Close()
		if b, err := io.ReadAll(resp); string(b) != "all of it" || err != nil || c.Stats().Resends != 0 {
			t.Errorf("%q %v, %+v", b, err, c.Stats())
		}
	})
}
