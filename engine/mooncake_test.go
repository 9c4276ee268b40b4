package engine_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"smg/engine"
)

func TestMooncakeEngines(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		answer string
		want   map[int]string
	}{
		{"one engine", 200, `{"0":{"engine_id":"a","worker_addr":{"0":{"0":"tcp://h:1"}}}}`, map[int]string{0: "a"}},
		{"ranks", 200, `{"0":{"engine_id":"a_dp0"},"1":{"engine_id":"a_dp1"}}`, map[int]string{0: "a_dp0", 1: "a_dp1"}},
		{"what is no rank is left out", 200, `{"0":{"engine_id":"a"},"x":{"engine_id":"b"},"-1":{"engine_id":"c"},"2":{}}`, map[int]string{0: "a"}},
		{"nobody", 200, `{}`, nil},
		{"another server", 200, `<html>`, nil},
		{"another server's JSON", 200, `{"status":"ok"}`, nil},
		{"no such route", 404, `{"0":{"engine_id":"a"}}`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/query" {
					t.Errorf("asked for %s", r.URL)
				}
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.answer))
			}))
			defer s.Close()
			p := engine.NewProber(engine.DefaultConfig())
			defer p.Close()
			got, err := p.MooncakeEngines(t.Context(), s.URL)
			if d := cmp.Diff(c.want, got); d != "" || (err == nil) != (c.want != nil) {
				t.Errorf("%v, %s", err, d)
			}
		})
	}
}
