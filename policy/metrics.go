package policy

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// branch is how consistent_hashing came to a decision.
type branch uint8

const (
	targetWorkerHit branch = iota
	targetWorkerMiss
	routingKeyHit
	randomFallback
	noHealthyWorkers
	branches
)

// String is the branch's label.
func (b branch) String() string {
	return [branches]string{"target_worker_hit", "target_worker_miss", "routing_key_hit", "random_fallback", "no_healthy_workers"}[b]
}

// metrics are the package's own; selections are counted where they arrive.
type metrics struct {
	consistentHashing *branchCounters
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	c, err := newBranchCounters(reg, "smg_consistent_hashing_policy_branch_total",
		"Decisions of the consistent_hashing policy by branch.")
	if err != nil {
		return nil, err
	}
	return &metrics{consistentHashing: c}, nil
}

// branchCounters has a counter for each branch, made beforehand, so that counting
// is one atomic addition.
type branchCounters [branches]prometheus.Counter

func newBranchCounters(reg prometheus.Registerer, name, help string) (*branchCounters, error) {
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"branch"})
	if reg != nil {
		err := reg.Register(vec)
		// A process has a policy for each model that asks for one, and one counter.
		if already := new(prometheus.AlreadyRegisteredError); errors.As(err, already) {
			existing, ok := already.ExistingCollector.(*prometheus.CounterVec)
			if !ok {
				return nil, fmt.Errorf("registering %s: %w", name, err)
			}
			vec = existing
		} else if err != nil {
			return nil, fmt.Errorf("registering %s: %w", name, err)
		}
	}
	var c branchCounters
	for b := range branches {
		c[b] = vec.WithLabelValues(b.String())
	}
	return &c, nil
}

func (c *branchCounters) add(b branch) { c[b].Inc() }
