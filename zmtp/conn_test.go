package zmtp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// hello is a greeting as another implementation sends it.
func hello(version, minor byte, mechanism string) string {
	return "\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f" + string([]byte{version, minor}) + mechanism + strings.Repeat("\x00", 20-len(mechanism)+32)
}

func readyOf(kind string) string {
	body := "\x05READY\x0bSocket-Type\x00\x00\x00" + string(byte(len(kind))) + kind
	return "\x04" + string(byte(len(body))) + body
}

// peer plays one side of a connection: it says what it is told to, and keeps what it
// hears.
type peer struct {
	raw  net.Conn
	mu   sync.Mutex
	b    bytes.Buffer
	over sync.WaitGroup
}

func (p *peer) heard() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.b.String()
}

func (p *peer) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.b.Write(b)
}

// played is a connection to a peer that says something, and is then silent.
func played(t *testing.T, cfg Config, kind Kind, says string) (*Conn, *peer, error) {
	t.Helper()
	ours, theirs := net.Pipe()
	p := &peer{raw: theirs}
	p.over.Go(func() { _, _ = io.Copy(p, theirs) })
	p.over.Go(func() { _, _ = io.WriteString(theirs, says) })
	c, err := Agree(t.Context(), ours, kind, cfg)
	t.Cleanup(func() {
		_ = ours.Close()
		_ = theirs.Close()
		p.over.Wait()
	})
	return c, p, err
}

func TestAgree(t *testing.T) {
	tests := []struct {
		name string
		says string
		want string // of the error
	}{
		{"ours", hello(3, 1, "NULL") + readyOf("PUB"), ""},
		{"3.0", hello(3, 0, "NULL") + readyOf("XPUB"), ""},
		{"a later one", hello(4, 0, "NULL") + readyOf("PUB"), ""},
		{"other web", "HTTP/1.1 400 Bad Request\r\n\r\n", "this is no ZeroMQ socket"},
		{"too old", hello(1, 0, ""), "the peer speaks version 1, which is too old"},
		{"secured", hello(3, 1, "CURVE") + readyOf("PUB"), `wants security mechanism "CURVE"`},
		{"another kind", hello(3, 1, "NULL") + readyOf("ROUTER"), `the peer is a "ROUTER" socket, which a SUB socket cannot be connected to`},
		{"no kind", hello(3, 1, "NULL") + "\x04\x06\x05READY", `the peer is a "" socket`},
		{"refused", hello(3, 1, "NULL") + "\x04\x0b\x05ERROR\x04busy", `the peer refuses: "busy"`},
		{"not ready", hello(3, 1, "NULL") + "\x04\x07\x04PING\x00\x00", `"PING" before the peer is ready`},
		{"a message first", hello(3, 1, "NULL") + "\x00\x01x", "a message before the peer is ready"},
		{"no name", hello(3, 1, "NULL") + "\x04\x00", "a command without a name"},
		{"cut name", hello(3, 1, "NULL") + "\x04\x02\x05R", "a command without a name"},
		{"cut property", hello(3, 1, "NULL") + "\x04\x08\x05READY\x0bS", "a property that is cut off"},
		{"long property", hello(3, 1, "NULL") + "\x04\x0d\x05READY\x01S\xff\xff\xff\xffx", "a property that is cut off"},
		{"long command", hello(3, 1, "NULL") + "\x06\x00\x00\x00\x00\x00\x01\x00\x00", "the message is too long"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, p, err := played(t, DefaultConfig(), Sub, tt.says)
			switch {
			case tt.want == "" && err != nil:
				t.Fatal(err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("error %v, want %s", err, tt.want)
			case tt.want != "" && !errors.Is(err, ErrProtocol) && !errors.Is(err, ErrTooLong):
				t.Errorf("error %v has no kind", err)
			}
			if tt.want == "" {
				_ = p.raw.Close()
				p.over.Wait()
				if diff := cmp.Diff(hello(3, 1, "NULL")[10:]+readyOf("SUB"), p.heard()[10:]); diff != "" {
					t.Errorf("said (-want +got):\n%s", diff)
				}
			}
		})
	}
	t.Run("a peer that is not there", func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		stop()
		ours, theirs := net.Pipe()
		defer theirs.Close()
		if _, err := Agree(ctx, ours, Sub, DefaultConfig()); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	})
}

func TestReceive(t *testing.T) {
	small := DefaultConfig()
	small.MaxMessage, small.MaxFrames = 10, 3
	tests := []struct {
		name string
		says string
		want []string // frames of all messages, | at the end of each
		err  error
	}{
		{"messages", "\x00\x01a\x01\x01b\x00\x00\x00\x02cd", []string{"a", "|", "b", "", "|", "cd", "|"}, io.EOF},
		{"a long length", "\x02\x00\x00\x00\x00\x00\x00\x00\x03abc", []string{"abc", "|"}, io.EOF},
		{"commands are obeyed", "\x00\x01a\x04\x05\x04PONG\x04\x06\x05FUTUR", []string{"a", "|"}, io.EOF},
		{"subscriptions are told", "\x04\x0d\x09SUBSCRIBEabc\x04\x0a\x06CANCELabc", []string{"\x01abc", "|", "\x00abc", "|"}, io.EOF},
		{"ended in a message", "\x01\x01a", nil, io.EOF},
		{"ended in a frame", "\x00\x03a", nil, io.ErrUnexpectedEOF},
		{"ended in a length", "\x02\x00\x00", nil, io.ErrUnexpectedEOF},
		{"too long", "\x00\x0b", nil, ErrTooLong},
		{"too long together", "\x01\x06abcdef\x00\x05abcde", nil, ErrTooLong},
		{"endless length", "\x02\xff\xff\xff\xff\xff\xff\xff\xff", nil, ErrTooLong},
		{"too many frames", "\x01\x00\x01\x00\x01\x00\x00\x00", nil, ErrTooLong},
		{"unknown flags", "\x08\x00", nil, ErrProtocol},
		{"a command of many frames", "\x05\x00", nil, ErrProtocol},
		{"a command within a message", "\x01\x01a\x04\x05\x04PONG", nil, ErrProtocol},
		{"a PING without a TTL", "\x04\x05\x04PING", nil, ErrProtocol},
		{"the peer ends", "\x04\x0a\x05ERROR\x03bye", nil, ErrProtocol},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, p, err := played(t, small, Sub, hello(3, 1, "NULL")+readyOf("PUB"))
			if err != nil {
				t.Fatal(err)
			}
			p.over.Go(func() {
				_, _ = io.WriteString(p.raw, tt.says)
				_ = p.raw.Close()
			})
			var got []string
			for {
				var frames [][]byte
				if frames, err = c.Receive(); err != nil {
					break
				}
				for _, f := range frames {
					got = append(got, string(f))
				}
				got = append(got, "|")
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("frames (-want +got):\n%s", diff)
			}
			if !errors.Is(err, tt.err) {
				t.Errorf("error %v, want %v", err, tt.err)
			}
		})
	}
}

// A peer that is silent is asked, by those words that its version knows, and given up.
func TestHeartbeat(t *testing.T) {
	tests := []struct {
		name   string
		minor  byte
		answer bool
		frame  string // that the peer begins and does not end
		asked  int
		alive  bool
	}{
		{"answers", 1, true, "", 6, true},
		{"does not", 1, false, "", 1, false},
		{"cannot be asked", 0, false, "", 0, true},
		{"in the middle of a frame", 0, false, "\x00\x05a", 0, false},
		{"in the middle of a message", 0, false, "\x01\x01a", 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := DefaultConfig()
				ours, theirs := net.Pipe()
				p := &peer{raw: theirs}
				p.over.Go(func() { _, _ = io.WriteString(theirs, hello(3, tt.minor, "NULL")+readyOf("PUB")+tt.frame) })
				p.over.Go(func() {
					b := make([]byte, 4096)
					for {
						n, err := theirs.Read(b)
						if err != nil {
							return
						}
						_, _ = p.Write(b[:n])
						if tt.answer && bytes.Contains(b[:n], []byte("PING")) {
							_, _ = io.WriteString(theirs, "\x04\x05\x04PONG")
						}
					}
				})
				c, err := Agree(t.Context(), ours, Sub, cfg)
				if err != nil {
					t.Fatal(err)
				}
				ended := make(chan error, 1)
				p.over.Go(func() {
					_, err := c.Receive()
					ended <- err
				})
				time.Sleep(6*cfg.Heartbeat + time.Second)
				synctest.Wait()
				if n := strings.Count(p.heard(), "\x04\x07\x04PING\x00\x00"); n != tt.asked {
					t.Errorf("asked %d times, want %d", n, tt.asked)
				}
				select {
				case err := <-ended:
					if tt.alive || !errors.Is(err, ErrSilent) && !errors.Is(err, context.DeadlineExceeded) && !strings.Contains(err.Error(), "timeout") {
						t.Errorf("given up: %v", err)
					}
				default:
					if !tt.alive {
						t.Error("not given up")
					}
				}
				_ = c.Close()
				_ = theirs.Close()
				p.over.Wait()
			})
		})
	}
}

// A peer that asks is answered with what it has said.
func TestPong(t *testing.T) {
	c, p, err := played(t, DefaultConfig(), Sub, hello(3, 1, "NULL")+readyOf("PUB")+"\x04\x0a\x04PING\x00\x00abc\x00\x01a")
	if err != nil {
		t.Fatal(err)
	}
	if frames, err := c.Receive(); err != nil || string(frames[0]) != "a" {
		t.Fatalf("%q, %v", frames, err)
	}
	_ = p.raw.Close()
	p.over.Wait()
	if !strings.HasSuffix(p.heard(), "\x04\x08\x04PONGabc") {
		t.Errorf("said %q", p.heard())
	}
}

func TestParseEndpoint(t *testing.T) {
	tests := []struct{ endpoint, network, address, err string }{
		{"tcp://10.0.0.1:5557", "tcp", "10.0.0.1:5557", ""},
		{"tcp://[::1]:5557", "tcp", "[::1]:5557", ""},
		{"tcp://*:5557", "tcp", "*:5557", ""},
		{"ipc:///tmp/kv", "unix", "/tmp/kv", ""},
		{"ipc://", "", "", "names no path"},
		{"10.0.0.1:5557", "", "", "write tcp://HOST:PORT"},
		{"http://a:1", "", "", "is not one of tcp, ipc"},
		{"tcp://a", "", "", "is not of the form"},
		{"tcp://:5557", "", "", "is not of the form"},
		{"tcp://a:5557/x", "", "", "is not in 1..65535"},
		{"tcp://u@a:5557", "", "", "is not of the form"},
		{"tcp://a:0", "", "", "is not in 1..65535"},
		{"tcp://a:99999", "", "", "is not in 1..65535"},
	}
	for _, tt := range tests {
		t.Run(tt.endpoint, func(t *testing.T) {
			network, address, err := ParseEndpoint(tt.endpoint)
			if network != tt.network || address != tt.address || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%q, %q, %v", network, address, err)
			}
		})
	}
}

// FuzzReceive reads whatever a peer may send. Nothing is longer than allowed, and what is
// written is read again.
func FuzzReceive(f *testing.F) {
	f.Add([]byte("\x00\x01a\x01\x01b\x00\x00\x04\x07\x04PING\x00\x00"))
	f.Add([]byte("\x02\x00\x00\x00\x00\x00\x00\x00\x03abc\x04\x0d\x09SUBSCRIBEabc"))
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg := DefaultConfig()
		cfg.MaxMessage, cfg.MaxFrames = 1000, 4
		ours, theirs := net.Pipe()
		defer theirs.Close()
		defer ours.Close()
		var over sync.WaitGroup
		over.Go(func() { _, _ = io.Copy(io.Discard, theirs) })
		over.Go(func() {
			_, _ = io.WriteString(theirs, hello(3, 1, "NULL")+readyOf("PUB"))
			_, _ = theirs.Write(data)
			_ = theirs.Close()
		})
		defer over.Wait()
		c, err := Agree(t.Context(), ours, Sub, cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for range len(data) + 1 {
			frames, err := c.Receive()
			if err != nil {
				return
			}
			size := 0
			for _, frame := range frames {
				size += len(frame)
			}
			if size > maxCommand || len(frames) > cfg.MaxFrames {
				t.Fatalf("%d frames of %d bytes", len(frames), size)
			}
		}
		t.Error("more messages than bytes")
	})
}
