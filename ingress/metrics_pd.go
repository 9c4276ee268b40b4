package ingress

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"smg/worker"
)

// pdMetrics are the numbers of requests that several workers share. Those with
// labels have backend_type, model and runtime, see [metrics.pdLabels].
type pdMetrics struct {
	ttft     *prometheus.HistogramVec
	prefill  *prometheus.HistogramVec
	transfer *prometheus.HistogramVec

	bootstrapFailures *prometheus.CounterVec
	kvFailures        *prometheus.CounterVec
	connectorMode     *prometheus.CounterVec // by mode

	abandoned      prometheus.Counter
	admissionWaits prometheus.Counter
	admissionSheds prometheus.Counter
	localPrefill   prometheus.Counter
	encodeFallback prometheus.Counter
	mismatch       prometheus.Counter

	mu    sync.Mutex
	times atomic.Pointer[map[pdSeries]*pdTimes] // copied to add, so that requests take no lock
}

// pdSeries is one combination of label values of the durations.
type pdSeries struct {
	model   string
	runtime worker.Runtime
}

// pdTimes are the durations of such requests.
type pdTimes struct{ ttft, prefill, transfer prometheus.Observer }

// Modes of smg_pd_kv_connector_mode_total.
const (
	modeMooncake    = "mooncake"
	modeNixl        = "nixl"
	modePassthrough = "passthrough"
)

func newPDMetrics(buckets []float64) *pdMetrics {
	labels := []string{"backend_type", "model", "runtime"}
	histogram := func(name, help string) *prometheus.HistogramVec {
		return secondsVec(buckets, name, help, labels...)
	}
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &pdMetrics{
		ttft:     histogram("smg_pd_ttft_seconds", "From the dispatch to the first byte of decode's answer."),
		prefill:  histogram("smg_pd_prefill_duration_seconds", "From the dispatch to the end of prefill's answer."),
		transfer: histogram("smg_pd_kv_transfer_duration_seconds", "From the end of prefill's answer to the begin of decode's."),

		bootstrapFailures: vec("smg_pd_bootstrap_failures_total", "Requests whose legs did not meet at the bootstrap address.", labels...),
		kvFailures: vec("smg_pd_kv_transfer_failures_total",
			"Prefill answers that did not say where their KV is, so that decode computed the prompt again.", labels...),
		connectorMode: vec("smg_pd_kv_connector_mode_total", "Requests to vLLM's legs, by how the KV is handed over.", "mode"),

		abandoned: counter("smg_pd_kv_abandoned_total",
			"Prompts whose KV a vLLM prefill engine keeps until its own lease ends, since no decode will fetch it."),
		admissionWaits: counter("smg_pd_admission_waits_total", "Requests that waited for a decode worker with room."),
		admissionSheds: counter("smg_pd_admission_sheds_total", "Requests that found no decode worker with room in time."),
		localPrefill:   counter("smg_pd_local_prefill_total", "Requests that decode served without a prefill worker, since little was to be computed."),
		encodeFallback: counter("smg_pd_encode_fallback_total", "Requests whose media went to the prefill worker, since no encode worker was available."),
		mismatch:       counter("smg_pick_mismatch_total", "Picks of workers that do not serve the request's leg or model."),
	}
	for _, mode := range []string{modeMooncake, modeNixl, modePassthrough} {
		m.connectorMode.WithLabelValues(mode) // from 0 on
	}
	m.times.Store(&map[pdSeries]*pdTimes{})
	return m
}

// collectors are all of them.
func (m *pdMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{
		m.ttft, m.prefill, m.transfer, m.bootstrapFailures, m.kvFailures, m.connectorMode,
		m.abandoned, m.admissionWaits, m.admissionSheds, m.localPrefill, m.encodeFallback, m.mismatch,
	}
}

// pdLabels are the values of the labels of pdMetrics for a plan.
func (m *metrics) pdLabels(p *Plan, model string) []string {
	return []string{"pd", m.modelLabel(model), string(p.runtime())}
}

// answered notes what the legs of a request took that has been answered.
func (m *metrics) answered(p *Plan, model string, t *timing) {
	times, ok := (*m.pd.times.Load())[pdSeries{model, p.runtime()}]
	if !ok {
		times = m.addTimes(p, model)
	}
	first, prefill, transfer, whole := t.moments()
	times.ttft.Observe(first.Seconds())
	if whole {
		times.prefill.Observe(prefill.Seconds())
		times.transfer.Observe(transfer.Seconds())
	}
}

func (m *metrics) addTimes(p *Plan, model string) *pdTimes {
	labels := m.pdLabels(p, model)
	times := &pdTimes{m.pd.ttft.WithLabelValues(labels...), m.pd.prefill.WithLabelValues(labels...), m.pd.transfer.WithLabelValues(labels...)}
	if labels[1] == "other" {
		return times // one of any number
	}
	m.pd.mu.Lock()
	defer m.pd.mu.Unlock()
	next := maps.Clone(*m.pd.times.Load())
	next[pdSeries{model, p.runtime()}] = times
	m.pd.times.Store(&next)
	return times
}

// unmet counts a failure of legs that did not meet. SGLang's engines tell so in words
// alone, of their own class of errors.
func (m *metrics) unmet(p *Plan, failure *problem, model string) {
	if p.Decode.leg() == worker.Decode && p.runtime() != worker.VLLM && strings.Contains(failure.message, "KVTransferError") {
		m.pd.bootstrapFailures.WithLabelValues(m.pdLabels(p, model)...).Inc()
	}
}
