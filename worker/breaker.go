package worker

import (
	"errors"
	"fmt"
	"time"
)

// BreakerConfig is when a worker's circuit breaker opens and closes.
type BreakerConfig struct {
	FailureThreshold int           // failures in a row that open it
	SuccessThreshold int           // successes in a row that close it; also the calls let through at a time while half open
	Timeout          time.Duration // from opening to half open
	Window           time.Duration // older failures do not count
	Disabled         bool          // it never opens
}

// DefaultBreakerConfig holds the defaults of the flags.
func DefaultBreakerConfig() BreakerConfig {
	return BreakerConfig{FailureThreshold: 10, SuccessThreshold: 3, Timeout: time.Minute, Window: 2 * time.Minute}
}

// Validate joins all faults, each naming its flag.
func (c BreakerConfig) Validate() error {
	var errs []error
	if c.FailureThreshold < 1 {
		errs = append(errs, fmt.Errorf("--cb-failure-threshold is %d: it must be at least 1", c.FailureThreshold))
	}
	if c.SuccessThreshold < 1 {
		errs = append(errs, fmt.Errorf("--cb-success-threshold is %d: it must be at least 1", c.SuccessThreshold))
	}
	if c.Timeout <= 0 {
		errs = append(errs, fmt.Errorf("--cb-timeout-duration-secs is %g: it must be above 0", c.Timeout.Seconds()))
	}
	if c.Window <= 0 {
		errs = append(errs, fmt.Errorf("--cb-window-duration-secs is %g: it must be above 0", c.Window.Seconds()))
	}
	return errors.Join(errs...)
}

// circuit is the state machine of a breaker. Its zero value is closed.
type circuit struct {
	state     Breaker
	since     time.Time   // of the last change
	failures  []time.Time // of the streak, the last FailureThreshold of them
	successes int         // in a row, while half open
}

// observe counts an outcome and says whether the state changed. While half open
// any failure opens it again, but only probes close it: an old stream that ends
// well says nothing about now.
func (c *circuit) observe(e Event, cfg *BreakerConfig, now time.Time) bool {
	switch {
	case c.state == Open || e.Outcome == Neutral:
		return false
	case e.Outcome == Failure && c.state == HalfOpen:
		c.turn(Open, now)
		return true
	case e.Outcome == Failure:
		if n := len(c.failures) - cfg.FailureThreshold + 1; n > 0 { // more than one after the threshold was lowered
			c.failures = append(c.failures[:0], c.failures[n:]...)
		}
		c.failures = append(c.failures, now)
		if cfg.Disabled || len(c.failures) < cfg.FailureThreshold || now.Sub(c.failures[0]) >= cfg.Window {
			return false
		}
		c.turn(Open, now)
		return true
	case c.state == Closed:
		c.failures = c.failures[:0]
		return false
	case !e.Probe:
		return false
	}
	c.successes++
	if c.successes < cfg.SuccessThreshold {
		return false
	}
	c.turn(Closed, now)
	return true
}

// tick lets an open breaker turn half open and says whether it did.
func (c *circuit) tick(cfg *BreakerConfig, now time.Time) bool {
	if c.state != Open || now.Sub(c.since) < cfg.Timeout {
		return false
	}
	c.turn(HalfOpen, now)
	return true
}

// turn changes the state and starts both streaks anew.
func (c *circuit) turn(to Breaker, now time.Time) {
	c.state, c.since, c.successes, c.failures = to, now, 0, c.failures[:0]
}
