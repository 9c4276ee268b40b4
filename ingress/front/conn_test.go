package front

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

const patience = 20 * time.Second

// pipeListener accepts connections that carry in.
type pipeListener struct {
	net.Listener
	in string
}

func (p *pipeListener) Accept() (net.Conn, error) {
	return &stringConn{r: strings.NewReader(p.in)}, nil
}

type stringConn struct {
	net.Conn
	r io.Reader
}

func (c *stringConn) Read(p []byte) (int, error) { return c.r.Read(p) }
func (c *stringConn) Close() error               { return nil }

// pair is a connection as the gateway has it, and the client's end.
func pair(t *testing.T, cfg Config) (*Conn, *net.TCPConn) {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := NewListener(inner, cfg)
	defer l.Close()
	nc, err := net.Dial("tcp", inner.Addr().String())
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

var testConfig = Config{MaxHeadBytes: 1024, WriteStall: time.Minute}

func TestPeerGone(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("cannot be told here")
	}
	reset := func(nc *net.TCPConn) error { return errors.Join(nc.SetLinger(0), nc.Close()) }
	tests := []struct {
		name  string
		sent  string
		leave func(*net.TCPConn) error
	}{
		{"close", "", (*net.TCPConn).Close},
		{"close_with_unread_bytes", "\r\nGET /", (*net.TCPConn).Close},
		{"half_close", "", (*net.TCPConn).CloseWrite},
		{"half_close_with_unread_bytes", "\r\nGET /", (*net.TCPConn).CloseWrite},
		{"reset", "", reset},
		{"reset_with_unread_bytes", "\r\nGET /", reset},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, nc := pair(t, testConfig)
			if _, err := io.WriteString(nc, tt.sent); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if c.PeerGone() {
					t.Fatal("gone while it is there")
				}
			}
			if err := tt.leave(nc); err != nil {
				t.Fatal(err)
			}
			for end := time.Now().Add(patience); !c.PeerGone(); time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("not noticed")
				}
			}
		})
	}
	t.Run("closed_here", func(t *testing.T) {
		c, _ := pair(t, testConfig)
		c.Close()
		c.PeerGone() // whatever it says, it says something
	})
	t.Run("no_socket", func(t *testing.T) {
		c, err := NewListener(&pipeListener{}, testConfig).Accept()
		if err != nil {
			t.Fatal(err)
		}
		if c.(*Conn).PeerGone() {
			t.Error("gone")
		}
	})
}

func TestWriteStall(t *testing.T) {
	big := make([]byte, 64<<20)
	t.Run("nobody_reads", func(t *testing.T) {
		t.Parallel()
		c, _ := pair(t, Config{MaxHeadBytes: 1024, WriteStall: 200 * time.Millisecond})
		n, err := c.Write(big)
		if !errors.Is(err, os.ErrDeadlineExceeded) || n >= len(big) {
			t.Errorf("%d bytes, %v", n, err)
		}
	})
	t.Run("after_an_idle_time", func(t *testing.T) {
		t.Parallel()
		c, nc := pair(t, Config{MaxHeadBytes: 1024, WriteStall: 50 * time.Millisecond})
		for range 4 {
			if _, err := c.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
			if err := c.SetWriteDeadline(time.Time{}); err != nil { // as net/http does
				t.Fatal(err)
			}
			if _, err := nc.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
	t.Run("cleared_deadline_still_stalls", func(t *testing.T) {
		t.Parallel()
		c, _ := pair(t, Config{MaxHeadBytes: 1024, WriteStall: 200 * time.Millisecond})
		if _, err := c.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if err := c.SetWriteDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write(big); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%v", err)
		}
	})
	t.Run("a_set_deadline_holds", func(t *testing.T) {
		t.Parallel()
		c, _ := pair(t, testConfig)
		if err := c.SetWriteDeadline(time.Now()); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%v", err)
		}
		if err := c.SetWriteDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte("x")); err != nil {
			t.Errorf("%v", err)
		}
	})
	t.Run("who_reads_gets_all", func(t *testing.T) {
		t.Parallel()
		c, nc := pair(t, Config{MaxHeadBytes: 1024, WriteStall: time.Second})
		got := make(chan int64, 1)
		go func() {
			n, _ := io.Copy(io.Discard, nc)
			got <- n
		}()
		if n, err := c.Write(big); err != nil || n != len(big) {
			t.Errorf("%d bytes, %v", n, err)
		}
		if err := c.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if n := <-got; n != int64(len(big)) {
			t.Errorf("%d bytes arrived", n)
		}
	})
}
