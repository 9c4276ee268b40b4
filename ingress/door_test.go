package ingress

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestRoutes holds who may use which path, by which methods, and what it is called
// where requests are counted.
func TestRoutes(t *testing.T) {
	type want struct {
		class        class
		allow, label string
	}
	api, public := want{classAPI, "POST", ""}, want{classPublic, "GET, HEAD", ""}
	all := map[string]want{
		"/health": public, "/liveness": public, "/readiness": public, "/v1/models": public,
		"/status": {classAdmin, "GET, HEAD", ""}, "/workers": {classAdmin, "GET, HEAD, POST", ""},
		"/workers/": {classAdmin, "GET, HEAD, PUT, PATCH, DELETE", "/workers/{worker_id}"},
		"/generate": api, "/v1/chat/completions": api, "/v1/completions": api, "/v1/messages": api, "/v1/responses": api,
		"/loads": public, "/v1/loads": public, "/get_loads": {classAdmin, "GET, HEAD", ""}, "/flush_cache": {classAdmin, "POST", ""},
		"/engine_metrics": public, "/get_server_info": public, "/get_model_info": public, "/health_generate": public,
		"/v1/embeddings": api, "/v1/classify": api, "/v1/rerank": api, "/rerank": api,
	}
	got := map[string]want{}
	for path, rt := range (&Server{}).routeTable() {
		got[path] = want{rt.class, rt.allow(), rt.name()}
	}
	for path, w := range all {
		if w.label == "" {
			w.label = path
			all[path] = w
		}
	}
	if diff := cmp.Diff(all, got, cmp.AllowUnexported(want{})); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
	if none := (*route)(nil).name(); none != "other" {
		t.Errorf("a path that there is not is called %q", none)
	}
}

// TestAnswerIsNoted holds what is known of an answer afterwards.
func TestAnswerIsNoted(t *testing.T) {
	type noted struct {
		Status int
		Code   string
		Bytes  int64
		Headed time.Duration
	}
	tests := []struct {
		name string
		do   func(w http.ResponseWriter)
		want noted
	}{
		{"nothing", func(http.ResponseWriter) {}, noted{}},
		{"a body alone", func(w http.ResponseWriter) { _, _ = w.Write([]byte("abc")) }, noted{200, "", 3, 7}},
		{"an interim answer", func(w http.ResponseWriter) { w.WriteHeader(103); w.WriteHeader(204) }, noted{204, "", 0, 7}},
		{"the first head counts", func(w http.ResponseWriter) { w.WriteHeader(201); _, _ = w.Write([]byte("a")) }, noted{201, "", 1, 7}},
		{"a problem", func(w http.ResponseWriter) { (&problem{status: 503, code: "no_workers", form: eventForm}).write(w) }, noted{503, "no_workers", 59, 7}},
		{"no body", func(w http.ResponseWriter) { (&problem{status: 404, form: empty}).write(w) }, noted{404, "", 0, 7}},
		{"a code that is no error's", func(w http.ResponseWriter) {
			w.Header().Set(errorCodeHeader, "odd")
			w.WriteHeader(200)
		}, noted{200, "", 0, 7}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			came := time.Unix(1, 0)
			x := &exchange{srv: &Server{now: func() time.Time { return came.Add(7) }}}
			x.ctx.deadline = came
			rec := httptest.NewRecorder()
			x.out.x, x.out.to = x, rec
			tt.do(&x.out)
			if diff := cmp.Diff(tt.want, noted{x.out.status, x.out.code, x.out.bytes, x.out.headed}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if int64(rec.Body.Len()) != tt.want.Bytes {
				t.Errorf("%d bytes came out", rec.Body.Len())
			}
			if err := http.NewResponseController(&x.out).Flush(); err != nil {
				t.Errorf("the server's own writer is not found: %v", err)
			}
		})
	}
}
