package ingress

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// FuzzServe: whatever a client sends as a body gets a well-formed answer, and no
// lease stays open.
func FuzzServe(f *testing.F) {
	paths := []string{"/v1/chat/completions", "/v1/completions", "/generate", "/health", "/nothing"}
	for i := range paths {
		f.Add(uint8(i), false, []byte(chatBody), "key")
		f.Add(uint8(i), true, []byte(streamBody), "")
		f.Add(uint8(i), true, []byte(`{"model":"m","prompt":["a"],"n":2,"stream":null}`), "\xff")
		f.Add(uint8(i), false, []byte(`{"text":"x","m\u006fdel":"m","bootstrap_room":1,"model":"`), "0")
	}
	_, url := answers(f, jsonOK)
	g := start(f, []string{url})
	f.Fuzz(func(t *testing.T, path uint8, chunked bool, body []byte, field string) {
		var r io.Reader = bytes.NewReader(body)
		if chunked {
			r = io.MultiReader(r) // of unknown length
		}
		target := paths[int(path)%len(paths)]
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, target, r)
		req.Header["Content-Type"] = []string{"application/json"}
		req.Header["X-Smg-Routing-Key"] = []string{field}
		req.Header["X-Smg-Target-Worker"] = []string{field}
		w := httptest.NewRecorder()
		g.ServeHTTP(w, req)
		switch w.Code {
		case 200, 404, 405:
		case 400, 422, 503:
			if ct := w.Header().Get("Content-Type"); ct == "application/json" && !json.Valid(w.Body.Bytes()) || ct == "" {
				t.Errorf("%d %s %q", w.Code, ct, w.Body)
			}
		default:
			t.Errorf("%d %q", w.Code, w.Body)
		}
		if w.Code == 200 && !strings.Contains(w.Body.String(), "ok") {
			t.Errorf("%q", w.Body)
		}
		if n := g.selector.active(); n != 0 {
			t.Errorf("%d leases are open", n)
		}
	})
}
