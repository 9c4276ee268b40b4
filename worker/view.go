package worker

import (
	"slices"
	"time"
)

// View is what a choice runs over: the available workers of a pool by index, less
// those that this one request must not get. It is valid only inside [Pool.Take].
type View struct {
	set      *Set
	fold     *Fold
	now      time.Time
	checks   bool    // some report may be stale
	excluded []int32 // ascending, without doubles
	unfit    int     // of them, because they do not fit
	scratch  []int32
}

// Len is the number of available workers; indices run from 0 in member order.
func (v *View) Len() int { return len(v.set.available) }

// Candidates is the number of indices that may be chosen, at least 1.
func (v *View) Candidates() int { return len(v.set.available) - len(v.excluded) }

// Admits says whether index i may be chosen: it fits, was not tried before by this
// request (while another candidate exists), and has a free slot if half open.
func (v *View) Admits(i int) bool {
	if len(v.excluded) == 0 {
		return true
	}
	_, found := slices.BinarySearch(v.excluded, int32(i))
	return !found
}

// Candidate maps k in [0, Candidates()) to the index of the k-th candidate.
func (v *View) Candidate(k int) int {
	for _, e := range v.excluded {
		if k < int(e) {
			break
		}
		k++
	}
	return k
}

// All is every index that may be chosen, ascending. The slice is the caller's until
// the choice ends, or until All is called again.
func (v *View) All() []int32 {
	all, next := v.scratch[:0], v.excluded
	for i := range int32(len(v.set.available)) {
		if len(next) > 0 && next[0] == i {
			next = next[1:]
			continue
		}
		all = append(all, i)
	}
	v.scratch = all
	return all
}

// Worker is the available worker at index i, as it was when it last changed for the
// pool: what it has said of its load since is in Report alone.
func (v *View) Worker(i int) *Worker { return v.set.available[i] }

// Load is the live counts of the worker at index i.
func (v *View) Load(i int) *Load { return v.set.loads[i] }

// Report is what the worker at index i said of its load, or nil if it has said
// nothing that still holds.
func (v *View) Report(i int) *Report {
	r := v.set.loads[i].report.Load()
	if v.checks && r != nil && r.Stale(v.now) {
		return nil
	}
	return r
}

// Sharing is the number of calls with this counted key in flight at the worker at
// index i.
func (v *View) Sharing(i int, key uint64) int { return v.fold.sharing(v.set.loads[i], key) }

// Members is the pool's registered workers.
func (v *View) Members() *Members { return v.set.members }

// Slot is the index of the i-th member, or -1 while it is not available.
func (v *View) Slot(member int) int { return int(v.set.slot[member]) }

// Signature identifies the ordered set of available workers, whatever of it this
// request has to avoid.
func (v *View) Signature() uint64 { return v.set.sign() }

// prepare excludes what the request may not get and reports whether a candidate is
// left. Half-open workers are for the first-ranked replica, admit calls at a time;
// the ask's Skip is soft.
func (v *View) prepare(s *Set, ask *Ask, first bool, admit int) bool {
	v.set = s
	if !v.limit(ask.Fit, first, admit) {
		return false
	}
	for _, id := range ask.Skip {
		if m := s.members.Index(id); m >= 0 && s.slot[m] >= 0 {
			v.exclude(s.slot[m])
		}
	}
	if len(v.excluded) < len(s.available) {
		return true
	}
	return v.limit(ask.Fit, first, admit) // all of them tried: start over
}

// limit excludes the half-open workers that have no slot left and those who do not
// fit, and only those.
func (v *View) limit(fit *Fit, first bool, admit int) bool {
	v.unfit = 0
	v.excluded = v.excluded[:0]
	for _, i := range v.set.halfOpen {
		if !first || v.set.available[i].full(admit) {
			v.excluded = append(v.excluded, i)
		}
	}
	if fit != nil && len(v.excluded) < len(v.set.available) {
		v.suit(fit)
	}
	return len(v.excluded) < len(v.set.available)
}

// full says whether a half-open worker has as many probes as it gets at a time: admit,
// unless its breaker closes after another number.
func (w *Worker) full(admit int) bool {
	if b := w.Spec.Breaker; b != nil && b.SuccessThreshold > 0 {
		admit = b.SuccessThreshold
	}
	return w.Load.Probes() >= admit
}

// exclude keeps excluded in order and without doubles.
func (v *View) exclude(i int32) {
	if at, found := slices.BinarySearch(v.excluded, i); !found {
		v.excluded = slices.Insert(v.excluded, at, i)
	}
}
