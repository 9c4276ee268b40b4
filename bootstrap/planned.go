package bootstrap

import (
	"time"

	"smg/worker"
)

// Planned are the workers that the command line names as they will be registered, in
// order, as far as that is known without asking them. Conflict is set where an earlier
// one has the bootstrap address.
func Planned(candidates []Candidate) ([]*worker.Spec, error) {
	r := &Registrar{own: map[worker.ID]*worker.Spec{}} // one that has registered them all
	var all []*worker.Spec
	for i, c := range candidates {
		s, err := specOf(c)
		if err != nil {
			return nil, err
		}
		s.RegisteredAt = time.Unix(int64(i), 0)
		r.own[s.ID] = s
		all = append(all, s)
	}
	owners := r.owners()
	for _, s := range all {
		s.Conflict = owners.conflict(s)
	}
	for _, s := range all {
		s.RegisteredAt = time.Time{}
	}
	return all, nil
}
