package bus_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"
	"github.com/prometheus/client_golang/prometheus"

	"smg/bus"
	"smg/bus/bustest"
)

// A server that is there and will not do is an error that says what to change, and
// no secret.
func TestExternalServerWillNotDo(t *testing.T) {
	good, _ := external(t, nil)
	plain, _ := external(t, func(o *server.Options) { o.JetStream = false })
	ca, certificate := certify(t)
	secure, _ := external(t, func(o *server.Options) {
		o.TLS = true
		o.TLSConfig = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	})
	junk := filepath.Join(t.TempDir(), "junk")
	if err := os.WriteFile(junk, []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	at := good.Addr().String()
	for _, tt := range []struct {
		name string
		cfg  bus.Config
		want string
	}{
		{"wrong password", bus.Config{URL: "nats://user:secret-not@" + at}, "refuses the credentials: put user and password into --nats-url"},
		{"no password", bus.Config{URL: at}, "connecting to NATS at nats://" + at},
		{"embedded, no password", bus.Config{URL: hostOf(t, listening(t, "127.0.0.1:0").ClientURL())}, "refuses the credentials"},
		{"no JetStream", bus.Config{URL: address(plain)}, "start nats-server with -js"},
		{"not trusted", bus.Config{URL: address(secure)}, "--nats-tls-ca"},
		{"no TLS there", bus.Config{URL: address(good), CA: ca}, "it has no TLS"},
		{"no CA file", bus.Config{URL: address(good), CA: junk + "-not"}, "no such file"},
		{"no certificates", bus.Config{URL: address(good), CA: junk}, "failed to parse root certificate"},
		{"no credentials file", bus.Config{URL: address(good), Creds: junk + "-not"}, "--nats-creds"},
		{"not a credentials file", bus.Config{URL: address(good), Creds: junk}, "it is not a credentials file"},
		{"no such scheme", bus.Config{URL: "http://user:secret@" + at}, `address 1 has the scheme "http"`},
		{"no host", bus.Config{URL: at + ", nats://user:secret@"}, "address 2 names no host"},
		{"no address", bus.Config{URL: at + ","}, "address 2 names no host"},
		{"not to be parsed", bus.Config{URL: "nats://user:secret@a:b:c"}, "address 1 cannot be parsed"},
		{"two servers", bus.Config{URL: at, Server: bustest.NewLink(nil)}, "--nats-url names a server"},
		{"credentials for this process", bus.Config{Creds: junk, Server: bustest.NewLink(nil)}, "--nats-creds needs --nats-url"},
		{"CA for this process", bus.Config{CA: junk, Server: bustest.NewLink(nil)}, "--nats-tls-ca needs --nats-url"},
		{"replicas", bus.Config{URL: at, Replicas: 6}, "--nats-replicas 6"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.cfg.DrainTimeout = bus.DefaultConfig().DrainTimeout
			c, err := bus.Connect(tt.cfg, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
			if err == nil {
				t.Error("connected")
				err = c.Close()
			}
			if got := fmt.Sprint(err); !strings.Contains(got, tt.want) || strings.Contains(got, "secret") {
				t.Errorf("got %v, want ... %s ...", got, tt.want)
			}
		})
	}
	t.Run("trusted", func(t *testing.T) {
		cfg := bus.DefaultConfig()
		cfg.URL, cfg.CA = address(secure), ca
		if c := bustest.ConnectWith(t, cfg, prometheus.NewRegistry(), slog.New(slog.DiscardHandler)); !c.Connected() {
			t.Error("not connected")
		}
	})
}

func hostOf(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// certify is a certificate for 127.0.0.1 and the file of its CA.
func certify(t *testing.T) (ca string, certificate tls.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	ca = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return ca, tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// A server whose users have keys is reached with a credentials file; its account
// may have no JetStream.
func TestCredentialsFile(t *testing.T) {
	operator, user := pairOfKeys(t, nkeys.CreateOperator), pairOfKeys(t, nkeys.CreateUser)
	system, account := pairOfKeys(t, nkeys.CreateAccount), pairOfKeys(t, nkeys.CreateAccount)
	for _, tt := range []struct {
		name    string
		storage int64
		want    string // of the error
	}{
		{"with JetStream", jwt.NoLimit, ""},
		{"without JetStream", 0, "enable it for the account"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			oc := jwt.NewOperatorClaims(operator.public)
			oc.SystemAccount = system.public
			sc, ac := jwt.NewAccountClaims(system.public), jwt.NewAccountClaims(account.public)
			ac.Limits.MemoryStorage, ac.Limits.DiskStorage = tt.storage, tt.storage
			ac.Limits.Streams, ac.Limits.Consumer = jwt.NoLimit, jwt.NoLimit
			resolver := &server.MemAccResolver{}
			for public, claims := range map[string]jwt.Claims{system.public: sc, account.public: ac} {
				if err := resolver.Store(public, encode(t, claims, operator)); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := oc.Encode(operator.pair); err != nil {
				t.Fatal(err)
			}
			ns, _ := external(t, func(o *server.Options) {
				o.Username, o.Password = "", ""
				o.SystemAccount = system.public
				o.TrustedOperators = []*jwt.OperatorClaims{oc}
				o.AccountResolver = resolver
			})
			seed, err := user.pair.Seed()
			if err != nil {
				t.Fatal(err)
			}
			creds, err := jwt.FormatUserConfig(encode(t, jwt.NewUserClaims(user.public), account), seed)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "user.creds")
			if err := os.WriteFile(file, creds, 0o600); err != nil {
				t.Fatal(err)
			}
			cfg := bus.DefaultConfig()
			cfg.URL, cfg.Creds = ns.Addr().String(), file
			if tt.want == "" {
				w, _ := follow(t, bustest.ConnectWith(t, cfg, prometheus.NewRegistry(), slog.New(slog.DiscardHandler)), "b")
				w.put(t, "x", "1")
				w.await(t, map[string]string{"x": "1"})
				return
			}
			c, err := bus.Connect(cfg, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
			if err == nil {
				t.Error("connected")
				err = c.Close()
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want ... %s ...", err, tt.want)
			}
		})
	}
}

type keyPair struct {
	pair   nkeys.KeyPair
	public string
}

func pairOfKeys(t *testing.T, create func() (nkeys.KeyPair, error)) keyPair {
	t.Helper()
	pair, err := create()
	if err != nil {
		t.Fatal(err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return keyPair{pair, public}
}

func encode(t *testing.T, c jwt.Claims, by keyPair) string {
	t.Helper()
	s, err := c.Encode(by.pair)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
