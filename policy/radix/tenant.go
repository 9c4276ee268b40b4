package radix

// Tenant is a worker as a forest knows it. It stays the same until the worker is
// removed or, if it was never registered, holds nothing.
type Tenant struct {
	id         [16]byte
	index      int
	registered bool
	units      int    // of the nodes it holds
	first      uint32 // of its holds
}

// ID is the worker's id.
func (t *Tenant) ID() [16]byte { return t.id }

// Index is a small number that no other present tenant of the forest has, for
// tables of what a caller knows of tenants. Tenants that are gone leave theirs to
// others.
func (t *Tenant) Index() int { return t.index }

// Register makes id a tenant, of size 0 if it holds nothing yet.
func (f *Forest) Register(id [16]byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tenant(id).registered = true
}

// Remove takes everything from the tenant id, which is no tenant any more.
func (f *Forest) Remove(id [16]byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.known[id]
	if t == nil {
		return
	}
	t.registered = false
	for t.first != 0 {
		f.release(t.first)
	}
	f.dismiss(t)
}

// Size is how many units the tenant id holds; ok says whether it is a tenant.
func (f *Forest) Size(id [16]byte) (units int, ok bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	t := f.known[id]
	if t == nil {
		return 0, false
	}
	return t.units, true
}

// tenant is the tenant id, made if there is none.
func (f *Forest) tenant(id [16]byte) *Tenant {
	t := f.known[id]
	if t != nil {
		return t
	}
	t = &Tenant{id: id, index: len(f.tenants)}
	if n := len(f.vacant); n > 0 {
		t.index = f.vacant[n-1]
		f.vacant = f.vacant[:n-1]
		f.tenants[t.index] = t
	} else {
		f.tenants = append(f.tenants, t)
	}
	f.known[id] = t
	return t
}

// dismiss forgets t if it has no reason to be a tenant.
func (f *Forest) dismiss(t *Tenant) {
	if t.registered || t.first != 0 || !f.present(t) {
		return
	}
	delete(f.known, t.id)
	f.tenants[t.index] = nil
	f.vacant = append(f.vacant, t.index)
}

func (f *Forest) present(t *Tenant) bool { return f.tenants[t.index] == t }
