package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// FuzzLoads: no panic; only believable numbers come through; a report has as many
// ranks as a plain decoder sees, and says something; sums and means fit the ranks.
func FuzzLoads(f *testing.F) {
	for _, seed := range []string{
		twoRanks,
		`{"loads":[]}`, `{"loads":null}`, `{}`, `[]`, `{"loads":[{}]}`, `{"loads":{}}`,
		`{"loads":[{"token_usage":NaN,"gen_throughput":-Infinity,"num_running_reqs":1e999,"x":"NaN\"Infinity\\"},{"dp_rank":3,"num_used_tokens":5,"max_total_num_tokens":9}]}`,
		`{"loads":[{"num_running_reqs":2147483648,"num_waiting_reqs":-1,"cache_hit_rate":1.5,"utilization":"1"}]}`,
		`{"loads":[{"disagg_mode":"decode","kv_transfer_latency_ms":1,"prefill_queue_reqs":null,"disaggregation":{"mode":1,"prefill_inflight_queue_reqs":2,"decode_transfer_queue_reqs":3}}]}`,
		`{"loads":[{"memory":{"weight_gb":1},"queues":{"waiting":2}}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		ranks, err := parseLoads(body)
		var plain struct {
			Loads []json.RawMessage `json:"loads"`
		}
		decodes := json.Unmarshal(body, &plain) == nil
		if err != nil {
			if ranks != nil {
				t.Fatalf("%d ranks and %v", len(ranks), err)
			}
			if decodes && plain.Loads != nil && len(plain.Loads) == 0 && errors.Is(err, ErrNoLoads) {
				t.Fatal("no ranks are taken for no route")
			}
			return
		}
		if decodes && len(plain.Loads) != len(ranks) {
			t.Fatalf("%d ranks, a plain decoder sees %d", len(ranks), len(plain.Loads))
		}
		said := false
		for i := range ranks {
			checkRank(t, &ranks[i])
			said = said || !ranks[i].blank()
		}
		if !said || len(ranks) > maxRanks {
			t.Fatalf("a report of %d ranks that says something: %v", len(ranks), said)
		}
		checkTotals(t, Loads{Ranks: ranks})
	})
}

// FuzzMetrics: no panic; only believable numbers come through; and where
// Prometheus's own parser takes the page, it sees the same load.
func FuzzMetrics(f *testing.F) {
	for _, seed := range []string{
		vllmPage, sglangPage,
		"# HELP sglang:token_usage x\n# TYPE sglang:token_usage gauge\nsglang:token_usage{a=\"b c\",d=\"}\"} 0.5 1718000000000\nsglang:token_usage{a=\"\\\"\"} 1\n",
		"sglang:token_usage NaN\nsglang_token_usage 0.5\nsglang_num_queue_reqs 1e9\nsglang_num_queue_reqs{a=\"b\"} 3\nsglang_gen_throughput +Inf\n",
		"vllm:gpu_cache_usage_perc -1\nvllm:kv_cache_usage_perc 1.5\nvllm:num_requests_running 2\nvllm:num_requests_waiting 0.5\n",
		"sglang:token_usage{\nsglang:token_usage} 1\nsglang:token_usage 0x1p-2 x\r\nsglang:token_usage\t0.25",
	} {
		for _, runtime := range []string{RuntimeSGLang, RuntimeVLLM, RuntimeGeneric} {
			f.Add([]byte(seed), runtime)
		}
	}
	f.Fuzz(func(t *testing.T, page []byte, runtime string) {
		engines := gaugesOf(runtime)
		rank, ok := parseMetrics(page, engines)
		if ok {
			checkRank(t, &rank)
			if rank.TokenUsage == nil || rank.UsedTokens != nil || rank.WaitingUncachedTokens != nil {
				t.Fatalf("report %+v", rank)
			}
		} else if !rank.blank() {
			t.Fatalf("no report, but %+v", rank)
		}
		if want, ok := standardMetrics(page, engines); ok {
			if diff := cmp.Diff(want, rank); diff != "" {
				t.Fatalf("-Prometheus +ours:\n%s", diff)
			}
		}
	})
}

// checkRank fails on numbers that cannot be.
func checkRank(t *testing.T, r *RankLoad) {
	t.Helper()
	counts := []*int{
		r.Running, r.Waiting, r.WaitingUncachedTokens, r.UsedTokens, r.MaxTokens, r.MaxRunning,
		r.Total, r.PrefillQueue, r.DecodeQueue,
	}
	measures := []*float64{r.Throughput, r.TransferLatency, r.TransferSpeed}
	if m := r.Memory; m != nil {
		counts = append(counts, m.TokenCapacity)
		measures = append(measures, m.WeightGB, m.KVCacheGB, m.GraphGB)
	}
	if q := r.Queues; q != nil {
		counts = append(counts, q.Waiting, q.Grammar, q.Paused, q.Retracted)
	}
	for i, n := range counts {
		if n != nil && *n < 0 {
			t.Fatalf("count %d is %d", i, *n)
		}
	}
	for i, m := range measures {
		if m != nil && !(0 <= *m && *m <= maxMeasure) {
			t.Fatalf("measure %d is %v", i, *m)
		}
	}
	for i, v := range []*float64{r.TokenUsage, r.CacheHitRate, r.Utilization} {
		if v != nil && !(0 <= *v && *v <= 1) {
			t.Fatalf("ratio %d is %v", i, *v)
		}
	}
	switch r.DisaggMode {
	case "", "null", "prefill", "decode":
	default:
		t.Fatalf("mode %q", r.DisaggMode)
	}
	if r.Rank < 0 {
		t.Fatalf("rank %d", r.Rank)
	}
}

// checkTotals compares with sums taken the plain way.
func checkTotals(t *testing.T, l Loads) {
	t.Helper()
	waiting, uncached, throughput, usage := -1, -1, -1.0, -1.0
	told := 0.0
	for _, r := range l.Ranks {
		if r.Waiting != nil {
			waiting = max(waiting, 0) + *r.Waiting
		}
		if r.WaitingUncachedTokens != nil {
			uncached = max(uncached, 0) + *r.WaitingUncachedTokens
		}
		if r.Throughput != nil {
			throughput = max(throughput, 0) + *r.Throughput
		}
		if r.TokenUsage != nil {
			usage = max(usage, 0) + *r.TokenUsage
			told++
		}
	}
	if told > 0 {
		usage /= told
	}
	got := totalsOf(l)
	want := got
	want.Waiting, want.Uncached, want.Throughput, want.KVUsage = waiting, uncached, throughput, usage
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("-want +got:\n%s", diff)
	}
	if math.IsInf(got.Throughput, 0) || got.KVUsage > 1 {
		t.Fatalf("totals %+v", got)
	}
}

// glued is a line whose name does not end where it should.
var glued = regexp.MustCompile(`(?m)^[ \t]*[a-zA-Z_:][a-zA-Z0-9_:]*[^a-zA-Z0-9_: \t{\n]`)

// standardMetrics is the load that Prometheus's own parser sees on a page that
// it takes, if that can be compared: it reads some of what we pass over, and means
// something else by some types.
func standardMetrics(page []byte, engines []gauges) (load RankLoad, ok bool) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(page))
	if err != nil || bytes.Contains(page, []byte(`{"`)) || bytes.ContainsAny(page, "\r\v\f") || glued.Match(page) {
		return RankLoad{}, false
	}
	samples := map[string][]float64{}
	for name, family := range families {
		for _, m := range family.GetMetric() {
			switch family.GetType() {
			case dto.MetricType_GAUGE:
				samples[name] = append(samples[name], m.GetGauge().GetValue())
			case dto.MetricType_COUNTER:
				samples[name] = append(samples[name], m.GetCounter().GetValue())
			case dto.MetricType_UNTYPED:
				samples[name] = append(samples[name], m.GetUntyped().GetValue())
			default:
				return RankLoad{}, false
			}
		}
	}
	fold := func(name string, limit float64, whole bool) (total float64, n int) {
		for _, v := range samples[name] {
			if v >= 0 && v <= limit && (!whole || v == math.Trunc(v)) {
				if limit == maxRatio {
					v = min(v, 1)
				}
				total += v
				n++
			}
		}
		return total, n
	}
	mean := func(name string, limit float64) *float64 {
		if total, n := fold(name, limit, false); n > 0 {
			return new(total / float64(n))
		}
		return nil
	}
	count := func(name string) *int {
		if total, n := fold(name, maxCount, true); n > 0 {
			return new(int(total))
		}
		return nil
	}
	for _, g := range engines {
		for _, usage := range g.usage {
			if k := mean(usage, maxRatio); k != nil {
				load := RankLoad{
					Running: count(g.running), Waiting: count(g.waiting), TokenUsage: k,
					Throughput: mean(g.throughput, maxMeasure), CacheHitRate: mean(g.hitRate, maxRatio), Utilization: mean(g.utilization, maxRatio),
				}
				if load.Running != nil && load.Waiting != nil {
					load.Total = new(*load.Running + *load.Waiting)
				}
				return load, true
			}
		}
	}
	return RankLoad{}, true
}
