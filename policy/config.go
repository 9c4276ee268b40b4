package policy

import "time"

// Config is which policy an operator chose, and the settings of all of them. Only
// those of the policies in use count.
type Config struct {
	// Policy is one of [Names] (flag --policy).
	Policy string
	// Sticky pins conversations on top of any policy.
	Sticky StickyConfig

	LeastLoad  LeastLoadConfig
	PowerOfTwo PowerOfTwoConfig
	CacheAware CacheAwareConfig
	PrefixHash PrefixHashConfig
	Bucket     BucketConfig
	Pins       PinConfig

	// Boundaries are the prompt positions, in tokens, that prefix_hash and the hash
	// index of cache_aware look at; ascending.
	Boundaries []int
}

// Balance is how far the busiest worker may be off: both margins must be exceeded.
// cache_aware counts in requests, bucket in characters or tokens.
type Balance struct {
	Abs int64
	Rel float64
}

// LeastLoadConfig tunes the expected wait as least_load uses it. The other policies use
// the built-in values.
type LeastLoadConfig struct {
	KVPressureWeight  float64 // seconds
	DefaultThroughput float64 // tokens per second of a worker that reports none
	MeanTokens        int64   // of a request whose tokens are not known
	MaxWaiting        int64   // requests that may wait at a worker, 0 for no cap
}

// PowerOfTwoConfig is what power_of_two compares.
type PowerOfTwoConfig struct {
	Metric string // one of [LoadMetrics]
}

// The load metrics of power_of_two.
const (
	ExpectedWait  = "expected_wait"
	Requests      = "requests"
	LeastRequests = "least_requests"
)

// LoadMetrics lists them.
func LoadMetrics() []string { return []string{ExpectedWait, Requests, LeastRequests} }

// CacheAwareConfig tunes cache_aware.
type CacheAwareConfig struct {
	Balance          Balance // of the spill gate
	Threshold        float64 // share of the prompt that must be matched, exclusive
	EvictionInterval time.Duration
	MaxTreeSize      int64 // characters, and tokens, of one model's trees
	BlockSize        int   // tokens of a page
	// UsageSpread and UsageCeiling are KV usages beyond which affinity is dropped; 1
	// and more switches them off.
	UsageSpread  float64
	UsageCeiling float64
	OverlapDecay float64
	Temperature  float64
	Index        string        // one of [CacheIndexes]
	TTL          time.Duration // of a placement of the hash index
	// KVTTL and KVMaxBlocks bound the index of what engines say they hold: how long a
	// block stays that nobody asks for, and how many stay. 0 is no bound.
	KVTTL       time.Duration
	KVMaxBlocks int
}

// The indexes of cache_aware.
const (
	TreeIndex = "tree"
	HashIndex = "hash"
)

// CacheIndexes lists them.
func CacheIndexes() []string { return []string{TreeIndex, HashIndex} }

// PrefixHashConfig tunes prefix_hash.
type PrefixHashConfig struct {
	TokenCount int // tokens of a prompt's head; four characters stand for one
	LoadFactor float64
	BalanceAbs int64 // 0 makes the load test purely relative
}

// BucketConfig tunes bucket.
type BucketConfig struct {
	Balance  Balance
	Interval time.Duration // between looks at the boundaries, and the window of sizes
}

// PinConfig is how policy manual and sticky sessions remember.
type PinConfig struct {
	Assignment       string        // of policy manual, one of [Assignments]
	MaxIdle          time.Duration // 0 keeps pins for ever
	EvictionInterval time.Duration // 0 keeps pins for ever
	MaxKeys          int           // beyond it the key used longest ago is forgotten; 0 for no bound
}

// The ways in which a key gets its first worker.
const (
	AssignRandom   = "random"
	AssignMinLoad  = "min_load"
	AssignMinGroup = "min_group"
	AssignDelegate = "delegate"
)

// Assignments lists them.
func Assignments() []string {
	return []string{AssignRandom, AssignMinLoad, AssignMinGroup, AssignDelegate}
}

// StickyConfig is the pinning of conversations on top of any policy.
type StickyConfig struct {
	On         bool
	Assignment string // one of [Assignments]
}

// meanTokens is what a request of unknown size counts as where no flag says it.
const meanTokens = 1024

// DefaultConfig holds the built-in settings. Policies that a worker's label asks for
// get theirs from here, whatever the flags say; the defaults of flags differ.
func DefaultConfig() Config {
	return Config{
		Policy:     CacheAware,
		Sticky:     StickyConfig{Assignment: AssignDelegate},
		LeastLoad:  LeastLoadConfig{KVPressureWeight: 0.15, DefaultThroughput: 2000, MeanTokens: meanTokens},
		PowerOfTwo: PowerOfTwoConfig{Metric: ExpectedWait},
		CacheAware: CacheAwareConfig{
			Balance: Balance{Abs: 32, Rel: 1.1}, Threshold: 0.5, EvictionInterval: 30 * time.Second, MaxTreeSize: 10_000, BlockSize: 16,
			UsageSpread: 1, UsageCeiling: 1, Index: TreeIndex, TTL: 3 * time.Minute,
		},
		PrefixHash: PrefixHashConfig{TokenCount: 256, LoadFactor: 1.25, BalanceAbs: 10},
		Bucket:     BucketConfig{Balance: Balance{Abs: 32, Rel: 1.0001}, Interval: 5 * time.Second},
		Pins:       PinConfig{Assignment: AssignRandom, MaxIdle: 4 * time.Hour, EvictionInterval: 2 * time.Minute},
	}
}
