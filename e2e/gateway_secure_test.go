package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	neturl "net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"smg/sim/simtest"
)

// demanding is an engine that answers nobody without its key, and keeps what was sent.
type demanding struct {
	URL string
	key string

	mu   sync.Mutex
	sent map[string]map[string]bool // path → Authorization fields
}

func demand(t *testing.T, key string) *demanding {
	t.Helper()
	to, err := neturl.Parse(simtest.Start(t, simtest.Config()).URL)
	if err != nil {
		t.Fatal(err)
	}
	g := &demanding{key: key, sent: map[string]map[string]bool{}}
	transport := &http.Transport{}
	proxy := &httputil.ReverseProxy{Transport: transport, FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent := strings.Join(r.Header["Authorization"], "|")
		g.mu.Lock()
		if g.sent[r.URL.Path] == nil {
			g.sent[r.URL.Path] = map[string]bool{}
		}
		g.sent[r.URL.Path][sent] = true
		g.mu.Unlock()
		if sent != "Bearer "+key && sent != "Bearer caller" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
		transport.CloseIdleConnections()
	})
	g.URL = srv.URL
	return g
}

// fields are the Authorization fields that came to a path.
func (g *demanding) fields(path string) map[string]bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := map[string]bool{}
	for f := range g.sent[path] {
		out[f] = true
	}
	return out
}

func TestGatewaySecure(t *testing.T) {
	topologies(t, map[string]func(t *testing.T, topology ...string){
		"22_worker_key": workerKey,
		"28_api_key":    apiKey,
		"70_tls":        overTLS,
	})
}

// workerKey has engines asked with their workers' own keys.
func workerKey(t *testing.T, topology ...string) {
	own := demand(t, "own-canary")
	g := inFront(t, append(topology, "--log-level", "debug", "--load-monitor-interval", "1")...)
	g.added(own.URL, `,"api_key":"own-canary"`)
	asked := do(t, http.MethodPost, g.url+"/v1/chat/completions", chat, "Authorization", "Bearer caller")
	if asked.status != http.StatusOK {
		t.Fatalf("%d %s", asked.status, asked.body)
	}
	await(t, "a load poll", func() bool { return len(own.fields("/v1/loads")) > 0 })
	for path, want := range map[string]map[string]bool{
		"/health":              {"Bearer own-canary": true},
		"/v1/models":           {"Bearer own-canary": true},
		"/v1/loads":            {"Bearer own-canary": true},
		"/v1/chat/completions": {"Bearer own-canary": true, "Bearer caller": true},
	} {
		if diff := cmp.Diff(want, own.fields(path)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
	bare := demand(t, "nobody has told")
	g.add(bare.URL, "")
	await(t, "a question without a key", func() bool { return bare.fields("/health")[""] })
	if w, _ := g.worker(bare.URL); w.Healthy || len(bare.fields("/health")) != 1 {
		t.Errorf("%+v, asked with %v", w, bare.fields("/health"))
	}
	g.nowhere(t, "own-canary")
}

// apiKey has clients need a key, which workers of the command line get, too.
func apiKey(t *testing.T, topology ...string) {
	e := demand(t, "api-canary")
	g := launched(t, []string{e.URL}, append(topology, "--api-key", "api-canary", "--log-level", "debug", "--load-monitor-interval", "1", "--shutdown-grace-period-secs", "0")...)
	if a := do(t, http.MethodPost, g.url+"/v1/chat/completions", chat); a.status != http.StatusUnauthorized || a.body != "" {
		t.Errorf("without a key: %d %s", a.status, a.body)
	}
	for path, want := range map[string]int{"/health": 200, "/readiness": 200, "/v1/models": 200, "/workers": 401, "/status": 401} {
		if got := status(t, g.url+path); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
	if a := do(t, http.MethodPost, g.url+"/v1/chat/completions", chat, "Authorization", "Bearer api-canary"); a.status != http.StatusOK {
		t.Errorf("with the key: %d %s", a.status, a.body)
	}
	await(t, "a load poll", func() bool { return len(e.fields("/v1/loads")) > 0 })
	for _, path := range []string{"/health", "/v1/loads", "/v1/chat/completions"} {
		if diff := cmp.Diff(map[string]bool{"Bearer api-canary": true}, e.fields(path)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
	if list := do(t, http.MethodGet, g.url+"/workers", "", "Authorization", "Bearer api-canary"); list.status != http.StatusOK || strings.Contains(list.body, "canary") {
		t.Errorf("%d %s", list.status, list.body)
	}
	// A worker of somebody's own choice does not get the key.
	other := demand(t, "nobody has told")
	if a := do(t, http.MethodPost, g.url+"/workers", fmt.Sprintf(`{"url":%q}`, other.URL), "Authorization", "Bearer api-canary"); a.status != http.StatusAccepted {
		t.Fatalf("%d %s", a.status, a.body)
	}
	await(t, "a question without a key", func() bool { return len(other.fields("/health")) > 0 })
	if diff := cmp.Diff(map[string]bool{"": true}, other.fields("/health")); diff != "" {
		t.Error(diff)
	}
	g.nowhere(t, "api-canary")
}

// nowhere looks for a secret in what a gateway says and in what its processes are called
// by, and ends it.
func (g *gateway) nowhere(t *testing.T, secret string) {
	t.Helper()
	for _, page := range []string{"", "/debug/decisions"} {
		if strings.Contains(get(t, strings.TrimSuffix(g.metrics, "/metrics")+page), secret) || strings.Contains(get(t, g.metrics), secret) {
			t.Errorf("the metrics port shows it")
		}
	}
	for _, pid := range g.services() {
		if alive(pid) && strings.Contains(read(t, fmt.Sprintf("/proc/%d/cmdline", pid)), secret) {
			t.Error("a command line has it")
		}
	}
	g.stop(0)
	if strings.Contains(g.stderr(), secret) {
		t.Error("a line has it")
	}
}

// pemOf writes a certificate and its key to files.
func pemOf(t *testing.T, dir string, c tls.Certificate) (certFile, keyFile string) {
	t.Helper()
	key, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	for file, block := range map[string]*pem.Block{
		keyFile:  {Type: "PRIVATE KEY", Bytes: key},
		certFile: {Type: "CERTIFICATE", Bytes: c.Certificate[0]},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

// authorities are those of a file.
func authorities(t *testing.T, file string) *x509.CertPool {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(read(t, file))) {
		t.Fatal("no certificate")
	}
	return pool
}

// secureEngine is an engine behind TLS that asks its callers for a certificate of ca.
func secureEngine(t *testing.T, own tls.Certificate, ca string) (url string, shown *atomic.Int64) {
	t.Helper()
	to, err := neturl.Parse(simtest.Start(t, simtest.Config()).URL)
	if err != nil {
		t.Fatal(err)
	}
	shown = &atomic.Int64{}
	transport := &http.Transport{}
	proxy := &httputil.ReverseProxy{Transport: transport, FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown.Store(r.TLS.PeerCertificates[0].SerialNumber.Int64())
		proxy.ServeHTTP(w, r)
	}))
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{own}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: authorities(t, ca), MinVersion: tls.VersionTLS12}
	srv.StartTLS()
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
		transport.CloseIdleConnections()
	})
	return srv.URL, shown
}

// overTLS has both sides of the gateway secured, and the API's certificate renewed.
func overTLS(t *testing.T, topology ...string) {
	engine, engineCA := certified(t)
	client, clientCA := certified(t)
	api, apiCA := certified(t)
	dir, own := t.TempDir(), t.TempDir()
	certFile, keyFile := pemOf(t, dir, api)
	clientCert, clientKey := pemOf(t, own, client)
	url, shown := secureEngine(t, engine, clientCA)
	all := append([]string{"launch", "--host", "127.0.0.1"}, gatewayArgs(t, "")...)
	all = append(append(all, topology...), "--log-level", "debug", "--shutdown-grace-period-secs", "0", "--tls-cert-path", certFile, "--tls-key-path", keyFile,
		"--client-cert-path", clientCert, "--client-key-path", clientKey, "--ca-cert-paths", engineCA, "--worker-urls", url)
	g := &gateway{process: start(t, "smg", all...)}
	g.url = g.says(`^api +(https://\S+) +metrics `)[1]
	g.says(`^ready +1 of `)

	ask := func(ca string, http2 bool) (*http.Response, error) {
		protocols := new(http.Protocols)
		protocols.SetHTTP1(!http2)
		protocols.SetHTTP2(http2)
		transport := &http.Transport{Protocols: protocols, TLSClientConfig: &tls.Config{RootCAs: authorities(t, ca), MinVersion: tls.VersionTLS12}}
		defer transport.CloseIdleConnections()
		c := &http.Client{Transport: transport, Timeout: patience}
		resp, err := c.Post(g.url+"/v1/chat/completions", "application/json", strings.NewReader(chat))
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		return resp, err
	}
	for _, http2 := range []bool{false, true} {
		if resp, err := ask(apiCA, http2); err != nil || resp.StatusCode != http.StatusOK || (resp.ProtoMajor == 2) != http2 {
			t.Fatalf("HTTP/2 %v: %v %v", http2, resp, err)
		}
	}
	if got := shown.Load(); got != 2 {
		t.Errorf("the engine was shown certificate %d", got)
	}
	if a := do(t, http.MethodGet, "http"+strings.TrimPrefix(g.url, "https")+"/health", ""); a.status != http.StatusBadRequest || !strings.Contains(a.body, "https://") {
		t.Errorf("plain HTTP: %d %q", a.status, a.body)
	}

	renewed, renewedCA := certified(t)
	if _, err := ask(renewedCA, false); err == nil {
		t.Fatal("a stranger's authority is good enough")
	}
	pemOf(t, dir, renewed)
	await(t, "the new certificate", func() bool {
		_, err := ask(renewedCA, false)
		return err == nil
	})
	g.says(`certificate renewed`)
	g.stop(0)
	if key := strings.Split(read(t, clientKey), "\n")[1]; strings.Contains(g.stderr(), key) {
		t.Error("a key is in a line")
	}
}
