package ingress

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"smg/worker"
)

// secured is a certificate for this machine, and what trusts it.
func secured(tb testing.TB) (server, client *tls.Config) {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		tb.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		tb.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	server = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS12}
	return server, &tls.Config{RootCAs: pool, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}
}

// startTLS is start with an API that is served over TLS.
func startTLS(tb testing.TB, urls []string, opts ...option) (*gateway, *tls.Config) {
	tb.Helper()
	server, client := secured(tb)
	return start(tb, urls, append(opts, withConfig(func(c *Config) { c.TLS = server }))...), client
}

// dialTLS opens a connection, and returns what lies below it, too.
func dialTLS(tb testing.TB, g *gateway, cfg *tls.Config) (*tls.Conn, *net.TCPConn) {
	tb.Helper()
	nc, err := net.Dial("tcp", g.addr)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { nc.Close() })
	if err := nc.SetDeadline(time.Now().Add(patience)); err != nil {
		tb.Fatal(err)
	}
	c := tls.Client(nc, cfg)
	if err := c.Handshake(); err != nil {
		tb.Fatal(err)
	}
	return c, nc.(*net.TCPConn)
}

func TestGatewayTLS(t *testing.T) {
	for _, l := range []struct {
		name  string
		leave func(*tls.Conn, *net.TCPConn) error
	}{
		{"close", func(c *tls.Conn, _ *net.TCPConn) error { return c.Close() }},
		{"cut_off", func(_ *tls.Conn, nc *net.TCPConn) error { return nc.Close() }},
		{"reset", func(_ *tls.Conn, nc *net.TCPConn) error {
			if err := nc.SetLinger(0); err != nil {
				return err
			}
			return nc.Close()
		}},
		{"half_close", func(_ *tls.Conn, nc *net.TCPConn) error { return nc.CloseWrite() }},
	} {
		for name, stray := range map[string]string{"68_nothing_behind": "", "67_stray_crlf": "\r\n", "67_second_request": chat(chatBody)} {
			t.Run(name+"_then_"+l.name+"_over_tls", func(t *testing.T) {
				t.Parallel()
				e, url := hangs(t)
				g, trust := startTLS(t, []string{url})
				c, nc := dialTLS(t, g, trust)
				if _, err := io.WriteString(c, chat(chatBody)); err != nil {
					t.Fatal(err)
				}
				within(t, patience, "the engine has the request", func() bool { return e.requests() == 1 })
				if _, err := io.WriteString(c, stray); err != nil {
					t.Fatal(err)
				}
				if err := l.leave(c, nc); err != nil {
					t.Fatal(err)
				}
				g.idle()
				within(t, patience, "the engine is left", func() bool { return e.gone.Load() == 1 })
				if got := g.selector.last(t); got != (ending{worker.Neutral, false}) {
					t.Errorf("lease: %+v", got)
				}
			})
		}
		t.Run("68_mid_stream_"+l.name+"_over_tls", func(t *testing.T) {
			t.Parallel()
			e, url := hangs(t, sseHead+chunk(event))
			g, trust := startTLS(t, []string{url})
			c, nc := dialTLS(t, g, trust)
			if _, err := io.WriteString(c, chat(streamBody)); err != nil {
				t.Fatal(err)
			}
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(err)
			}
			b := make([]byte, len(event))
			if _, err := io.ReadFull(resp.Body, b); err != nil || string(b) != event {
				t.Fatalf("%q %v", b, err)
			}
			if err := l.leave(c, nc); err != nil {
				t.Fatal(err)
			}
			g.idle()
			within(t, patience, "the engine is left", func() bool { return e.gone.Load() == 1 })
		})
	}

	t.Run("70_http2_1000_streams_over_tls", func(t *testing.T) {
		t.Parallel()
		const streams = 1000
		url := gathers(t, streams)
		g, trust := startTLS(t, []string{url})
		var dials sync.Map
		transport := &http.Transport{
			ForceAttemptHTTP2: true, TLSClientConfig: trust, MaxConnsPerHost: 1, HTTP2: &http.HTTP2Config{StrictMaxConcurrentRequests: true},
			DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				c, err := new(net.Dialer).DialContext(ctx, network, addr)
				dials.Store(c, true)
				return c, err
			},
		}
		defer transport.CloseIdleConnections()
		client := &http.Client{Transport: transport}
		first, err := client.Get("https://" + g.addr + "/health")
		if err != nil || first.ProtoMajor != 2 {
			t.Fatalf("%v %v", first, err)
		}
		first.Body.Close()
		var wg sync.WaitGroup
		for range streams {
			wg.Go(func() {
				resp, err := client.Post("https://"+g.addr+"/v1/chat/completions", "application/json", strings.NewReader(chatBody))
				if err != nil {
					t.Error(err)
					return
				}
				defer resp.Body.Close()
				if b, err := io.ReadAll(resp.Body); err != nil || string(b) != "ok" || resp.ProtoMajor != 2 {
					t.Errorf("%s: %q %v", resp.Proto, b, err)
				}
			})
		}
		wg.Wait()
		n := 0
		dials.Range(func(any, any) bool { n++; return true })
		if n != 1 {
			t.Errorf("%d connections", n)
		}
	})

	t.Run("28_refused_uploads_over_http2", func(t *testing.T) {
		t.Parallel()
		g, trust := startTLS(t, nil, withKey())
		transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: trust}
		defer transport.CloseIdleConnections()
		client := &http.Client{Transport: transport, Timeout: patience}
		for range 6 { // more than the connection's window for uploads takes
			resp, err := client.Post("https://"+g.addr+"/v1/chat/completions", "application/json", strings.NewReader(strings.Repeat(" ", 4<<20)))
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusUnauthorized || resp.ProtoMajor != 2 {
				t.Fatalf("%s %d", resp.Proto, resp.StatusCode)
			}
		}
	})

	t.Run("1_plain_http_to_a_tls_port", func(t *testing.T) {
		g, _ := startTLS(t, nil)
		c := g.dial()
		c.send(get("/health"))
		if r := c.answer(); r.status != 400 || !strings.Contains(r.body, "https://") {
			t.Errorf("%d %q", r.status, r.body)
		}
		if !c.closed() {
			t.Error("the connection stays open")
		}
	})

	t.Run("bad_handshakes_end", func(t *testing.T) {
		g, trust := startTLS(t, nil, withConfig(func(c *Config) { c.ReadHeaderTimeout = 50 * time.Millisecond }))
		for name, bytes := range map[string]string{"nothing": "", "half a record": "\x16\x03\x01\x02", "no TLS": "\x00\x01\x02\x03\x04\x05\x06\x07", "alert": "\x15\x03\x01\x00\x02\x02\x28"} {
			t.Run(name, func(t *testing.T) {
				c := g.dial()
				c.send(bytes)
				if _, err := io.Copy(io.Discard, c); err != nil && !strings.Contains(fmt.Sprint(err), "reset") {
					t.Error(err) // the client's own deadline: nobody has ended it
				}
			})
		}
		c, _ := dialTLS(t, g, trust) // others are served
		if _, err := io.WriteString(c, get("/health")); err != nil {
			t.Fatal(err)
		}
		if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || resp.StatusCode != 200 {
			t.Errorf("%v %v", resp, err)
		}
	})
}
