package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"smg/sim/simtest"
)

// certified is a certificate for 127.0.0.1 that a private CA has signed, and the file
// of the CA's own.
func certified(t *testing.T) (certificate tls.Certificate, caFile string) {
	t.Helper()
	sign := func(template, parent *x509.Certificate, key, by *ecdsa.PrivateKey) []byte {
		template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	var keys [2]*ecdsa.PrivateKey
	for i := range keys {
		var err error
		if keys[i], err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			t.Fatal(err)
		}
	}
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "private CA"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der := sign(ca, ca, keys[0], keys[0])
	caFile = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(caFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "nats"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	return tls.Certificate{Certificate: [][]byte{sign(leaf, ca, keys[1], keys[0])}, PrivateKey: keys[1]}, caFile
}

// keyed makes the users of opts those of an operator, and returns the credentials file
// of one whose account has JetStream.
func keyed(t *testing.T, opts *server.Options) (credsFile string) {
	t.Helper()
	pair := func(create func() (nkeys.KeyPair, error)) (nkeys.KeyPair, string) {
		p, err := create()
		if err != nil {
			t.Fatal(err)
		}
		public, err := p.PublicKey()
		if err != nil {
			t.Fatal(err)
		}
		return p, public
	}
	encode := func(c jwt.Claims, by nkeys.KeyPair) string {
		s, err := c.Encode(by)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	operator, operatorID := pair(nkeys.CreateOperator)
	account, accountID := pair(nkeys.CreateAccount)
	_, systemID := pair(nkeys.CreateAccount)
	user, userID := pair(nkeys.CreateUser)
	oc, ac := jwt.NewOperatorClaims(operatorID), jwt.NewAccountClaims(accountID)
	oc.SystemAccount = systemID
	ac.Limits.MemoryStorage, ac.Limits.DiskStorage, ac.Limits.Streams, ac.Limits.Consumer = jwt.NoLimit, jwt.NoLimit, jwt.NoLimit, jwt.NoLimit
	resolver := &server.MemAccResolver{}
	for id, c := range map[string]jwt.Claims{systemID: jwt.NewAccountClaims(systemID), accountID: ac} {
		if err := resolver.Store(id, encode(c, operator)); err != nil {
			t.Fatal(err)
		}
	}
	encode(oc, operator)
	opts.SystemAccount, opts.TrustedOperators, opts.AccountResolver = systemID, []*jwt.OperatorClaims{oc}, resolver
	seed, err := user.Seed()
	if err != nil {
		t.Fatal(err)
	}
	creds, err := jwt.FormatUserConfig(encode(jwt.NewUserClaims(userID), account), seed)
	if err != nil {
		t.Fatal(err)
	}
	credsFile = filepath.Join(t.TempDir(), "smg.creds")
	if err := os.WriteFile(credsFile, creds, 0o600); err != nil {
		t.Fatal(err)
	}
	return credsFile
}

// TestExternalNATS has the services meet on servers that are no part of smg.
func TestExternalNATS(t *testing.T) {
	t.Run("TLS_with_a_private_CA_and_a_credentials_file", func(t *testing.T) {
		parallel(t)
		certificate, ca := certified(t)
		opts := &server.Options{JetStream: true, TLS: true, TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}}
		creds := keyed(t, opts)
		at := "tls://" + startServer(t, opts, nil).Addr().String()
		with := []string{"--nats-tls-ca", ca, "--nats-creds", creds}
		p, _ := selectorOn(t, at, "regular", with...)
		g := ingressOn(t, at, append(with, "--worker-urls", simtest.StartN(t, 1, simtest.Config())[0].URL)...)
		g.says(`^ready +1 of 1 worker`)
		whole(t, g, 5)
		for _, p := range []*process{p, g.process} {
			p.signal(syscall.SIGTERM)
			p.ends(0)
		}
		split := launched(t, urls(simtest.StartN(t, 1, simtest.Config())), append(with, "--nats-url", at, "--cluster", "split", "--topology", "split", "--shutdown-grace-period-secs", "0")...)
		whole(t, split, 5) // its children are given both files
		split.signal(syscall.SIGTERM)
		split.ends(0)
	})
	t.Run("will_not_do", func(t *testing.T) {
		parallel(t)
		certificate, ca := certified(t)
		_, other := certified(t)
		plain := startServer(t, &server.Options{Username: "smg", Password: natsPassword}, nil).Addr().String()
		secure := "tls://smg:" + natsPassword + "@" + startServer(t, &server.Options{
			Username: "smg", Password: natsPassword, JetStream: true,
			TLS: true, TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
		}, nil).Addr().String()
		for _, tt := range []struct {
			name string
			args []string
			want string
		}{
			{"wrong password", []string{"--nats-url", "nats://smg:x@" + plain}, "refuses the credentials"},
			{"another CA", []string{"--nats-url", secure, "--nats-tls-ca", other}, "--nats-tls-ca"},
			{"no CA", []string{"--nats-url", secure}, "--nats-tls-ca"},
			{"right CA, too many replicas", []string{"--nats-url", secure, "--nats-tls-ca", ca, "--nats-replicas", "3"}, "--nats-replicas 3: the NATS cluster is too small"},
		} {
			willNotDo(t, tt.args, tt.want, tt.name == "right CA, too many replicas")
		}
	})
	t.Run("two_clusters_on_one_server", func(t *testing.T) {
		parallel(t)
		at := "nats://smg:" + natsPassword + "@" + startServer(t, &server.Options{JetStream: true, Username: "smg", Password: natsPassword}, nil).Addr().String()
		var all []*gateway
		engines := urls(simtest.StartN(t, 2, simtest.Config()))
		for i, name := range []string{"red", "blue"} {
			all = append(all, launched(t, engines[i:i+1], "--nats-url", at, "--cluster", name, "--shutdown-grace-period-secs", "0"))
		}
		for i, g := range all {
			whole(t, g, 5)
			if by := g.routed(6); by[engines[i]] != 6 {
				t.Errorf("the answers came from %v, want %s alone", by, engines[i])
			}
			if out, _ := asks(t, g, 0, "workers"); strings.Contains(out, engines[1-i]) {
				t.Errorf("it knows a worker of the other cluster:\n%s", out)
			}
			if out, _ := asks(t, g, 0, "status"); !strings.Contains(out, "regular\tcache_aware\tsglang\t1\t1 of 1\t0\t") {
				t.Errorf("it hears selectors of the other cluster:\n%s", out)
			}
		}
		asks(t, all[0], 0, "workers", "rm", engines[0])
		await(t, "its only worker to be gone", func() bool {
			return do(t, http.MethodPost, all[0].url+"/v1/chat/completions", chat).status == http.StatusNotFound
		})
		whole(t, all[1], 5)
		for _, g := range all {
			g.signal(syscall.SIGTERM)
			g.ends(0)
		}
	})
	t.Run("a_server_of_three_stops", func(t *testing.T) {
		parallel(t)
		servers := clusterOfThree(t)
		var list []string
		for _, s := range servers {
			list = append(list, "nats://smg:"+natsPassword+"@"+s.Addr().String())
		}
		at := strings.Join(list, ",")
		engines := urls(simtest.StartN(t, 3, simtest.Config()))
		selectorOn(t, at, "regular", "--nats-replicas", "3")
		selectorOn(t, at, "regular", "--nats-replicas", "3")
		g := ingressOn(t, at, append([]string{"--nats-replicas", "3", "--worker-urls"}, engines[:2]...)...)
		g.says(`^ready +2 of 2 workers`)
		whole(t, g, 5)
		if n := replicas(t, list[0]); n != 3 {
			t.Fatalf("the bucket is kept %d times, want 3", n)
		}
		l := startLoad(t, g.url, 4, patience) // a request that fails fails the test
		l.more(t, 50)
		// The one that the ingress is connected to, and most likely others.
		m := g.says(`msg="connected to NATS".* server=nats://(\S+)`)
		for _, s := range servers {
			if s.Addr().String() == m[1] {
				s.Shutdown()
				s.WaitForShutdown()
			}
		}
		g.says(`msg="connected to NATS again"`)
		l.more(t, 50)
		l.healthy(t)
		// Two of three still take what is new.
		asks(t, g, 0, "workers", "add", engines[2], "--wait-secs", "60")
		l.more(t, 20)
		l.stop()
		t.Logf("%d answers, %d of them chosen without a selector", l.answered.Load(), l.degraded.Load())
	})
}

// willNotDo has each service say what is to be changed of the NATS server that args
// name, and end, or go on to try.
func willNotDo(t *testing.T, args []string, want string, tries bool) {
	t.Helper()
	for _, command := range [][]string{{"ingress", "--port", "1024"}, {"selector", "--leg", "regular"}, {"launch", "--port", "1024"}} {
		all := append(append(command, "--prometheus-host", "127.0.0.1", "--prometheus-port", "0"), args...)
		if command[0] != "selector" {
			all[2] = fmt.Sprint(port(t))
		}
		p := start(t, "smg", all...)
		p.says(regexpOf(want))
		if tries {
			p.signal(syscall.SIGKILL)
			p.ends(137)
		} else {
			p.ends(1)
			p.says("^error: ")
		}
		if strings.Contains(p.stderr(), natsPassword) {
			t.Error("a line has the password")
		}
	}
}

// regexpOf is a pattern for words as they are.
func regexpOf(words string) string {
	return strings.NewReplacer("(", `\(`, ")", `\)`, ".", `\.`).Replace(words)
}

// jetStream is a connection to the JetStream of the NATS server at a URL, until the test's
// end.
func jetStream(t *testing.T, url string) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// replicas is on how many servers the bucket of workers is kept.
func replicas(t *testing.T, at string) int {
	t.Helper()
	js := jetStream(t, at)
	s, err := js.Stream(t.Context(), "KV_smg_v1_default_workers")
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo().Config.Replicas
}

// clusterOfThree is three servers that have a leader who knows all.
func clusterOfThree(t *testing.T) []*server.Server {
	t.Helper()
	var routes []*url.URL
	var ports []int
	for range 3 {
		at := port(t)
		ports = append(ports, at)
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", at)})
	}
	var servers []*server.Server
	for i, at := range ports {
		servers = append(servers, startServer(t, &server.Options{
			ServerName: fmt.Sprintf("s%d", i), JetStream: true, Username: "smg", Password: natsPassword,
			Cluster: server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: at}, Routes: routes,
		}, nil))
	}
	await(t, "a leader that knows all three", func() bool {
		for _, s := range servers {
			if s.JetStreamIsLeader() {
				return len(s.JetStreamClusterPeers()) == 3
			}
		}
		return false
	})
	return servers
}
