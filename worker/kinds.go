package worker

import "slices"

// kinds are the classes that a pool's members have.
type kinds struct {
	all []Class // without doubles, in the order of members
	of  []int32 // member index → index in all, nil if there is one class
}

// classes are those of all members. The first call on a membership takes time linear
// in its size.
func (m *Members) classes() *kinds {
	m.kindsOnce.Do(func() {
		k := &m.kinds
		for i, s := range m.specs {
			c := s.Class()
			at := slices.Index(k.all, c)
			if at < 0 {
				at = len(k.all)
				k.all = append(k.all, c)
			}
			if at > 0 && k.of == nil {
				k.of = make([]int32, i, len(m.specs)) // all before are of the first
			}
			if k.of != nil {
				k.of = append(k.of, int32(at))
			}
		}
	})
	return &m.kinds
}

// has says which of the members' classes are available.
func (s *Set) has() []bool {
	if p := s.present.Load(); p != nil {
		return *p
	}
	k := s.members.classes()
	present := make([]bool, len(k.all))
	switch {
	case k.of != nil:
		for m, c := range k.of {
			present[c] = present[c] || s.slot[m] >= 0
		}
	case len(k.all) > 0:
		present[0] = len(s.available) > 0
	}
	s.present.Store(&present)
	return present
}

// availableClasses are the classes that are available.
func (s *Set) availableClasses() []Class {
	var available []Class
	for i, present := range s.has() {
		if present {
			available = append(available, s.members.classes().all[i])
		}
	}
	return available
}

// suit excludes those who do not fit.
func (v *View) suit(fit *Fit) {
	k := v.set.members.classes()
	if k.of == nil {
		if fit.Admits(k.all[0]) {
			return
		}
		v.unfit, v.excluded = len(v.set.available)-len(v.excluded), v.excluded[:0]
		for i := range v.set.available {
			v.excluded = append(v.excluded, int32(i))
		}
		return
	}
	admitted := make([]bool, len(k.all))
	for i, c := range k.all {
		admitted[i] = fit.Admits(c)
	}
	before := len(v.excluded)
	for m, c := range k.of {
		if slot := v.set.slot[m]; slot >= 0 && !admitted[c] {
			v.excluded = append(v.excluded, slot)
		}
	}
	if before > 0 {
		slices.Sort(v.excluded)
		v.excluded = slices.Compact(v.excluded)
	}
	v.unfit = len(v.excluded) - before
}

// reason is why nobody is left.
func (v *View) reason(fit *Fit) error {
	if fit != nil && v.unfit > 0 {
		return &Mismatch{Classes: v.set.availableClasses()}
	}
	return v.set.reason()
}

// Pairing is with whom the workers of a model can share requests, in a fleet in which
// not all of them can with all others.
type Pairing struct {
	// Classes are those that are available on both legs.
	Classes []Class
	// Grouped says that some are of a group.
	Grouped bool
}

// Groups are those of the classes, without doubles.
func (p *Pairing) Groups() []string {
	var groups []string
	for _, c := range p.Classes {
		if !slices.Contains(groups, c.Group) {
			groups = append(groups, c.Group)
		}
	}
	return groups
}

// Pairing is that of the prefill and decode workers of a model. It is nil if all of
// them are of one class, or a leg has none. Then it takes no lock, unless a pool has
// changed since somebody looked at it.
func (r *Registry) Pairing(model string) *Pairing {
	prefill, decode := r.Pool(Prefill, model), r.Pool(Decode, model)
	if prefill == nil || decode == nil {
		return nil
	}
	ps, ds := prefill.current(), decode.current()
	pk, dk := ps.members.classes(), ds.members.classes()
	if len(pk.all) == 1 && len(dk.all) == 1 && pk.all[0] == dk.all[0] {
		return nil
	}
	p := &Pairing{}
	grouped := func(c Class) bool { return c.Group != "" }
	p.Grouped = slices.ContainsFunc(pk.all, grouped) || slices.ContainsFunc(dk.all, grouped)
	others := ds.availableClasses()
	for _, c := range ps.availableClasses() {
		if slices.Contains(others, c) {
			p.Classes = append(p.Classes, c)
		}
	}
	return p
}

// Alone says whether every decode worker of a model can serve requests by itself.
// SGLang's cannot: they wait for somebody to hand over.
func (r *Registry) Alone(model string) bool {
	p := r.Pool(Decode, model)
	return p != nil && !slices.ContainsFunc(p.Members().classes().all, func(c Class) bool { return c.Runtime != VLLM })
}

// Serves says whether a worker serves a model on a leg, as far as is known: one who is
// not registered, or not any more, may. For one who does it takes no lock, unless the
// pool has changed since somebody looked at it.
func (r *Registry) Serves(leg Leg, model string, id ID) bool {
	if p := r.Pool(leg, model); p != nil && p.Members().Index(id) >= 0 {
		return true
	}
	w := r.Lookup(id)
	if w == nil {
		return true
	}
	if canonical, ok := r.names.id(model); ok {
		model = canonical
	}
	return w.Spec.Leg == leg && (model == "" || slices.ContainsFunc(w.Spec.Models, func(m Model) bool { return m.ID == model }))
}
