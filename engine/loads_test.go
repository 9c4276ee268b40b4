package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// loadEngine answers with what its test puts in, and notes what it was asked.
type loadEngine struct {
	url string

	mu       sync.Mutex
	loads    reply
	metrics  reply
	requests []loadRequest
}

type loadRequest struct{ uri, authorization string }

// reply is an answer; status 0 never comes.
type reply struct {
	status int
	body   string
}

func newLoadEngine(tb testing.TB, loads, metrics reply) *loadEngine {
	e := &loadEngine{loads: loads, metrics: metrics}
	s := httptest.NewServer(e)
	tb.Cleanup(s.Close)
	e.url = s.URL
	return e
}

func (e *loadEngine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	e.requests = append(e.requests, loadRequest{r.URL.RequestURI(), r.Header.Get("Authorization")})
	answer := reply{status: http.StatusTeapot}
	switch r.URL.Path {
	case "/v1/loads":
		answer = e.loads
	case "/metrics":
		answer = e.metrics
	}
	e.mu.Unlock()
	if answer.status == 0 {
		<-r.Context().Done()
		return
	}
	w.WriteHeader(answer.status)
	w.Write([]byte(answer.body))
}

// answer replaces what /v1/loads says.
func (e *loadEngine) answer(loads reply) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.loads = loads
}

// seen returns the requests since the last call.
func (e *loadEngine) seen() []loadRequest {
	e.mu.Lock()
	defer e.mu.Unlock()
	requests := e.requests
	e.requests = nil
	return requests
}

// asked returns the paths asked for since the last call.
func (e *loadEngine) asked() string {
	var paths []string
	for _, r := range e.seen() {
		path, _, _ := strings.Cut(r.uri, "?")
		paths = append(paths, path)
	}
	return strings.Join(paths, " ")
}

func newLoadSource(tb testing.TB, e *loadEngine, runtime string) *LoadSource {
	return NewLoadSource(newProber(tb, nil), LoadTarget{BaseURL: e.url, APIKey: "k", Runtime: runtime})
}

func TestLoads(t *testing.T) {
	const whole = `{
		"timestamp": "2026-08-06T09:15:23.481920+00:00", "version": "0.5.4", "dp_rank_count": 1,
		"loads": [ {
			"dp_rank": 0, "num_running_reqs": 24, "num_waiting_reqs": 3, "num_total_reqs": 27,
			"num_waiting_uncached_tokens": 6144, "num_used_tokens": 382910, "num_total_tokens": 401294,
			"max_total_num_tokens": 524288, "max_running_requests": 256, "token_usage": 0.7303,
			"gen_throughput": 1842.55, "cache_hit_rate": 0.6412, "utilization": 0.0,
			"memory": {"weight_gb": 15.234, "kv_cache_gb": 42.117, "graph_gb": 1.882, "token_capacity": 524288},
			"disagg_mode": "prefill", "kv_transfer_latency_ms": 1.5, "kv_transfer_speed_gb_s": 12,
			"prefill_queue_reqs": 4, "decode_queue_reqs": 0,
			"speculative": null, "lora": null,
			"queues": {"waiting": 3, "grammar": 1, "paused": 0, "retracted": 2}
		} ],
		"aggregate": {"total_running_reqs": 24}
	}`
	wholeRank := RankLoad{
		Running: new(24), Waiting: new(3), Total: new(27),
		WaitingUncachedTokens: new(6144), UsedTokens: new(382910), MaxTokens: new(524288), MaxRunning: new(256),
		TokenUsage: new(0.7303), Throughput: new(1842.55), CacheHitRate: new(0.6412), Utilization: new(0.0),
		DisaggMode: "prefill", TransferLatency: new(1.5), TransferSpeed: new(12.0), PrefillQueue: new(4), DecodeQueue: new(0),
		Memory: &MemoryLoad{WeightGB: new(15.234), KVCacheGB: new(42.117), GraphGB: new(1.882), TokenCapacity: new(524288)},
		Queues: &QueueLoad{Waiting: new(3), Grammar: new(1), Paused: new(0), Retracted: new(2)},
	}
	rank := func(members string) string { return `{"loads":[{"dp_rank":0,` + members + `}]}` }
	tests := []struct {
		name string
		body string
		want []RankLoad
	}{
		{"everything", whole, []RankLoad{wholeRank}},
		{"0 is a count", rank(`"num_waiting_reqs":5,"num_waiting_uncached_tokens":0`), []RankLoad{{Waiting: new(5), WaitingUncachedTokens: new(0)}}},
		{"null is none", rank(`"num_waiting_reqs":5,"num_waiting_uncached_tokens":null,"memory":null,"queues":null,"disaggregation":null`), []RankLoad{{Waiting: new(5)}}},
		{"a count with a point", rank(`"num_waiting_reqs":5.0`), []RankLoad{{Waiting: new(5)}}},
		{"half a request", rank(`"num_waiting_reqs":5.5,"num_running_reqs":1`), []RankLoad{{Running: new(1)}}},
		{"other types", rank(`"num_waiting_reqs":"5","token_usage":[0.5],"gen_throughput":true,"disagg_mode":7,"disaggregation":"x","memory":[1],"queues":{"waiting":{}},"num_running_reqs":1`), []RankLoad{{Running: new(1)}}},
		{"negative", rank(`"num_waiting_reqs":-1,"token_usage":-0.5,"gen_throughput":-3,"num_running_reqs":1`), []RankLoad{{Running: new(1)}}},
		{"beyond belief", rank(`"num_waiting_reqs":2147483648,"token_usage":73,"gen_throughput":1e300,"kv_transfer_latency_ms":1e999,"num_running_reqs":2147483647`), []RankLoad{{Running: new(math.MaxInt32)}}},
		{"usage just over 1", rank(`"token_usage":1.002`), []RankLoad{{TokenUsage: new(1.0)}}},
		{"the last of two", rank(`"num_waiting_reqs":5,"num_waiting_reqs":6`), []RankLoad{{Waiting: new(6)}}},
		{
			"SGLang's own object", rank(`"disaggregation":{"mode":"decode","prefill_prealloc_queue_reqs":1,"prefill_inflight_queue_reqs":2,
				"decode_prealloc_queue_reqs":4,"decode_transfer_queue_reqs":8,"decode_retracted_queue_reqs":16,"kv_transfer_speed_gb_s":2.5,"kv_transfer_latency_ms":7}`),
			[]RankLoad{{DisaggMode: "decode", PrefillQueue: new(3), DecodeQueue: new(28), TransferSpeed: new(2.5), TransferLatency: new(7.0)}},
		},
		{
			"newer SGLang's own object", rank(`"disaggregation":{"mode":"null","prefill_bootstrap_queue_reqs":1,"prefill_inflight_queue_reqs":2}`),
			[]RankLoad{{DisaggMode: "null", PrefillQueue: new(3)}},
		},
		{
			"flat before the object", rank(`"disagg_mode":"prefill","prefill_queue_reqs":9,"disaggregation":{"mode":"decode","prefill_prealloc_queue_reqs":1,"decode_prealloc_queue_reqs":2}`),
			[]RankLoad{{DisaggMode: "prefill", PrefillQueue: new(9), DecodeQueue: new(2)}},
		},
		{"an unknown mode", rank(`"disagg_mode":"hybrid","num_running_reqs":1`), []RankLoad{{Running: new(1)}}},
		{
			"ranks without names", ` { "loads" : [ {"num_running_reqs":1} , {"dp_rank":-1,"num_running_reqs":2}, {"dp_rank":7,"num_running_reqs":3} ] } `,
			[]RankLoad{{Rank: 0, Running: new(1)}, {Rank: 1, Running: new(2)}, {Rank: 7, Running: new(3)}},
		},
		{"one rank says nothing", `{"loads":[{},{"num_running_reqs":2}]}`, []RankLoad{{}, {Rank: 1, Running: new(2)}}},
		{
			"numbers of Python", rank(`"note":"NaN \" \\","token_usage":NaN,"gen_throughput":Infinity,"cache_hit_rate":-Infinity,"num_running_reqs":1`),
			[]RankLoad{{Running: new(1)}},
		},
	}
	p := newProber(t, nil)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := newLoadEngine(t, reply{200, tt.body}, reply{404, ""})
			got, err := p.Loads(t.Context(), e.url, "k")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(Loads{SourceLoads, tt.want}, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if diff := cmp.Diff([]loadRequest{{"/v1/loads?include=core,disagg,queues,memory", "Bearer k"}}, e.seen(), cmp.AllowUnexported(loadRequest{})); diff != "" {
				t.Errorf("requests -want +got:\n%s", diff)
			}
		})
	}
}

func TestNoLoads(t *testing.T) {
	const asked = "GET URL/v1/loads?include=core,disagg,queues,memory"
	tests := []struct {
		name   string
		answer reply
		absent bool
		want   string
	}{
		{"404", reply{404, "nope"}, true, "engine has no /v1/loads: " + asked + ": answered 404 Not Found: nope"},
		{"405", reply{405, ""}, true, "engine has no /v1/loads: " + asked + ": answered 405 Method Not Allowed"},
		{"501", reply{501, ""}, true, "engine has no /v1/loads: " + asked + ": answered 501 Not Implemented"},
		{"a page", reply{200, "<html>"}, true, asked + ": engine has no /v1/loads, but another answer"},
		{"nothing", reply{204, ""}, true, asked + ": engine has no /v1/loads, but another answer"},
		{"another object", reply{200, `{"status":"ok"}`}, true, asked + ": engine has no /v1/loads, but another answer"},
		{"a list", reply{200, `[{"num_reqs":1}]`}, true, asked + ": engine has no /v1/loads, but another answer"},
		{"null", reply{200, `null`}, true, asked + ": engine has no /v1/loads, but another answer"},
		{"loads by rank", reply{200, `{"loads":{"0":{"num_running_reqs":1}}}`}, true, asked + ": engine has no /v1/loads, but another answer"},
		{"loads of no objects", reply{200, `{"loads":[{"num_running_reqs":1},2]}`}, true, asked + ": engine has no /v1/loads, but another answer"},
		{"cut JSON", reply{200, `{"loads":[{"num_running_reqs":1}`}, true, asked + ": engine has no /v1/loads, but another answer"},
		{"two answers", reply{200, `{"loads":[{"num_running_reqs":1}]}{}`}, true, asked + ": engine has no /v1/loads, but another answer"},
		{"no ranks", reply{200, `{"loads":[]}`}, false, asked + ": no loads in the answer"},
		{"null ranks", reply{200, `{"loads":null}`}, false, asked + ": no loads in the answer"},
		{"no numbers", reply{200, `{"loads":[{"dp_rank":0,"token_usage":NaN},{"disagg_mode":"null"}]}`}, false, asked + ": no number in the loads of the answer"},
		{"too many ranks", reply{200, `{"loads":[{}` + strings.Repeat(",{}", maxRanks) + `]}`}, false, asked + ": loads of more than 1024 ranks"},
		{"too long", reply{200, strings.Repeat(" ", maxProbeBody+1)}, false, asked + ": answer over 4194304 bytes"},
		{"moved", reply{307, ""}, false, asked + ": answered 307 Temporary Redirect"},
		{"wrong key", reply{401, ""}, false, asked + ": answered 401 Unauthorized"},
		{"forbidden", reply{403, ""}, false, asked + ": answered 403 Forbidden"},
		{"bad request", reply{400, `{"detail":"Invalid include sections"}`}, false, asked + `: answered 400 Bad Request: {"detail":"Invalid include sections"}`},
		{"too many requests", reply{429, ""}, false, asked + ": answered 429 Too Many Requests"},
		{"loading", reply{503, "Loading"}, false, asked + ": answered 503 Service Unavailable: Loading"},
		{"slow", reply{}, false, asked + ": no answer from "},
	}
	p := newProber(t, nil)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := newLoadEngine(t, tt.answer, reply{404, ""})
			limit := patience
			if tt.name == "slow" {
				limit = 50 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			got, err := p.Loads(ctx, e.url, "")
			want := strings.ReplaceAll(tt.want, "URL", e.url)
			if err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Fatalf("got %v, %v, want %s", got, err, want)
			}
			if absent := errors.Is(err, ErrNoLoads); absent != tt.absent {
				t.Errorf("absent %v, want %v", absent, tt.absent)
			}
			for _, r := range e.seen() {
				if r.authorization != "" {
					t.Errorf("sent %q without a key", r.authorization)
				}
			}
		})
	}
	t.Run("refused", func(t *testing.T) {
		if _, err := p.Loads(t.Context(), refusing(t), ""); err == nil || errors.Is(err, ErrNoLoads) {
			t.Errorf("got %v", err)
		}
	})
}

// totals are what a Loads derives; -1 is not known.
type totals struct {
	Running, Waiting, Uncached, Used, Max, MaxRunning, Prefill, Decode int
	Throughput, KVUsage, HitRate                                       float64
	ByRank                                                             map[int]int
}

func totalsOf(l Loads) totals {
	return totals{
		Running: known(l.Running()), Waiting: known(l.Waiting()), Uncached: known(l.WaitingUncachedTokens()),
		Used: known(l.UsedTokens()), Max: known(l.MaxTokens()), MaxRunning: known(l.MaxRunning()),
		Prefill: known(l.PrefillQueue()), Decode: known(l.DecodeQueue()),
		Throughput: known(l.Throughput()), KVUsage: known(l.KVUsage()), HitRate: known(l.CacheHitRate()),
		ByRank: l.TokensByRank(),
	}
}

func known[T int | float64](v T, ok bool) T {
	if !ok {
		return -1 - v // a number that is not known must be 0
	}
	return v
}

func TestTotals(t *testing.T) {
	tests := []struct {
		name  string
		ranks []RankLoad
		want  totals
	}{
		{"no ranks", nil, totals{-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, nil}},
		{"nothing known", []RankLoad{{}, {Rank: 1}}, totals{-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, nil}},
		{
			"all known",
			[]RankLoad{
				{
					Running: new(1), Waiting: new(2), WaitingUncachedTokens: new(300), UsedTokens: new(10), MaxTokens: new(100), MaxRunning: new(8),
					PrefillQueue: new(3), DecodeQueue: new(5), Throughput: new(600.0), TokenUsage: new(0.25), CacheHitRate: new(0.5),
				},
				{
					Rank:    3,
					Running: new(10), Waiting: new(20), WaitingUncachedTokens: new(700), UsedTokens: new(20), MaxTokens: new(100), MaxRunning: new(8),
					PrefillQueue: new(30), DecodeQueue: new(50), Throughput: new(400.0), TokenUsage: new(0.75), CacheHitRate: new(1.0),
				},
			},
			totals{11, 22, 1000, 30, 200, 16, 33, 55, 1000, 0.5, 0.75, map[int]int{0: 10, 3: 20}},
		},
		{
			// The mean is not pulled down by a rank that does not tell.
			"some ranks tell",
			[]RankLoad{{Waiting: new(2), TokenUsage: new(0.8), UsedTokens: new(7)}, {Rank: 1, MaxTokens: new(9)}},
			totals{-1, 2, -1, 7, 9, -1, -1, -1, -1, 0.8, -1, map[int]int{0: 7}},
		},
		{"no capacity", []RankLoad{{UsedTokens: new(7), MaxTokens: new(0)}}, totals{-1, -1, -1, 7, 0, -1, -1, -1, -1, -1, -1, nil}},
		{"known to be 0", []RankLoad{{Waiting: new(2), WaitingUncachedTokens: new(0)}}, totals{-1, 2, 0, -1, -1, -1, -1, -1, -1, -1, -1, nil}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, totalsOf(Loads{Ranks: tt.ranks})); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestMetrics(t *testing.T) {
	const idle = "sglang:token_usage 0\n"
	tests := []struct {
		name    string
		runtime string
		page    string
		want    *RankLoad // nil: no report
	}{
		{
			"vllm", RuntimeVLLM,
			"# HELP vllm:kv_cache_usage_perc KV-cache usage. 1 means 100 percent usage.\n" +
				"# TYPE vllm:kv_cache_usage_perc gauge\n" +
				`vllm:kv_cache_usage_perc{engine="0",model_name="meta/llama"} 0.25` + "\n" +
				`vllm:num_requests_running{engine="0",model_name="meta/llama"} 3.0` + "\n" +
				`vllm:num_requests_waiting{engine="0",model_name="meta/llama"} 4.0` + "\n" +
				`vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 4.0` + "\n" +
				`vllm:gpu_prefix_cache_hit_rate{engine="0"} 0.5` + "\n" +
				`vllm:gen_throughput 9` + "\n",
			&RankLoad{Running: new(3), Waiting: new(4), Total: new(7), TokenUsage: new(0.25), CacheHitRate: new(0.5)},
		},
		{"vllm, older gauge wins", RuntimeVLLM, "vllm:kv_cache_usage_perc 0.25\nvllm:gpu_cache_usage_perc 0.5\n", &RankLoad{TokenUsage: new(0.5)}},
		{"vllm, older gauge spoilt", RuntimeVLLM, "vllm:kv_cache_usage_perc 0.25\nvllm:gpu_cache_usage_perc NaN\n", &RankLoad{TokenUsage: new(0.25)}},
		{
			"sglang", RuntimeSGLang,
			"sglang:token_usage 0.5\nsglang:num_running_reqs 1\nsglang:num_queue_reqs 2\nsglang:gen_throughput 12.5\nsglang:cache_hit_rate 0.25\nsglang:utilization 0.75\nsglang:num_used_tokens 77\n",
			&RankLoad{Running: new(1), Waiting: new(2), Total: new(3), TokenUsage: new(0.5), Throughput: new(12.5), CacheHitRate: new(0.25), Utilization: new(0.75)},
		},
		{"idle", RuntimeSGLang, "sglang:token_usage 0\nsglang:num_queue_reqs 0\n", &RankLoad{TokenUsage: new(0.0), Waiting: new(0)}},
		{"another prefix for the rest", RuntimeSGLang, "sglang_token_usage 0.5\nsglang:num_queue_reqs 2\nsglang_num_queue_reqs 3\n", &RankLoad{TokenUsage: new(0.5), Waiting: new(3)}},
		{
			"means and sums", RuntimeSGLang,
			"sglang:token_usage{dp_rank=\"0\"} 0.5\nsglang:token_usage{dp_rank=\"1\"} 1\nsglang:num_running_reqs{dp_rank=\"0\"} 1\nsglang:num_running_reqs{dp_rank=\"1\"} 2\n" +
				"sglang:gen_throughput{dp_rank=\"0\"} 10\nsglang:gen_throughput{dp_rank=\"1\"} 20\n",
			&RankLoad{TokenUsage: new(0.75), Running: new(3), Throughput: new(15.0)},
		},
		{
			"lines that do not parse", RuntimeSGLang,
			"sglang:num_queue_reqs\nsglang:num_queue_reqs{\nsglang:num_queue_reqs}{ 1\nsglang:num_queue_reqs{a=\"b\"}\nsglang:num_queue_reqs one\nsglang:num_queue_reqs 1 2 3\nsglang:num_queue_reqs 1 soon\n" +
				" } \n{}\n#\n\n\xff\xfe 1\nsglang:token_usage 0.5\nsglang:num_running_reqs 7",
			&RankLoad{TokenUsage: new(0.5), Running: new(7)},
		},
		{"CRLF and blanks", RuntimeSGLang, "\tsglang:token_usage \t 0.5 \r\n  sglang:num_queue_reqs {a=\"b\"}3\t\r\n", &RankLoad{TokenUsage: new(0.5), Waiting: new(3)}},
		{
			"labels hold anything", RuntimeSGLang,
			`sglang:token_usage{model="a } b",x="{ \" #\\"} 0.5` + "\n" + `sglang:num_queue_reqs{broken="a"b"} 3` + "\n" + `other{x="sglang:num_queue_reqs"} 9` + "\n",
			&RankLoad{TokenUsage: new(0.5), Waiting: new(3)},
		},
		{"spoilt samples", RuntimeSGLang, "sglang:token_usage{a=\"1\"} NaN\nsglang:token_usage{a=\"2\"} 0.5\nsglang:token_usage 45\nsglang:num_queue_reqs +Inf\nsglang:num_running_reqs -1\nsglang:gen_throughput 1e999\nsglang:cache_hit_rate 0.5.5\n", &RankLoad{TokenUsage: new(0.5)}},
		{"usage spoilt", RuntimeSGLang, "sglang:token_usage NaN\nsglang_token_usage -Inf\nsglang:num_queue_reqs 5\n", nil},
		{"generic like vllm", RuntimeGeneric, "vllm:kv_cache_usage_perc 0.25\nvllm:num_requests_waiting 2\n", &RankLoad{TokenUsage: new(0.25), Waiting: new(2)}},
		{"generic like sglang", RuntimeGeneric, "sglang_token_usage 0.25\nsglang_num_queue_reqs 2\n", &RankLoad{TokenUsage: new(0.25), Waiting: new(2)}},
		{"generic like neither", RuntimeGeneric, "llamacpp:requests_processing 2\n", nil},
		{"vllm with names of sglang", RuntimeVLLM, idle, nil},
		{"sglang with names of vllm", RuntimeSGLang, "vllm:kv_cache_usage_perc 0.25\n", nil},
		{"nothing", RuntimeVLLM, "", nil},
		{"a page", RuntimeVLLM, "<html>{}</html>", nil},
	}
	p := newProber(t, nil)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := newLoadEngine(t, reply{404, ""}, reply{200, tt.page})
			got, err := p.Metrics(t.Context(), e.url, "k", tt.runtime)
			if tt.want == nil {
				if want := fmt.Sprintf("GET %s/metrics: no gauge of KV usage", e.url); err == nil || err.Error() != want {
					t.Errorf("got %v, want %s", err, want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(Loads{SourceMetrics, []RankLoad{*tt.want}}, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if diff := cmp.Diff([]loadRequest{{"/metrics", "Bearer k"}}, e.seen(), cmp.AllowUnexported(loadRequest{})); diff != "" {
				t.Errorf("requests -want +got:\n%s", diff)
			}
		})
	}
	t.Run("404", func(t *testing.T) {
		e := newLoadEngine(t, reply{}, reply{404, "nope"})
		_, err := p.Metrics(t.Context(), e.url, "", RuntimeVLLM)
		if want := "GET " + e.url + "/metrics: answered 404 Not Found: nope"; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	})
	t.Run("other runtimes are not asked", func(t *testing.T) {
		e := newLoadEngine(t, reply{}, reply{200, idle})
		_, err := p.Metrics(t.Context(), e.url, "", "trtllm")
		if want := `load of a "trtllm" engine cannot be read from its metrics`; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
		if asked := e.asked(); asked != "" {
			t.Errorf("asked %s", asked)
		}
	})
}
