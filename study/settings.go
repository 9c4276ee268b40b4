package study

import (
	"time"

	"smg/policy"
)

// FlagDefaults are the settings of policies that a gateway has whose flags are not
// set. They are not those that a worker's label asks for ([policy.DefaultConfig]).
// The command line cannot be asked for them here, so a test of it looks whether it
// agrees.
func FlagDefaults() policy.Config {
	c := policy.DefaultConfig()
	gate := policy.Balance{Abs: 64, Rel: 1.5}
	c.CacheAware.Balance, c.Bucket.Balance = gate, gate
	c.CacheAware.Threshold = 0.3
	c.CacheAware.EvictionInterval = 120 * time.Second
	c.CacheAware.MaxTreeSize = 64 << 20
	return c
}
