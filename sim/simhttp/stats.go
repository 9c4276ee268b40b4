package simhttp

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"smg/sim"
	"smg/sim/simctl"
	"smg/sim/simtext"
)

// stats are the counters that the scheduler does not keep.
type stats struct {
	refused atomic.Uint64 // requests answered with an error

	mu             sync.Mutex
	stopped        uint64 // sequences by finish reason
	truncated      uint64
	aborted        uint64
	firstToken     histogram
	wholeRequest   histogram
	betweenTokens  histogram
	completedTasks uint64
}

// observe counts a finished task.
func (st *stats) observe(t *task, states []progress, arrived, now time.Time) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.completedTasks++
	for i, p := range states {
		switch {
		case p.aborted:
			st.aborted++
		case len(t.answers) > i && t.answers[i].Finish == simtext.FinishStop:
			st.stopped++
		default:
			st.truncated++
		}
		if !p.first.IsZero() {
			st.firstToken.add(p.first.Sub(arrived))
			if p.tokens > 1 {
				st.betweenTokens.add(now.Sub(p.first) / time.Duration(p.tokens-1))
			}
		}
		st.wholeRequest.add(now.Sub(arrived))
	}
}

// bounds are the upper ends of the histogram buckets, in seconds.
func bounds() [12]float64 {
	return [12]float64{0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60}
}

// histogram counts durations. The zero value is empty.
type histogram struct {
	buckets [12]uint64 // not cumulative
	count   uint64
	sum     float64
}

func (h *histogram) add(d time.Duration) {
	v := d.Seconds()
	h.count++
	h.sum += v
	for i, bound := range bounds() {
		if v <= bound {
			h.buckets[i]++
			return
		}
	}
}

// report is what /v1/loads and /metrics are made from.
type report struct {
	sim.Loads
	absent bool
	stats  *stats

	started   time.Time // of the process
	role      string
	bootstrap int // requests that wait for a decode engine
	transfers simctl.Transfers
}

// prefillQueue counts the requests of a prefill engine that wait for a decode
// engine or hold KV for it, decodeQueue those of a decode engine that wait for
// blocks or for KV.
func (r *report) prefillQueue() int {
	if r.role != string(Prefill) {
		return 0
	}
	return r.bootstrap + r.Sending
}

func (r *report) decodeQueue() int {
	if r.role != string(Decode) {
		return 0
	}
	return r.Loads.Waiting + r.Receiving
}

// report reads the load, in real time, with the numbers of the faults put in.
func (s *Server) report() report {
	r := report{stats: &s.stats, started: s.started, role: s.role(), bootstrap: int(s.bootstrapping.Load()), transfers: s.Transfers()}
	s.driver.do(func(e *sim.Engine, now time.Duration) { r.Loads = e.Loads(now) })
	if s.cfg.TimeScale > 0 {
		r.GenThroughput /= s.cfg.TimeScale
		r.TransferSpeed /= s.cfg.TimeScale
		r.TransferTime = time.Duration(float64(r.TransferTime) * s.cfg.TimeScale)
	}
	r.Waiting += r.bootstrap
	if o := s.faults.get().Loads; o != nil {
		r.override(o)
	}
	return r
}

func (r *report) override(o *simctl.LoadsOverride) {
	r.absent = o.Absent
	put(&r.Running, o.Running)
	put(&r.Waiting, o.Waiting)
	put(&r.WaitingUncachedTokens, o.WaitingUncachedTokens)
	put(&r.UsedTokens, o.UsedTokens)
	put(&r.KVUsage, o.TokenUsage)
	put(&r.GenThroughput, o.GenThroughput)
	put(&r.CacheHitRate, o.CacheHitRate)
}

func put[T any](dst, src *T) {
	if src != nil {
		*dst = *src
	}
}

// speed and latency are those of the last KV sent.
func (r *report) speed() float64 { return round(r.TransferSpeed/1e9, 3) }

func (r *report) latency() float64 {
	return round(float64(r.TransferTime)/float64(time.Millisecond), 3)
}

// utilization is the larger of batch and KV usage.
func (r *report) utilization() float64 {
	return max(float64(r.Running)/float64(r.MaxRunning), r.KVUsage)
}

// metricsText writes the Prometheus text format, with one label set.
type metricsText struct {
	strings.Builder
	labels string // without braces
}

func (m *metricsText) head(name, kind, help string) {
	fmt.Fprintf(m, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

func (m *metricsText) gauge(name, help string, v float64) {
	m.head(name, "gauge", help)
	fmt.Fprintf(m, "%s{%s} %s\n", name, m.labels, number(v))
}

func (m *metricsText) counter(name, help string, v uint64) {
	m.head(name, "counter", help)
	fmt.Fprintf(m, "%s{%s} %d\n", name, m.labels, v)
}

func (m *metricsText) histogram(name, help string, h *histogram) {
	m.head(name, "histogram", help)
	total := uint64(0)
	for i, bound := range bounds() {
		total += h.buckets[i]
		fmt.Fprintf(m, "%s_bucket{%s,le=\"%s\"} %d\n", name, m.labels, number(bound), total)
	}
	fmt.Fprintf(m, "%s_bucket{%s,le=\"+Inf\"} %d\n", name, m.labels, h.count)
	fmt.Fprintf(m, "%s_sum{%s} %s\n%s_count{%s} %d\n", name, m.labels, number(h.sum), name, m.labels, h.count)
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
