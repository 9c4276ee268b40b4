package worker

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestCloneSharesNothing changes all that a copy could share.
func TestCloneSharesNothing(t *testing.T) {
	full := func() *Spec {
		return &Spec{
			Labels: map[string]string{"a": "b"}, Models: []Model{{ID: "m", Aliases: []string{"n"}}}, Media: []string{"image"}, SealedKey: []byte{1},
			Health:  &HealthRules{Timeout: 1, Disabled: new(true), Settle: new(time.Second)},
			Breaker: &BreakerRules{Timeout: 1, FailureStatuses: []int{500}, CapacityStatuses: []int{429}},
			Pool:    &PoolRules{Timeout: 1, MaxIdle: new(1), IdleTimeout: new(time.Second)},
		}
	}
	s := full()
	c := s.Clone()
	if diff := cmp.Diff(s, c); diff != "" {
		t.Errorf("the copy is another (-want +got):\n%s", diff)
	}
	c.Labels["a"], c.Models[0].Aliases[0], c.Media[0], c.SealedKey[0] = "", "", "", 0
	c.Health.Timeout, *c.Health.Disabled, *c.Health.Settle = 0, false, 0
	c.Breaker.Timeout, c.Breaker.FailureStatuses[0], c.Breaker.CapacityStatuses[0] = 0, 0, 0
	c.Pool.Timeout, *c.Pool.MaxIdle, *c.Pool.IdleTimeout = 0, 0, 0
	if diff := cmp.Diff(full(), s); diff != "" {
		t.Errorf("the copy changed it (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&Spec{}, (&Spec{}).Clone()); diff != "" {
		t.Errorf("a copy of nothing (-want +got):\n%s", diff)
	}
}
