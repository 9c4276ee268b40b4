package ingress

import (
	"context"
	"net/http"
	"time"

	"smg/worker"
)

// loadsCard is what GET /loads shows: what engines report, a rank each.
type loadsCard struct {
	Timestamp string         `json:"timestamp"`
	Version   string         `json:"version"`
	Ranks     int            `json:"dp_rank_count"`
	Loads     []rankCard     `json:"loads"`
	Aggregate *aggregateCard `json:"aggregate,omitempty"` // of nobody there is none
}

// rankCard is one rank; what its engine does not report is absent.
type rankCard struct {
	Worker     string `json:"worker,omitempty"`
	WorkerType string `json:"worker_type,omitempty"`
	Rank       int    `json:"dp_rank"`

	Running       *float64 `json:"num_running_reqs,omitempty"`
	Waiting       *float64 `json:"num_waiting_reqs,omitempty"`
	Total         *float64 `json:"num_total_reqs,omitempty"`
	WaitingTokens *float64 `json:"num_waiting_uncached_tokens,omitempty"`
	UsedTokens    *float64 `json:"num_used_tokens,omitempty"`
	MaxTokens     *float64 `json:"max_total_num_tokens,omitempty"`
	MaxRunning    *float64 `json:"max_running_requests,omitempty"`
	TokenUsage    *float64 `json:"token_usage,omitempty"`
	Throughput    *float64 `json:"gen_throughput,omitempty"`
	CacheHitRate  *float64 `json:"cache_hit_rate,omitempty"`
	Utilization   *float64 `json:"utilization,omitempty"`

	Mode            string   `json:"disagg_mode,omitempty"`
	TransferLatency *float64 `json:"kv_transfer_latency_ms,omitempty"`
	TransferSpeed   *float64 `json:"kv_transfer_speed_gb_s,omitempty"`
	PrefillQueue    *float64 `json:"prefill_queue_reqs,omitempty"`
	DecodeQueue     *float64 `json:"decode_queue_reqs,omitempty"`

	Memory *memoryCard `json:"memory,omitempty"`
	Queues *queuesCard `json:"queues,omitempty"`
}

type memoryCard struct {
	Weight   *float64 `json:"weight_gb,omitempty"`
	KVCache  *float64 `json:"kv_cache_gb,omitempty"`
	Graph    *float64 `json:"graph_gb,omitempty"`
	Capacity *float64 `json:"token_capacity,omitempty"`
}

type queuesCard struct {
	Waiting   *float64 `json:"waiting,omitempty"`
	Grammar   *float64 `json:"grammar,omitempty"`
	Paused    *float64 `json:"paused,omitempty"`
	Retracted *float64 `json:"retracted,omitempty"`
}

// aggregateCard sums requests up, and has the means over those ranks that report the
// number, 0 where none does.
type aggregateCard struct {
	Running     float64 `json:"total_running_reqs"`
	Waiting     float64 `json:"total_waiting_reqs"`
	Total       float64 `json:"total_reqs"`
	Usage       float64 `json:"avg_token_usage"`
	Throughput  float64 `json:"avg_throughput"`
	Utilization float64 `json:"avg_utilization"`
}

// loads shows what engines reported last, in the order in which their workers were
// registered. A query model=m keeps those that serve m by id or alias, and those with no
// model list. No worker is asked, and one without a report that holds is absent.
func (s *Server) loads(x *exchange, r *http.Request) error {
	forsake(x.w, r)
	x.watch.begin(taking)
	want := r.URL.Query().Get("model")
	known := s.rankLoads(&x.ctx)
	card := loadsCard{Timestamp: s.now().UTC().Format(time.RFC3339), Version: "smg-" + s.cfg.Version, Loads: []rankCard{}}
	for _, m := range s.fleet.Workers() {
		if want != "" && !serves(m.Spec, want) {
			continue
		}
		ranks := known[m.Spec.ID]
		for i := range ranks {
			c := cardOfRank(&ranks[i])
			c.Worker, c.WorkerType = m.Spec.URL, m.Spec.Leg.String()
			card.Loads = append(card.Loads, c)
		}
	}
	card.Ranks, card.Aggregate = len(card.Loads), aggregate(card.Loads)
	writeJSON(x.w, http.StatusOK, card)
	return nil
}

// rankLoads is what engines report, by worker. Replicas are asked together, for all
// workers.
func (s *Server) rankLoads(ctx context.Context) map[worker.ID][]worker.RankLoad {
	if s.reported == nil {
		return nil
	}
	all := s.reported(ctx)
	known := make(map[worker.ID][]worker.RankLoad, len(all))
	for _, l := range all {
		known[l.Worker] = l.Ranks
	}
	return known
}

// engineLoadCard is what one worker's engine reports, as engines tell it themselves.
type engineLoadCard struct {
	Ranks int        `json:"dp_rank_count"`
	Loads []rankCard `json:"loads"`
}

// engineLoad is nil where nothing is reported that holds.
func engineLoad(ranks []worker.RankLoad) *engineLoadCard {
	if len(ranks) == 0 {
		return nil
	}
	c := &engineLoadCard{Ranks: len(ranks), Loads: make([]rankCard, len(ranks))}
	for i := range ranks {
		c.Loads[i] = cardOfRank(&ranks[i])
	}
	return c
}

func cardOfRank(r *worker.RankLoad) rankCard {
	c := rankCard{
		Rank: r.Rank, Running: r.Running, Waiting: r.Waiting, Total: r.Total, WaitingTokens: r.WaitingUncachedTokens,
		UsedTokens: r.UsedTokens, MaxTokens: r.MaxTokens, MaxRunning: r.MaxRunning,
		TokenUsage: r.TokenUsage, Throughput: r.Throughput, CacheHitRate: r.CacheHitRate, Utilization: r.Utilization,
		Mode: r.Mode, TransferLatency: r.TransferLatency, TransferSpeed: r.TransferSpeed,
		PrefillQueue: r.PrefillQueue, DecodeQueue: r.DecodeQueue,
	}
	if m := (memoryCard{r.WeightGB, r.KVCacheGB, r.GraphGB, r.TokenCapacity}); m != (memoryCard{}) {
		c.Memory = &m
	}
	if q := (queuesCard{r.QueueWaiting, r.QueueGrammar, r.QueuePaused, r.QueueRetracted}); q != (queuesCard{}) {
		c.Queues = &q
	}
	return c
}

func aggregate(ranks []rankCard) *aggregateCard {
	if len(ranks) == 0 {
		return nil
	}
	var a aggregateCard
	var usage, throughput, utilization mean
	for i := range ranks {
		r := &ranks[i]
		running, waiting := valueOf(r.Running), valueOf(r.Waiting)
		a.Running += running
		a.Waiting += waiting
		if r.Total != nil {
			a.Total += *r.Total
		} else {
			a.Total += running + waiting
		}
		usage.add(r.TokenUsage)
		throughput.add(r.Throughput)
		utilization.add(r.Utilization)
	}
	a.Usage, a.Throughput, a.Utilization = usage.value(), throughput.value(), utilization.value()
	return &a
}

// mean is that of numbers that may be missing.
type mean struct {
	sum float64
	n   int
}

func (m *mean) add(v *float64) {
	if v != nil {
		m.sum += *v
		m.n++
	}
}

func (m *mean) value() float64 {
	if m.n == 0 {
		return 0
	}
	return m.sum / float64(m.n)
}

func valueOf(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}
