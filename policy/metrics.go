package policy

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// branchCounters counts the decisions of a policy by branch. Its counters are made
// beforehand, so that counting allocates nothing.
type branchCounters map[string]prometheus.Counter

// newBranchCounters makes the counter smg_<policy>_policy_branch_total with the
// given branches.
func newBranchCounters(reg prometheus.Registerer, policy string, branches ...string) (branchCounters, error) {
	vec, err := register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "smg_" + policy + "_policy_branch_total",
		Help: "Decisions of the " + policy + " policy by branch.",
	}, []string{"branch"}))
	if err != nil {
		return nil, err
	}
	c := branchCounters{}
	for _, b := range branches {
		c[b] = vec.WithLabelValues(b)
	}
	return c, nil
}

// add counts a decision. A branch that was not named beforehand is not counted.
func (c branchCounters) add(branch string) {
	if counter, ok := c[branch]; ok {
		counter.Inc()
	}
}

// register gives c to reg, which may be nil, or returns the equal collector that
// reg has already: a process has a policy for each model that asks for one and each
// leg, and one set of metrics.
func register[C prometheus.Collector](reg prometheus.Registerer, c C) (C, error) {
	if reg == nil {
		return c, nil
	}
	err := reg.Register(c)
	if already := new(prometheus.AlreadyRegisteredError); errors.As(err, already) {
		if existing, ok := already.ExistingCollector.(C); ok {
			return existing, nil
		}
	}
	if err != nil {
		return c, fmt.Errorf("registering the metrics of a policy: %w", err)
	}
	return c, nil
}
