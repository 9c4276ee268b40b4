package worker

import (
	"maps"
	"slices"
	"sync/atomic"
)

// aliases maps other names to model ids. Of several workers that bring a name the
// first in order decides. Reading takes no lock; init and apply are called under
// Registry.mu.
type aliases struct {
	claims map[string][]claim
	names  atomic.Pointer[map[string]string]
}

// claim is a name that a worker's model brings, in the order of workers.
type claim struct {
	spec  *Spec
	model string
}

func (a *aliases) init() {
	a.claims = map[string][]claim{}
	a.names.Store(&map[string]string{})
}

// id is the model that goes by an alias.
func (a *aliases) id(name string) (string, bool) {
	id, ok := (*a.names.Load())[name]
	return id, ok
}

func (a *aliases) apply(changes []change) {
	touched := map[string]bool{}
	for _, c := range changes {
		if c.old != nil {
			a.drop(c.old.now.Spec, touched)
		}
		if c.now != nil {
			a.add(c.now.now.Spec, touched)
		}
	}
	if len(touched) == 0 {
		return
	}
	names := maps.Clone(*a.names.Load())
	for n := range touched {
		if cs := a.claims[n]; len(cs) > 0 {
			names[n] = cs[0].model
		} else {
			delete(names, n)
			delete(a.claims, n)
		}
	}
	a.names.Store(&names)
}

func (a *aliases) drop(s *Spec, touched map[string]bool) {
	for _, m := range s.Models {
		for _, n := range m.Aliases {
			a.claims[n] = slices.DeleteFunc(a.claims[n], func(c claim) bool { return c.spec == s })
			touched[n] = true
		}
	}
}

func (a *aliases) add(s *Spec, touched map[string]bool) {
	for _, m := range s.Models {
		for _, n := range m.Aliases {
			at, taken := slices.BinarySearchFunc(a.claims[n], s, func(c claim, s *Spec) int { return c.spec.Compare(s) })
			if taken { // a second model of the same worker
				continue
			}
			a.claims[n] = slices.Insert(a.claims[n], at, claim{s, m.ID})
			touched[n] = true
		}
	}
}
