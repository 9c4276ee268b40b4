package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// ErrNoLoads means that the engine has no /v1/loads, or something else under that
// name. It is not worth asking again as long as it is the same engine.
var ErrNoLoads = errors.New("engine has no /v1/loads")

const loadsPath = "/v1/loads?include=core,disagg,queues,memory"

// Loads asks the engine at baseURL for its load, with apiKey as bearer unless it
// is empty. ctx sets the time. An error that matches [ErrNoLoads] is an engine that
// cannot be asked so; with every other one it is worth asking again.
func (p *Prober) Loads(ctx context.Context, baseURL, apiKey string) (Loads, error) {
	status, body, err := p.fetch(ctx, baseURL, loadsPath, apiKey)
	switch {
	case err != nil:
		return Loads{}, err
	case status == http.StatusNotFound, status == http.StatusMethodNotAllowed, status == http.StatusNotImplemented:
		return Loads{}, fmt.Errorf("%w: %w", ErrNoLoads, statusError(baseURL, loadsPath, status, body))
	case !good(status):
		return Loads{}, statusError(baseURL, loadsPath, status, body)
	}
	ranks, err := parseLoads(body)
	if err != nil {
		return Loads{}, fmt.Errorf("GET %s%s: %w", strings.TrimRight(baseURL, "/"), loadsPath, err)
	}
	return Loads{Source: SourceLoads, Ranks: ranks}, nil
}

// errShape is an answer with something else in it than loads.
var errShape = fmt.Errorf("%w, but another answer", ErrNoLoads)

// parseLoads reads the body of a good answer.
func parseLoads(body []byte) ([]RankLoad, error) {
	var answer struct {
		Loads json.RawMessage `json:"loads"`
	}
	if json.Unmarshal(body, &answer) != nil {
		// Python writes numbers that JSON does not have.
		if json.Unmarshal(nullNonFinite(body), &answer) != nil {
			return nil, errShape
		}
	}
	if string(answer.Loads) == "null" {
		return nil, errors.New("no loads in the answer")
	}
	list := json.NewDecoder(bytes.NewReader(answer.Loads))
	if open, err := list.Token(); err != nil || open != json.Delim('[') {
		return nil, errShape
	}
	var ranks []RankLoad
	said := false
	for list.More() {
		if len(ranks) == maxRanks {
			return nil, fmt.Errorf("loads of more than %d ranks", maxRanks)
		}
		var raw json.RawMessage
		if list.Decode(&raw) != nil || raw[0] != '{' {
			return nil, errShape
		}
		ranks = append(ranks, parseRank(raw, len(ranks)))
		said = said || !ranks[len(ranks)-1].blank()
	}
	switch {
	case len(ranks) == 0:
		return nil, errors.New("no loads in the answer")
	case !said:
		// As a report it would be that of an idle engine.
		return nil, errors.New("no number in the loads of the answer")
	}
	return ranks, nil
}

// rankJSON is a rank on the wire. SGLang has the disaggregation fields in an
// object of their own; others have them flat.
type rankJSON struct {
	Rank                  number `json:"dp_rank"`
	Running               number `json:"num_running_reqs"`
	Waiting               number `json:"num_waiting_reqs"`
	Total                 number `json:"num_total_reqs"`
	WaitingUncachedTokens number `json:"num_waiting_uncached_tokens"`
	UsedTokens            number `json:"num_used_tokens"`
	MaxTokens             number `json:"max_total_num_tokens"`
	MaxRunning            number `json:"max_running_requests"`
	TokenUsage            number `json:"token_usage"`
	Throughput            number `json:"gen_throughput"`
	CacheHitRate          number `json:"cache_hit_rate"`
	Utilization           number `json:"utilization"`

	DisaggMode      string `json:"disagg_mode"`
	TransferLatency number `json:"kv_transfer_latency_ms"`
	TransferSpeed   number `json:"kv_transfer_speed_gb_s"`
	PrefillQueue    number `json:"prefill_queue_reqs"`
	DecodeQueue     number `json:"decode_queue_reqs"`

	Disagg struct {
		Mode             string `json:"mode"`
		PrefillPrealloc  number `json:"prefill_prealloc_queue_reqs"`
		PrefillBootstrap number `json:"prefill_bootstrap_queue_reqs"` // what newer versions call it
		PrefillInflight  number `json:"prefill_inflight_queue_reqs"`
		DecodePrealloc   number `json:"decode_prealloc_queue_reqs"`
		DecodeTransfer   number `json:"decode_transfer_queue_reqs"`
		DecodeRetracted  number `json:"decode_retracted_queue_reqs"`
		TransferLatency  number `json:"kv_transfer_latency_ms"`
		TransferSpeed    number `json:"kv_transfer_speed_gb_s"`
	} `json:"disaggregation"`
	Memory struct {
		Weight   number `json:"weight_gb"`
		KVCache  number `json:"kv_cache_gb"`
		Graph    number `json:"graph_gb"`
		Capacity number `json:"token_capacity"`
	} `json:"memory"`
	Queues struct {
		Waiting   number `json:"waiting"`
		Grammar   number `json:"grammar"`
		Paused    number `json:"paused"`
		Retracted number `json:"retracted"`
	} `json:"queues"`
}

// parseRank reads the object raw, the place'th of its list.
func parseRank(raw json.RawMessage, place int) RankLoad {
	var r rankJSON
	// raw is JSON, so an error tells of a member of another type: it is missing.
	_ = json.Unmarshal(raw, &r)
	d := &r.Disagg
	load := RankLoad{
		Rank:                  place,
		Running:               r.Running.count(),
		Waiting:               r.Waiting.count(),
		Total:                 r.Total.count(),
		WaitingUncachedTokens: r.WaitingUncachedTokens.count(),
		UsedTokens:            r.UsedTokens.count(),
		MaxTokens:             r.MaxTokens.count(),
		MaxRunning:            r.MaxRunning.count(),
		TokenUsage:            r.TokenUsage.ratio(),
		Throughput:            r.Throughput.measure(),
		CacheHitRate:          r.CacheHitRate.ratio(),
		Utilization:           r.Utilization.ratio(),
		DisaggMode:            mode(r.DisaggMode, d.Mode),
		TransferLatency:       first(r.TransferLatency.measure(), d.TransferLatency.measure()),
		TransferSpeed:         first(r.TransferSpeed.measure(), d.TransferSpeed.measure()),
		PrefillQueue: first(r.PrefillQueue.count(),
			add(first(d.PrefillPrealloc.count(), d.PrefillBootstrap.count()), d.PrefillInflight.count())),
		DecodeQueue: first(r.DecodeQueue.count(),
			add(d.DecodePrealloc.count(), d.DecodeTransfer.count(), d.DecodeRetracted.count())),
	}
	if rank := r.Rank.count(); rank != nil {
		load.Rank = *rank
	}
	m := MemoryLoad{r.Memory.Weight.measure(), r.Memory.KVCache.measure(), r.Memory.Graph.measure(), r.Memory.Capacity.count()}
	if m != (MemoryLoad{}) {
		load.Memory = &m
	}
	q := QueueLoad{r.Queues.Waiting.count(), r.Queues.Grammar.count(), r.Queues.Paused.count(), r.Queues.Retracted.count()}
	if q != (QueueLoad{}) {
		load.Queues = &q
	}
	return load
}

// UnmarshalJSON takes what is a number; everything else is a missing one.
func (n *number) UnmarshalJSON(raw []byte) error {
	v, err := strconv.ParseFloat(string(raw), 64) // out of range is an error too
	*n = number{v, err == nil}
	return nil
}

// mode is the first of modes that is one.
func mode(modes ...string) string {
	for _, m := range modes {
		switch m {
		case "prefill", "decode", "null":
			return m
		}
	}
	return ""
}

func first[T any](a, b *T) *T {
	if a != nil {
		return a
	}
	return b
}

// add is the sum of those that are there.
func add(counts ...*int) (total *int) {
	for _, c := range counts {
		switch {
		case c == nil:
		case total == nil:
			total = new(*c)
		default:
			*total += *c
		}
	}
	return total
}

// nullNonFinite puts null for NaN, Infinity and -Infinity outside of strings.
func nullNonFinite(body []byte) []byte {
	out := make([]byte, 0, len(body))
	quoted := false
	for i := 0; i < len(body); {
		rest := body[i:]
		n, word := 1, ""
		switch {
		case quoted && rest[0] == '\\':
			n = min(2, len(rest))
		case rest[0] == '"':
			quoted = !quoted
		case quoted:
		case bytes.HasPrefix(rest, []byte("NaN")):
			word = "NaN"
		case bytes.HasPrefix(rest, []byte("-Infinity")):
			word = "-Infinity"
		case bytes.HasPrefix(rest, []byte("Infinity")):
			word = "Infinity"
		}
		if word != "" {
			out = append(out, "null"...)
			i += len(word)
			continue
		}
		out = append(out, rest[:n]...)
		i += n
	}
	return out
}
