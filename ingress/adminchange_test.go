package ingress

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"smg/bootstrap"
	"smg/wire"
	"smg/worker"
)

func put(path, body string) string   { return strings.Replace(post(path, body), "POST", "PUT", 1) }
func patch(path, body string) string { return strings.Replace(post(path, body), "POST", "PATCH", 1) }

// TestGatewayChanges is case 8 as far as the API decides it, and 9's.
func TestGatewayChanges(t *testing.T) {
	const url = "http://a:1"
	path := "/workers/" + worker.IDOf(url).String()
	t.Run("8_patch", func(t *testing.T) {
		tests := []struct {
			name, body string
			want       bootstrap.Patch
		}{
			{"nothing", `{}`, bootstrap.Patch{}},
			{"what cannot be patched", `{"url":1,"models":7,"resilience":[]}`, bootstrap.Patch{}},
			{"nulls", `{"priority":null,"labels":null,"health":null,"api_key":null}`, bootstrap.Patch{}},
			{
				"everything", `{"priority":-1,"cost":0,"labels":{"a":"b"},"health":{"disable_health_check":true,"timeout_secs":3}}`,
				bootstrap.Patch{Priority: new(-1), Cost: new(0.0), Labels: map[string]string{"a": "b"}, Health: &worker.HealthRules{Timeout: 3 * time.Second, Disabled: new(true)}},
			},
		}
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				g := start(t, []string{url})
				r := g.do(patch(path, tt.body))
				var got accepted
				if err := json.Unmarshal([]byte(r.body), &got); err != nil || r.status != http.StatusAccepted || got.Status != "accepted" || got.ID != worker.IDOf(url).String() {
					t.Fatalf("%d %s: %v", r.status, r.body, err)
				}
				if diff := cmp.Diff([]patched{{worker.IDOf(url), tt.want}}, g.workers.patched, cmp.AllowUnexported(patched{})); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		}
	})
	t.Run("8_put", func(t *testing.T) {
		g := start(t, []string{url})
		r := g.do(put(path, `{"url":"http://a:1/","cost":2}`))
		want, err := bootstrap.SpecOf(url, worker.Regular)
		if err != nil {
			t.Fatal(err)
		}
		want.Cost = 2
		if diff := cmp.Diff([]*worker.Spec{want}, g.workers.replaced); diff != "" || r.status != http.StatusAccepted {
			t.Errorf("%d %s (-want +got):\n%s", r.status, r.body, diff)
		}
	})
	t.Run("8_key", func(t *testing.T) {
		g := start(t, []string{url}, withRing(nil))
		for _, body := range []string{`{"api_key":"secret-key"}`, `{"api_key":""}`} {
			if r := g.do(patch(path, body)); r.status != http.StatusAccepted || strings.Contains(r.body+g.log.String(), "secret-key") {
				t.Errorf("%s: %d %s, log %s", body, r.status, r.body, g.log)
			}
		}
		g.do(put(path, `{"url":"http://a:1","api_key":"secret-key"}`))
		if len(g.workers.patched) != 2 || string(g.workers.patched[0].patch.SealedKey) != "<secret-key>" || len(g.workers.replaced) != 1 || string(g.workers.replaced[0].SealedKey) != "<secret-key>" {
			t.Fatalf("patched %v, replaced %v", g.workers.patched, g.workers.replaced)
		}
		if none := g.workers.patched[1].patch.SealedKey; none == nil || len(none) != 0 {
			t.Errorf("an empty key is %q, want one that takes it away", none)
		}
		g.do(patch(path, `{"api_key":"a b"}`)).refuses(t, 400, codeBadRequest, "api_key holds blanks")
	})
	t.Run("8_refused", func(t *testing.T) {
		tests := []struct {
			name, request string
			err           error
			status        int
			code, words   string
		}{
			{"another URL", put(path, `{"url":"http://b:1"}`), nil, 400, codeBadRequest, "POST /workers to add it"},
			{"a rank", put(path, `{"url":"http://a:1"}`), bootstrap.ErrRanks, 400, codeBadRequest, "--dp-aware"},
			{"a leaving one", put(path, `{"url":"http://a:1"}`), bootstrap.ErrLeaving, 400, codeBadRequest, "once it is gone"},
			{"one that is being registered", put(path, `{"url":"http://a:1"}`), bootstrap.ErrRegistering, 409, codeRegistering, "GET /workers/"},
			{"a full queue", put(path, `{"url":"http://a:1"}`), bootstrap.ErrFull, 500, codeInternal, "try again"},
			{"one that is gone", patch(path, `{}`), bootstrap.ErrUnknown, 404, codeNotFound, "GET /workers"},
			{"no bus", patch(path, `{}`), errors.New("no bus"), 500, codeInternal, "no bus; try again"},
			{"a threshold", patch(path, `{"health":{"success_threshold":-1}}`), nil, 400, codeBadRequest, "success_threshold -1"},
			{"too long a label", patch(path, `{"labels":{"a":"`+strings.Repeat("x", 5000)+`"}}`), nil, 400, codeBadRequest, "cannot be kept"},
		}
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				g := start(t, []string{url})
				g.workers.changeErr = tt.err
				g.do(tt.request).refuses(t, tt.status, tt.code, tt.words)
				if tt.err == nil && len(g.workers.patched)+len(g.workers.replaced) != 0 {
					t.Error("it was changed all the same")
				}
			})
		}
		g := start(t, []string{url})
		for _, tt := range []struct {
			body   string
			status int
		}{{`{`, 400}, {`[]`, 422}, {`{"priority":"high"}`, 422}, {`{"health":{"timeout_secs":1.5}}`, 422}} {
			if r := g.do(patch(path, tt.body)); r.status != tt.status || strings.HasPrefix(r.header.Get("Content-Type"), "application/json") {
				t.Errorf("%s: %d %s, want %d in plain text", tt.body, r.status, r.body, tt.status)
			}
		}
		g.workers.jobs[worker.IDOf(newWorker)] = bootstrap.Job{Worker: &worker.Spec{URL: newWorker}}
		g.do(patch("/workers/"+newWorker, `{}`)).refuses(t, 409, codeRegistering, "still being registered")
	})
	t.Run("9_who_drains", func(t *testing.T) {
		for _, tt := range []struct {
			name   string
			status worker.Status
			since  time.Time
			drains bool
		}{
			{"ready", worker.Ready, time.Time{}, true},
			{"draining", worker.Ready, time.UnixMilli(1), true},
			{"not ready", worker.NotReady, time.Time{}, false},
			{"pending", worker.Pending, time.Time{}, false},
		} {
			t.Run(tt.name, func(t *testing.T) {
				g := start(t, []string{url})
				g.fleet.workers[0].Record.Status, g.fleet.workers[0].Spec.DrainingSince = tt.status, tt.since
				if r := g.do(del(path)); r.status != http.StatusAccepted {
					t.Fatalf("%d %s", r.status, r.body)
				}
				if drained := len(g.workers.drained) == 1; drained != tt.drains || len(g.workers.drained)+len(g.workers.removed) != 1 {
					t.Errorf("drained %v, removed %v", g.workers.drained, g.workers.removed)
				}
			})
		}
	})
}

// FuzzPatch holds what a body can make of a worker: a refusal in words, or a record that
// can be kept.
func FuzzPatch(f *testing.F) {
	for _, body := range []string{
		`{}`, `[]`, `{`, `{"priority":1,"cost":0.5,"labels":{"a":"b"}}`, `{"health":{"timeout_secs":1,"disable_health_check":true}}`,
		`{"health":{"drain_settle_secs":0,"success_threshold":2147483648}}`, `{"labels":{"":""}}`, `{"cost":1e400}`, `{"api_key":"k"}`,
	} {
		f.Add([]byte(body))
	}
	spec, err := bootstrap.SpecOf("http://a:1", worker.Regular)
	if err != nil {
		f.Fatal(err)
	}
	s := &Server{fleet: &fakeFleet{workers: []*worker.Worker{{Spec: spec}}}}
	f.Fuzz(func(t *testing.T, raw []byte) {
		asked := &patchRequest{}
		err := decodeWorker(raw, asked, "{}")
		var p bootstrap.Patch
		if err == nil {
			p, err = s.patch(spec.ID, asked)
		}
		if err != nil {
			if p := (*problem)(nil); !errors.As(err, &p) || p.message == "" || p.status < 400 || p.status > 499 {
				t.Fatalf("refused with %v", err)
			}
			return
		}
		data, err := wire.AppendSpec(nil, p.Of(spec))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := wire.DecodeSpec(data); err != nil {
			t.Fatal(err)
		}
	})
}
