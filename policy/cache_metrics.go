package policy

import (
	"github.com/prometheus/client_golang/prometheus"

	"smg/policy/radix"
)

// cacheMetrics are those of cache_aware.
type cacheMetrics struct {
	branches   branchCounters
	ratio      prometheus.Histogram
	chars      *prometheus.GaugeVec
	tokens     *prometheus.GaugeVec
	tenants    *prometheus.GaugeVec
	placements *prometheus.GaugeVec
}

func newCacheMetrics(reg prometheus.Registerer) (m *cacheMetrics, err error) {
	m = &cacheMetrics{}
	m.branches, err = newBranchCounters(reg, CacheAware, treeMatch, spill, expectedWaitFallback, firstHealthyFallback)
	if err != nil {
		return nil, err
	}
	m.ratio, err = register(reg, prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "smg_cache_aware_match_ratio", Help: "Share of a prompt that the prefix tree knew.",
		Buckets: []float64{0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1},
	}))
	if err != nil {
		return nil, err
	}
	for _, g := range []struct {
		vec        **prometheus.GaugeVec
		name, help string
		labels     []string
	}{
		{&m.chars, "smg_cache_tree_chars", "Characters in the prefix tree of texts, counted for each worker that holds them.", []string{"model"}},
		{&m.tokens, "smg_cache_tree_tokens", "Tokens in the prefix tree of token ids, counted for each worker that holds them.", []string{"model"}},
		{&m.tenants, "smg_cache_tree_tenants", "Workers that a prefix tree knows.", []string{"model", "tree"}},
		{&m.placements, "smg_cache_placement_entries", "Prompt heads in the hash index.", []string{"model"}},
	} {
		*g.vec, err = register(reg, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: g.name, Help: g.help}, g.labels))
		if err != nil {
			return nil, err
		}
	}
	return m, nil
}

// The trees, as label values.
const (
	treeOfText   = "string"
	treeOfTokens = "token"
)

// memory is the sizes of what a policy remembers of a model.
type memory struct {
	text, tokens radix.Stats
	heads        int
}

// show replaces what a policy has shown of a model. Legs share the gauges, each adds
// its own.
func (m *cacheMetrics) show(model string, old, now memory) {
	m.chars.WithLabelValues(model).Add(float64(now.text.Units - old.text.Units))
	m.tokens.WithLabelValues(model).Add(float64(now.tokens.Units - old.tokens.Units))
	m.tenants.WithLabelValues(model, treeOfText).Add(float64(now.text.Tenants - old.text.Tenants))
	m.tenants.WithLabelValues(model, treeOfTokens).Add(float64(now.tokens.Tenants - old.tokens.Tenants))
	m.placements.WithLabelValues(model).Add(float64(now.heads - old.heads))
}
