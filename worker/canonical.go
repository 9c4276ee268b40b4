package worker

// Canonical is the id of the model that goes by an alias; false for a name that is a
// model's own id on some leg, or nobody's. It takes no lock.
func (r *Registry) Canonical(name string) (id string, ok bool) {
	if id, ok = r.names.id(name); !ok || name == "" || r.Known(name) {
		return "", false
	}
	return id, true
}

// Known says whether a name is a model's own id on some leg. It takes no lock.
func (r *Registry) Known(name string) bool {
	pools := *r.pools.Load()
	for leg := range Leg(legs) {
		if pools[poolKey{leg, name}] != nil {
			return true
		}
	}
	return false
}

// Aliased says whether any model goes by another name. It takes no lock.
func (r *Registry) Aliased() bool { return len(*r.names.names.Load()) > 0 }
