package worker

import (
	"errors"
	"fmt"
	"time"
)

// HealthConfig is how often workers are probed and what the results mean.
type HealthConfig struct {
	Interval         time.Duration // between probes of a worker
	Timeout          time.Duration // of one probe
	FailureThreshold int           // bad probes in a row that make a ready worker not ready
	SuccessThreshold int           // good probes in a row that bring it back
	Disabled         bool          // workers are ready without a probe
}

// DefaultHealthConfig holds the defaults of the flags.
func DefaultHealthConfig() HealthConfig {
	return HealthConfig{Interval: time.Minute, Timeout: 5 * time.Second, FailureThreshold: 3, SuccessThreshold: 2}
}

// Validate joins all faults, each naming its flag.
func (c HealthConfig) Validate() error {
	var errs []error
	if c.Interval <= 0 {
		errs = append(errs, fmt.Errorf("--health-check-interval-secs is %g: it must be above 0", c.Interval.Seconds()))
	}
	if c.Timeout <= 0 {
		errs = append(errs, fmt.Errorf("--health-check-timeout-secs is %g: it must be above 0", c.Timeout.Seconds()))
	}
	if c.FailureThreshold < 1 {
		errs = append(errs, fmt.Errorf("--health-failure-threshold is %d: it must be at least 1", c.FailureThreshold))
	}
	if c.SuccessThreshold < 1 {
		errs = append(errs, fmt.Errorf("--health-success-threshold is %d: it must be at least 1", c.SuccessThreshold))
	}
	return errors.Join(errs...)
}

// Probes that a worker may fail, in failure thresholds, before it counts as
// failed.
const (
	pendingLimit  = 10
	notReadyLimit = 3
)

// health is the streaks behind a worker's status. Its zero value has none.
type health struct {
	good, bad int // in a row
	probes    int // in all, while pending
}

// observe counts a probe and returns the status that it leads to.
func (h *health) observe(ok bool, from Status, cfg *HealthConfig) Status {
	if ok {
		h.good, h.bad = h.good+1, 0
	} else {
		h.good, h.bad = 0, h.bad+1
	}
	to := from
	switch from {
	case Pending:
		h.probes++
		if ok {
			to = Ready
		} else if h.probes >= pendingLimit*cfg.FailureThreshold {
			to = Failed
		}
	case Ready:
		if h.bad >= cfg.FailureThreshold {
			to = NotReady
		}
	case NotReady:
		if h.good >= cfg.SuccessThreshold {
			to = Ready
		} else if h.bad >= notReadyLimit*cfg.FailureThreshold {
			to = Failed
		}
	case Failed:
		if h.good >= cfg.SuccessThreshold {
			to = Ready
		}
	case Draining:
	}
	if to != from {
		*h = health{}
	}
	return to
}
