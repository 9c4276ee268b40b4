package worker

import "slices"

// Bound has no worker get more sequences than most at a time, fleet-wide as this
// replica counts them, or with 0 than it reports to run at a time; one that reports
// nothing of it is not bounded. A worker that has none gets a call of any size. It is
// called before anybody is registered.
func (r *Registry) Bound(most int) { r.bounded, r.most = true, int64(most) }

// bound is how many sequences a worker may have, 0 for any number.
func (r *Registry) bound(l *Load) int64 {
	switch {
	case !r.bounded:
		return 0
	case r.most > 0:
		return r.most
	}
	return l.window.Load()
}

// told notes the last report of a worker's process of an epoch, nil for none. How much it
// runs at a time is known beyond that: a poll that fails, or that learns less since it had
// to ask another way, is no reason to flood it. The registry's lock is held.
func (l *Load) told(r *Report, epoch uint64) {
	l.report.Store(r)
	if r != nil && (r.MaxRunning > 0 || epoch != l.windowOf) {
		l.window.Store(r.MaxRunning)
		l.windowOf = epoch
	}
}

// fits says whether a worker may get so many sequences more if it may have most.
func (l *Load) fits(units, most int64) bool {
	n := int64(l.Rooms())
	return most <= 0 || n == 0 || n+units <= most
}

// rooms is how many sequences the call has.
func (a *Ask) rooms() int64 { return max(1, int64(a.Units)) }

// Room says whether it is worth to ask for a worker for so many sequences: one that can
// be chosen may get them, or the reason why nobody gets them is another one.
func (p *Pool) Room(units int) bool {
	loads := p.current().loads
	return len(loads) == 0 || slices.ContainsFunc(loads, func(l *Load) bool {
		return l.fits(max(1, int64(units)), p.registry.bound(l))
	})
}

// chooseFree is choose once somebody was chosen who is full: all of those are excluded
// at once. Workers that were tried before are no better than waiting for others.
func (p *Pool) chooseFree(ask *Ask, choose func(*View) int) (int, error) {
	v := &p.view
	full := func(i int32) bool { l := v.set.loads[i]; return !l.fits(ask.rooms(), p.registry.bound(l)) }
	if !v.without(full) {
		return -1, ErrFull
	}
	if i := choose(v); i >= 0 {
		return i, nil
	}
	return -1, ErrFull
}

// without excludes everybody of whom out is true, and says whether a candidate is left.
func (v *View) without(out func(i int32) bool) bool {
	for i := range int32(len(v.set.available)) {
		if out(i) {
			v.excluded = append(v.excluded, i)
		}
	}
	slices.Sort(v.excluded)
	v.excluded = slices.Compact(v.excluded)
	return len(v.excluded) < len(v.set.available)
}
