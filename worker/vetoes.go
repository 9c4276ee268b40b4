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
	for id, old := range r.workers {
		if old.Record.vetoLapsed(now) {
			w := &Worker{Spec: old.Spec, Record: old.Record, Load: old.Load}
			w.Record.Overloaded = false
			r.hold(id, w)
			r.patch(old, w)
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
func (r *Registry) hold(id ID, w *Worker) {
	if old := r.workers[id]; old != nil && old.Record.Overloaded {
		r.vetoed.Add(-1)
	}
	if w == nil {
		delete(r.workers, id)
		return
	}
	if w.Record.Overloaded {
		r.vetoed.Add(1)
	}
	r.workers[id] = w
}
