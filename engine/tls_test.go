package engine

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"smg/engine/enginetest"
)

// newTLSEngine is a fakeEngine behind TLS, and a Config that trusts it.
func newTLSEngine(tb testing.TB, version uint16, answers ...string) (*fakeEngine, Config) {
	tb.Helper()
	// httptest has a certificate for 127.0.0.1 at hand.
	s := httptest.NewTLSServer(nil)
	certificates, root := s.TLS.Certificates, s.Certificate()
	s.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	e := &fakeEngine{answers: answers, url: "https://" + l.Addr().String()}
	enginetest.ServeOn(tb, tls.NewListener(l, &tls.Config{
		Certificates: certificates, MinVersion: version, MaxVersion: version,
		DynamicRecordSizingDisabled: true, // as most servers have it
	}), e.handle)
	cfg := DefaultConfig()
	cfg.RootCAs = x509.NewCertPool()
	cfg.RootCAs.AddCert(root)
	return e, cfg
}

func TestTLS(t *testing.T) {
	for name, version := range map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13} {
		t.Run(name, func(t *testing.T) {
			t.Run("used again", func(t *testing.T) {
				e, cfg := newTLSEngine(t, version, answer("1"), answer("2"), answer("3"))
				client := newClient(t, cfg)
				target := newTarget(t, client, e.url)
				if err := client.Warm(t.Context(), target, 1); err != nil {
					t.Fatal(err)
				}
				for _, want := range []string{"1", "2", "3"} {
					if got := exchange(t, client, target); got != want {
						t.Errorf("got %q, want %q", got, want)
					}
				}
				if got, want := client.Stats(), (Stats{Dials: 1}); got != want {
					t.Errorf("got %+v, want %+v", got, want)
				}
			})
			t.Run("large bodies", func(t *testing.T) {
				long := strings.Repeat("long answer ", 1<<17)
				e, cfg := newTLSEngine(t, version, answer(long), answer(long))
				client := newClient(t, cfg)
				target := newTarget(t, client, e.url)
				upload := bytes.Repeat([]byte("x"), 1<<20)
				for range 2 {
					resp, err := client.Send(t.Context(), target, &Request{Method: "POST", Path: "/", Body: upload})
					if err != nil {
						t.Fatal(err)
					}
					if body, err := io.ReadAll(resp); err != nil || string(body) != long {
						t.Errorf("got %d bytes, %v", len(body), err)
					}
					resp.Close()
				}
				requests, _, _ := e.seen()
				if !strings.HasSuffix(requests[1], "\r\n\r\n"+string(upload)) {
					t.Error("another body arrived")
				}
			})
			t.Run("closed while idle", func(t *testing.T) {
				e, cfg := newTLSEngine(t, version, answer("1"), answer("2"))
				client := newClient(t, cfg)
				target := newTarget(t, client, e.url)
				exchange(t, client, target)
				e.hangUp(t, target)
				if got := exchange(t, client, target); got != "2" {
					t.Errorf("got %q", got)
				}
				if got, want := client.Stats(), (Stats{Dials: 2, Stale: 1}); got != want {
					t.Errorf("got %+v, want %+v", got, want)
				}
			})
			t.Run("re-send", func(t *testing.T) {
				e, cfg := newTLSEngine(t, version, answer("1"), thenClose, answer("2"))
				client := newClient(t, cfg)
				target := newTarget(t, client, e.url)
				exchange(t, client, target)
				if got := exchange(t, client, target); got != "2" {
					t.Errorf("got %q", got)
				}
				if got, want := client.Stats(), (Stats{Dials: 2, Resends: 1}); got != want {
					t.Errorf("got %+v, want %+v", got, want)
				}
			})
		})
	}

	// A record can hold more than the buffer takes; what is left of it lies
	// inside the TLS layer, where no look at the socket finds it.
	t.Run("unasked bytes inside the TLS layer", func(t *testing.T) {
		body := strings.Repeat("b", smallBuffer-len(answerHead("text/plain", 4000)))
		first := answer(body)
		if len(first) != smallBuffer {
			t.Fatalf("answer of %d bytes does not fill the buffer", len(first))
		}
		e, cfg := newTLSEngine(t, tls.VersionTLS13, first+answer("foreign"), answer("mine"))
		client := newClient(t, cfg)
		target := newTarget(t, client, e.url)
		if got := exchange(t, client, target); got != body {
			t.Fatalf("got %q", got)
		}
		if got := exchange(t, client, target); got != "mine" {
			t.Errorf("got %q", got)
		}
		if got, want := client.Stats(), (Stats{Dials: 2, Stale: 1}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
	t.Run("not trusted", func(t *testing.T) {
		e, _ := newTLSEngine(t, tls.VersionTLS13)
		client := newClient(t, DefaultConfig())
		_, err := post(t, client, newTarget(t, client, e.url))
		var unknown x509.UnknownAuthorityError
		if !errors.Is(err, ErrConnect) || !errors.As(err, &unknown) {
			t.Errorf("got %v", err)
		}
	})
}

// TestClientCertificate has an engine ask who calls it, for requests and for probes.
func TestClientCertificate(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.TLS.PeerCertificates[0].Subject.String())
	}))
	s.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	s.StartTLS()
	defer s.Close()
	for _, tt := range []struct {
		name string
		own  func(*tls.CertificateRequestInfo) (*tls.Certificate, error)
		good bool
	}{
		{"none", nil, false},
		{"its own", func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &s.TLS.Certificates[0], nil }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := DefaultConfig()
			cfg.RootCAs, cfg.Certificates = x509.NewCertPool(), tt.own
			cfg.RootCAs.AddCert(s.Certificate())
			client := newClient(t, cfg)
			resp, err := client.Send(t.Context(), newTarget(t, client, s.URL), &Request{Method: "GET", Path: "/"})
			if err == nil {
				resp.Close()
			}
			p := NewProber(cfg)
			defer p.Close()
			if probe := p.Health(t.Context(), s.URL, "/", ""); (err == nil) != tt.good || (probe == nil) != tt.good {
				t.Errorf("a request: %v, a probe: %v", err, probe)
			}
		})
	}
}
