package ingress

import (
	"context"

	"smg/wire"
	"smg/worker"
)

// Plan is who serves a request. It does not change once it is made; a retry is a
// new plan.
type Plan struct {
	Lease worker.LeaseID // begun, and to be ended once
	Pick  wire.Pick
}

// plan asks the leg's selector and counts the selection.
func (s *Server) plan(ctx context.Context, q *query) (Plan, error) {
	lease := s.selector.Plan()
	lease.Leg = worker.Regular
	ask := wire.Select{
		Lease:  lease,
		Model:  q.model,
		Key:    q.key,
		Target: q.target,
	}
	pick, err := s.selector.Select(ctx, &ask)
	if err != nil {
		if ctx.Err() != nil {
			return Plan{}, contextProblem(ctx, "a worker was chosen")
		}
		return Plan{}, selectionProblem(err, lease.Leg, q.model)
	}
	s.metrics.selected(&pick, q.model)
	return Plan{Lease: lease, Pick: pick}, nil
}
