package bootstrap

import (
	"fmt"
	"log/slog"
	"strconv"

	"smg/worker"
)

// maxRanks bounds the ranks of an engine that are workers.
const maxRanks = 1024

// sizeLabel is the label with the number of an engine's data-parallel ranks.
const sizeLabel = "dp_size"

// expand is what is registered of an engine that has answered: where ranks are workers
// each of them, in their order, else the engine itself. An engine that does not say how
// many it has is taken whole.
func (r *Registrar) expand(s *worker.Spec) ([]*worker.Spec, error) {
	size, err := strconv.Atoi(s.Labels[sizeLabel])
	known := err == nil && size > 0
	if s.DPSize > 0 { // a rank was asked for
		if known && s.DPRank >= size {
			return nil, fmt.Errorf("its engine has %d data-parallel ranks, from 0", size)
		}
		if known {
			s.DPSize = size
		}
		return []*worker.Spec{s}, nil
	}
	if !r.cfg.DPAware {
		return []*worker.Spec{s}, nil
	}
	if !known {
		r.log.Warn("the worker does not say how many data-parallel ranks it has and is taken as one", slog.String("worker", s.URL),
			slog.String("runtime", string(s.Runtime)), slog.String("hint", "add it with a label "+sizeLabel))
		return []*worker.Spec{s}, nil
	}
	if size > maxRanks {
		return nil, fmt.Errorf("it says that it has %d data-parallel ranks", size)
	}
	if s.RegisteredAt.IsZero() {
		r.mu.Lock()
		s.RegisteredAt = r.stamp() // one for all, so that nobody comes between them
		r.mu.Unlock()
	}
	ranks := make([]*worker.Spec, size)
	for i := range ranks {
		ranks[i] = s.Ranked(i, size)
	}
	return ranks, nil
}

// ranksOf are the registered ranks of the engine that has an id, in no order.
func (r *Registrar) ranksOf(engine worker.ID) (ids []worker.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for s := range r.others(worker.ID{}) {
		if s.DPSize > 0 && worker.IDOf(s.Base()) == engine {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

// overlaps says whether ranks of the engine s are registered, or the engine of the rank
// s. r.mu is held.
func (r *Registrar) overlaps(s *worker.Spec) bool {
	for o := range r.others(s.ID) {
		if o.Base() == s.Base() && (o.DPSize > 0) != (s.DPSize > 0) {
			return true
		}
	}
	return false
}
