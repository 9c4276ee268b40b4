package policy

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// The names of the policies, in flags, labels and metrics.
const (
	Random            = "random"
	RoundRobin        = "round_robin"
	Passthrough       = "passthrough"
	CacheAware        = "cache_aware"
	PowerOfTwo        = "power_of_two"
	LeastLoad         = "least_load"
	PrefixHash        = "prefix_hash"
	ConsistentHashing = "consistent_hashing"
	Manual            = "manual"
	Bucket            = "bucket"
)

// ErrUnknown is a name that is none of [Names].
var ErrUnknown = errors.New("unknown policy")

// Names lists all ten policies in the order in which they are shown to users.
func Names() []string {
	return []string{Random, RoundRobin, Passthrough, CacheAware, PowerOfTwo, LeastLoad, PrefixHash, ConsistentHashing, Manual, Bucket}
}

// ParseName is the name that a worker's label means: any case, with the underscores
// or without any ("CacheAware"). The error wraps [ErrUnknown].
func ParseName(label string) (string, error) {
	folded := strings.ToLower(label)
	for _, name := range Names() {
		if folded == name || folded == strings.ReplaceAll(name, "_", "") {
			return name, nil
		}
	}
	return "", unknown(label)
}

// Deps is what policies get from the process that runs them: one value, the same
// for every policy and [Book] of the process.
type Deps struct {
	// Registerer takes the branch counters. Policies that share it share their
	// counters. With nil nothing is exported.
	Registerer prometheus.Registerer
	// Logger gets warnings, and decisions at debug; nil discards them.
	Logger *slog.Logger
	// IntN is a uniform number in [0, n), from any number of goroutines; nil uses
	// math/rand/v2.
	IntN func(n int) int
	// Warned latches what is warned about once per process; with nil each policy
	// has a latch of its own.
	Warned *atomic.Bool

	// pins are those of the [Book] that the policy is made for; with nil it makes its
	// own.
	pins *pins
}

func (d Deps) withDefaults() Deps {
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	if d.IntN == nil {
		d.IntN = rand.IntN
	}
	if d.Warned == nil {
		d.Warned = new(atomic.Bool)
	}
	return d
}

// New makes the policy called name, one of [Names], with its settings from cfg. The
// error wraps [ErrUnknown] and says what can be had instead.
func New(name string, cfg Config, deps Deps) (Policy, error) {
	deps = deps.withDefaults()
	switch name {
	case Random:
		return newRandom(deps), nil
	case RoundRobin:
		return newRoundRobin(), nil
	case Passthrough:
		return newPassthrough(deps), nil
	case CacheAware:
		return newCacheAware(cfg, deps)
	case LeastLoad:
		return newLeastLoad(cfg.LeastLoad, deps), nil
	case PowerOfTwo:
		return newPowerOfTwo(cfg.PowerOfTwo, deps), nil
	case PrefixHash:
		return newPrefixHash(cfg, deps)
	case Bucket:
		return newBucket(cfg.Bucket, deps), nil
	case ConsistentHashing:
		return newConsistentHashing(deps)
	case Manual:
		return newManual(cfg.Pins, deps)
	}
	return nil, unknown(name)
}

func unknown(name string) error {
	return fmt.Errorf("%w %q: the policies are %s", ErrUnknown, name, strings.Join(Names(), ", "))
}
