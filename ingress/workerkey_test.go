package ingress

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"smg/sim/simhttp"
	"smg/worker"
)

// openRing seals nothing: what it makes of a key can be read.
type openRing struct{ err error }

func (o openRing) Seal(_ *worker.Spec, key string) ([]byte, error) {
	return []byte("<" + key + ">"), o.err
}

func (o openRing) Open(s *worker.Spec) (string, error) {
	return strings.Trim(string(s.SealedKey), "<>"), o.err
}

func withRing(err error) option { return withDeps(func(d *Deps) { d.Keys = openRing{err} }) }

func TestGatewayWorkerKeys(t *testing.T) {
	t.Run("22_worker_key", func(t *testing.T) {
		e, url := answers(t, jsonOK)
		g := start(t, []string{url}, withRing(nil))
		g.selector.workers[0].SealedKey = []byte("<own>")
		for _, tt := range []struct {
			name   string
			fields []string
			want   string
		}{
			{"none sent", nil, "Bearer own"},
			{"the caller's", []string{"Authorization: Bearer caller"}, "Bearer caller"},
			{"two of the caller's", []string{"Authorization: Basic caller", "Authorization: Bearer second"}, "Basic caller"},
			{"an empty one", []string{"Authorization:"}, ""},
		} {
			if r := g.do(chat(chatBody, tt.fields...)); r.status != 200 {
				t.Errorf("%s: %d %s", tt.name, r.status, r.body)
			}
			if got := e.last(t).head[authorization]; len(got) != 1 || got[0] != tt.want {
				t.Errorf("%s: the worker got %q, want %q", tt.name, got, tt.want)
			}
		}
	})

	t.Run("22_worker_key_that_cannot_be_opened", func(t *testing.T) {
		e, url := answers(t, jsonOK)
		g := start(t, []string{url}, withRing(errors.New("sealed with another secret")))
		g.selector.workers[0].SealedKey = []byte("<own>")
		r := g.do(chat(chatBody))
		r.fails(t, 500, "internal_error")
		if !strings.Contains(r.body, url) || !strings.Contains(r.body, "sealed with another secret") || strings.Contains(r.body, "own") || e.requests() != 0 {
			t.Errorf("%s; %d requests", r.body, e.requests())
		}
		if got := g.selector.last(t); got != (ending{worker.Neutral, true}) {
			t.Errorf("lease: %+v", got)
		}
	})

	t.Run("22_worker_key_of_each_leg", func(t *testing.T) {
		for _, kind := range []simhttp.Kind{simhttp.SGLang, simhttp.VLLM} {
			t.Run(string(kind), func(t *testing.T) {
				t.Parallel()
				d := startPD(t, kind, withRing(nil))
				for _, e := range d.pd.All() {
					if err := e.SetRules(t.Context()); err != nil { // has it record
						t.Fatal(err)
					}
				}
				for _, w := range d.selector.workers {
					w.SealedKey = fmt.Appendf(nil, "<%s>", w.ID)
				}
				for _, caller := range []string{"", "Bearer caller"} {
					for range 2 { // two workers a leg
						req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.url+"/v1/chat/completions", strings.NewReader(chatBody))
						if err != nil {
							t.Fatal(err)
						}
						req.Header.Set("Content-Type", "application/json")
						if caller != "" {
							req.Header.Set(authorization, caller)
						}
						resp, err := http.DefaultClient.Do(req)
						if err != nil {
							t.Fatal(err)
						}
						resp.Body.Close()
						if resp.StatusCode != http.StatusOK {
							t.Fatalf("%d", resp.StatusCode)
						}
					}
				}
				d.quiet(t)
				legs := map[worker.Leg]int{}
				for i, e := range d.pd.All() {
					records, err := e.Records(t.Context(), "/v1/chat/completions")
					if err != nil {
						t.Fatal(err)
					}
					got := map[string]int{}
					for _, r := range records {
						got[strings.Join(r.Header[authorization], "|")]++
					}
					w := d.selector.workers[i]
					own := "Bearer " + w.ID.String()
					legs[w.Leg] += got[own]
					if len(records) > 0 && (got[own] != got["Bearer caller"] || len(got) != 2) {
						t.Errorf("%s got %v, want its own key and the caller's", e.URL, got)
					}
				}
				if legs[worker.Prefill] != 2 || legs[worker.Decode] != 2 {
					t.Errorf("requests with a worker's key: %v", legs)
				}
			})
		}
	})

	t.Run("8_api_key_of_a_worker", func(t *testing.T) {
		g := start(t, nil, withRing(nil))
		r := g.do(post("/workers", `{"url":"http://new:8000","api_key":"canary"}`))
		if r.status != 202 || len(g.workers.added) != 1 || string(g.workers.added[0].SealedKey) != "<canary>" {
			t.Fatalf("%d %s: %+v", r.status, r.body, g.workers.added)
		}
		g.fleet.workers = append(g.fleet.workers, &worker.Worker{Spec: g.workers.added[0]})
		for _, path := range []string{"/workers", "/workers/http://new:8000"} {
			if got := g.do(get(path)); got.status != 200 || strings.Contains(got.body, "canary") || strings.Contains(got.body, "api_key") || strings.Contains(got.body, "ealed") {
				t.Errorf("%s: %d %s", path, got.status, got.body)
			}
		}
		if g.do(post("/workers", `{"url":"http://none:8000","api_key":""}`)); len(g.workers.added) != 2 || g.workers.added[1].SealedKey != nil {
			t.Errorf("an empty key is kept: %+v", g.workers.added)
		}
		if strings.Contains(r.body+g.log.String(), "canary") {
			t.Errorf("answer %s, log %s", r.body, g.log)
		}
	})

	t.Run("80_line_ends_in_a_worker_key", func(t *testing.T) {
		g := start(t, nil, withRing(nil))
		for _, key := range []string{`canary\r\nX-Evil: 1`, `canary\n`, `canary canary`, `canary\u0000`, `canaryü`, strings.Repeat("canary", maxWorkerKey/6+1)} {
			r := g.do(post("/workers", `{"url":"http://new:8000","api_key":"`+key+`"}`))
			if r.refuses(t, 400, codeBadRequest, "api_key"); strings.Contains(r.body, "canary") {
				t.Errorf("%s", r.body)
			}
		}
		start(t, nil).do(post("/workers", `{"url":"http://new:8000","api_key":"canary"}`)).refuses(t, 400, codeBadRequest, "leave it out")
		r := start(t, nil, withRing(errors.New("no secret: start with --cluster-secret"))).do(post("/workers", `{"url":"http://new:8000","api_key":"canary"}`))
		if r.refuses(t, 400, codeBadRequest, "--cluster-secret"); strings.Contains(r.body, "canary") || len(g.workers.added) != 0 {
			t.Errorf("%s", r.body)
		}
	})
}
