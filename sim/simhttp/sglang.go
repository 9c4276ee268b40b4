package simhttp

import (
	"cmp"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"smg/sim"
	"smg/sim/simtext"
)

// sglangVersion is the version the simulated SGLang claims to be.
const sglangVersion = "0.5.6"

// sglangRoutes registers what only SGLang answers.
func sglangRoutes(s *Server, mux *http.ServeMux) {
	mux.HandleFunc("POST /generate", s.inference(s.generate))
	mux.HandleFunc("POST /v1/rerank", s.inference(s.rerank))
	mux.HandleFunc("GET /health_generate", s.healthGenerate)
	mux.HandleFunc("GET /v1/loads", s.loads)
	mux.HandleFunc("POST /abort_request", s.abortRequest)
	for _, path := range []string{"/server_info", "/get_server_info"} {
		mux.HandleFunc("GET "+path, s.serverInfo)
	}
	for _, path := range []string{"/model_info", "/get_model_info"} {
		mux.HandleFunc("GET "+path, s.modelInfo)
	}
	for _, method := range []string{"GET", "POST"} {
		mux.HandleFunc(method+" /flush_cache", s.flushCache)
	}
}

// healthGenerate computes one token, so it is as slow as the engine is busy.
func (s *Server) healthGenerate(w http.ResponseWriter, r *http.Request) {
	j, err := s.driver.submit([]string{"HEALTH_CHECK"}, []sim.Request{{Label: "HEALTH_CHECK", PromptTokens: 1, OutputTokens: 1}}, false)
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	defer s.driver.close(j)
	if j.wait(r.Context()) != nil {
		return
	}
	w.WriteHeader(http.StatusOK)
}

func (s *Server) serverInfo(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, s.Facts())
}

// Facts are what an SGLang engine tells of how it was started, and of how it is.
func (s *Server) Facts() map[string]any {
	r := s.report()
	core := s.cfg.Core
	return map[string]any{
		"status": "ready", "version": sglangVersion,
		"model_path": s.cfg.Model, "tokenizer_path": s.TokenizerPath(), "served_model_name": s.cfg.Model,
		"tp_size": 1, "dp_size": s.cfg.Ranks.size(), "pp_size": 1, "load_balance_method": cmp.Or(s.cfg.Ranks.Method, FollowRoom),
		"context_length": core.Context(), "page_size": core.BlockSize,
		"max_total_num_tokens": r.CapacityTokens, "max_running_requests": r.MaxRunning,
		"max_req_input_len": core.Context() - 1, "chunked_prefill_size": core.ChunkTokens,
		"disaggregation_mode": s.cfg.Disagg.Mode, "disaggregation_bootstrap_port": s.bootstrapPort(),
		"disaggregation_transfer_backend": "mooncake", "disable_radix_cache": false, "enable_cache_report": true,
		"is_embedding": false, "random_seed": s.started.UnixNano() & (1<<30 - 1), // drawn at the start
		"internal_states": []map[string]any{{
			"last_gen_throughput": r.GenThroughput, "effective_max_running_requests_per_dp": s.share(r.MaxRunning, 0),
		}},
	}
}

func (s *Server) modelInfo(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]any{
		"model_path": s.cfg.Model, "tokenizer_path": s.TokenizerPath(), "is_generation": true,
		"preferred_sampling_params": nil, "weight_version": "default",
		"has_image_understanding": false, "has_audio_understanding": false,
		"model_type": "sim", "architectures": []string{"SimForCausalLM"},
		"vocab_size": simtext.VocabSize,
	})
}

// loads answers GET /v1/loads, rank by rank. The sections of include add objects.
func (s *Server) loads(w http.ResponseWriter, r *http.Request) {
	l := s.report()
	if l.absent {
		writeJSON(w, http.StatusNotFound, detail("Not Found"))
		return
	}
	ranks := make([]any, s.cfg.Ranks.size())
	for i := range ranks {
		ranks[i] = s.loadOf(l, i, r.URL.Query().Get("include"))
	}
	writeJSON(w, http.StatusOK, map[string]any{
		"timestamp": s.clock().UTC().Format(time.RFC3339Nano), "version": sglangVersion,
		"dp_rank_count": len(ranks), "loads": ranks,
	})
}

// loadOf is the load of one rank, an even share of the engine's. sections are those that
// add objects.
func (s *Server) loadOf(l report, rank int, sections string) map[string]any {
	l.Running, l.Waiting, l.MaxRunning = s.share(l.Running, rank), s.share(l.Waiting, rank), s.share(l.MaxRunning, rank)
	l.GenThroughput /= float64(s.cfg.Ranks.size())
	load := map[string]any{
		"dp_rank": rank, "num_running_reqs": l.Running, "num_waiting_reqs": l.Waiting,
		"num_total_reqs":              l.Running + l.Waiting,
		"num_waiting_uncached_tokens": s.share(l.WaitingUncachedTokens, rank),
		"num_used_tokens":             s.share(l.UsedTokens, rank), "max_total_num_tokens": s.share(l.CapacityTokens, rank),
		"token_usage": round(l.KVUsage, 4), "gen_throughput": round(l.GenThroughput, 2),
		"cache_hit_rate": round(l.CacheHitRate, 4), "utilization": round(l.utilization(), 4),
		"max_running_requests": l.MaxRunning,
	}
	all := sections == "" || strings.Contains(sections, "all")
	if all || strings.Contains(sections, "memory") {
		load["memory"] = map[string]any{"weight_gb": 0, "kv_cache_gb": 0, "graph_gb": 0, "token_capacity": l.CapacityTokens}
	}
	if all || strings.Contains(sections, "queues") {
		load["queues"] = map[string]any{"waiting": l.Waiting, "grammar": 0, "paused": 0, "retracted": l.Preempted}
	}
	if all || strings.Contains(sections, "disagg") {
		load["disagg_mode"] = l.role
		load["disaggregation"] = map[string]any{
			"mode": l.role, "prefill_prealloc_queue_reqs": l.bootstrap, "prefill_inflight_queue_reqs": l.Sending,
			"decode_prealloc_queue_reqs": max(l.decodeQueue()-l.Receiving, 0), "decode_transfer_queue_reqs": l.Receiving,
			"decode_retracted_queue_reqs": 0, "kv_transfer_speed_gb_s": l.speed(), "kv_transfer_latency_ms": l.latency(),
		}
		if l.role != string(Unified) {
			load["prefill_queue_reqs"], load["decode_queue_reqs"] = l.prefillQueue(), l.decodeQueue()
			load["kv_transfer_latency_ms"], load["kv_transfer_speed_gb_s"] = l.latency(), l.speed()
		}
	}
	return load
}

func round(v float64, digits int) float64 {
	unit := math.Pow10(digits)
	return math.Round(v*unit) / unit
}

// abortRequest ends the requests whose rid begins with the given one.
func (s *Server) abortRequest(w http.ResponseWriter, r *http.Request) {
	a := &answer{ResponseWriter: w, req: r, faults: s.faults}
	s.inference(func(_ *answer, _ *http.Request, f *fields) {
		rid, everything := read[string](f, "rid"), read[bool](f, "abort_all")
		if f.err == nil && rid == "" && !everything {
			f.fail("rid", "rid: Field required")
		}
		if f.err != nil {
			s.writeError(a, f.err)
			return
		}
		s.driver.abortWhere(func(id string) bool { return everything || strings.HasPrefix(id, rid) })
		a.WriteHeader(http.StatusOK)
	})(a, r)
}

func (s *Server) flushCache(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if !s.flush() {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte("Cache not flushed because there are pending requests.\n"))
		return
	}
	_, _ = w.Write([]byte("Cache flushed.\nPlease check backend logs for more details. (When there are running or waiting requests, the operation will not be performed.)\n"))
}

func (s *Server) flush() (done bool) {
	s.driver.do(func(e *sim.Engine, _ time.Duration) { done = e.Flush() })
	return done
}

func sglangMetrics(m *metricsText, r report) {
	engine := r.role
	if engine == string(Unified) {
		engine = "unified"
	}
	m.labels = `engine_type="` + engine + `",` + m.labels + `,tp_rank="0",pp_rank="0"`
	m.gauge("sglang:num_running_reqs", "The number of running requests.", float64(r.Running))
	m.gauge("sglang:num_queue_reqs", "The number of requests in the waiting queue.", float64(r.Waiting))
	m.gauge("sglang:num_used_tokens", "The number of used tokens.", float64(r.UsedTokens))
	m.gauge("sglang:token_usage", "The token usage.", r.KVUsage)
	m.gauge("sglang:gen_throughput", "The generation throughput (token/s).", r.GenThroughput)
	m.gauge("sglang:cache_hit_rate", "The prefix cache hit rate.", r.CacheHitRate)
	m.gauge("sglang:utilization", "The utilization.", r.utilization())
	m.gauge("sglang:max_total_num_tokens", "Maximum total number of tokens in the KV cache pool.", float64(r.CapacityTokens))
	m.gauge("sglang:num_retracted_reqs", "The number of retracted requests.", float64(r.Preempted))
	m.counter("sglang:prompt_tokens_total", "Number of prefill tokens processed.", r.Totals.PromptTokens)
	m.counter("sglang:generation_tokens_total", "Number of generation tokens processed.", r.Totals.GeneratedTokens)
	m.counter("sglang:cached_tokens_total", "Number of cached prompt tokens.", r.Totals.CachedTokens)
	m.counter("sglang:num_requests_total", "Number of requests processed.", r.Totals.Requests)
	m.counter("sglang:num_aborted_requests_total", "Number of requests aborted.", r.Totals.Aborted)
	if r.role != string(Unified) {
		m.gauge("sglang:num_prefill_prealloc_queue_reqs", "The number of requests in the prefill prealloc queue.", float64(r.bootstrap))
		m.gauge("sglang:num_prefill_inflight_queue_reqs", "The number of requests in the prefill inflight queue.", float64(r.Sending))
		m.gauge("sglang:num_decode_prealloc_queue_reqs", "The number of requests in the decode prealloc queue.", float64(r.decodeQueue()-min(r.Receiving, r.decodeQueue())))
		m.gauge("sglang:num_decode_transfer_queue_reqs", "The number of requests in the decode transfer queue.", float64(r.Receiving))
		m.gauge("sglang:kv_transfer_speed_gb_s", "The transfer speed of the KV cache in GB/s.", r.speed())
		m.gauge("sglang:kv_transfer_latency_ms", "The transfer latency of the KV cache in ms.", r.latency())
		m.counter("sglang:num_bootstrap_failed_reqs_total", "The number of bootstrap failed requests.", r.transfers.BootstrapFailed)
		m.counter("sglang:num_transfer_failed_reqs_total", "The number of transfer failed requests.", r.transfers.Failed)
	}
	r.stats.mu.Lock()
	defer r.stats.mu.Unlock()
	m.histogram("sglang:time_to_first_token_seconds", "Histogram of time to first token in seconds.", &r.stats.firstToken)
	m.histogram("sglang:inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", &r.stats.betweenTokens)
	m.histogram("sglang:e2e_request_latency_seconds", "Histogram of End-to-end request latency in seconds.", &r.stats.wholeRequest)
}

// serveMetrics answers GET /metrics.
func (s *Server) serveMetrics(w http.ResponseWriter, _ *http.Request) {
	m := &metricsText{labels: "model_name=" + strconv.Quote(s.cfg.Model)}
	s.dialect.metrics(m, s.report())
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write([]byte(m.String()))
}
