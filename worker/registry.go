package worker

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// poolKey names a pool; model "" is the pool of all workers of the leg.
type poolKey struct {
	leg   Leg
	model string
}

// maxEarly bounds how many records are kept of workers that are not registered.
const maxEarly = 1 << 14

// cell is a registered worker as it is known now: what its pools share. Another spec
// of the worker has another cell. It is guarded by Registry.mu, but for shown.
type cell struct {
	now   *Worker
	shown atomic.Pointer[Worker] // now, for those who do not hold the lock
	pools []*Pool                // that it belongs to
}

// Registry is who exists, in one order, and the pools they form. Specs and
// records come in any order; the highest record is kept. It is safe for
// concurrent use; looking a pool up takes no lock.
type Registry struct {
	fold  *Fold
	admit int

	// See Bound.
	bounded bool
	most    int64

	pools  atomic.Pointer[map[poolKey]*Pool]
	names  aliases
	vetoed atomic.Int64 // workers that are, to know without the lock that nobody is

	listed     atomic.Pointer[roster] // of some generation
	generation atomic.Uint64          // of who is registered; it rises under mu

	mu      sync.Mutex
	workers map[ID]*cell
	census  [legs]Census
	early   map[ID]Record // heard before their worker, or after its removal
}

// NewRegistry is an empty registry whose pools count in fold. admit is the number
// of probes that a half-open worker takes at a time: the success threshold of its
// breaker.
func NewRegistry(fold *Fold, admit int) *Registry {
	r := &Registry{fold: fold, admit: admit, workers: map[ID]*cell{}, early: map[ID]Record{}}
	r.pools.Store(&map[poolKey]*Pool{})
	r.names.init()
	return r
}

// Put registers workers, or replaces those with their ids, which keep their counts
// and their records. Their pools are built anew when somebody looks at them next, so
// many at once, or one by one, cost one build.
func (r *Registry) Put(specs ...*Spec) {
	r.mu.Lock()
	defer r.mu.Unlock()
	changes := make([]change, 0, len(specs))
	seen := make(map[ID]int, len(specs))
	for _, s := range specs {
		old := r.workers[s.ID]
		w := &Worker{Spec: s}
		if old != nil {
			w.Record, w.Load = old.now.Record, old.now.Load
		} else {
			w.Record, w.Load = r.early[s.ID], r.fold.Load(s.ID)
			w.Load.told(w.Record.Report, w.Record.Epoch)
			delete(r.early, s.ID)
		}
		if old == nil || old.now.Spec.RegisteredAt.Equal(s.RegisteredAt) { // else its process is not yet heard of
			w.Spec = w.Record.addressed(s)
		}
		c := newCell(w)
		r.hold(s.ID, c)
		if i, twice := seen[s.ID]; twice {
			changes[i].now = c
			continue
		}
		seen[s.ID] = len(changes)
		changes = append(changes, change{old, c})
	}
	r.apply(changes)
}

// Remove forgets a worker and its record. Calls in flight stay counted in the
// fold until they end.
func (r *Registry) Remove(id ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.early, id)
	old := r.workers[id]
	if old == nil {
		return
	}
	old.now.Load.told(nil, 0)
	r.hold(id, nil)
	r.apply([]change{{old, nil}})
	r.fold.Release(id)
}

// Install keeps rec if it is higher than the record held, and says which one is
// held now and whether that changed. A record may come before its worker. A new
// load report clears the credit that it covers.
func (r *Registry) Install(rec Record) (held Record, changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.install(rec)
}

// InstallAll is Install for many records.
func (r *Registry) InstallAll(recs []Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range recs {
		r.install(recs[i])
	}
}

// install keeps a record that is higher than the one held.
func (r *Registry) install(rec Record) (held Record, changed bool) {
	c := r.workers[rec.Worker]
	if c == nil {
		return r.expect(rec)
	}
	old := c.now
	if old.Record.Compare(rec) >= 0 {
		return old.Record, false
	}
	rec = rec.withYounger(old.Record)
	r.turn(c, rec)
	if old.Record.Epoch != 0 && rec.Epoch > old.Record.Epoch {
		r.fold.Reported(rec.Worker, rec.BreakerSince) // what the process before was sent waits nowhere
	}
	if rec.Report != nil && (old.Record.Report == nil || old.Record.Report.PolledAt.Before(rec.Report.PolledAt)) {
		r.fold.Reported(rec.Worker, rec.Report.PolledAt)
	}
	return rec, true
}

// expect keeps the record of a worker that is not registered.
func (r *Registry) expect(rec Record) (held Record, changed bool) {
	held, early := r.early[rec.Worker]
	if early && held.Compare(rec) >= 0 {
		return held, false
	}
	if !early && len(r.early) >= maxEarly {
		for id := range r.early { // any: its keeper repeats it
			delete(r.early, id)
			break
		}
	}
	r.early[rec.Worker] = rec
	return rec, true
}

// turn gives a registered worker another record. A report alone changes no set: it is
// read where it is.
func (r *Registry) turn(c *cell, rec Record) {
	old := c.now
	w := &Worker{Spec: rec.addressed(old.Spec), Record: rec, Load: old.Load}
	r.count(old, -1)
	r.count(w, 1)
	c.know(w)
	if old.Record.Report != rec.Report {
		w.Load.told(rec.Report, rec.Epoch)
		for _, p := range c.pools {
			p.expect(rec.Report)
		}
	}
	if !sameForPools(old.Record, rec) {
		for _, p := range c.pools {
			p.touch(c, old)
		}
	}
}

// sameForPools says whether two records make the same sets.
func sameForPools(a, b Record) bool {
	return a.Status == b.Status && a.Breaker == b.Breaker && a.Overloaded == b.Overloaded && a.Epoch == b.Epoch && a.Process == b.Process
}

// Record is the highest record heard for a worker.
func (r *Registry) Record(id ID) (Record, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.workers[id]; c != nil {
		return c.now.Record, c.now.Record != Record{}
	}
	rec, ok := r.early[id]
	return rec, ok
}

// Outdated says whether the process behind a worker's URL is known to have been
// replaced since the given epoch; 0 is unknown. It takes no lock for a worker that can
// be chosen.
func (r *Registry) Outdated(leg Leg, id ID, epoch uint64) bool {
	if epoch == 0 {
		return false
	}
	if p := (*r.pools.Load())[poolKey{leg, ""}]; p != nil {
		s := p.current()
		if m := s.members.Index(id); m >= 0 && s.slot[m] >= 0 {
			return s.available[s.slot[m]].Record.Epoch > epoch
		}
	}
	rec, ok := r.Record(id)
	return ok && rec.Epoch > epoch
}

// Records are those of a leg's registered workers, as far as keepers have published
// any, in no particular order.
func (r *Registry) Records(leg Leg) []Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	var recs []Record
	for _, c := range r.workers {
		if w := c.now; w.Spec.Leg == leg && w.Record.Keeper != 0 {
			recs = append(recs, w.Record)
		}
	}
	return recs
}

// Lookup is a worker as it is known now, or nil.
func (r *Registry) Lookup(id ID) *Worker {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.workers[id]; c != nil {
		return c.now
	}
	return nil
}

// Pool is the pool of a model (an id or an alias) on a leg, or of the whole leg
// for model "". It is nil while no worker serves the model there.
func (r *Registry) Pool(leg Leg, model string) *Pool {
	pools := *r.pools.Load()
	if p := pools[poolKey{leg, model}]; p != nil {
		return p
	}
	if id, ok := r.names.id(model); ok {
		return pools[poolKey{leg, id}]
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

// change is what happens to one registered worker; old or now is nil if it comes
// or goes.
type change struct{ old, now *cell }

// edit is what happens to one pool.
type edit struct{ removed, added []*cell }

// apply brings pools and names up to date with changes, making pools that are new
// and dropping those that are empty.
func (r *Registry) apply(changes []change) {
	edits := map[poolKey]*edit{}
	of := func(k poolKey) *edit {
		e := edits[k]
		if e == nil {
			e = &edit{}
			edits[k] = e
		}
		return e
	}
	for _, c := range changes {
		if c.old != nil {
			for _, k := range keysOf(c.old.now.Spec) {
				e := of(k)
				e.removed = append(e.removed, c.old)
			}
		}
		if c.now != nil {
			for _, k := range keysOf(c.now.now.Spec) {
				e := of(k)
				e.added = append(e.added, c.now)
			}
		}
	}
	pools, own := *r.pools.Load(), false
	write := func() map[poolKey]*Pool { // copied once, and only if pools come or go
		if !own {
			pools, own = maps.Clone(pools), true
		}
		return pools
	}
	for k, e := range edits {
		p := pools[k]
		if p == nil {
			p = newPool(k.leg, k.model, r)
			write()[k] = p
		}
		for _, c := range e.added {
			c.pools = append(c.pools, p)
			p.expect(c.now.Record.Report)
		}
		p.edit(e.removed, e.added)
		if p.members == 0 {
			delete(write(), k)
		}
	}
	if own {
		r.pools.Store(&pools)
	}
	r.names.apply(changes)
}

// keysOf are the pools that a worker belongs to.
func keysOf(s *Spec) []poolKey {
	keys := make([]poolKey, 1, 1+len(s.Models))
	keys[0] = poolKey{s.Leg, ""}
	for _, m := range s.Models {
		if k := (poolKey{s.Leg, m.ID}); !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	return keys
}
