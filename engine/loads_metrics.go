package engine

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
)

const metricsPath = "/metrics"

// Metrics reads the load of the engine at baseURL out of its Prometheus page, by
// the names that the engines of runtime use; those of a generic one are tried all.
// The answer has one rank, without counts of tokens. A page without the gauge of
// KV usage is an error, for an engine that does not tell is not an idle one, and
// so is a runtime whose names are not known, which is not asked at all. ctx sets
// the time.
func (p *Prober) Metrics(ctx context.Context, baseURL, apiKey, runtime string) (Loads, error) {
	engines := gaugesOf(runtime)
	if len(engines) == 0 {
		return Loads{}, fmt.Errorf("load of a %q engine cannot be read from its metrics", runtime)
	}
	status, body, err := p.fetch(ctx, baseURL, metricsPath, apiKey)
	switch {
	case err != nil:
		return Loads{}, err
	case !good(status):
		return Loads{}, statusError(baseURL, metricsPath, status, body)
	}
	rank, ok := parseMetrics(body, engines)
	if !ok {
		return Loads{}, fmt.Errorf("GET %s%s: no gauge of KV usage", strings.TrimRight(baseURL, "/"), metricsPath)
	}
	return Loads{Source: SourceMetrics, Ranks: []RankLoad{rank}}, nil
}

// gauges are the names that one engine has for its load; "" is none.
type gauges struct {
	usage                            []string // the first that is there counts
	running, waiting                 string
	throughput, hitRate, utilization string
}

// gaugesOf returns the names to try, the best first.
func gaugesOf(runtime string) []gauges {
	vllm := gauges{
		usage:   []string{"vllm:gpu_cache_usage_perc", "vllm:kv_cache_usage_perc"},
		running: "vllm:num_requests_running",
		waiting: "vllm:num_requests_waiting",
		hitRate: "vllm:gpu_prefix_cache_hit_rate",
	}
	sglang := func(prefix string) gauges {
		return gauges{
			usage:       []string{prefix + "token_usage"},
			running:     prefix + "num_running_reqs",
			waiting:     prefix + "num_queue_reqs",
			throughput:  prefix + "gen_throughput",
			hitRate:     prefix + "cache_hit_rate",
			utilization: prefix + "utilization",
		}
	}
	switch runtime {
	case RuntimeVLLM:
		return []gauges{vllm}
	case RuntimeSGLang:
		return []gauges{sglang("sglang:"), sglang("sglang_")}
	case RuntimeGeneric:
		return []gauges{vllm, sglang("sglang:"), sglang("sglang_")}
	}
	return nil
}

// fold takes the samples of all label sets of one name.
type fold struct {
	as  func(number) *float64
	sum float64
	n   int
}

func (f *fold) add(v float64) {
	if taken := f.as(number{v, true}); taken != nil {
		f.sum += *taken
		f.n++
	}
}

func floatCount(n number) *float64 {
	if c := n.count(); c != nil {
		return new(float64(*c))
	}
	return nil
}

// mean of no samples is missing.
func (f *fold) mean() *float64 {
	if f == nil || f.n == 0 {
		return nil
	}
	return new(f.sum / float64(f.n))
}

// total of no samples is missing.
func (f *fold) total() *int {
	if f == nil || f.n == 0 {
		return nil
	}
	return new(int(f.sum))
}

// parseMetrics reads the first of engines whose KV usage is in text.
func parseMetrics(text []byte, engines []gauges) (RankLoad, bool) {
	folds := map[string]*fold{}
	want := func(as func(number) *float64, names ...string) {
		for _, name := range names {
			if name != "" {
				folds[name] = &fold{as: as}
			}
		}
	}
	for _, g := range engines {
		want(number.ratio, g.usage...)
		want(number.ratio, g.hitRate, g.utilization)
		want(number.measure, g.throughput)
		want(floatCount, g.running, g.waiting)
	}
	for line := range bytes.Lines(text) {
		name, rest := cutName(line)
		if f := folds[string(name)]; f != nil {
			if v, ok := sampleValue(rest); ok {
				f.add(v)
			}
		}
	}
	for _, g := range engines {
		for _, usage := range g.usage {
			if k := folds[usage].mean(); k != nil {
				running, waiting := folds[g.running].total(), folds[g.waiting].total()
				rank := RankLoad{
					Running:      running,
					Waiting:      waiting,
					TokenUsage:   k,
					Throughput:   folds[g.throughput].mean(),
					CacheHitRate: folds[g.hitRate].mean(),
					Utilization:  folds[g.utilization].mean(),
				}
				if running != nil && waiting != nil {
					rank.Total = add(running, waiting)
				}
				return rank, true
			}
		}
	}
	return RankLoad{}, false
}

const blanks = " \t\r\n"

// cutName splits a line into the metric's name and what follows its labels. Both
// are empty for a comment, and for a line that is no sample. Label values may
// hold anything, braces too, so the last one counts.
func cutName(line []byte) (name, rest []byte) {
	line = bytes.Trim(line, blanks)
	if len(line) == 0 || line[0] == '#' {
		return nil, nil
	}
	if open := bytes.IndexByte(line, '{'); open >= 0 {
		end := bytes.LastIndexByte(line, '}')
		if end < open {
			return nil, nil
		}
		return bytes.TrimRight(line[:open], blanks), line[end+1:]
	}
	blank := bytes.IndexAny(line, blanks)
	if blank < 0 {
		return nil, nil
	}
	return line[:blank], line[blank:]
}

// sampleValue reads the value before an optional timestamp.
func sampleValue(rest []byte) (v float64, ok bool) {
	value := bytes.Trim(rest, blanks)
	if blank := bytes.IndexAny(value, blanks); blank >= 0 {
		stamp := bytes.TrimLeft(value[blank:], blanks)
		if _, err := strconv.ParseFloat(string(stamp), 64); err != nil {
			return 0, false
		}
		value = value[:blank]
	}
	v, err := strconv.ParseFloat(string(value), 64)
	return v, err == nil
}
