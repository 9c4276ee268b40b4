package ingress

import (
	"net/http"
	"slices"

	"smg/worker"
)

// Statuses that say something about a worker's health, where it has no rules of its own:
// those that count as failures, and those that say that it is full, which never count.
var (
	failureStatuses  = []int{http.StatusRequestTimeout, http.StatusInternalServerError, http.StatusBadGateway, http.StatusGatewayTimeout}
	capacityStatuses = []int{http.StatusTooManyRequests, http.StatusServiceUnavailable}
)

// outcome is what an answer that came whole says about its worker.
func (c *call) outcome(status int) worker.Outcome {
	failures, capacity := failureStatuses, capacityStatuses
	if s := c.pick.Worker; s != nil && s.Breaker != nil {
		if s.Breaker.FailureStatuses != nil {
			failures = s.Breaker.FailureStatuses
		}
		if s.Breaker.CapacityStatuses != nil {
			capacity = s.Breaker.CapacityStatuses
		}
	}
	switch {
	case slices.Contains(capacity, status):
		return worker.Neutral
	case slices.Contains(failures, status):
		return worker.Failure
	case status < http.StatusBadRequest:
		return worker.Success
	}
	return worker.Neutral
}
