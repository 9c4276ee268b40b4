package policy

import (
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"smg/policy/radix"
)

// cacheMetrics are those of cache_aware.
type cacheMetrics struct {
	branches branchCounters
	ratio    prometheus.Histogram
	sizes    *cacheSizes
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
	m.sizes, err = register(reg, &cacheSizes{all: map[string]memory{}})
	return m, err
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

// plus is the sizes of both, or by -1 of the one without the other.
func (m memory) plus(o memory, by int) memory {
	m.text.Units += by * o.text.Units
	m.text.Tenants += by * o.text.Tenants
	m.tokens.Units += by * o.tokens.Units
	m.tokens.Tenants += by * o.tokens.Tenants
	m.heads += by * o.heads
	return m
}

// cacheSizes are what the cache_aware policies of a process remember, by model. A model
// of which nothing is remembered has no series.
type cacheSizes struct {
	mu  sync.Mutex
	all map[string]memory
}

// show replaces what a policy has shown of a model. Legs share the gauges, each adds
// its own.
func (c *cacheSizes) show(model string, old, now memory) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if sum := c.all[model].plus(old, -1).plus(now, 1); sum == (memory{}) {
		delete(c.all, model)
	} else {
		c.all[model] = sum
	}
}

var (
	cacheCharsDesc = prometheus.NewDesc("smg_cache_tree_chars",
		"Characters in the prefix tree of texts, counted for each worker that holds them.", []string{"model"}, nil)
	cacheTokensDesc = prometheus.NewDesc("smg_cache_tree_tokens",
		"Tokens in the prefix tree of token ids, counted for each worker that holds them.", []string{"model"}, nil)
	cacheTenantsDesc    = prometheus.NewDesc("smg_cache_tree_tenants", "Workers that a prefix tree knows.", []string{"model", "tree"}, nil)
	cachePlacementsDesc = prometheus.NewDesc("smg_cache_placement_entries", "Prompt heads in the hash index.", []string{"model"}, nil)
)

// Describe implements [prometheus.Collector].
func (c *cacheSizes) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{cacheCharsDesc, cacheTokensDesc, cacheTenantsDesc, cachePlacementsDesc} {
		ch <- d
	}
}

const (
	// maxModelLabels bounds the distinct values of the label model.
	maxModelLabels = 1024
	// otherModels is the value of those that are too many.
	otherModels = "other"
)

// Collect implements [prometheus.Collector].
func (c *cacheSizes) Collect(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	shown, rest := slices.Sorted(maps.Keys(c.all)), memory{}
	if len(shown) > maxModelLabels {
		for _, model := range shown[maxModelLabels:] {
			rest = rest.plus(c.all[model], 1)
		}
		shown = shown[:maxModelLabels]
		if !slices.Contains(shown, otherModels) {
			rest.collect(ch, otherModels)
		}
	}
	for _, model := range shown {
		m := c.all[model]
		if model == otherModels {
			m = m.plus(rest, 1)
		}
		m.collect(ch, model)
	}
}

func (m memory) collect(ch chan<- prometheus.Metric, model string) {
	gauge := func(d *prometheus.Desc, n int, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
	}
	gauge(cacheCharsDesc, m.text.Units, model)
	gauge(cacheTokensDesc, m.tokens.Units, model)
	gauge(cacheTenantsDesc, m.text.Tenants, model, treeOfText)
	gauge(cacheTenantsDesc, m.tokens.Tenants, model, treeOfTokens)
	gauge(cachePlacementsDesc, m.heads, model)
}
