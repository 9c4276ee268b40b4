package worker

// Legs is how many legs there are.
const Legs = int(Decode) + 1

const legs = Legs

// Census is how many workers of a leg are registered, and how they are.
type Census struct {
	Workers int
	Ready   int // without those that are never chosen
	Unheard int // of whom no keeper has said anything yet
}

func (c *Census) add(w *Worker, by int) {
	c.Workers += by
	if w.Counts() {
		c.Ready += by
	}
	if w.Record.Keeper == 0 {
		c.Unheard += by
	}
}

// Census counts a leg's workers, at a cost that does not depend on their number.
func (r *Registry) Census(leg Leg) Census {
	r.mu.Lock()
	defer r.mu.Unlock()
	if int(leg) >= len(r.census) {
		return Census{}
	}
	return r.census[leg]
}
