package policy_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"smg/policy"
)

// TestValidate goes through the ranges of all settings, and what is not in use.
func TestValidate(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	tests := []struct {
		name   string
		policy string
		set    func(*policy.Config)
		want   []string // flag and value of each fault
	}{
		{"cache threshold", policy.CacheAware, func(c *policy.Config) { c.CacheAware.Threshold = 1.5 }, []string{"cache-threshold 1.5"}},
		{"cache threshold is no number", policy.CacheAware, func(c *policy.Config) { c.CacheAware.Threshold = nan }, []string{"cache-threshold NaN"}},
		{"cache threshold, inclusive", policy.CacheAware, func(c *policy.Config) { c.CacheAware.Threshold = 1 }, nil},
		{"spill gate", policy.CacheAware, func(c *policy.Config) { c.CacheAware.Balance = policy.Balance{Abs: -1, Rel: 0.9} }, []string{"balance-abs-threshold -1", "balance-rel-threshold 0.9"}},
		{"spill gate without an end", policy.CacheAware, func(c *policy.Config) { c.CacheAware.Balance.Rel = inf }, []string{"balance-rel-threshold +Inf"}},
		{"sizes", policy.CacheAware, func(c *policy.Config) {
			c.CacheAware.EvictionInterval, c.CacheAware.MaxTreeSize, c.CacheAware.BlockSize = 0, 0, 0
		}, []string{"eviction-interval 0", "max-tree-size 0", "block-size 0"}},
		{"usages", policy.CacheAware, func(c *policy.Config) { c.CacheAware.UsageSpread, c.CacheAware.UsageCeiling = 0, nan }, []string{"balance-token-usage-threshold 0", "overload-token-usage-threshold NaN"}},
		{"decay and temperature", policy.CacheAware, func(c *policy.Config) { c.CacheAware.OverlapDecay, c.CacheAware.Temperature = inf, -0.5 }, []string{"overlap-decay +Inf", "selection-temperature -0.5"}},
		{"placements", policy.CacheAware, func(c *policy.Config) { c.CacheAware.TTL = 0 }, []string{"cache-ttl-secs 0"}},
		{"KV index", policy.CacheAware, func(c *policy.Config) { c.CacheAware.KVTTL, c.CacheAware.KVMaxBlocks = -time.Second, -1 }, []string{"kv-indexer-ttl-secs -1", "kv-indexer-max-entries -1"}},
		{"hash without boundaries", policy.CacheAware, func(c *policy.Config) { c.CacheAware.Index = policy.HashIndex }, []string{"cache-index hash"}},
		{"hash", policy.CacheAware, func(c *policy.Config) { c.CacheAware.Index, c.Boundaries = policy.HashIndex, []int{2048} }, nil},
		{"unknown index", policy.CacheAware, func(c *policy.Config) { c.CacheAware.Index = "list" }, []string{"cache-index list"}},
		{"boundaries of no policy", policy.Random, func(c *policy.Config) { c.Boundaries = []int{0, 8192, 2048} }, []string{"cache-boundaries 0", "cache-boundaries 2048"}},
		{"boundary twice", policy.PrefixHash, func(c *policy.Config) { c.Boundaries = []int{2048, 2048} }, []string{"cache-boundaries 2048"}},
		{"least load", policy.LeastLoad, func(c *policy.Config) {
			c.LeastLoad = policy.LeastLoadConfig{KVPressureWeight: -1, MaxWaiting: -1}
		}, []string{"least-load-kv-pressure-weight -1", "least-load-default-throughput 0", "least-load-mean-prefill-tokens 0", "least-load-max-waiting-requests -1"}},
		{"least load without an end", policy.LeastLoad, func(c *policy.Config) { c.LeastLoad.KVPressureWeight, c.LeastLoad.DefaultThroughput = inf, inf }, []string{"least-load-kv-pressure-weight +Inf", "least-load-default-throughput +Inf"}},
		{"load metric", policy.PowerOfTwo, func(c *policy.Config) { c.PowerOfTwo.Metric = "bogus" }, []string{"power-of-two-load-metric bogus"}},
		{"prefix hash", policy.PrefixHash, func(c *policy.Config) { c.PrefixHash = policy.PrefixHashConfig{LoadFactor: 0.9, BalanceAbs: -1} }, []string{"prefix-token-count 0", "prefix-hash-load-factor 0.9", "prefix-hash-balance-abs-threshold -1"}},
		{"bucket", policy.Bucket, func(c *policy.Config) { c.Bucket = policy.BucketConfig{Interval: 1 << 32 * time.Second} }, []string{"balance-rel-threshold 0", "bucket-adjust-interval-secs 4294967296"}},
		{"bucket, no interval", policy.Bucket, func(c *policy.Config) { c.Bucket.Interval = 0 }, []string{"bucket-adjust-interval-secs 0"}},
		{"pins", policy.Manual, func(c *policy.Config) {
			c.Pins = policy.PinConfig{Assignment: "x", MaxIdle: -time.Second, EvictionInterval: -time.Second}
		}, []string{"max-idle-secs -1", "eviction-interval -1", "assignment-mode x"}},
		{"sticky sessions", policy.Random, func(c *policy.Config) {
			c.Sticky, c.Pins.MaxIdle = policy.StickyConfig{On: true, Assignment: "x"}, -time.Second
		}, []string{"max-idle-secs -1", "assignment-mode x"}},
		{"not in use", policy.RoundRobin, func(c *policy.Config) {
			*c = policy.Config{Policy: c.Policy, Sticky: policy.StickyConfig{Assignment: "x"}}
		}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := policy.DefaultConfig()
			cfg.Policy = tt.policy
			tt.set(&cfg)
			var got []string
			err := cfg.Validate()
			if parts, ok := err.(interface{ Unwrap() []error }); ok {
				for _, part := range parts.Unwrap() {
					if e, ok := errors.AsType[*policy.SettingError](part); ok {
						got = append(got, e.Flag+" "+e.Value)
					}
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" || (err == nil) != (tt.want == nil) {
				t.Errorf("%v\n%s", err, diff)
			}
		})
	}
}
