package ingress

import (
	"testing"

	"smg/worker"
)

// TestFieldDraw holds PD-16 as far as the API decides it: shares by the number of
// workers, and complete sets of legs alone.
func TestFieldDraw(t *testing.T) {
	of := func(regular, encode, prefill, decode int) (n [worker.Legs]int) {
		n[worker.Regular], n[worker.Encode], n[worker.Prefill], n[worker.Decode] = regular, encode, prefill, decode
		return n
	}
	chat, embeddings, generate := &route{}, &route{alone: noKV}, &route{aloneVLLM: "no such route"}
	tests := []struct {
		name  string
		roles worker.Roles
		route *route
		vllm  bool
		want  map[Mode]float64 // shares
	}{
		{"eight and a pair", worker.Roles{Available: of(8, 0, 1, 1)}, chat, false, map[Mode]float64{Regular: 0.8, PD: 0.2}},
		{"no decode", worker.Roles{Available: of(8, 0, 3, 0)}, chat, false, map[Mode]float64{Regular: 1}},
		{"no prefill", worker.Roles{Available: of(1, 0, 0, 9)}, chat, false, map[Mode]float64{Regular: 1}},
		{"a pair alone", worker.Roles{Available: of(0, 0, 1, 1)}, chat, false, map[Mode]float64{PD: 1}},
		{"with encoders", worker.Roles{Available: of(2, 5, 1, 1)}, chat, false, map[Mode]float64{Regular: 0.5, EPD: 0.5}},
		{"regular ones that are down", worker.Roles{Registered: of(8, 0, 1, 1), Available: of(0, 0, 1, 1)}, chat, false, map[Mode]float64{PD: 1}},
		{"all down", worker.Roles{Registered: of(1, 0, 1, 2)}, chat, false, map[Mode]float64{Regular: 0.25, PD: 0.75}},
		{"a leg that lacks the other", worker.Roles{Registered: of(0, 0, 1, 0), Available: of(0, 0, 1, 0)}, chat, false, map[Mode]float64{PD: 1}},
		{"nobody", worker.Roles{}, chat, false, map[Mode]float64{Regular: 1}},
		{"what cannot be shared", worker.Roles{Available: of(1, 0, 9, 9)}, embeddings, false, map[Mode]float64{Regular: 1}},
		{"what cannot be shared, and nobody else", worker.Roles{Registered: of(0, 0, 1, 1), Available: of(0, 0, 1, 1)}, embeddings, false, map[Mode]float64{PD: 1}},
		{"what vLLM cannot share", worker.Roles{Available: of(1, 0, 9, 9)}, generate, true, map[Mode]float64{Regular: 1}},
		{"what vLLM cannot share, of another engine", worker.Roles{Available: of(1, 0, 1, 2)}, generate, false, map[Mode]float64{Regular: 0.25, PD: 0.75}},
	}
	for _, tt := range tests {
		t.Run("PD-16_"+tt.name, func(t *testing.T) {
			f := &fakeFleet{roles: tt.roles, alone: tt.vllm}
			x := &exchange{srv: &Server{fleet: f}}
			const n = 4000
			got := map[Mode]float64{}
			for range n {
				x.draw(tt.route)
				got[x.mode]++
			}
			for mode := range got {
				if tt.want[mode] == 0 {
					t.Errorf("%v of %d in mode %d, want none", got[mode], n, mode)
				}
			}
			for mode, share := range tt.want {
				if d := got[mode]/n - share; d < -0.05 || d > 0.05 { // six deviations
					t.Errorf("a share of %v in mode %d, want %v", got[mode]/n, mode, share)
				}
			}
		})
	}
}

// TestGatewayMulti holds what a gateway of several models answers by itself.
func TestGatewayMulti(t *testing.T) {
	multi := withConfig(func(c *Config) { c.Multi = true })
	for _, tt := range []struct{ name, path, body string }{
		{"generate", "/generate", `{"text":"hi"}`},
		{"generate_empty", "/generate", `{"text":"hi","model":""}`},
		{"generate_unknown", "/generate", `{"text":"hi","model":"unknown"}`},
		{"rerank", "/v1/rerank", `{"query":"q","documents":["d"]}`},
		{"chat_unknown", chatPath, `{"model":"unknown","messages":[{"role":"user","content":"hi"}]}`},
	} {
		t.Run("16_missing_model_"+tt.name, func(t *testing.T) {
			g := start(t, []string{"http://a:1"}, multi)
			g.do(post(tt.path, tt.body)).fails(t, 400, "missing_model")
		})
	}
	t.Run("what_nobody_can_share", func(t *testing.T) {
		g := start(t, []string{"http://a:1"}, multi)
		g.fleet.roles.Registered[worker.Prefill], g.fleet.roles.Registered[worker.Decode] = 1, 1
		g.do(post("/v1/embeddings", `{"model":"m","input":"x"}`)).fails(t, 501, "pd_not_supported")
	})
	t.Run("every_kind_of_worker_has_a_place", func(t *testing.T) {
		g := start(t, nil, multi)
		for i, body := range []string{`{"url":"http://new:8000"}`, `{"url":"http://new:8000","worker_type":"prefill"}`, `{"url":"http://new:8000","worker_type":"encode"}`} {
			if r := g.do(post("/workers", body)); r.status != 202 || len(g.workers.added) != i+1 {
				t.Errorf("%s: %d %s", body, r.status, r.body)
			}
		}
	})
}
