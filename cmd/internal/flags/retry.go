package flags

import (
	"fmt"
	"time"
)

// Retry is when and how often a request is tried again.
type Retry struct {
	// Disabled says that nothing is tried again; Max is 1 then.
	Disabled bool
	// Max is the number of attempts, the first included.
	Max int
	// Initial is the wait before the second attempt. It grows by Multiplier from one
	// attempt to the next, up to MaxBackoff, and is varied by up to the share Jitter.
	Initial    time.Duration
	MaxBackoff time.Duration
	Multiplier float64
	Jitter     float64
}

// Breaker is when a worker's circuit breaker opens and closes.
type Breaker struct {
	// Disabled says that it never opens.
	Disabled bool
	// FailureThreshold failures in a row, none older than Window, open it. After
	// Timeout it lets requests through again, and SuccessThreshold good ones close it.
	FailureThreshold int
	SuccessThreshold int
	Timeout          time.Duration
	Window           time.Duration
}

func (r Retry) check(c *checker) {
	if r.Max < 1 {
		c.add("retry-max-retries", fmt.Sprint(r.Max), "give 1 or more, or --"+c.prefix+"disable-retries", "must be more than 0")
	}
	c.checkPositive("retry-initial-backoff-ms", r.Initial.Milliseconds())
	if r.MaxBackoff < r.Initial {
		c.add("retry-max-backoff-ms", fmt.Sprint(r.MaxBackoff.Milliseconds()), fmt.Sprintf("give %d or more", r.Initial.Milliseconds()),
			"must not be less than --%sretry-initial-backoff-ms %d", c.prefix, r.Initial.Milliseconds())
	}
	if r.Multiplier < 1 {
		c.add("retry-backoff-multiplier", fmt.Sprint(r.Multiplier), "give 1 or more", "must be at least 1")
	}
	if r.Jitter < 0 || r.Jitter > 1 {
		c.add("retry-jitter-factor", fmt.Sprint(r.Jitter), "give a number from 0 to 1", "must be between 0 and 1")
	}
}

func (b Breaker) check(c *checker) {
	if b.FailureThreshold < 1 && !b.Disabled {
		c.add("cb-failure-threshold", fmt.Sprint(b.FailureThreshold), "give 1 or more, or --"+c.prefix+"disable-circuit-breaker", "must be more than 0")
	}
	c.checkPositive("cb-success-threshold", int64(b.SuccessThreshold))
	c.checkPositive("cb-timeout-duration-secs", int64(b.Timeout))
	c.checkPositive("cb-window-duration-secs", int64(b.Window))
}
