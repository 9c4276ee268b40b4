package worker

import (
	"math"
	"slices"
	"time"
)

// Report is what a worker said of its load, summed over its DP ranks. It is never
// modified once it is installed.
type Report struct {
	// PolledAt is when the poll was sent, in the holder's own clock: between
	// processes its age travels.
	PolledAt time.Time
	// GoodFor is how long after that the report holds: three poll intervals.
	GoodFor time.Duration

	Waiting    int64   // requests in the queue
	Queued     int64   // uncached tokens in the queue, or NotReported
	Running    int64   // requests in the batch
	MaxRunning int64   // most requests in the batch, 0 when not reported
	Throughput float64 // generated tokens per second, 0 when not reported
	KVUsage    float64 // 0 to 1, the mean over ranks

	Ranks []RankUse // of each data-parallel rank, empty when they are not told apart
}

// RankUse is what an engine said of one of its data-parallel ranks.
type RankUse struct {
	Rank int
	Used int64 // tokens in its KV cache
}

// NotReported is [Report.Queued] of an engine that does not count tokens.
const NotReported = -1

// Stale says whether the report holds no more at now: no news is no report.
func (r *Report) Stale(now time.Time) bool { return now.Sub(r.PolledAt) > r.GoodFor }

// until is the last moment at which the report holds.
func (r *Report) until() time.Time { return r.PolledAt.Add(r.GoodFor) }

// Sound says whether every number is one that a report can have.
func (r *Report) Sound() bool {
	finite := func(x float64) bool { return x >= 0 && !math.IsInf(x, 0) } // false for NaN
	return r.GoodFor >= 0 && r.Waiting >= 0 && r.Queued >= NotReported && r.Running >= 0 && r.MaxRunning >= 0 &&
		finite(r.Throughput) && finite(r.KVUsage) &&
		!slices.ContainsFunc(r.Ranks, func(u RankUse) bool { return u.Rank < 0 || u.Used < 0 })
}
