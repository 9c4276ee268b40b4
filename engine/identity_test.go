package engine

import (
	"net/http/httptest"
	"testing"
)

func TestIdentify(t *testing.T) {
	const started = "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds 1.79e+09\nvllm:kv_cache_usage_perc{engine=\"0\"} 0.5\n"
	sglang := func(mode, seed string) routes {
		return routes{"/server_info": {200, `{"disaggregation_mode":"` + mode + `","disaggregation_bootstrap_port":8998` + seed + `}`}}
	}
	tests := []struct {
		name        string
		runtime     string
		one, two    routes
		different   bool // the ids are
		known       bool // the first is
		port        uint16
		unanswering bool
	}{
		{name: "a seed of SGLang", runtime: RuntimeSGLang, one: sglang("prefill", `,"random_seed":1`), two: sglang("prefill", `,"random_seed":2`), different: true, known: true, port: 8998},
		{name: "the same seed", runtime: RuntimeSGLang, one: sglang("decode", `,"random_seed":1`), two: sglang("decode", `,"random_seed":1`), known: true},
		{
			name: "another port", runtime: RuntimeSGLang, one: sglang("prefill", `,"random_seed":1`), different: true, known: true, port: 8998,
			two: routes{"/server_info": {200, `{"disaggregation_mode":"prefill","disaggregation_bootstrap_port":9000,"random_seed":1}`}},
		},
		{
			name: "older names", runtime: RuntimeSGLang, different: true, known: true, port: 8998,
			one: routes{"/get_server_info": {200, `{"server_args":{"disaggregation_mode":"prefill","disaggregation_bootstrap_port":8998,"random_seed":7}}`}},
			two: sglang("prefill", `,"random_seed":8`),
		},
		{name: "no seed", runtime: RuntimeSGLang, one: sglang("prefill", ""), port: 8998},
		{name: "no server info", runtime: RuntimeSGLang},
		{name: "a start of vLLM", runtime: RuntimeVLLM, one: routes{"/metrics": {200, started}}, two: routes{"/metrics": {200, "process_start_time_seconds 1.8e+09\n"}}, different: true, known: true},
		{name: "the same start", runtime: RuntimeVLLM, one: routes{"/metrics": {200, started}}, two: routes{"/metrics": {200, started}}, known: true},
		{name: "two processes on one page", runtime: RuntimeVLLM, one: routes{"/metrics": {200, started + "process_start_time_seconds{pid=\"2\"} 5\n"}}},
		{name: "a page without it", runtime: RuntimeVLLM, one: routes{"/metrics": {200, "vllm:kv_cache_usage_perc 0.5\n"}}},
		{name: "no page", runtime: RuntimeVLLM, one: routes{"/metrics": {404, started}}},
		{name: "another engine", runtime: RuntimeGeneric, one: routes{"/metrics": {200, started}}},
		{name: "in trouble", runtime: RuntimeSGLang, one: routes{"/server_info": {500, ""}}, unanswering: true},
	}
	p := newProber(t, nil)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ask := func(r routes) Identity {
				s := httptest.NewServer(r)
				defer s.Close()
				id, err := p.Identify(t.Context(), s.URL, "", tt.runtime)
				if (err != nil) != tt.unanswering {
					t.Fatalf("error %v", err)
				}
				return id
			}
			one := ask(tt.one)
			if known := one.ID != 0; known != tt.known || one.BootstrapPort != tt.port {
				t.Errorf("got %+v, want known %v, port %d", one, tt.known, tt.port)
			}
			if tt.two == nil {
				return
			}
			if two := ask(tt.two); (one.ID != two.ID) != tt.different {
				t.Errorf("%+v and %+v: different %v, want %v", one, two, one.ID != two.ID, tt.different)
			}
		})
	}
}
