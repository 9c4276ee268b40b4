package ingress

import (
	"testing"

	"smg/wire"
	"smg/worker"
)

func TestOutcome(t *testing.T) {
	tests := []struct {
		name   string
		rules  *worker.BreakerRules
		status int
		want   worker.Outcome
	}{
		{"good", nil, 200, worker.Success},
		{"redirect", nil, 307, worker.Success},
		{"fault", nil, 500, worker.Failure},
		{"time-out", nil, 408, worker.Failure},
		{"full", nil, 503, worker.Neutral},
		{"the client's fault", nil, 404, worker.Neutral},
		{"rules that say nothing", &worker.BreakerRules{}, 500, worker.Failure},
		{"another list", &worker.BreakerRules{FailureStatuses: []int{404}}, 500, worker.Neutral},
		{"on another list", &worker.BreakerRules{FailureStatuses: []int{404}}, 404, worker.Failure},
		{"an empty list", &worker.BreakerRules{FailureStatuses: []int{}}, 500, worker.Neutral},
		{"full, which never counts", &worker.BreakerRules{FailureStatuses: []int{503}}, 503, worker.Neutral},
		{"full, which counts here", &worker.BreakerRules{FailureStatuses: []int{503}, CapacityStatuses: []int{}}, 503, worker.Failure},
		{"capacity before failure", &worker.BreakerRules{CapacityStatuses: []int{500}}, 500, worker.Neutral},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := &call{pick: wire.Pick{Worker: &worker.Spec{Breaker: tt.rules}}}
			if got := c.outcome(tt.status); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
