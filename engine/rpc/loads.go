package rpc

import (
	"context"
	"errors"
	"math"

	"smg/engine"
)

// Loads asks an engine for its load, within [engine.LoadTimeout]. An error is "no
// report", and tells why.
func (p *Prober) Loads(ctx context.Context, url, key, runtime string) (engine.Loads, error) {
	ctx, cancel := context.WithTimeout(ctx, engine.LoadTimeout)
	defer cancel()
	loads := engine.Loads{Source: engine.SourceGRPC}
	err := p.ask(ctx, url, key, runtime, func(ctx context.Context, d dialect, cn *conn) (err error) {
		loads.Ranks, err = d.loads(ctx, cn.cc)
		if err == nil && len(loads.Ranks) == 0 {
			return errors.New("a load report without ranks")
		}
		return err
	})
	if err != nil {
		return engine.Loads{}, err
	}
	return loads, nil
}

// rankLoad is what both protocols tell of a rank.
type rankLoad interface {
	GetDpRank() int32
	GetNumRunningReqs() int32
	GetNumWaitingReqs() int32
	GetNumTotalReqs() int32
	GetNumUsedTokens() int32
	GetMaxTotalNumTokens() int32
	GetTokenUsage() float64
	GetGenThroughput() float64
	GetCacheHitRate() float64
	GetUtilization() float64
	GetMaxRunningRequests() int32
	GetNumWaitingUncachedTokens() int32
}

// core reads it. Numbers have no presence: what cannot be 0, and what is 0 although there
// is reason for more, was not reported.
func core(l rankLoad) engine.RankLoad {
	r := engine.RankLoad{
		Rank:    int(l.GetDpRank()),
		Running: count(l.GetNumRunningReqs()), Waiting: count(l.GetNumWaitingReqs()), Total: count(l.GetNumTotalReqs()),
		WaitingUncachedTokens: count(l.GetNumWaitingUncachedTokens()),
		MaxTokens:             some(count(l.GetMaxTotalNumTokens())), MaxRunning: some(count(l.GetMaxRunningRequests())),
		TokenUsage: ratio(l.GetTokenUsage()), Throughput: measure(l.GetGenThroughput()),
		CacheHitRate: ratio(l.GetCacheHitRate()), Utilization: ratio(l.GetUtilization()),
	}
	if l.GetNumWaitingUncachedTokens() == 0 && l.GetNumWaitingReqs() > 0 {
		r.WaitingUncachedTokens = nil
	}
	if r.MaxTokens != nil {
		r.UsedTokens = count(l.GetNumUsedTokens())
	}
	return r
}

// count is a number of things; what is negative is none.
func count(n int32) *int {
	if n < 0 {
		return nil
	}
	return new(int(n))
}

// some is a count that is not 0.
func some(n *int) *int {
	if n == nil || *n == 0 {
		return nil
	}
	return n
}

// What is believed, as of the reports of HTTP engines.
const (
	maxMeasure = 1e9
	maxRatio   = 2 // engines that count reserved blocks overshoot 1 a little
)

// measure is a number that is not negative.
func measure(v float64) *float64 {
	if v >= 0 && v <= maxMeasure { // false for NaN
		return &v
	}
	return nil
}

// ratio is a share.
func ratio(v float64) *float64 {
	if v >= 0 && v <= maxRatio {
		return new(math.Min(v, 1))
	}
	return nil
}
