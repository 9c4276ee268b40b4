package simhttp

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// vllmVersion is the version the simulated vLLM claims to be.
const vllmVersion = "0.12.0"

// vllmRoutes registers what only vLLM answers.
func vllmRoutes(s *Server, mux *http.ServeMux) {
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"version": vllmVersion})
	})
	mux.HandleFunc("GET /ping", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	mux.HandleFunc("GET /load", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]int64{"server_load": s.inFlight.Load()})
	})
	if s.cfg.Disagg.TokensOnly {
		mux.HandleFunc("POST /abort_requests", s.abortRequests)
	}
	mux.HandleFunc("POST /reset_prefix_cache", func(w http.ResponseWriter, _ *http.Request) {
		if !s.flush() {
			s.writeError(w, &apiError{status: http.StatusServiceUnavailable, message: "the prefix cache is in use"})
			return
		}
		w.WriteHeader(http.StatusOK)
	})
}

// abortRequests ends requests by the ids that their callers have given, also
// those that are answered and whose KV waits to be fetched.
func (s *Server) abortRequests(w http.ResponseWriter, r *http.Request) {
	a := &answer{ResponseWriter: w, req: r, faults: s.faults}
	s.inference(func(_ *answer, _ *http.Request, f *fields) {
		ids := read[[]string](f, "request_ids")
		if f.err == nil && len(ids) == 0 {
			f.fail("request_ids", "request_ids: Field required")
		}
		if f.err != nil {
			s.writeError(a, f.err)
			return
		}
		s.driver.abortWhere(func(rid string) bool {
			return slices.ContainsFunc(ids, func(id string) bool {
				return rid == id || rid == "chatcmpl-"+id || rid == "cmpl-"+id || rid == "embd-"+id
			})
		})
		a.WriteHeader(http.StatusOK)
	})(a, r)
}

func vllmMetrics(m *metricsText, r report) {
	const start = "process_start_time_seconds"
	m.head(start, "gauge", "Start time of the process since unix epoch in seconds.")
	fmt.Fprintf(m, "%s %s\n", start, number(float64(r.started.UnixMilli())/1e3))
	m.labels = `engine="0",` + m.labels
	m.gauge("vllm:num_requests_running", "Number of requests in model execution batches.", float64(r.Running))
	m.gauge("vllm:num_requests_waiting", "Number of requests waiting to be processed.", float64(r.Waiting))
	m.gauge("vllm:kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", r.KVUsage)
	m.gauge("vllm:gpu_cache_usage_perc", "GPU KV-cache usage. 1 means 100 percent usage.", r.KVUsage)
	m.gauge("vllm:gpu_prefix_cache_hit_rate", "GPU prefix cache block hit rate.", r.CacheHitRate)
	m.counter("vllm:prefix_cache_queries_total", "Prefix cache queries, in terms of number of queried tokens.", r.Totals.PromptTokens)
	m.counter("vllm:prefix_cache_hits_total", "Prefix cache hits, in terms of number of cached tokens.", r.Totals.CachedTokens)
	m.counter("vllm:num_preemptions_total", "Cumulative number of preemption from the engine.", r.Totals.Preemptions)
	m.counter("vllm:prompt_tokens_total", "Number of prefill tokens processed.", r.Totals.PromptTokens)
	m.counter("vllm:generation_tokens_total", "Number of generation tokens processed.", r.Totals.GeneratedTokens)
	m.counter("vllm:nixl_num_failed_transfers_total", "Number of failed NIXL KV cache transfers.", r.transfers.Failed)
	m.counter("vllm:nixl_num_kv_expired_reqs_total", "Number of requests that had their KV expire.", r.transfers.Expired)
	st := r.stats
	st.mu.Lock()
	defer st.mu.Unlock()
	const success = "vllm:request_success_total"
	m.head(success, "counter", "Count of successfully processed requests.")
	for _, line := range []struct {
		reason string
		count  uint64
	}{{"stop", st.stopped}, {"length", st.truncated}, {"abort", st.aborted}} {
		fmt.Fprintf(m, "%s{%s,finished_reason=%q} %d\n", success, m.labels, line.reason, line.count)
	}
	m.histogram("vllm:time_to_first_token_seconds", "Histogram of time to first token in seconds.", &st.firstToken)
	m.histogram("vllm:inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", &st.betweenTokens)
	m.histogram("vllm:e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", &st.wholeRequest)
}

// vllmOpen tells which paths vLLM serves without its API key.
func vllmOpen(path string) bool { return !strings.HasPrefix(path, "/v1") }
