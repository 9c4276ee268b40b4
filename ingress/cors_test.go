package ingress

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCORS(t *testing.T) {
	const preflight = "OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nAccess-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: authorization,x-own\r\nOrigin: "
	const question = "GET /health HTTP/1.1\r\nHost: gateway\r\nOrigin: "
	tests := []struct {
		name    string
		origins []string
		request string
		status  int
		want    map[string]string
	}{
		{"anybody asks", nil, question + "https://a.example", 200, map[string]string{"Allow-Origin": "*", "Expose-Headers": "*"}},
		{"anybody's preflight", nil, preflight + "https://a.example", 204, map[string]string{
			"Allow-Origin": "*", "Allow-Methods": "*", "Allow-Headers": "authorization,x-own", "Max-Age": "3600",
		}},
		{"no page", nil, strings.TrimSuffix(get("/health"), "\r\n\r\n"), 200, map[string]string{}},
		{"no preflight", nil, "OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nOrigin: https://a.example", 405, map[string]string{"Allow-Origin": "*", "Expose-Headers": "*"}},
		{"one of the list asks", []string{"https://a.example", "https://b.example"}, question + "https://b.example", 200, map[string]string{
			"Allow-Origin": "https://b.example", "Expose-Headers": "x-request-id",
		}},
		{"preflight of one of the list", []string{"https://a.example"}, preflight + "https://a.example", 204, map[string]string{
			"Allow-Origin": "https://a.example", "Allow-Methods": "GET, POST, PATCH, DELETE, OPTIONS", "Allow-Headers": "content-type, authorization", "Max-Age": "3600",
		}},
		{"another asks", []string{"https://a.example"}, question + "https://a.example.org", 200, map[string]string{}},
		{"preflight of another", []string{"https://a.example"}, preflight + "null", 204, map[string]string{"Max-Age": "3600"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := start(t, nil, withConfig(func(c *Config) { c.CORS.Origins = tt.origins }))
			r := g.do(tt.request + "\r\n\r\n")
			if r.status != tt.status {
				t.Errorf("status %d, want %d", r.status, tt.status)
			}
			got := corsFields(r.header)
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			if vary := r.header.Get("Vary") == "Origin"; vary != (tt.origins != nil) {
				t.Errorf("Vary is %q", r.header.Get("Vary"))
			}
		})
	}
	// What an engine says of pages is not meant for those of the gateway.
	_, url := answers(t, replies(200, "{}", "Access-Control-Allow-Origin: https://other.example", "access-control-allow-credentials: true"))
	g := start(t, []string{url})
	if d := cmp.Diff(map[string]string{"Allow-Origin": "*", "Expose-Headers": "*"}, corsFields(g.do(chat(chatBody, "Origin: https://a.example")).header)); d != "" {
		t.Errorf("through to an engine (-want +got):\n%s", d)
	}
	if d := cmp.Diff(map[string]string{}, corsFields(g.do(chat(chatBody)).header)); d != "" {
		t.Errorf("where no page asks (-want +got):\n%s", d)
	}
}

func corsFields(h http.Header) map[string]string {
	got := map[string]string{}
	for name := range maps.Keys(h) {
		if short, ok := strings.CutPrefix(name, corsPrefix); ok {
			got[short] = strings.Join(h[name], "|")
		}
	}
	return got
}

func TestProbes(t *testing.T) {
	g := start(t, nil)
	for path, want := range map[string]int{"/health": 200, "/liveness": 200, "/readiness": 503, "/v1/models": 404, "/metrics": 404, "/": 404} {
		w := httptest.NewRecorder()
		g.Probes().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
	}
}
