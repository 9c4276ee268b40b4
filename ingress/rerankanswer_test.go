package ingress

import (
	"bufio"
	"net"
	"regexp"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRankings(t *testing.T) {
	const list = `[{"score":0.9,"document":"b","index":1,"meta_info":{"x":1}},{"score":0.1,"document":"a","index":0}]`
	const tail = `,"usage":null,"object":"rerank",`
	tests := []struct {
		name, path, body, answer string
		want                     string
	}{
		{
			"all", "/v1/rerank", `{"query":"q","documents":["a","b"]}`, list,
			`{"results":` + list + `,"model":"unknown"` + tail + `"id":null,"created":1700000000}`,
		},
		{
			"the first, without documents", "/rerank", `{"model":"m","query":"q","documents":["a","b"],"top_k":1,"return_documents":false,"rid":"r\"1"}`, list,
			`{"results":[{"score":0.9,"index":1,"meta_info":{"x":1}}],"model":"m"` + tail + `"id":"r\"1","created":1700000000}`,
		},
		{
			"more than there are", "/v1/rerank", `{"query":"q","documents":["a"],"top_k":5}`, `[]`,
			`{"results":[],"model":"unknown"` + tail + `"id":null,"created":1700000000}`,
		},
		{"as clients get it", "/v1/rerank", `{"query":"q","documents":["a"]}`, `{"id":"x","results":[]}`, `{"id":"x","results":[]}`},
	}
	made := regexp.MustCompile(`"created":1[0-9]{9}}$`)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, url := answers(t, replies(200, tt.answer, "Content-Type: application/json"))
			r := start(t, []string{url}).do(post(tt.path, tt.body))
			if d := cmp.Diff(tt.want, made.ReplaceAllString(r.body, `"created":1700000000}`)); r.status != 200 || d != "" {
				t.Errorf("%d (-want +got):\n%s", r.status, d)
			}
		})
	}
	for _, bad := range []string{`no`, `"text"`, `[{"score":1}]`, `[{"score":"x","index":0}]`, `{"ok":true}`, `[1]`} {
		_, url := answers(t, replies(200, bad))
		start(t, []string{url}).do(post("/v1/rerank", `{"query":"q","documents":["a"]}`)).fails(t, 500, "rerank_response_build_failed")
	}
	// What is no success is the engine's own.
	_, url := answers(t, replies(422, "no such document"))
	if r := start(t, []string{url}).do(post("/v1/rerank", `{"query":"q","documents":["a"]}`)); r.status != 422 || r.body != "no such document" {
		t.Errorf("a refusal: %d %s", r.status, r.body)
	}
	// So is what comes after an answer that broke off.
	var calls atomic.Int32
	breaks := &script{pieces: []string{"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n["}, then: 'c'}
	refuses := &script{pieces: []string{replies(422, "no such document")}}
	url = engineAt(t, func(nc net.Conn, br *bufio.Reader) {
		if calls.Add(1) == 1 {
			breaks.serve(nc, br)
			return
		}
		refuses.serve(nc, br)
	})
	if r := start(t, []string{url}, withRetries).do(post("/v1/rerank", `{"query":"q","documents":["a"]}`)); r.status != 422 || r.body != "no such document" || calls.Load() != 2 {
		t.Errorf("a refusal after a break: %d %s, %d calls", r.status, r.body, calls.Load())
	}
}
