package simhttp_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"smg/sim/simhttp"
	"smg/sim/simtest"
)

// TestRanksMeet has engines with two ranks each meet, or not.
func TestRanksMeet(t *testing.T) {
	// Room 5 is that of rank 1.
	tests := []struct {
		name            string
		method          simhttp.LoadBalance
		prefill, decode string
		meet            bool
	}{
		{"by the room", simhttp.FollowRoom, "", "", true},
		{"both are told", simhttp.FollowRoom, `,"routed_dp_rank":0`, `,"disagg_prefill_dp_rank":0,"routed_dp_rank":1`, true},
		{"the older name", simhttp.FollowRoom, `,"data_parallel_rank":0`, `,"disagg_prefill_dp_rank":0`, true},
		{"decode is told another one", simhttp.FollowRoom, `,"routed_dp_rank":0`, `,"disagg_prefill_dp_rank":1`, false},
		{"decode is not told", simhttp.FollowRoom, `,"routed_dp_rank":0`, `,"routed_dp_rank":0`, false},
		{"nobody is told, and prefill takes turns", simhttp.RoundRobin, "", "", false},
		{"there is no such rank", simhttp.FollowRoom, "", `,"disagg_prefill_dp_rank":2`, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := config(simhttp.SGLang)
			cfg.Ranks = simhttp.Ranks{Size: 2, Method: tt.method}
			cfg.Disagg.BootstrapTimeout, cfg.Disagg.WaitingTimeout = 300*time.Millisecond, 300*time.Millisecond
			if tt.meet {
				cfg.Disagg.BootstrapTimeout, cfg.Disagg.WaitingTimeout = patience, patience
			}
			pd := simtest.StartPD(t, 1, 1, cfg)
			body := func(more string) string {
				return fmt.Sprintf(`{"text":"hello there","sampling_params":{"max_new_tokens":3},"bootstrap_host":"127.0.0.1","bootstrap_port":%d,"bootstrap_room":5%s}`, pd.Prefill[0].PeerPort, more)
			}
			prefill, decode := each(t, pd.Prefill[0], pd.Decode[0], "/generate", body(tt.prefill), body(tt.decode))
			if (decode.status == http.StatusOK) != tt.meet || (prefill.status == http.StatusOK) != tt.meet {
				t.Errorf("decode answered %d and prefill %d, want that they meet: %v", decode.status, prefill.status, tt.meet)
			}
		})
	}
}

// TestRanksOutOfRange asks engines for ranks that they have or not.
func TestRanksOutOfRange(t *testing.T) {
	for _, tt := range []struct {
		name, field, header string
		kind                simhttp.Kind
		status              int
	}{
		{"sglang", `,"routed_dp_rank":1`, "", simhttp.SGLang, 200},
		{"sglang, none", `,"routed_dp_rank":null`, "", simhttp.SGLang, 200},
		{"sglang, too large", `,"routed_dp_rank":2`, "", simhttp.SGLang, 400},
		{"sglang, negative", `,"routed_dp_rank":-1`, "", simhttp.SGLang, 400},
		{"sglang, the older name", `,"data_parallel_rank":2`, "", simhttp.SGLang, 400},
		{"sglang, no number", `,"data_parallel_rank":"1"`, "", simhttp.SGLang, 400},
		{"vllm", "", "1", simhttp.VLLM, 200},
		{"vllm, too large", "", "2", simhttp.VLLM, 400},
		{"vllm, no number", "", "x", simhttp.VLLM, 200},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := config(tt.kind)
			cfg.Ranks.Size = 2
			e := simtest.Start(t, cfg)
			req, err := http.NewRequestWithContext(ctxFor(t), http.MethodPost, e.URL+"/v1/chat/completions",
				strings.NewReader(`{"model":"sim","messages":[{"role":"user","content":"hi"}],"max_tokens":2`+tt.field+`}`))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			if tt.header != "" {
				req.Header.Set("X-data-parallel-rank", tt.header)
			}
			resp, err := callerOf(t, e).client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if resp.StatusCode != tt.status {
				t.Errorf("status %d, want %d", resp.StatusCode, tt.status)
			}
		})
	}
}

// TestLoadsOfRanks wants what ranks report to be the engine's together.
func TestLoadsOfRanks(t *testing.T) {
	cfg := config(simhttp.SGLang)
	cfg.Ranks.Size = 3
	c := callerOf(t, simtest.Start(t, cfg))
	_, text := c.do(http.MethodGet, "/v1/loads", "")
	got := decode[struct {
		Count int `json:"dp_rank_count"`
		Loads []struct {
			Rank int `json:"dp_rank"`
			Max  int `json:"max_running_requests"`
		}
	}](t, text)
	sum := 0
	for i, l := range got.Loads {
		sum += l.Max
		if l.Rank != i {
			t.Errorf("rank %d is the %dth", l.Rank, i)
		}
	}
	if got.Count != 3 || len(got.Loads) != 3 || sum != cfg.Core.MaxRunning {
		t.Errorf("%d ranks of %d, with %d requests at most, want %d", len(got.Loads), got.Count, sum, cfg.Core.MaxRunning)
	}
	_, text = c.do(http.MethodGet, "/server_info", "")
	if info := decode[map[string]any](t, text); info["dp_size"] != 3.0 || info["load_balance_method"] != "follow_bootstrap_room" {
		t.Errorf("dp_size %v, load_balance_method %v", info["dp_size"], info["load_balance_method"])
	}
}
