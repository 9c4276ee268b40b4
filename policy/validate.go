package policy

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// SettingError is a setting that a policy in use cannot have.
type SettingError struct {
	Flag  string // without dashes
	Value string // as it is typed
	Rule  string // goes on behind "it", such as "must be above 0"
}

// Error names the flag.
func (e *SettingError) Error() string {
	return fmt.Sprintf("--%s is %s: it %s", e.Flag, e.Value, e.Rule)
}

// Validate reports every fault of the settings in use, each as a [*SettingError].
// The settings of other policies are not looked at, but for the boundaries. A policy
// that is none of [Names] is the only fault; the error wraps [ErrUnknown].
func (c Config) Validate() error {
	if !slices.Contains(Names(), c.Policy) {
		return fmt.Errorf("--policy: %w", unknown(c.Policy))
	}
	var f faults
	f.boundaries(c.Boundaries)
	switch c.Policy {
	case LeastLoad:
		f.leastLoad(&c.LeastLoad)
	case PowerOfTwo:
		f.oneOf("power-of-two-load-metric", c.PowerOfTwo.Metric, LoadMetrics())
	case CacheAware:
		f.cacheAware(&c.CacheAware, len(c.Boundaries) > 0)
	case PrefixHash:
		f.check(c.PrefixHash.TokenCount > 0, "prefix-token-count", c.PrefixHash.TokenCount, "must be above 0")
		f.check(c.PrefixHash.LoadFactor >= 1 && finite(c.PrefixHash.LoadFactor), "prefix-hash-load-factor", c.PrefixHash.LoadFactor, "must be a finite number, at least 1.0")
		f.check(c.PrefixHash.BalanceAbs >= 0, "prefix-hash-balance-abs-threshold", c.PrefixHash.BalanceAbs, "must not be negative")
	case Bucket:
		f.balance(c.Bucket.Balance)
		f.check(c.Bucket.Interval >= time.Second && c.Bucket.Interval.Seconds() < 1<<32, "bucket-adjust-interval-secs", c.Bucket.Interval.Seconds(), "must be between 1 and 4294967295")
	case Manual:
		f.pins(&c.Pins)
		f.oneOf("assignment-mode", c.Pins.Assignment, Assignments())
	}
	if c.Sticky.On {
		f.pins(&c.Pins)
		f.oneOf("assignment-mode", c.Sticky.Assignment, Assignments())
	}
	return errors.Join(f...)
}

type faults []error

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

func (f *faults) check(ok bool, flag string, value any, rule string) {
	if !ok {
		*f = append(*f, &SettingError{Flag: flag, Value: typed(value), Rule: rule})
	}
}

// typed is value without an exponent.
func typed(value any) string {
	if x, ok := value.(float64); ok {
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	return fmt.Sprint(value)
}

func (f *faults) oneOf(flag, value string, choices []string) {
	f.check(slices.Contains(choices, value), flag, value, "must be one of "+strings.Join(choices, ", "))
}

func (f *faults) boundaries(all []int) {
	last := 0
	for _, b := range all {
		f.check(b > last, "cache-boundaries", b, "must be above 0 and above the boundary before it")
		last = b
	}
}

func (f *faults) balance(b Balance) {
	f.check(b.Abs >= 0, "balance-abs-threshold", b.Abs, "must not be negative")
	f.check(b.Rel >= 1 && finite(b.Rel), "balance-rel-threshold", b.Rel, "must be a finite number, at least 1.0")
}

func (f *faults) leastLoad(c *LeastLoadConfig) {
	f.check(c.KVPressureWeight >= 0 && finite(c.KVPressureWeight), "least-load-kv-pressure-weight", c.KVPressureWeight, "must be a finite number, 0 or more")
	f.check(c.DefaultThroughput > 0 && finite(c.DefaultThroughput), "least-load-default-throughput", c.DefaultThroughput, "must be a finite number above 0")
	f.check(c.MeanTokens > 0, "least-load-mean-prefill-tokens", c.MeanTokens, "must be above 0")
	f.check(c.MaxWaiting >= 0, "least-load-max-waiting-requests", c.MaxWaiting, "must not be negative; 0 switches the cap off")
}

func (f *faults) cacheAware(c *CacheAwareConfig, boundaries bool) {
	f.balance(c.Balance)
	f.check(c.Threshold >= 0 && c.Threshold <= 1, "cache-threshold", c.Threshold, "must be between 0 and 1")
	f.check(c.EvictionInterval > 0, "eviction-interval", c.EvictionInterval.Seconds(), "must be above 0 with cache_aware")
	f.check(c.MaxTreeSize > 0, "max-tree-size", c.MaxTreeSize, "must be above 0")
	f.check(c.BlockSize > 0, "block-size", c.BlockSize, "must be above 0")
	f.check(c.UsageSpread > 0, "balance-token-usage-threshold", c.UsageSpread, "must be above 0; 1.0 and more switch it off")
	f.check(c.UsageCeiling > 0, "overload-token-usage-threshold", c.UsageCeiling, "must be above 0; 1.0 and more switch it off")
	f.check(c.OverlapDecay >= 0 && finite(c.OverlapDecay), "overlap-decay", c.OverlapDecay, "must be a finite number, 0 or more")
	f.check(c.Temperature >= 0 && finite(c.Temperature), "selection-temperature", c.Temperature, "must be a finite number, 0 or more")
	f.oneOf("cache-index", c.Index, CacheIndexes())
	f.check(c.TTL >= time.Second, "cache-ttl-secs", c.TTL.Seconds(), "must be at least 1")
	f.check(c.KVTTL >= 0, "kv-indexer-ttl-secs", c.KVTTL.Seconds(), "must not be negative; 0 keeps blocks until their engine drops them")
	f.check(c.KVMaxBlocks >= 0, "kv-indexer-max-entries", c.KVMaxBlocks, "must not be negative; 0 sets no bound")
	f.check(c.Index != HashIndex || boundaries, "cache-index", c.Index, "needs --cache-boundaries, such as 2048,8192")
}

func (f *faults) pins(c *PinConfig) {
	f.check(c.MaxIdle >= 0, "max-idle-secs", c.MaxIdle.Seconds(), "must not be negative; 0 keeps pins for ever")
	f.check(c.EvictionInterval >= 0, "eviction-interval", c.EvictionInterval.Seconds(), "must not be negative; 0 keeps pins for ever")
	f.check(c.MaxKeys >= 0, "max-sticky-keys", c.MaxKeys, "must not be negative; 0 is no bound")
}
