package ingress

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"time"
)

// Retry is how often a request is tried and how long it waits in between.
type Retry struct {
	Attempts   int // in all, at least 1
	Initial    time.Duration
	Max        time.Duration
	Multiplier float64
	Jitter     float64 // share of the delay by which it varies, up and down
}

// DefaultRetry is what a gateway does that was given no flags.
func DefaultRetry() Retry {
	return Retry{Attempts: 5, Initial: 50 * time.Millisecond, Max: 30 * time.Second, Multiplier: 1.5, Jitter: 0.2}
}

// Validate reports every value out of range, each by its flag.
func (r Retry) Validate() error {
	var errs []error
	if r.Attempts < 1 {
		errs = append(errs, fmt.Errorf("--retry-max-retries must be at least 1, not %d", r.Attempts))
	}
	if r.Initial <= 0 {
		errs = append(errs, errors.New("--retry-initial-backoff-ms must be greater than 0"))
	}
	if r.Max < r.Initial {
		errs = append(errs, errors.New("--retry-max-backoff-ms must not be less than --retry-initial-backoff-ms"))
	}
	if !(r.Multiplier >= 1) || math.IsInf(r.Multiplier, 0) {
		errs = append(errs, errors.New("--retry-backoff-multiplier must be at least 1"))
	}
	if !(r.Jitter >= 0 && r.Jitter <= 1) {
		errs = append(errs, errors.New("--retry-jitter-factor must be within 0 and 1"))
	}
	return errors.Join(errs...)
}

// delay is the wait before retry n, counted from 0, with u uniform in [-1, 1].
func (r Retry) delay(n int, u float64) time.Duration {
	ms := math.Floor(float64(r.Initial.Milliseconds()) * math.Pow(r.Multiplier, float64(n)))
	ms = min(ms, float64(r.Max.Milliseconds()))
	ms += math.Round(ms * r.Jitter * u)
	return time.Duration(max(0, ms)) * time.Millisecond
}

// jitter is a number for Retry.delay.
func jitter() float64 { return 2*rand.Float64() - 1 }

// retried says whether an answer with this status may be asked for again.
func retried(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}
