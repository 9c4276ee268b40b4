package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	twoRanks = `{"loads":[
		{"dp_rank":0,"num_waiting_reqs":2,"token_usage":0.2,"gen_throughput":600,"num_waiting_uncached_tokens":300},
		{"dp_rank":1,"num_waiting_reqs":3,"token_usage":0.6,"gen_throughput":400,"num_waiting_uncached_tokens":700}]}`
	vllmPage   = "vllm:kv_cache_usage_perc 0.25\nvllm:num_requests_waiting 9\n"
	sglangPage = "sglang:token_usage 0.25\nsglang:num_queue_reqs 9\n"
)

// TestPolicies holds the numbered cases of the policies' specification that are
// decided by how an engine is asked for its load.
func TestPolicies(t *testing.T) {
	t.Run("LR-1_absent_is_remembered", func(t *testing.T) {
		for _, status := range []int{404, 405, 501} {
			e := newLoadEngine(t, reply{status, ""}, reply{200, vllmPage})
			s := newLoadSource(t, e, RuntimeVLLM)
			poll(t, s, SourceMetrics, 9)
			poll(t, s, SourceMetrics, 9)
			poll(t, s, SourceMetrics, 9)
			wantAsked(t, e, "/v1/loads /metrics /metrics /metrics")
			// The worker comes again, so it has a new source.
			poll(t, newLoadSource(t, e, RuntimeVLLM), SourceMetrics, 9)
			wantAsked(t, e, "/v1/loads /metrics")
		}
	})
	t.Run("LR-2_unclear_is_not_remembered", func(t *testing.T) {
		for _, status := range []int{503, 500, 401, 403, 429, 400} {
			e := newLoadEngine(t, reply{status, ""}, reply{200, vllmPage})
			s := newLoadSource(t, e, RuntimeVLLM)
			poll(t, s, SourceMetrics, 9)
			e.answer(reply{200, twoRanks})
			poll(t, s, SourceLoads, 5)
			wantAsked(t, e, "/v1/loads /metrics /v1/loads")
		}
	})
	t.Run("LR-3_no_KV_gauge_is_no_report", func(t *testing.T) {
		e := newLoadEngine(t, reply{404, ""}, reply{200, "vllm:num_requests_waiting 0\nvllm:num_requests_running 0\n"})
		noReport(t, newLoadSource(t, e, RuntimeVLLM))
	})
	t.Run("LR-4_two_ranks", func(t *testing.T) {
		e := newLoadEngine(t, reply{200, twoRanks}, reply{404, ""})
		l, err := newLoadSource(t, e, RuntimeSGLang).Poll(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want := totals{Running: -1, Waiting: 5, Uncached: 1000, Used: -1, Max: -1, MaxRunning: -1, Prefill: -1, Decode: -1, Throughput: 1000, KVUsage: 0.4, HitRate: -1}
		if diff := cmp.Diff(want, totalsOf(l)); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
	t.Run("LR-6_both_prefixes", func(t *testing.T) {
		e := newLoadEngine(t, reply{404, ""}, reply{200, "sglang_token_usage 0.75\nsglang_num_queue_reqs 4\n" + sglangPage})
		l := poll(t, newLoadSource(t, e, RuntimeSGLang), SourceMetrics, 9)
		if k, _ := l.KVUsage(); k != 0.25 {
			t.Errorf("KV usage %v", k)
		}
	})
	t.Run("LR-7_another_body", func(t *testing.T) {
		e := newLoadEngine(t, reply{200, `{"models":[]}`}, reply{200, sglangPage})
		s := newLoadSource(t, e, RuntimeSGLang)
		poll(t, s, SourceMetrics, 9)
		poll(t, s, SourceMetrics, 9)
		wantAsked(t, e, "/v1/loads /metrics /metrics")

		e = newLoadEngine(t, reply{200, `{"loads":[]}`}, reply{404, ""})
		s = newLoadSource(t, e, RuntimeSGLang)
		noReport(t, s)
		e.answer(reply{200, twoRanks})
		poll(t, s, SourceLoads, 5)
		wantAsked(t, e, "/v1/loads /metrics /v1/loads")
	})
	t.Run("LR-10_lines_of_metrics", func(t *testing.T) {
		e := newLoadEngine(t, reply{404, ""}, reply{200, "# a comment, sglang:num_queue_reqs 99\n" +
			`sglang:num_queue_reqs{model="a model",engine="x"} 3 1718000000000` + "\n" +
			`sglang:num_queue_reqs{model="b } 7",engine="x"} 4` + "\n" +
			`sglang:token_usage{model="a model",engine="x"} 0.25 1718000000000` + "\n" +
			`sglang:token_usage{model="b } 7",engine="x"} 0.75` + "\n"})
		l := poll(t, newLoadSource(t, e, RuntimeSGLang), SourceMetrics, 7)
		if k, _ := l.KVUsage(); k != 0.5 {
			t.Errorf("KV usage %v", k)
		}
	})
	t.Run("W-13_not_finite_is_missing", func(t *testing.T) {
		e := newLoadEngine(t, reply{200, `{"loads":[{"token_usage":NaN,"gen_throughput":Infinity,"num_waiting_reqs":1e999},{"token_usage":0.5,"num_waiting_reqs":2}]}`},
			reply{200, "sglang:token_usage{tp_rank=\"0\"} NaN\nsglang:token_usage{tp_rank=\"1\"} 0.5\nsglang:gen_throughput Inf\nsglang:num_queue_reqs 2\n"})
		s := newLoadSource(t, e, RuntimeSGLang)
		want := totals{Running: -1, Waiting: 2, Uncached: -1, Used: -1, Max: -1, MaxRunning: -1, Prefill: -1, Decode: -1, Throughput: -1, KVUsage: 0.5, HitRate: -1}
		for _, source := range []string{SourceLoads, SourceMetrics} {
			if diff := cmp.Diff(want, totalsOf(poll(t, s, source, 2))); diff != "" {
				t.Errorf("%s: -want +got:\n%s", source, diff)
			}
			e.answer(reply{404, ""})
		}
	})
}

// testUsageGauge: the KV gauge is found under each of its names, and nothing
// replaces it.
func testUsageGauge(t *testing.T) {
	tests := []struct {
		name, runtime, page string
		want                float64 // -1: no report
	}{
		{"vllm, kv_cache_usage_perc alone", RuntimeVLLM, "vllm:kv_cache_usage_perc 0.5\n", 0.5},
		{"sglang with a colon", RuntimeSGLang, "sglang:token_usage 0.5\n", 0.5},
		{"sglang with an underscore", RuntimeSGLang, "sglang_token_usage 0.5\n", 0.5},
		{"vllm without", RuntimeVLLM, "vllm:num_requests_running 1\nvllm:num_requests_waiting 1\n", -1},
		{"sglang without", RuntimeSGLang, "sglang:num_running_reqs 1\nsglang_num_queue_reqs 1\n", -1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newLoadSource(t, newLoadEngine(t, reply{404, ""}, reply{200, tt.page}), tt.runtime)
			if tt.want < 0 {
				noReport(t, s)
				return
			}
			l, err := s.Poll(t.Context())
			if k, known := l.KVUsage(); err != nil || !known || k != tt.want {
				t.Errorf("got %v, %v, %v", k, known, err)
			}
		})
	}
}

func TestLoadSource(t *testing.T) {
	t.Run("metrics after a timeout", func(t *testing.T) {
		e := newLoadEngine(t, reply{}, reply{200, vllmPage})
		s := newLoadSource(t, e, RuntimeVLLM)
		s.timeout = time.Second
		poll(t, s, SourceMetrics, 9)
		s.timeout = patience
		e.answer(reply{200, twoRanks})
		poll(t, s, SourceLoads, 5)
	})
	t.Run("other engines have /v1/loads alone", func(t *testing.T) {
		e := newLoadEngine(t, reply{200, twoRanks}, reply{200, vllmPage})
		s := newLoadSource(t, e, "trtllm")
		poll(t, s, SourceLoads, 5)
		e.answer(reply{404, ""})
		noReport(t, s)
		noReport(t, s)
		wantAsked(t, e, "/v1/loads /v1/loads")
	})
	t.Run("the error tells of both", func(t *testing.T) {
		e := newLoadEngine(t, reply{503, "loading"}, reply{404, ""})
		_, err := newLoadSource(t, e, RuntimeVLLM).Poll(t.Context())
		want := "GET " + e.url + "/v1/loads?include=core,disagg,queues,memory: answered 503 Service Unavailable: loading; " +
			"GET " + e.url + "/metrics: answered 404 Not Found"
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	})
	t.Run("given up", func(t *testing.T) {
		e := newLoadEngine(t, reply{200, twoRanks}, reply{200, vllmPage})
		s := newLoadSource(t, e, RuntimeVLLM)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.Poll(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		poll(t, s, SourceLoads, 5)
	})
}

// poll wants a report from source with so many waiting requests.
func poll(t *testing.T, s *LoadSource, source string, waiting int) Loads {
	t.Helper()
	l, err := s.Poll(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got, known := l.Waiting(); l.Source != source || !known || got != waiting {
		t.Errorf("%d waiting (%v) from %s, want %d from %s", got, known, l.Source, waiting, source)
	}
	return l
}

func noReport(t *testing.T, s *LoadSource) {
	t.Helper()
	if l, err := s.Poll(t.Context()); err == nil {
		t.Errorf("got %+v, want no report", l)
	}
}

func wantAsked(t *testing.T, e *loadEngine, want string) {
	t.Helper()
	if got := e.asked(); got != want {
		t.Errorf("asked %s, want %s", got, want)
	}
}
