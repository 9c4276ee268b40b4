package study

import (
	"errors"
	"fmt"
	"time"

	"smg/policy"
	"smg/sim"
	"smg/worker"
)

// Config is the site: so many engines, all alike, behind ingresses and replicas of
// one leg's selector.
type Config struct {
	Workers   int
	Ingresses int // requests come to them in turn
	Selectors int
	// Private lets each ingress have a selector of its own in its process, which
	// hears of nobody else and polls by itself: so many gateways that share nothing
	// but the engines. There must be as many selectors as ingresses, and nothing
	// crosses the bus: it loses nothing.
	Private bool
	Engine  sim.Config

	Bus    time.Duration // what a message of the lease stream or of a keeper takes
	Jitter time.Duration // what it takes more at most; it may overtake others
	Lost   float64       // share of these messages that do not get to a replica, each by itself
	Select time.Duration // what an ask takes to a selector, and its answer back
	Poll   time.Duration // between the load polls of a worker
	Polled time.Duration // what the answer to a poll takes

	Seed uint64 // of whatever chance the policies and the bus take
}

// DefaultConfig is one process in front of 16 engines. Each resembles a machine of
// eight accelerators with a model of 70 billion parameters: 1.5 million tokens of KV
// cache, in the blocks of the Mooncake traces.
func DefaultConfig() Config {
	engine := sim.DefaultConfig()
	engine.BlockSize, engine.KVBlocks = 512, 3072
	engine.ContextLength = 160 << 10
	engine.MaxQueue = 0
	return Config{
		Workers: 16, Ingresses: 1, Selectors: 1, Engine: engine,
		Bus: 50 * time.Microsecond, Poll: 10 * time.Second, Polled: time.Millisecond, Seed: 1,
	}
}

// Validate reports every fault at once.
func (c Config) Validate() error {
	errs := []error{c.Engine.Validate()}
	for _, n := range []struct {
		what  string
		value int
	}{{"workers", c.Workers}, {"ingresses", c.Ingresses}, {"selectors", c.Selectors}} {
		if n.value < 1 {
			errs = append(errs, fmt.Errorf("there must be at least 1 of the %s, not %d", n.what, n.value))
		}
	}
	if c.Poll <= 0 {
		errs = append(errs, fmt.Errorf("the time between polls must be above 0, not %v", c.Poll))
	}
	if c.Private && c.Selectors != c.Ingresses {
		errs = append(errs, fmt.Errorf("%d ingresses cannot have %d selectors of their own", c.Ingresses, c.Selectors))
	}
	if !(c.Lost >= 0 && c.Lost < 1) {
		errs = append(errs, fmt.Errorf("the share of messages that are lost must be from 0 to below 1, not %v", c.Lost))
	}
	if c.Bus < 0 || c.Jitter < 0 || c.Select < 0 || c.Polled < 0 {
		errs = append(errs, errors.New("times that messages take must not be negative"))
	}
	return errors.Join(errs...)
}

// Contender is what is under study: a policy and what it is told of requests, or a
// reference that no site could run.
type Contender struct {
	Name string
	// Leg is the one whose selector runs the policy. The engines do the same work on
	// every leg; but there are policies that care.
	Leg worker.Leg
	// Inputs writes into req what an ingress would tell of request i: all that a
	// policy may read. Nil tells nothing. It is called from one goroutine at a time
	// for each run.
	Inputs func(i int, req *policy.Request)
	// New makes the policy of one selector replica. Only references look at the
	// fleet.
	New func(fleet *Fleet, deps policy.Deps) (policy.Policy, error)
}
