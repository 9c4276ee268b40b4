package radix

// The order of eviction is a list of holds by stamp. A fresh stamp is the latest, so
// that an insert appends. Not only leaves are listed, for a hold often becomes one
// and back; those that are none leave the list when they come to its old end, where
// only leaves are wanted, and a hold that was never stamped is not listed at all
// while it is none. When such a hold becomes a leaf, its stamp is older than what
// is listed (but for a few that came back like it): its place is at the old end
// too. So every step takes constant time, and no walk of a tree.

// Evict takes holds from their tenants, leaves first and of them the least recently
// used, until the units of all tenants are no more than budget, if that is less
// than the forest's own. It lets others in between.
func (f *Forest) Evict(budget int) {
	const atOnce = 256
	for more := true; more; {
		f.mu.Lock()
		more = f.shrink(min(budget, f.budget), atOnce)
		f.mu.Unlock()
	}
}

// shrink evicts at most so many holds and says whether there are more to evict.
func (f *Forest) shrink(budget, most int) bool {
	for range most {
		if f.units <= budget && f.bytes() <= f.maxBytes || f.oldest == 0 {
			return false
		}
		f.evict()
	}
	return true
}

// evict takes the least recently used leaf from its tenant. There is one.
func (f *Forest) evict() {
	for f.holds.at(f.oldest).kids > 0 {
		f.unlist(f.oldest)
	}
	f.detach(f.oldest)
}

// list puts a hold just before another one, which is newer or as old, or, with 0, at
// the new end.
func (f *Forest) list(h, newer uint32) {
	x := f.holds.at(h)
	x.listed = true
	x.newer = newer
	if newer == 0 {
		x.older, f.newest = f.newest, h
	} else {
		y := f.holds.at(newer)
		x.older, y.older = y.older, h
	}
	if x.older == 0 {
		f.oldest = h
	} else {
		f.holds.at(x.older).newer = h
	}
}

// relist puts a hold back that became a leaf.
func (f *Forest) relist(h uint32) {
	stamp := f.holds.at(h).stamp
	newer := f.oldest
	for newer != 0 && f.holds.at(newer).stamp < stamp {
		newer = f.holds.at(newer).newer
	}
	f.list(h, newer)
}

func (f *Forest) unlist(h uint32) {
	x := f.holds.at(h)
	if !x.listed {
		return
	}
	if x.older == 0 {
		f.oldest = x.newer
	} else {
		f.holds.at(x.older).newer = x.newer
	}
	if x.newer == 0 {
		f.newest = x.older
	} else {
		f.holds.at(x.newer).older = x.older
	}
	x.listed, x.older, x.newer = false, 0, 0
}
