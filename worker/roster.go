package worker

import "slices"

// roster is who is registered at one generation of a registry. It is never modified.
type roster struct {
	generation uint64
	cells      []*cell  // in order
	models     []string // ids, each once, in the order of the first who serves them
}

// newCell is a cell of what is known of a worker.
func newCell(w *Worker) *cell {
	c := &cell{}
	c.know(w)
	return c
}

// know has it be w from now on. Registry.mu is held, or nobody else has the cell yet.
func (c *cell) know(w *Worker) {
	c.now = w
	c.shown.Store(w)
}

// Workers is everybody who is registered, in order, as each is known now. The list is
// the caller's own. It takes no lock and sorts nothing, unless workers have come or gone.
func (r *Registry) Workers() []*Worker {
	cells := r.roster().cells
	all := make([]*Worker, len(cells))
	for i, c := range cells {
		all[i] = c.shown.Load()
	}
	return all
}

// Models are the ids of all models that workers bring, each once, in the order of
// workers; nobody may modify them. They are the same as long as the generation is. It
// takes no lock, unless workers have come or gone.
func (r *Registry) Models() (ids []string, generation uint64) {
	l := r.roster()
	return l.models, l.generation
}

// roster is who is registered now. Whoever asks first after a change makes it, outside
// the lock; of two who do that at the same time the older may stay, until the next asks.
func (r *Registry) roster() *roster {
	if l := r.listed.Load(); l != nil && l.generation == r.generation.Load() {
		return l
	}
	r.mu.Lock()
	l := &roster{generation: r.generation.Load(), cells: make([]*cell, 0, len(r.workers))}
	for _, c := range r.workers {
		l.cells = append(l.cells, c)
	}
	r.mu.Unlock()
	// What decides the order never changes in a cell.
	slices.SortFunc(l.cells, func(a, b *cell) int { return a.shown.Load().Spec.Compare(b.shown.Load().Spec) })
	seen := map[string]struct{}{}
	for _, c := range l.cells {
		for _, m := range c.shown.Load().Spec.Models {
			if _, twice := seen[m.ID]; !twice {
				seen[m.ID] = struct{}{}
				l.models = append(l.models, m.ID)
			}
		}
	}
	r.listed.Store(l)
	return l
}
