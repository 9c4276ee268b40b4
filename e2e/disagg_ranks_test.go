package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"smg/sim/simctl"
	"smg/sim/simhttp"
	"smg/sim/simtest"
)

// TestDisaggRanks has engines with data-parallel ranks.
func TestDisaggRanks(t *testing.T) {
	cases(t, map[string]func(t *testing.T){
		"9_sglang":       func(t *testing.T) { ranksOfPD(t, simhttp.SGLang) },
		"9_sglang_split": func(t *testing.T) { ranksOfPD(t, simhttp.SGLang, "--topology", "split") },
		"9_sglang_fewest": func(t *testing.T) {
			ranksOfPD(t, simhttp.SGLang, "--dp-minimum-tokens-scheduler", "--load-monitor-interval", "3600")
		},
		"9_vllm":                func(t *testing.T) { ranksOfPD(t, simhttp.VLLM) },
		"9_vllm_split":          func(t *testing.T) { ranksOfPD(t, simhttp.VLLM, "--topology", "split") },
		"9_regular":             func(t *testing.T) { ranksOfRegular(t) },
		"9_regular_split":       func(t *testing.T) { ranksOfRegular(t, "--topology", "split") },
		"9_clients_say_nothing": func(t *testing.T) { ranksOfClients(t) },
	})
}

// ranked starts engines of two ranks each, none of which a request finds by itself.
func ranked(t *testing.T, kind simhttp.Kind) *simtest.PD {
	t.Helper()
	cfg := simtest.Config()
	cfg.Kind = kind
	cfg.Ranks = simhttp.Ranks{Size: 2, Method: simhttp.RoundRobin}
	pd := simtest.StartPD(t, 1, 1, cfg)
	for _, e := range pd.All() {
		if err := e.SetFaults(t.Context(), simctl.Faults{Record: true}); err != nil {
			t.Fatal(err)
		}
	}
	return pd
}

// told is what an engine was told of ranks.
type told struct {
	Room    json.Number `json:"bootstrap_room"`
	Own     *int        `json:"routed_dp_rank"`
	Prefill *int        `json:"disagg_prefill_dp_rank"`
	Regular *int        `json:"data_parallel_rank"`
	header  string
}

func toldOf(t *testing.T, e *simtest.Engine) (all []told) {
	t.Helper()
	records, err := e.Records(t.Context(), chatPath)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		var one told
		if err := json.Unmarshal(r.Body, &one); err != nil {
			t.Fatal(err)
		}
		one.header = r.Header.Get("X-Data-Parallel-Rank")
		all = append(all, one)
	}
	return all
}

func ranksOfPD(t *testing.T, kind simhttp.Kind, args ...string) {
	const requests = 60
	pd := ranked(t, kind)
	prefill, decode := pd.Prefill[0], pd.Decode[0]
	g := inFront(t, append([]string{"--pd-disaggregation", "--dp-aware", "--policy", "round_robin", "--disable-retries"}, args...)...)
	label := ""
	if kind == simhttp.VLLM {
		label = `,"labels":{"dp_size":"2"}`
	}
	g.add(prefill.URL, `,"worker_type":"prefill"`+label)
	g.add(decode.URL, `,"worker_type":"decode"`+label)
	for _, e := range pd.All() {
		for rank := range 2 {
			url := fmt.Sprintf("%s@%d", e.URL, rank)
			await(t, "the rank", func() bool { w, _ := g.worker(url); return w.Healthy && w.Conflict == "" })
		}
	}
	await(t, "an answer", func() bool { return do(t, http.MethodPost, g.url+chatPath, chat).status == http.StatusOK })
	for _, e := range pd.All() {
		if err := e.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := e.SetFaults(t.Context(), simctl.Faults{Record: true}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range requests {
		a := do(t, http.MethodPost, g.url+chatPath, chat)
		if a.status != http.StatusOK {
			t.Fatalf("request %d: status %d: %s", i, a.status, a.body)
		}
		if id := a.header.Get("X-Smg-Routed-Worker-Id"); id != "" && !strings.HasPrefix(id, decode.URL+"@") {
			t.Errorf("answered by %s, want a rank", id)
		}
	}
	held := map[string]int{} // prefill's rank by the room
	ranks := map[string]int{}
	for _, one := range toldOf(t, prefill) {
		switch {
		case kind == simhttp.VLLM:
			ranks["prefill "+one.header]++
		case one.Own == nil || one.Prefill != nil || one.Regular != nil:
			t.Fatalf("prefill was told %+v", one)
		default:
			held[one.Room.String()] = *one.Own
			ranks[fmt.Sprint("prefill ", *one.Own)]++
		}
	}
	for _, one := range toldOf(t, decode) {
		switch {
		case kind == simhttp.VLLM:
			ranks["decode "+one.header]++
		case one.Own == nil || one.Prefill == nil || one.Regular != nil:
			t.Fatalf("decode was told %+v", one)
		default:
			if rank, ok := held[one.Room.String()]; !ok || rank != *one.Prefill {
				t.Errorf("decode was told of rank %d, prefill of %d", *one.Prefill, rank)
			}
			ranks[fmt.Sprint("decode ", *one.Own)]++
		}
	}
	for _, which := range []string{"prefill 0", "prefill 1", "decode 0", "decode 1"} {
		if n := ranks[which]; n < requests/4 {
			t.Errorf("%s got %d requests of %d: %v", which, n, requests, ranks)
		}
	}
	// The engine's own URL stands for all of its ranks.
	g.remove(prefill.URL)
	await(t, "the end of both ranks", func() bool {
		_, first := g.worker(prefill.URL + "@0")
		_, second := g.worker(prefill.URL + "@1")
		return first == http.StatusNotFound && second == http.StatusNotFound
	})
	g.stop(0)
}

func ranksOfRegular(t *testing.T, args ...string) {
	cfg := simtest.Config()
	cfg.Ranks.Size = 3
	e := simtest.Start(t, cfg)
	if err := e.SetFaults(t.Context(), simctl.Faults{Record: true}); err != nil {
		t.Fatal(err)
	}
	g := inFront(t, append(args, "--dp-aware", "--policy", "round_robin", "--worker-urls", e.URL)...)
	await(t, "all ranks", func() bool { w, _ := g.worker(e.URL + "@2"); return w.Healthy })
	for range 30 {
		askChat(t, g.url)
	}
	got := map[int]int{}
	for _, one := range toldOf(t, e) {
		if one.Regular == nil || one.Own != nil || one.Prefill != nil {
			t.Fatalf("the engine was told %+v", one)
		}
		got[*one.Regular]++
	}
	if len(got) != 3 || got[2] < 5 {
		t.Errorf("requests by rank: %v", got)
	}
	g.stop(0)
}

// ranksOfClients has a client name ranks, of which the gateway alone decides.
func ranksOfClients(t *testing.T) {
	pd := simtest.StartPD(t, 1, 1, simtest.Config())
	g := inFront(t, "--pd-disaggregation")
	g.add(pd.Prefill[0].URL, `,"worker_type":"prefill"`)
	g.add(pd.Decode[0].URL, `,"worker_type":"decode"`)
	await(t, "an answer", func() bool { return do(t, http.MethodPost, g.url+chatPath, chat).status == http.StatusOK })
	a := do(t, http.MethodPost, g.url+chatPath, chatWith(`,"routed_dp_rank":7,"disagg_prefill_dp_rank":7,"data_parallel_rank":7`))
	if a.status != http.StatusOK {
		t.Errorf("status %d: %s", a.status, a.body)
	}
	g.stop(0)
}
