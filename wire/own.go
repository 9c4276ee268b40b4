package wire

import (
	"errors"
	"fmt"
	"math"
	"time"

	"smg/wire/wirepb"
	"smg/worker"
)

// checkOwn is what holds for a worker's own key and rules, and for its record.
func checkOwn(s *worker.Spec) error {
	if n := len(s.SealedKey); n > MaxString {
		return fmt.Errorf("the sealed key has %d bytes, more than %d", n, MaxString)
	}
	if d := s.DrainingSince; !d.IsZero() && !time.UnixMilli(d.UnixMilli()).Equal(d) {
		return fmt.Errorf("it is draining since %v", d)
	}
	return checkRules(s)
}

// checkRules is what holds for a worker's own rules.
func checkRules(s *worker.Spec) error {
	if s.Health == nil && s.Breaker == nil && s.Pool == nil {
		return nil // the usual case
	}
	var errs []error
	duration := func(name string, d time.Duration) {
		if d < 0 || d%time.Microsecond != 0 {
			errs = append(errs, fmt.Errorf("%s of %v", name, d))
		}
	}
	count := func(name string, n int) {
		if n < 0 || n > math.MaxInt32 {
			errs = append(errs, fmt.Errorf("%s of %d", name, n))
		}
	}
	if h := s.Health; h != nil {
		duration("a probe limit", h.Timeout)
		duration("a probe interval", h.Interval)
		count("a success threshold", h.SuccessThreshold)
		count("a failure threshold", h.FailureThreshold)
		duration("a drain", valueOf(h.Settle))
	}
	if b := s.Breaker; b != nil {
		count("a breaker's failure threshold", b.FailureThreshold)
		count("a breaker's success threshold", b.SuccessThreshold)
		duration("a breaker's rest", b.Timeout)
		errs = append(errs, checkStatuses(b.FailureStatuses), checkStatuses(b.CapacityStatuses))
	}
	if p := s.Pool; p != nil {
		count("a number of idle connections", valueOf(p.MaxIdle))
		duration("an idle limit", valueOf(p.IdleTimeout))
		duration("a request limit", p.Timeout)
		duration("a connect limit", p.ConnectTimeout)
	}
	return errors.Join(errs...)
}

func checkStatuses(list []int) error {
	if err := checkLen("statuses", len(list), MaxList); err != nil {
		return err
	}
	for _, status := range list {
		if status < 100 || status > 999 {
			return fmt.Errorf("status %d", status)
		}
	}
	return nil
}

// valueOf is what p points to, or zero.
func valueOf[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

func healthRules(h *worker.HealthRules) *wirepb.HealthRules {
	if h == nil {
		return nil
	}
	return &wirepb.HealthRules{
		TimeoutUs: micros(h.Timeout), IntervalUs: micros(h.Interval),
		SuccessThreshold: uint32(h.SuccessThreshold), FailureThreshold: uint32(h.FailureThreshold),
		Disabled: h.Disabled, SettleUs: optionalMicros(h.Settle),
	}
}

func breakerRules(b *worker.BreakerRules) *wirepb.BreakerRules {
	if b == nil {
		return nil
	}
	return &wirepb.BreakerRules{
		FailureThreshold: uint32(b.FailureThreshold), SuccessThreshold: uint32(b.SuccessThreshold), TimeoutUs: micros(b.Timeout),
		FailureStatuses: statuses(b.FailureStatuses), CapacityStatuses: statuses(b.CapacityStatuses),
	}
}

func poolRules(p *worker.PoolRules) *wirepb.PoolRules {
	if p == nil {
		return nil
	}
	m := &wirepb.PoolRules{IdleTimeoutUs: optionalMicros(p.IdleTimeout), TimeoutUs: micros(p.Timeout), ConnectTimeoutUs: micros(p.ConnectTimeout)}
	if p.MaxIdle != nil {
		m.MaxIdle = new(uint32(*p.MaxIdle))
	}
	return m
}

func micros(d time.Duration) uint64 { return uint64(d.Microseconds()) }

func optionalMicros(d *time.Duration) *uint64 {
	if d == nil {
		return nil
	}
	return new(micros(*d))
}

func statuses(list []int) *wirepb.Statuses {
	if list == nil {
		return nil
	}
	m := &wirepb.Statuses{}
	for _, status := range list {
		m.Codes = append(m.Codes, uint32(status))
	}
	return m
}

// decodeOwn reads what checkOwn judges.
func decodeOwn(s *worker.Spec, m *wirepb.Worker) error {
	s.Revision = m.Revision
	if len(m.SealedKey) > 0 {
		s.SealedKey = m.SealedKey
	}
	if m.DrainingUnixMs != 0 {
		s.DrainingSince = time.UnixMilli(m.DrainingUnixMs).UTC()
	}
	return decodeRules(s, m.Health, m.Breaker, m.Pool)
}

// decodeRules reads what checkRules judges.
func decodeRules(s *worker.Spec, h *wirepb.HealthRules, b *wirepb.BreakerRules, p *wirepb.PoolRules) error {
	if h == nil && b == nil && p == nil {
		return nil // the usual case
	}
	var errs []error
	duration := func(us uint64) time.Duration {
		if us > uint64(math.MaxInt64/time.Microsecond) {
			errs = append(errs, fmt.Errorf("a rule of %d µs", us))
			return 0
		}
		return time.Duration(us) * time.Microsecond
	}
	optional := func(us *uint64) *time.Duration {
		if us == nil {
			return nil
		}
		return new(duration(*us))
	}
	if h != nil {
		s.Health = &worker.HealthRules{
			Timeout: duration(h.TimeoutUs), Interval: duration(h.IntervalUs),
			SuccessThreshold: int(h.SuccessThreshold), FailureThreshold: int(h.FailureThreshold),
			Disabled: h.Disabled, Settle: optional(h.SettleUs),
		}
	}
	if b != nil {
		s.Breaker = &worker.BreakerRules{
			FailureThreshold: int(b.FailureThreshold), SuccessThreshold: int(b.SuccessThreshold), Timeout: duration(b.TimeoutUs),
			FailureStatuses: statusCodes(b.FailureStatuses), CapacityStatuses: statusCodes(b.CapacityStatuses),
		}
	}
	if p != nil {
		s.Pool = &worker.PoolRules{IdleTimeout: optional(p.IdleTimeoutUs), Timeout: duration(p.TimeoutUs), ConnectTimeout: duration(p.ConnectTimeoutUs)}
		if p.MaxIdle != nil {
			s.Pool.MaxIdle = new(int(*p.MaxIdle))
		}
	}
	return errors.Join(errs...)
}

func statusCodes(m *wirepb.Statuses) []int {
	if m == nil {
		return nil
	}
	list := make([]int, len(m.Codes))
	for i, code := range m.Codes {
		list[i] = int(code)
	}
	return list
}
