package ingress

import (
	"net/http"
	"testing"
)

// TestRoutesOfRegularWorkers sees that one worker gets each route's request as it is,
// under the path that engines know.
func TestRoutesOfRegularWorkers(t *testing.T) {
	for _, tt := range []struct{ path, upstream, body string }{
		{"/v1/messages", "/v1/messages", `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"Hello"}]}`},
		{"/v1/responses", "/v1/responses", `{"model":"m","input":"Hello"}`},
		{"/v1/embeddings", "/v1/embeddings", `{"model":"m","input":["Hello"]}`},
		{"/v1/classify", "/v1/classify", `{"model":"m","input":"Hello"}`},
		{"/v1/rerank", "/v1/rerank", `{"query":"Hello","documents":["a"]}`},
		{"/rerank", "/v1/rerank", `{"query":"Hello","documents":["a"]}`},
	} {
		t.Run(tt.path, func(t *testing.T) {
			e, url := answers(t, replies(200, "[]"))
			g := start(t, []string{url})
			if r := g.do(post(tt.path, tt.body)); r.status != http.StatusOK {
				t.Fatalf("%d %s", r.status, r.body)
			}
			if got := e.last(t); got.target != tt.upstream || got.body != tt.body {
				t.Errorf("the worker got %s %s", got.target, got.body)
			}
			if r := g.do(post(tt.path, `{}`)); r.status != http.StatusBadRequest || e.requests() != 1 {
				t.Errorf("an empty body: %d %s, %d requests", r.status, r.body, e.requests())
			}
		})
	}
}
