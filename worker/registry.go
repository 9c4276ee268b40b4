package worker

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
)

// poolKey names a pool; model "" is the pool of all workers of the leg.
type poolKey struct {
	leg   Leg
	model string
}

// Registry is who exists, in one order, and the pools they form. Specs and
// records come in any order; the highest record is kept. It is safe for
// concurrent use; looking a pool up takes no lock.
type Registry struct {
	fold  *Fold
	admit int

	pools   atomic.Pointer[map[poolKey]*Pool]
	aliases atomic.Pointer[map[string]string]

	mu      sync.Mutex
	specs   map[ID]*Spec
	records map[ID]Record
}

// NewRegistry is an empty registry whose pools count in fold. admit is the number
// of probes that a half-open worker takes at a time.
func NewRegistry(fold *Fold, admit int) *Registry {
	r := &Registry{fold: fold, admit: admit, specs: map[ID]*Spec{}, records: map[ID]Record{}}
	r.pools.Store(&map[poolKey]*Pool{})
	r.aliases.Store(&map[string]string{})
	return r
}

// Put registers workers, or replaces those with their ids, which keep their counts
// and their records. Many at once cost one rebuild of their pools.
func (r *Registry) Put(specs ...*Spec) {
	r.mu.Lock()
	defer r.mu.Unlock()
	touched := make([]*Spec, 0, 2*len(specs))
	for _, s := range specs {
		touched = append(touched, r.specs[s.ID], s)
		r.specs[s.ID] = s
	}
	r.rebuildAliases()
	r.rebuild(keysOf(touched...))
}

// Remove forgets a worker and its record. Calls in flight stay counted in the
// fold until they end.
func (r *Registry) Remove(id ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.specs[id]
	delete(r.specs, id)
	delete(r.records, id)
	if old == nil {
		return
	}
	r.rebuildAliases()
	r.rebuild(keysOf(old))
}

// Install keeps rec if it is higher than the record held, and says which one is
// held now and whether that changed. A record may come before its worker.
func (r *Registry) Install(rec Record) (held Record, changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old, ok := r.records[rec.Worker]
	if ok && old.Compare(rec) >= 0 {
		return old, false
	}
	r.records[rec.Worker] = rec
	s := r.specs[rec.Worker]
	if s != nil && !sameForPools(old, rec) {
		r.swap(keysOf(s))
	}
	return rec, true
}

// sameForPools says whether two records make the same pools.
func sameForPools(a, b Record) bool {
	return a.Status == b.Status && a.Breaker == b.Breaker && a.Overloaded == b.Overloaded && a.Report == b.Report && a.Epoch == b.Epoch
}

// Record is the highest record heard for a worker.
func (r *Registry) Record(id ID) (Record, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec, ok := r.records[id]
	return rec, ok
}

// Lookup is a worker as it is known now, or nil.
func (r *Registry) Lookup(id ID) *Worker {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.specs[id] == nil {
		return nil
	}
	return r.worker(id)
}

// Workers is everybody who is registered, in order.
func (r *Registry) Workers() []*Worker {
	r.mu.Lock()
	defer r.mu.Unlock()
	ws := make([]*Worker, 0, len(r.specs))
	for id := range r.specs {
		ws = append(ws, r.worker(id))
	}
	slices.SortFunc(ws, func(a, b *Worker) int { return a.Spec.Compare(b.Spec) })
	return ws
}

func (r *Registry) worker(id ID) *Worker {
	return &Worker{Spec: r.specs[id], Record: r.records[id], Load: r.fold.Load(id)}
}

// Pool is the pool of a model (an id or an alias) on a leg, or of the whole leg
// for model "". It is nil while no worker serves the model there.
func (r *Registry) Pool(leg Leg, model string) *Pool {
	pools := *r.pools.Load()
	if p := pools[poolKey{leg, model}]; p != nil {
		return p
	}
	if canonical, ok := (*r.aliases.Load())[model]; ok {
		return pools[poolKey{leg, canonical}]
	}
	return nil
}

// Pools calls yield for every pool, in no particular order.
func (r *Registry) Pools(yield func(*Pool) bool) {
	for _, p := range *r.pools.Load() {
		if !yield(p) {
			return
		}
	}
}

// keysOf are the pools that the given specs, some of them nil, belong to.
func keysOf(specs ...*Spec) []poolKey {
	var keys []poolKey
	for _, s := range specs {
		if s == nil {
			continue
		}
		keys = append(keys, poolKey{s.Leg, ""})
		for _, m := range s.Models {
			keys = append(keys, poolKey{s.Leg, m.ID})
		}
	}
	slices.SortFunc(keys, func(a, b poolKey) int {
		return cmp.Or(cmp.Compare(a.leg, b.leg), cmp.Compare(a.model, b.model))
	})
	return slices.Compact(keys)
}

func (k poolKey) has(s *Spec) bool {
	if s.Leg != k.leg {
		return false
	}
	return k.model == "" || slices.ContainsFunc(s.Models, func(m Model) bool { return m.ID == k.model })
}

// rebuild gives the pools of keys new members, makes those that are new and drops
// those that are empty.
func (r *Registry) rebuild(keys []poolKey) {
	old := *r.pools.Load()
	pools := make(map[poolKey]*Pool, len(old)+len(keys))
	for k, p := range old {
		pools[k] = p
	}
	for _, k := range keys {
		var specs []*Spec
		for _, s := range r.specs {
			if k.has(s) {
				specs = append(specs, s)
			}
		}
		slices.SortFunc(specs, (*Spec).Compare)
		p := pools[k]
		if p == nil {
			p = newPool(k.leg, k.model, r.fold, r.admit)
			pools[k] = p
		}
		p.set.Store(r.setOf(newMembers(specs)))
		if len(specs) == 0 {
			delete(pools, k)
		}
	}
	r.pools.Store(&pools)
}

// swap gives the pools of keys a new available set over the same members.
func (r *Registry) swap(keys []poolKey) {
	pools := *r.pools.Load()
	for _, k := range keys {
		if p := pools[k]; p != nil {
			p.set.Store(r.setOf(p.set.Load().members))
		}
	}
}

func (r *Registry) setOf(m *Members) *Set {
	return newSet(m, func(i int) *Worker { return r.worker(m.specs[i].ID) })
}

// rebuildAliases maps other names to model ids; the first registered worker that
// brings a name decides, and an id always wins over an alias.
func (r *Registry) rebuildAliases() {
	specs := make([]*Spec, 0, len(r.specs))
	for _, s := range r.specs {
		for _, m := range s.Models {
			if len(m.Aliases) > 0 {
				specs = append(specs, s)
				break
			}
		}
	}
	slices.SortFunc(specs, (*Spec).Compare)
	aliases := map[string]string{}
	for _, s := range specs {
		for _, m := range s.Models {
			for _, a := range m.Aliases {
				if _, taken := aliases[a]; !taken {
					aliases[a] = m.ID
				}
			}
		}
	}
	r.aliases.Store(&aliases)
}
