package worker

import "slices"

// pending is what has happened to a pool's members since its set was built. A set is
// built when somebody looks at the pool: what changes faster than that costs one build,
// and what nobody looks at costs none. It is guarded by Registry.mu.
type pending struct {
	roster []*cell // the members in order, but for the two below

	added, removed []*cell
	remade         bool // the members are not those of the set

	// Of those who stayed, touched is the one with a new record, and before it as the
	// set has it; many says that there are more.
	touched *cell
	before  *Worker
	many    bool
}

// spareEdits is how many edits of a roster wait at most, beyond its length.
const spareEdits = 1024

// edit changes who is a member. Registry.mu is held.
func (p *Pool) edit(removed, added []*cell) {
	d := &p.pending
	d.removed, d.added = append(d.removed, removed...), append(d.added, added...)
	d.remade = true
	p.members += len(added) - len(removed)
	if len(d.added)+len(d.removed) > len(d.roster)+spareEdits {
		d.merge()
	}
	p.stale.Store(true)
}

// touch notes that a member has a new record, and was old before. Registry.mu is held.
func (p *Pool) touch(c *cell, old *Worker) {
	d := &p.pending
	switch {
	case d.touched == nil:
		d.touched, d.before = c, old
	case d.touched != c:
		d.many = true
	}
	p.stale.Store(true)
}

// current is the pool's set as it is now.
func (p *Pool) current() *Set {
	if !p.stale.Load() {
		return p.set.Load()
	}
	p.registry.mu.Lock()
	defer p.registry.mu.Unlock()
	if p.stale.Load() {
		p.set.Store(p.pending.onto(p.set.Load()))
		p.stale.Store(false)
	}
	return p.set.Load()
}

// onto is the set that comes of s and what is pending, which then is nothing.
func (d *pending) onto(s *Set) *Set {
	d.merge()
	switch {
	case d.remade:
		s = newSet(d.roster)
	case d.many:
		s = s.refreshed(d.roster)
	default:
		s = s.with(d.find(d.touched.now.Spec), d.before, d.touched.now)
	}
	*d = pending{roster: d.roster}
	return s
}

// find is the place of a member in the roster.
func (d *pending) find(s *Spec) int {
	i, _ := slices.BinarySearchFunc(d.roster, s, func(c *cell, s *Spec) int { return c.now.Spec.Compare(s) })
	return i
}

// merge brings the roster up to date.
func (d *pending) merge() {
	if len(d.added)+len(d.removed) == 0 {
		return
	}
	gone := make(map[*cell]bool, len(d.removed))
	for _, c := range d.removed {
		gone[c] = true
	}
	left := func(c *cell) bool { return gone[c] }
	old, added := slices.DeleteFunc(slices.Clone(d.roster), left), slices.DeleteFunc(d.added, left)
	slices.SortFunc(added, func(a, b *cell) int { return a.now.Spec.Compare(b.now.Spec) })
	d.roster = make([]*cell, 0, len(old)+len(added))
	for _, c := range added {
		n, _ := slices.BinarySearchFunc(old, c.now.Spec, func(c *cell, s *Spec) int { return c.now.Spec.Compare(s) })
		d.roster = append(append(d.roster, old[:n]...), c)
		old = old[n:]
	}
	d.roster = append(d.roster, old...)
	d.added, d.removed = nil, nil
}
