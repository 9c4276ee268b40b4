package worker

import (
	"cmp"
	"slices"
	"time"
)

// HealthRules are a worker's own rules of its probes and of its leaving. What is 0 or
// nil is the fleet's.
type HealthRules struct {
	Timeout          time.Duration // of a probe
	Interval         time.Duration // between two probes
	SuccessThreshold int
	FailureThreshold int
	Disabled         *bool          // nobody probes it, and it counts as ready
	Settle           *time.Duration // how long it drains before it leaves; 0 is not at all
}

// Clone is a copy that shares nothing with h; nil of nil.
func (h *HealthRules) Clone() *HealthRules {
	if h == nil {
		return nil
	}
	c := *h
	c.Disabled, c.Settle = copied(h.Disabled), copied(h.Settle)
	return &c
}

// With is h with what o sets; nil where neither sets anything.
func (h *HealthRules) With(o *HealthRules) *HealthRules {
	c := h.Clone()
	if o == nil {
		return c
	}
	if c == nil {
		c = &HealthRules{}
	}
	c.Timeout, c.Interval = cmp.Or(o.Timeout, c.Timeout), cmp.Or(o.Interval, c.Interval)
	c.SuccessThreshold, c.FailureThreshold = cmp.Or(o.SuccessThreshold, c.SuccessThreshold), cmp.Or(o.FailureThreshold, c.FailureThreshold)
	if o.Disabled != nil {
		c.Disabled = copied(o.Disabled)
	}
	if o.Settle != nil {
		c.Settle = copied(o.Settle)
	}
	return c
}

// BreakerRules are a worker's own rules of its circuit breaker. What is 0 or nil is the
// fleet's; an empty list is none.
type BreakerRules struct {
	FailureThreshold int
	SuccessThreshold int
	Timeout          time.Duration
	// FailureStatuses are the answers that count as failures, CapacityStatuses those that
	// never count at all.
	FailureStatuses  []int
	CapacityStatuses []int
}

// Clone is a copy that shares nothing with b; nil of nil.
func (b *BreakerRules) Clone() *BreakerRules {
	if b == nil {
		return nil
	}
	c := *b
	c.FailureStatuses, c.CapacityStatuses = slices.Clone(b.FailureStatuses), slices.Clone(b.CapacityStatuses)
	return &c
}

// PoolRules are a worker's own rules of the connections to it. What is 0 or nil is the
// fleet's.
type PoolRules struct {
	MaxIdle        *int           // connections that are kept; 0 keeps none
	IdleTimeout    *time.Duration // how long they are; 0 for ever
	Timeout        time.Duration  // of a whole request
	ConnectTimeout time.Duration
}

// Clone is a copy that shares nothing with p; nil of nil.
func (p *PoolRules) Clone() *PoolRules {
	if p == nil {
		return nil
	}
	c := *p
	c.MaxIdle, c.IdleTimeout = copied(p.MaxIdle), copied(p.IdleTimeout)
	return &c
}

func copied[T any](p *T) *T {
	if p == nil {
		return nil
	}
	return new(*p)
}
