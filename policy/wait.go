package policy

import (
	"math"

	"smg/worker"
)

// wait scores workers by their expected wait, in seconds: how long the work that is
// queued takes to drain, and a penalty that rises steeply as the KV cache fills
// (the seed's Expected-Wait Score).
type wait struct {
	kvWeight   float64
	throughput float64 // of a worker that reports none
	mean       int64   // tokens of a waiting request, where only those are counted
}

// defaultWait is the score as all policies but least_load use it, whatever the
// flags say.
func defaultWait() wait { return newWait(DefaultConfig().LeastLoad) }

func newWait(c LeastLoadConfig) wait {
	return wait{kvWeight: c.KVPressureWeight, throughput: c.DefaultThroughput, mean: c.MeanTokens}
}

// ReadsLoads implements [LoadReader] for the policies that score.
func (s *wait) ReadsLoads() bool { return true }

// maxUsage keeps the penalty finite.
const maxUsage = 0.999

// of is the score of a worker that reports. The order of the operations is that of
// the formula, so that what ties exactly there ties here.
func (s *wait) of(r *worker.Report, credit int64) float64 {
	queued := r.Queued
	if queued == worker.NotReported {
		queued = r.Waiting * s.mean
	}
	throughput := r.Throughput
	if throughput <= 0 {
		throughput = s.throughput
	}
	k := min(max(r.KVUsage, 0), maxUsage)
	return (float64(queued)+float64(credit))/throughput + s.kvWeight*k/(1-k)
}

// shortest is the index of the lowest score in a group of admitted indices, which
// must not be empty, and that score. Exact ties are broken uniformly.
//
// A worker that does not report scores as the best of the group that does, plus its
// own calls in flight; where nobody reports, the calls in flight are the score.
//
// Those with the lowest scores are offered to seen.
func (s *wait) shortest(v *worker.View, group []int32, seen *Shortlist, intN func(int) int) (index int, score float64) {
	best := contest{seen: seen}
	limit := math.Inf(1) // whoever has a higher score cannot matter any more
	silent, speeds, speed := 0, 0, 0.0
	for _, i := range group {
		r := v.Report(int(i))
		if r == nil {
			silent++
			continue
		}
		if r.Throughput > 0 {
			speeds, speed = speeds+1, speed+r.Throughput
		}
		if score := s.of(r, v.Load(int(i)).Credit()); !(score > limit) {
			limit = best.offer(int(i), score, intN)
		}
	}
	if silent == 0 {
		return best.index, best.score
	}
	base, mean, nominal := 0.0, 1.0, 1.0
	if silent < len(group) {
		base, mean, nominal = best.score, float64(s.mean), s.throughput
		if speeds > 0 {
			nominal = speed / float64(speeds)
		}
	}
	for _, i := range group {
		if v.Report(int(i)) == nil {
			if score := base + float64(v.Load(int(i)).Active())*mean/nominal; !(score > limit) {
				limit = best.offer(int(i), score, intN)
			}
		}
	}
	return best.index, best.score
}
