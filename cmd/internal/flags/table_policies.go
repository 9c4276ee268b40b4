package flags

import (
	"math"
	"time"

	"smg/policy"
)

// policyTable defines the flags that tune policies. Each policy of a leg has the same
// settings; those of policies that no leg has are not looked at.
func policyTable() []Def {
	return []Def{
		{
			Name: "cache-threshold", Aliases: []string{"cache-match-threshold"}, Kind: Scalar, Value: "SHARE", Default: "0.3", Group: groupPolicy, In: choosing,
			Tunes: []string{policy.CacheAware},
			Help:  "Share of a prompt, from 0 to 1, that a worker must hold more of to be preferred.",
			set:   setFloat(func(s *Serve) *float64 { return &s.Policies.CacheAware.Threshold }),
		},
		{
			Name: "balance-abs-threshold", Aliases: []string{"spill-abs-threshold"}, Kind: Scalar, Value: "N", Default: "64", Group: groupPolicy, In: choosing,
			Tunes: []string{policy.CacheAware, policy.Bucket},
			Help:  "How far a worker may be ahead of the others before its share goes elsewhere: requests for cache_aware, characters or tokens for bucket.",
			set: both(setNumber(func(s *Serve) *int64 { return &s.Policies.CacheAware.Balance.Abs }, 0, math.MaxInt64),
				setNumber(func(s *Serve) *int64 { return &s.Policies.Bucket.Balance.Abs }, 0, math.MaxInt64)),
		},
		{
			Name: "balance-rel-threshold", Aliases: []string{"spill-rel-threshold"}, Kind: Scalar, Value: "X", Default: "1.5", Group: groupPolicy, In: choosing,
			Tunes: []string{policy.CacheAware, policy.Bucket},
			Help:  "The same as a multiple, 1 or more; both must be exceeded.",
			set: both(setFloat(func(s *Serve) *float64 { return &s.Policies.CacheAware.Balance.Rel }),
				setFloat(func(s *Serve) *float64 { return &s.Policies.Bucket.Balance.Rel })),
		},
		{
			Name: "balance-token-usage-threshold", Kind: Scalar, Value: "SHARE", Default: "1.0", Group: groupPolicy, In: choosing,
			Tunes: []string{policy.CacheAware},
			Help:  "Difference of KV cache usage between workers from which on what they hold does not matter; 1.0 switches it off.",
			set:   setFloat(func(s *Serve) *float64 { return &s.Policies.CacheAware.UsageSpread }),
		},
		{
			Name: "overload-token-usage-threshold", Kind: Scalar, Value: "SHARE", Default: "1.0", Group: groupPolicy, In: choosing,
			Tunes: []string{policy.CacheAware},
			Help:  "KV cache usage of a worker from which on what workers hold does not matter; 1.0 switches it off.",
			set:   setFloat(func(s *Serve) *float64 { return &s.Policies.CacheAware.UsageCeiling }),
		},
		{
			Name: "overlap-decay", Kind: Scalar, Value: "X", Default: "0.0", Group: groupPolicy, In: choosing,
			Tunes: []string{policy.CacheAware},
			Help:  "How much the backlog of a worker takes from the worth of what it holds; 0 for nothing.",
			set:   setFloat(func(s *Serve) *float64 { return &s.Policies.CacheAware.OverlapDecay }),
		},
		{
			Name: "selection-temperature", Kind: Scalar, Value: "X", Default: "0.0", Group: groupPolicy, In: choosing,
			Tunes: []string{policy.CacheAware},
			Help:  "Chance among the workers that hold something of a prompt; 0 always takes one that holds most.",
			set:   setFloat(func(s *Serve) *float64 { return &s.Policies.CacheAware.Temperature }),
		},
		{
			Name: "eviction-interval", Aliases: []string{"eviction-interval-secs"}, Kind: Scalar, Value: "SECS", Default: "120", Group: groupPolicy, In: choosing,
			Tunes: []string{policy.CacheAware, policy.Manual, stickySessions},
			Help:  "Pause between two clean-ups of prefix trees and pins; 0 never forgets a pin.",
			set: both(setSeconds(func(s *Serve) *time.Duration { return &s.Policies.CacheAware.EvictionInterval }, 0),
				setSeconds(func(s *Serve) *time.Duration { return &s.Policies.Pins.EvictionInterval }, 0)),
		},
		{
			Name: "max-tree-size", Kind: Scalar, Value: "N", Default: "67108864", Group: groupPolicy, In: choosing,
			Tunes: []string{policy.CacheAware},
			Help:  "Characters, and tokens, that the prefix trees of a model keep.",
			set:   setNumber(func(s *Serve) *int64 { return &s.Policies.CacheAware.MaxTreeSize }, 0, math.MaxInt64),
		},
		{
			Name: "block-size", Kind: Scalar, Value: "TOKENS", Default: "16", Group: groupPolicy, In: choosing,
			Tunes: []string{policy.CacheAware},
			Help:  "Tokens of a block of the engines' KV cache, where they do not say it.",
			set:   setNumber(func(s *Serve) *int { return &s.Policies.CacheAware.BlockSize }, 0, math.MaxInt32),
		},
		{
			Name: "cache-index", Kind: Scalar, Value: "INDEX", Default: policy.TreeIndex, Group: groupPolicy, In: choosing,
			Tunes: []string{policy.CacheAware},
			Help:  "How prompts are remembered: tree (whole) or hash (up to each of --cache-boundaries, for prompts that come as tokens).",
			set:   setEnum(func(s *Serve) *string { return &s.Policies.CacheAware.Index }, "cache index", policy.CacheIndexes()),
		},
		{
			Name: "cache-boundaries", Kind: Scalar, Value: "N[,N]", Group: groupPolicy, In: choosing,
			Tunes: []string{policy.CacheAware, policy.PrefixHash},
			Help:  "Positions in a prompt, in tokens and ascending, up to which prompts are compared, such as 2048,8192.",
			set:   setBoundaries,
		},
		{
			Name: "cache-ttl-secs", Kind: Scalar, Value: "SECS", Default: "180", Group: groupPolicy, In: choosing,
			Tunes: []string{policy.CacheAware},
			Help:  "How long the hash index remembers a prompt that does not come again.",
			set:   setSeconds(func(s *Serve) *time.Duration { return &s.Policies.CacheAware.TTL }, 1),
		},
		{
			Name: "kv-indexer-ttl-secs", Kind: Scalar, Value: "SECS", Group: groupPolicy, In: choosing,
			Tunes: []string{policy.CacheAware},
			Help:  "How long a block that an engine says it holds is remembered without being asked for; 0 until the engine drops it.",
			set:   setSeconds(func(s *Serve) *time.Duration { return &s.Policies.CacheAware.KVTTL }, 0),
		},
		{
			Name: "kv-indexer-max-entries", Kind: Scalar, Value: "N", Group: groupPolicy, In: choosing,
			Tunes: []string{policy.CacheAware},
			Help:  "Blocks that are remembered of all engines of a model; 0 for any number.",
			set:   setNumber(func(s *Serve) *int { return &s.Policies.CacheAware.KVMaxBlocks }, 0, math.MaxInt32),
		},
		{
			Name: "prefix-token-count", Kind: Scalar, Value: "TOKENS", Default: "256", Group: groupPolicy, In: choosing,
			Tunes: []string{policy.PrefixHash},
			Help:  "Tokens of a prompt's head that are hashed; of text, four characters for each.",
			set:   setNumber(func(s *Serve) *int { return &s.Policies.PrefixHash.TokenCount }, 0, math.MaxInt32),
		},
		{
			Name: "prefix-hash-load-factor", Kind: Scalar, Value: "X", Default: "1.25", Group: groupPolicy, In: choosing,
			Tunes: []string{policy.PrefixHash},
			Help:  "Multiple of the mean, 1 or more, beyond which a worker has too many requests.",
			set:   setFloat(func(s *Serve) *float64 { return &s.Policies.PrefixHash.LoadFactor }),
		},
		{
			Name: "prefix-hash-balance-abs-threshold", Kind: Scalar, Value: "N", Default: "10", Group: groupPolicy, In: choosing,
			Tunes: []string{policy.PrefixHash},
			Help:  "Requests above the mean that a worker may always have.",
			set:   setNumber(func(s *Serve) *int64 { return &s.Policies.PrefixHash.BalanceAbs }, 0, math.MaxInt64),
		},
		{
			Name: "power-of-two-load-metric", Kind: Scalar, Value: "METRIC", Default: policy.ExpectedWait, Group: groupPolicy, In: choosing,
			Tunes: []string{policy.PowerOfTwo},
			Help:  "What two workers are compared by: expected_wait or requests in flight; least_requests looks at all workers.",
			set:   setEnum(func(s *Serve) *string { return &s.Policies.PowerOfTwo.Metric }, "load metric", policy.LoadMetrics()),
		},
		{
			Name: "least-load-kv-pressure-weight", Kind: Scalar, Value: "SECS", Default: "0.15", Group: groupPolicy, In: choosing,
			Tunes: []string{policy.LeastLoad},
			Help:  "Weight of a full KV cache, in seconds of expected wait; 0 for none.",
			set:   setFloat(func(s *Serve) *float64 { return &s.Policies.LeastLoad.KVPressureWeight }),
		},
		{
			Name: "least-load-default-throughput", Kind: Scalar, Value: "TOKENS/S", Default: "2000", Group: groupPolicy, In: choosing,
			Tunes: []string{policy.LeastLoad},
			Help:  "Throughput of a worker that reports none.",
			set:   setFloat(func(s *Serve) *float64 { return &s.Policies.LeastLoad.DefaultThroughput }),
		},
		{
			Name: "least-load-mean-prefill-tokens", Kind: Scalar, Value: "TOKENS", Default: "1024", Group: groupPolicy, In: choosing,
			Tunes: []string{policy.LeastLoad},
			Help:  "Tokens of a request whose tokens are not known.",
			set:   setNumber(func(s *Serve) *int64 { return &s.Policies.LeastLoad.MeanTokens }, 0, math.MaxInt64),
		},
		{
			Name: "least-load-max-waiting-requests", Kind: Scalar, Value: "N", Default: "0", Group: groupPolicy, In: choosing,
			Tunes: []string{policy.LeastLoad},
			Help:  "Waiting requests from which on a worker gets no more; 0 for no limit.",
			set:   setNumber(func(s *Serve) *int64 { return &s.Policies.LeastLoad.MaxWaiting }, 0, math.MaxInt64),
		},
		{
			Name: "bucket-adjust-interval-secs", Kind: Scalar, Value: "SECS", Default: "5", Group: groupPolicy, In: choosing,
			Tunes: []string{policy.Bucket},
			Help:  "Pause between two looks at the ranges of prompt lengths, and how far back requests count.",
			set:   setAnySeconds(func(s *Serve) *time.Duration { return &s.Policies.Bucket.Interval }),
		},
	}
}

// stickyFlag switches sticky sessions on.
const stickyFlag = "routing-key-override"

// stickyTable defines the flags of routing keys, and of what is pinned to them.
func stickyTable() []Def {
	return []Def{
		{
			Name: stickyFlag, Aliases: []string{"sticky-sessions"}, Kind: Bool, Group: groupPolicy, In: everyProcess,
			Help: "Sticky sessions: keep the requests of a routing key on one worker, on top of any policy.",
			set:  setBool(func(s *Serve) *bool { return &s.Policies.Sticky.On }),
		},
		{
			Name: "routing-key-headers", Kind: List, Value: "NAME...", Default: "x-smg-routing-key", Group: groupPolicy, In: serving,
			Tunes: []string{policy.PrefixHash, policy.ConsistentHashing, stickySessions},
			Help:  "Request headers that may hold the routing key, the first one present is read.",
			set:   addHeader(func(s *Serve) *[]string { return &s.RoutingKeyHeaders }),
			clear: func(s *Serve) { s.RoutingKeyHeaders = nil },
		},
		{
			Name: "assignment-mode", Kind: Scalar, Value: "MODE", Group: groupPolicy, In: choosing,
			Tunes: []string{policy.Manual, stickySessions},
			Help:  "Which worker a new key gets: random, min_load, min_group or delegate, by the policy itself (manual: random, sticky sessions: delegate).",
			set: both(setEnum(func(s *Serve) *string { return &s.Policies.Pins.Assignment }, "assignment mode", policy.Assignments()),
				setEnum(func(s *Serve) *string { return &s.Policies.Sticky.Assignment }, "assignment mode", policy.Assignments())),
		},
		{
			Name: "max-idle-secs", Aliases: []string{"sticky-key-idle-secs"}, Kind: Scalar, Value: "SECS", Default: "14400", Group: groupPolicy, In: choosing,
			Tunes: []string{policy.Manual, stickySessions},
			Help:  "How long a key that does not come again stays pinned; 0 for ever.",
			set:   setSeconds(func(s *Serve) *time.Duration { return &s.Policies.Pins.MaxIdle }, 0),
		},
	}
}
