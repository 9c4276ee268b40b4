package legs

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"smg/worker"
)

// engineGauge is a number of an engine's rank as it is exported.
type engineGauge struct {
	desc   *prometheus.Desc
	disagg bool // its label is the rank's mode, and not the model
	of     func(*RankLoad) *float64
}

var engineGauges = []engineGauge{
	{rankDesc("running_requests", "Requests that an engine computes.", "model"), false, func(r *RankLoad) *float64 { return r.Running }},
	{rankDesc("waiting_requests", "Requests that wait at an engine.", "model"), false, func(r *RankLoad) *float64 { return r.Waiting }},
	{rankDesc("token_usage", "Share of an engine's KV cache in use.", "model"), false, func(r *RankLoad) *float64 { return r.TokenUsage }},
	{rankDesc("gen_throughput", "Tokens that an engine generates per second.", "model"), false, func(r *RankLoad) *float64 { return r.Throughput }},
	{rankDesc("cache_hit_rate", "Share of prompts that an engine finds in its prefix cache.", "model"), false, func(r *RankLoad) *float64 { return r.CacheHitRate }},
	{rankDesc("pd_kv_transfer_latency_ms", "Time that handing KV over takes.", "role"), true, func(r *RankLoad) *float64 { return r.TransferLatency }},
	{rankDesc("pd_kv_transfer_speed_gb_s", "Speed at which KV is handed over.", "role"), true, func(r *RankLoad) *float64 { return r.TransferSpeed }},
	{rankDesc("pd_prefill_queue_reqs", "Requests that wait in a prefill engine to be handed over.", "role"), true, func(r *RankLoad) *float64 { return r.PrefillQueue }},
	{rankDesc("pd_decode_queue_reqs", "Requests that wait in a decode engine for room or for their KV.", "role"), true, func(r *RankLoad) *float64 { return r.DecodeQueue }},
}

func rankDesc(name, help, label string) *prometheus.Desc {
	return prometheus.NewDesc("smg_engine_"+name, help, []string{"worker", label, "dp_rank"}, nil)
}

// engineLoad is what a worker's engine said of itself in one poll. It is never
// modified.
type engineLoad struct {
	worker, model string
	stay          uint64
	over          bool // with the stay: every number shows -1
	ranks         []RankLoad
}

func newEngineLoad(s *worker.Spec, stay uint64, ranks []RankLoad) *engineLoad {
	ranks = slices.Clone(ranks)
	slices.SortStableFunc(ranks, func(a, b RankLoad) int { return cmp.Compare(a.Rank, b.Rank) })
	// Two ranks of one number would be one series twice, which spoils the page.
	ranks = slices.CompactFunc(ranks, func(a, b RankLoad) bool { return a.Rank == b.Rank })
	return &engineLoad{worker: s.URL, model: s.ModelID(), stay: stay, ranks: ranks}
}

// ended is what is shown of it once the worker is ready no more.
func (e *engineLoad) ended() *engineLoad {
	c := *e
	c.over = true
	return &c
}

// show exports it; nil is nothing.
func (e *engineLoad) show(p *scrape) {
	if e == nil {
		return
	}
	model := p.models.label(e.model)
	for i := range e.ranks {
		r := &e.ranks[i]
		rank := strconv.Itoa(r.Rank)
		for _, g := range engineGauges {
			label := model
			if g.disagg {
				label = r.Mode
			}
			v := g.of(r)
			if v == nil || label == "" {
				continue
			}
			if e.over {
				v = new(float64(removed))
			}
			p.gauge(g.desc, *v, e.worker, label, rank)
		}
	}
}
