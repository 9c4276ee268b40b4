package engine

import (
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func newProber(tb testing.TB, roots *x509.CertPool) *Prober {
	cfg := DefaultConfig()
	cfg.RootCAs = roots
	p := NewProber(cfg)
	tb.Cleanup(p.Close)
	return p
}

func TestHealth(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/health":
		case "/no_content":
			w.WriteHeader(http.StatusNoContent)
		case "/key":
			if r.Header.Get("Authorization") != "Bearer k" {
				w.WriteHeader(http.StatusUnauthorized)
			}
		case "/anonymous":
			if _, sent := r.Header["Authorization"]; sent {
				w.WriteHeader(http.StatusBadRequest)
			}
		case "/loading":
			w.WriteHeader(http.StatusServiceUnavailable)
			w.Write([]byte("{\"error\":\n  \"Loading model\"}\n"))
		case "/moved":
			http.Redirect(w, r, "/health", http.StatusTemporaryRedirect)
		case "/long":
			w.WriteHeader(http.StatusInternalServerError)
			w.Write([]byte(strings.Repeat("ä", 300)))
		case "/huge":
			w.Write(make([]byte, maxProbeBody+1))
		case "/slow":
			<-r.Context().Done()
		default:
			http.NotFound(w, r)
		}
	}))
	defer s.Close()
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	secure.StartTLS()
	defer secure.Close()
	tests := []struct {
		name, base, endpoint, key string
		want                      string // "" for good, else a part of the error
	}{
		{"good", s.URL, "/health", "", ""},
		{"slash at the end", s.URL + "/", "/health", "", ""},
		{"204", s.URL, "/no_content", "", ""},
		{"key", s.URL, "/key", "k", ""},
		{"wrong key", s.URL, "/key", "secret", s.URL + "/key: answered 401 Unauthorized"},
		{"no key", s.URL, "/anonymous", "", ""},
		{"404", s.URL, "/healthy", "", "GET " + s.URL + "/healthy: answered 404 Not Found: 404 page not found"},
		{"loading", s.URL, "/loading", "", `answered 503 Service Unavailable: {"error": "Loading model"}`},
		{"redirect", s.URL, "/moved", "", "answered 307 Temporary Redirect"},
		{"long error", s.URL, "/long", "", "answered 500 Internal Server Error: " + strings.Repeat("ä", 100)},
		{"huge", s.URL, "/huge", "", "answer over 4194304 bytes"},
		{"refused", refusing(t), "/health", "", "connection refused, nothing listens on 127.0.0.1:"},
		{"slow", s.URL, "/slow", "", "no answer from 127.0.0.1:"},
		{"full backlog", deaf(t), "/health", "", "no answer from 127.0.0.1:"},
		{"no such host", "http://host.invalid:1", "/health", "", "host"},
		{"closes", newFakeEngine(t).url, "/health", "", "closed the connection without an answer"},
		{"broken off", newFakeEngine(t, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok"+thenClose).url, "/health", "", "answer broken off: unexpected EOF"},
		{"garbage", newFakeEngine(t, "SSH-2.0\r\n\r\n"+thenClose).url, "/health", "", "no answer: "},
		{"no TLS there", strings.Replace(s.URL, "http", "https", 1), "/health", "", "does not speak TLS"},
		{"not trusted", secure.URL, "/health", "", "certificate not trusted"},
		{"no URL", "http://a b", "/health", "", "probe http://a b: "},
	}
	p := newProber(t, nil)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			limit := patience
			if tt.name == "slow" || tt.name == "full backlog" {
				limit = 50 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			err := p.Health(ctx, tt.base, tt.endpoint, tt.key)
			if tt.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("the key is in %q", err)
			}
		})
	}
	t.Run("given up", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := p.Health(ctx, s.URL, "/health", ""); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("trusted", func(t *testing.T) {
		roots := x509.NewCertPool()
		roots.AddCert(secure.Certificate())
		err := newProber(t, roots).Health(t.Context(), secure.URL, "/health", "")
		if err == nil || !strings.Contains(err.Error(), "answered 404") {
			t.Errorf("got %v", err)
		}
	})
}

func TestExplain(t *testing.T) {
	tests := []struct {
		err  error
		want string
	}{
		{&net.OpError{Op: "dial", Err: syscall.EHOSTUNREACH}, "no route to h:1"},
		{&net.OpError{Op: "dial", Err: syscall.ENETUNREACH}, "no route to h:1"},
		{&net.DNSError{Name: "h", IsNotFound: true}, "host name h not found"},
		{&net.OpError{Op: "read", Err: syscall.ECONNRESET}, "h:1 closed the connection without an answer"},
	}
	for _, tt := range tests {
		t.Run(tt.want, func(t *testing.T) {
			if got := explain(t.Context(), tt.err, "h:1"); got != tt.want {
				t.Errorf("got %q", got)
			}
		})
	}
}

// routes answers GET path with a status and JSON.
type routes map[string]struct {
	status int
	body   string
}

func (r routes) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	route, ok := r[req.URL.Path]
	if !ok {
		http.NotFound(w, req)
		return
	}
	w.WriteHeader(route.status)
	w.Write([]byte(route.body))
}

func TestDiscover(t *testing.T) {
	const (
		sglangModels = `{"object":"list","data":[{"id":"meta/llama","object":"model","created":1700000000,"owned_by":"sglang","root":"/models/llama","parent":null,"max_model_len":131072}]}`
		sglangServer = `{"model_path":"/models/llama","tokenizer_path":"/models/llama","tp_size":2,"dp_size":1,"max_total_tokens":null,
			"max_total_num_tokens":445000,"served_model_name":"meta/llama","is_embedding":false,"disaggregation_mode":"null",
			"internal_states":[{"last_gen_throughput":0.0}],"context_length":null,"version":"0.5.4"}`
		sglangModel = `{"model_path":"/models/llama","tokenizer_path":"/models/llama","is_generation":true,"preferred_sampling_params":null,"weight_version":"default","model_type":"llama"}`
		vllmModels  = `{"object":"list","data":[{"id":"meta/llama","object":"model","created":1,"owned_by":"vllm","root":"meta/llama","parent":null,"max_model_len":4096,"permission":[]},
			{"id":"adapter","object":"model","owned_by":"vllm","root":"/lora","parent":"meta/llama"}]}`
		llamaModels = `{"models":[{"name":"smollm2.gguf"}],"object":"list","data":[{"id":"smollm2.gguf","object":"model","created":1,"owned_by":"llamacpp","meta":{"n_ctx_train":8192}}]}`
	)
	sglangLabels := map[string]string{
		"owned_by": "sglang", "model_path": "/models/llama", "max_model_len": "131072", "tokenizer_path": "/models/llama",
		"tp_size": "2", "dp_size": "1", "max_total_tokens": "445000", "served_model_name": "meta/llama",
		"disaggregation_mode": "null", "version": "0.5.4", "is_generation": "true", "weight_version": "default", "model_type": "llama",
	}
	tests := []struct {
		name   string
		routes routes
		want   Info
	}{
		{
			"sglang",
			routes{"/v1/models": {200, sglangModels}, "/server_info": {200, sglangServer}, "/model_info": {200, sglangModel}},
			Info{RuntimeSGLang, "meta/llama", []string{"meta/llama"}, sglangLabels},
		},
		{
			"older sglang",
			routes{"/v1/models": {200, sglangModels}, "/get_server_info": {200, sglangServer}, "/get_model_info": {200, sglangModel}},
			Info{RuntimeSGLang, "meta/llama", []string{"meta/llama"}, sglangLabels},
		},
		{
			"sglang behind another owner",
			routes{"/v1/models": {200, `{"data":[{"id":"a","owned_by":"nvidia"}]}`}, "/version": {200, `{"version":"1"}`}},
			Info{RuntimeSGLang, "a", []string{"a"}, map[string]string{"owned_by": "nvidia"}},
		},
		{
			"sglang without models",
			routes{"/server_info": {200, `{"model_path":"/m","max_total_tokens":5}`}},
			Info{RuntimeSGLang, "/m", nil, map[string]string{"model_path": "/m", "max_total_tokens": "5"}},
		},
		{
			"vllm",
			routes{"/v1/models": {200, vllmModels}, "/version": {200, `{"version":"0.11.0"}`}, "/server_info": {200, `{"x":1}`}},
			Info{RuntimeVLLM, "meta/llama", []string{"meta/llama", "adapter"}, map[string]string{
				"owned_by": "vllm", "model_path": "meta/llama", "max_model_len": "4096", "version": "0.11.0",
			}},
		},
		{
			"vllm by its version",
			routes{"/v1/models": {200, `{"data":[{"id":"m","owned_by":"me"}]}`}, "/version": {200, `{"version":"0.11.0"}`}},
			Info{RuntimeVLLM, "m", []string{"m"}, map[string]string{"owned_by": "me", "version": "0.11.0"}},
		},
		{
			"llama.cpp",
			routes{"/v1/models": {200, llamaModels}, "/version": {200, `{"version":"x"}`}},
			Info{RuntimeGeneric, "smollm2.gguf", []string{"smollm2.gguf"}, map[string]string{"owned_by": "llamacpp"}},
		},
		{
			"another",
			routes{"/v1/models": {200, `{"data":[{"id":"m"},{"id":"m"},{"id":""},{"id":7}]}`}},
			Info{RuntimeGeneric, "m", []string{"m", "7"}, nil},
		},
		{"nothing", routes{}, Info{RuntimeGeneric, UnknownModel, nil, nil}},
		{"not implemented", routes{"/v1/models": {501, ""}}, Info{RuntimeGeneric, UnknownModel, nil, nil}},
		{
			"a page for everything",
			routes{"/v1/models": {200, "<html>"}, "/version": {200, "<html>"}, "/server_info": {200, "<html>"}, "/get_server_info": {200, "<html>"}},
			Info{RuntimeGeneric, UnknownModel, nil, nil},
		},
		{
			"other shapes",
			routes{"/v1/models": {200, `{"data":{"id":"m"}}`}, "/version": {200, `["1"]`}, "/server_info": {200, `null`}},
			Info{RuntimeGeneric, UnknownModel, nil, nil},
		},
	}
	p := newProber(t, nil)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := httptest.NewServer(tt.routes)
			defer s.Close()
			got, err := p.Discover(t.Context(), s.URL, "")
			if err != nil {
				t.Fatal(err)
			}
			if tt.want.Labels == nil {
				tt.want.Labels = map[string]string{}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	failures := []struct {
		name   string
		routes http.Handler
		want   string
	}{
		{"wrong key", routes{"/v1/models": {401, `{"error":"Unauthorized"}`}}, `the worker's API key does not fit: GET URL/v1/models: answered 401 Unauthorized: {"error":"Unauthorized"}`},
		{"still loading", routes{"/v1/models": {503, "Loading model"}}, "GET URL/v1/models: answered 503 Service Unavailable: Loading model"},
		{"info in trouble", routes{"/v1/models": {200, sglangModels}, "/server_info": {500, ""}}, "GET URL/server_info: answered 500 Internal Server Error"},
		{"huge", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Write(make([]byte, maxProbeBody+1))
		}), "GET URL/v1/models: answer over 4194304 bytes"},
	}
	for _, tt := range failures {
		t.Run(tt.name, func(t *testing.T) {
			s := httptest.NewServer(tt.routes)
			defer s.Close()
			_, err := p.Discover(t.Context(), s.URL, "k")
			want := strings.ReplaceAll(tt.want, "URL", s.URL)
			if err == nil || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
	t.Run("not there", func(t *testing.T) {
		if _, err := p.Discover(t.Context(), refusing(t), ""); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("got %v", err)
		}
	})
}
