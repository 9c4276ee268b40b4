package flags

import (
	"math"
	"time"
)

// retryTable defines the flags of retries and of the circuit breaker.
func retryTable() []Def {
	return []Def{
		{
			Name: "disable-retries", Kind: Bool, Group: groupRetries, In: serving,
			Help: "Try every request once.",
			set:  setBool(func(s *Serve) *bool { return &s.Retry.Disabled }),
		},
		{
			Name: "retry-max-retries", Kind: Scalar, Value: "N", Default: "5", Group: groupRetries, In: serving,
			Help: "Attempts that a request gets, the first included.",
			set:  setNumber(func(s *Serve) *int { return &s.Retry.Max }, 0, math.MaxInt32),
		},
		{
			Name: "retry-initial-backoff-ms", Kind: Scalar, Value: "MS", Default: "50", Group: groupRetries, In: serving,
			Help: "Wait before the second attempt.",
			set:  setMilliseconds(func(s *Serve) *time.Duration { return &s.Retry.Initial }),
		},
		{
			Name: "retry-max-backoff-ms", Kind: Scalar, Value: "MS", Default: "30000", Group: groupRetries, In: serving,
			Help: "Longest wait between two attempts.",
			set:  setMilliseconds(func(s *Serve) *time.Duration { return &s.Retry.MaxBackoff }),
		},
		{
			Name: "retry-backoff-multiplier", Kind: Scalar, Value: "X", Default: "1.5", Group: groupRetries, In: serving,
			Help: "How much longer each wait is than the one before.",
			set:  setDecimal(func(s *Serve) *float64 { return &s.Retry.Multiplier }),
		},
		{
			Name: "retry-jitter-factor", Kind: Scalar, Value: "SHARE", Default: "0.2", Group: groupRetries, In: serving,
			Help: "Share by which waits are varied, from 0 to 1.",
			set:  setDecimal(func(s *Serve) *float64 { return &s.Retry.Jitter }),
		},
		{
			Name: "disable-circuit-breaker", Kind: Bool, Group: groupRetries, In: choosing,
			Help: "Go on sending requests to workers that fail.",
			set:  setBool(func(s *Serve) *bool { return &s.Breaker.Disabled }),
		},
		{
			Name: "cb-failure-threshold", Kind: Scalar, Value: "N", Default: "10", Group: groupRetries, In: choosing,
			Help: "Failures in a row that take a worker out of service.",
			set:  setNumber(func(s *Serve) *int { return &s.Breaker.FailureThreshold }, 0, math.MaxInt32),
		},
		{
			Name: "cb-success-threshold", Kind: Scalar, Value: "N", Default: "3", Group: groupRetries, In: choosing,
			Help: "Good requests in a row that bring a worker back.",
			set:  setNumber(func(s *Serve) *int { return &s.Breaker.SuccessThreshold }, 0, math.MaxInt32),
		},
		{
			Name: "cb-timeout-duration-secs", Kind: Scalar, Value: "SECS", Default: "60", Group: groupRetries, In: choosing,
			Help: "How long a worker is out of service before it is tried again.",
			set:  setSeconds(func(s *Serve) *time.Duration { return &s.Breaker.Timeout }, 0),
		},
		{
			Name: "cb-window-duration-secs", Kind: Scalar, Value: "SECS", Default: "120", Group: groupRetries, In: choosing,
			Help: "Age from which a worker's failures do not count any more.",
			set:  setSeconds(func(s *Serve) *time.Duration { return &s.Breaker.Window }, 0),
		},
	}
}
