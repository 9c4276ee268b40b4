package policy

import (
	"math"
	"slices"

	"smg/worker"
)

// affinity chooses among workers that are likely to have a prompt in their cache. It
// is the part of cache_aware that runs under the pool's lock.
type affinity struct {
	wait        wait
	balance     Balance
	spread      float64 // of KV usage, beyond which affinity is dropped
	ceiling     float64 // of KV usage, likewise
	decay       float64
	temperature float64
	blockSize   float64
	intN        func(n int) int
}

func newAffinity(cfg *CacheAwareConfig, intN func(int) int) affinity {
	return affinity{
		wait: defaultWait(), balance: cfg.Balance, spread: cfg.UsageSpread, ceiling: cfg.UsageCeiling,
		decay: cfg.OverlapDecay, temperature: cfg.Temperature, blockSize: float64(cfg.BlockSize), intN: intN,
	}
}

// holders are the candidates that have some of a prompt, by index, and how much.
type holders struct {
	index  []int32
	score  []float64
	scaled []float64 // scratch: score after decay
}

func (h *holders) reset() { h.index, h.score = h.index[:0], h.score[:0] }

// add adds a worker if it may be chosen.
func (h *holders) add(v *worker.View, id worker.ID, score float64) {
	member := v.Members().Index(id)
	if member < 0 {
		return
	}
	if i := v.Slot(member); i >= 0 && v.Admits(i) {
		h.index, h.score = append(h.index, int32(i)), append(h.score, score)
	}
}

// merge keeps one entry for each worker, with the best of its scores.
func (h *holders) merge() {
	n := 0
	for i, index := range h.index {
		if k := slices.Index(h.index[:n], index); k >= 0 {
			h.score[k] = max(h.score[k], h.score[i])
			continue
		}
		h.index[n], h.score[n] = index, h.score[i]
		n++
	}
	h.index, h.score = h.index[:n], h.score[:n]
}

// pressed says whether KV caches are so full, or so unevenly, that affinity is
// dropped. Only workers that report count.
func (a *affinity) pressed(v *worker.View) bool {
	if a.spread >= 1 && a.ceiling >= 1 {
		return false
	}
	low, high, reports := math.Inf(1), math.Inf(-1), false
	for i := range v.Len() {
		if r := v.Report(i); r != nil {
			low, high, reports = min(low, r.KVUsage), max(high, r.KVUsage), true
		}
	}
	return reports && (a.ceiling < 1 && high > a.ceiling || a.spread < 1 && high-low > a.spread)
}

// shortest is the worker with the lowest expected wait of all.
func (a *affinity) shortest(v *worker.View, s *scored) int {
	return s.shortest(&a.wait, v, v.All(), a.intN)
}

// choose takes the best of the holders that is not far busier than the fleet, and
// where all are, or there is none, the best of everybody who is not. blocks is the
// prompt's length.
func (a *affinity) choose(v *worker.View, h *holders, blocks float64, s *scored) int {
	if len(h.index) == 0 {
		return a.shortest(v, s)
	}
	return a.coolest(v, a.best(v, h, blocks), s)
}

// coolest takes the best of a group that is not far busier than the fleet, and where
// all are, the best of everybody who is not.
func (a *affinity) coolest(v *worker.View, group []int32, s *scored) int {
	gate := spillGate{Balance: a.balance, v: v}
	if group = gate.cool(group); len(group) > 0 {
		return s.shortest(&a.wait, v, group, a.intN)
	}
	if group = gate.cool(v.All()); len(group) > 0 {
		return s.shortest(&a.wait, v, group, a.intN)
	}
	return a.shortest(v, s)
}

// best is the holders of the highest score, or of one that is drawn by its score.
func (a *affinity) best(v *worker.View, h *holders, blocks float64) []int32 {
	h.scaled = append(h.scaled[:0], h.score...)
	if a.decay > 0 {
		a.decayed(v, h, blocks)
	}
	wanted := math.Inf(-1)
	for _, s := range h.scaled {
		wanted = max(wanted, s)
	}
	if a.temperature > 0 {
		wanted = a.drawn(h.scaled, wanted)
	}
	n := 0
	for i, s := range h.scaled {
		if s == wanted {
			h.index[n] = h.index[i]
			n++
		}
	}
	return h.index[:n]
}

// decayed lowers the scores of holders by how much longer their queues are than the
// shortest, in lengths of the prompt. Those that do not report keep theirs.
func (a *affinity) decayed(v *worker.View, h *holders, blocks float64) {
	shortest := int64(math.MaxInt64)
	for _, i := range h.index {
		if r := v.Report(int(i)); r != nil {
			shortest = min(shortest, max(0, r.Queued))
		}
	}
	for k, i := range h.index {
		if r := v.Report(int(i)); r != nil {
			longer := float64(max(0, r.Queued)-shortest) / a.blockSize / blocks
			h.scaled[k] /= 1 + a.decay*longer
		}
	}
}

// drawn is one of the scores, drawn by the softmax of all between the least and the
// most.
func (a *affinity) drawn(scores []float64, most float64) float64 {
	least := most
	for _, s := range scores {
		least = min(least, s)
	}
	if least == most {
		return most
	}
	weight := func(s float64) float64 { return math.Exp(((s-least)/(most-least) - 1) / a.temperature) }
	sum := 0.0
	for _, s := range scores {
		sum += weight(s)
	}
	const fine = 1 << 53
	left := float64(a.intN(fine)) / fine * sum
	for _, s := range scores {
		if left -= weight(s); left < 0 {
			return s
		}
	}
	return most // rounding
}

// spillGate tells who is far busier than the fleet.
type spillGate struct {
	Balance
	v      *worker.View
	mean   float64 // calls in flight of an available worker
	summed bool
}

// hot says whether a worker exceeds both margins over the mean.
func (g *spillGate) hot(i int32) bool {
	load := float64(g.v.Load(int(i)).Active())
	if load <= float64(g.Abs) {
		return false // whatever the mean
	}
	if !g.summed {
		g.summed = true
		for k := range g.v.Len() {
			g.mean += float64(g.v.Load(k).Active())
		}
		g.mean /= float64(g.v.Len())
	}
	return load > g.Rel*g.mean && load > g.mean+float64(g.Abs)
}

// cool keeps those that are not hot, in the memory of group.
func (g *spillGate) cool(group []int32) []int32 {
	n := 0
	for _, i := range group {
		if !g.hot(i) {
			group[n] = i
			n++
		}
	}
	return group[:n]
}
