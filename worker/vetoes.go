package worker

import "time"

// Lapse ends the vetoes whose report holds no more, which their keepers do unless
// they are gone. It costs nothing while nobody is vetoed.
func (r *Registry) Lapse(now time.Time) {
	if r.vetoed.Load() == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.workers {
		if rec := c.now.Record; rec.vetoLapsed(now) {
			rec.Overloaded = false
			r.turn(c, rec)
		}
	}
}

// Overloaded says whether a worker is vetoed now. It takes no lock while nobody is.
func (r *Registry) Overloaded(id ID) bool {
	if r.vetoed.Load() == 0 {
		return false
	}
	w := r.Lookup(id)
	return w != nil && w.Record.Overloaded
}

// hold sets what is held of a worker, nil to forget it. r.mu is held.
func (r *Registry) hold(id ID, c *cell) {
	r.generation.Add(1)
	if old := r.workers[id]; old != nil {
		r.count(old.now, -1)
	}
	if c == nil {
		delete(r.workers, id)
		return
	}
	r.count(c.now, 1)
	r.workers[id] = c
}

// count counts a worker, or takes it off with by -1. r.mu is held.
func (r *Registry) count(w *Worker, by int) {
	if w.Record.Overloaded {
		r.vetoed.Add(int64(by))
	}
	if int(w.Spec.Leg) < len(r.census) {
		r.census[w.Spec.Leg].add(w, by)
	}
}
