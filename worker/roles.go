package worker

// Roles is how many workers of each leg serve a model, and how many of them can be
// chosen.
type Roles struct{ Registered, Available [Legs]int }

// Roles counts a model's workers, at a cost that does not depend on their number unless
// they have changed since.
func (r *Registry) Roles(model string) (roles Roles) {
	for leg := range Leg(legs) {
		if p := r.Pool(leg, model); p != nil {
			s := p.current()
			roles.Registered[leg], roles.Available[leg] = s.members.Len(), len(s.available)
		}
	}
	return roles
}
