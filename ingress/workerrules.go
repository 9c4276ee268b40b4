package ingress

import (
	"math"
	"time"

	"smg/worker"
)

// healthRequest are rules of a worker's own; what is absent, or null, is the gateway's.
type healthRequest struct {
	Timeout          *int64 `json:"timeout_secs"`
	Interval         *int64 `json:"check_interval_secs"`
	SuccessThreshold *int64 `json:"success_threshold"`
	FailureThreshold *int64 `json:"failure_threshold"`
	Disabled         *bool  `json:"disable_health_check"`
	Settle           *int64 `json:"drain_settle_secs"`
}

// resilienceRequest are those fields that have an effect on one worker.
type resilienceRequest struct {
	FailureThreshold *int64 `json:"cb_failure_threshold"`
	SuccessThreshold *int64 `json:"cb_success_threshold"`
	Timeout          *int64 `json:"cb_timeout_secs"`
	FailureStatuses  []int  `json:"retryable_status_codes"`
	CapacityStatuses []int  `json:"capacity_status_codes"`
}

// poolRequest are rules of the connections to a worker.
type poolRequest struct {
	MaxIdle        *int64 `json:"pool_max_idle_per_host"`
	IdleTimeout    *int64 `json:"pool_idle_timeout_secs"`
	Timeout        *int64 `json:"timeout_secs"`
	ConnectTimeout *int64 `json:"connect_timeout_secs"`
	HTTP2          *bool  `json:"http2"`
}

// maxRuleSecs is a year: beyond it there is a mistake.
const maxRuleSecs = 365 * 24 * 60 * 60

// rules reads numbers that may be absent, and keeps the first fault.
type rules struct{ err error }

func (r *rules) number(field string, v *int64, least, most int64) int64 {
	if v == nil {
		return 0
	}
	if (*v < least || *v > most) && r.err == nil {
		r.err = badWorker("%s %d is not in %d..%d: leave it out for what the gateway has", field, *v, least, most)
	}
	return *v
}

func (r *rules) seconds(field string, v *int64, least int64) time.Duration {
	return time.Duration(r.number(field, v, least, maxRuleSecs)) * time.Second
}

func (r *rules) statuses(field string, list []int) []int {
	for i, status := range list {
		if (status < 100 || status > 599) && r.err == nil {
			r.err = badWorker("%s[%d]: %d is no HTTP status", field, i, status)
		}
	}
	return list
}

// rules are nil where nothing is asked for.
func (q *healthRequest) rules() (*worker.HealthRules, error) {
	if q == nil || *q == (healthRequest{}) {
		return nil, nil
	}
	var r rules
	h := &worker.HealthRules{
		Timeout:          r.seconds("health.timeout_secs", q.Timeout, 1),
		Interval:         r.seconds("health.check_interval_secs", q.Interval, 1),
		SuccessThreshold: int(r.number("health.success_threshold", q.SuccessThreshold, 1, math.MaxInt32)),
		FailureThreshold: int(r.number("health.failure_threshold", q.FailureThreshold, 1, math.MaxInt32)),
		Disabled:         q.Disabled,
	}
	if q.Settle != nil {
		h.Settle = new(r.seconds("health.drain_settle_secs", q.Settle, 0))
	}
	return h, r.err
}

func (q *resilienceRequest) rules() (*worker.BreakerRules, error) {
	if q == nil || q.FailureThreshold == nil && q.SuccessThreshold == nil && q.Timeout == nil && q.FailureStatuses == nil && q.CapacityStatuses == nil {
		return nil, nil
	}
	var r rules
	return &worker.BreakerRules{
		FailureThreshold: int(r.number("resilience.cb_failure_threshold", q.FailureThreshold, 1, math.MaxInt32)),
		SuccessThreshold: int(r.number("resilience.cb_success_threshold", q.SuccessThreshold, 1, math.MaxInt32)),
		Timeout:          r.seconds("resilience.cb_timeout_secs", q.Timeout, 1),
		FailureStatuses:  r.statuses("resilience.retryable_status_codes", q.FailureStatuses),
		CapacityStatuses: r.statuses("resilience.capacity_status_codes", q.CapacityStatuses),
	}, r.err
}

func (q *poolRequest) rules() (*worker.PoolRules, error) {
	if q == nil || *q == (poolRequest{HTTP2: q.HTTP2}) {
		return nil, nil
	}
	var r rules
	p := &worker.PoolRules{
		Timeout:        r.seconds("http_pool.timeout_secs", q.Timeout, 1),
		ConnectTimeout: r.seconds("http_pool.connect_timeout_secs", q.ConnectTimeout, 1),
	}
	if q.MaxIdle != nil {
		p.MaxIdle = new(int(r.number("http_pool.pool_max_idle_per_host", q.MaxIdle, 0, math.MaxInt32)))
	}
	if q.IdleTimeout != nil {
		p.IdleTimeout = new(r.seconds("http_pool.pool_idle_timeout_secs", q.IdleTimeout, 0))
	}
	return p, r.err
}

// addRules adds the worker's own rules.
func (q *workerRequest) addRules(s *worker.Spec) (err error) {
	if s.Health, err = q.Health.rules(); err != nil {
		return err
	}
	if s.Breaker, err = q.Resilience.rules(); err != nil {
		return err
	}
	s.Pool, err = q.HTTPPool.rules()
	return err
}
