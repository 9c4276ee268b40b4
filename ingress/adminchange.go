package ingress

import (
	"errors"
	"net/http"

	"smg/bootstrap"
	"smg/wire"
	"smg/worker"
)

// replaceWorker begins to register a worker anew, under its id and its place in the
// order of workers. What the body leaves out has its default again.
func (s *Server) replaceWorker(x *exchange, r *http.Request) error {
	id, err := s.known(x, r)
	if err != nil {
		return err
	}
	asked, spec, err := s.described(x, r)
	switch {
	case err != nil:
		return err
	case spec.ID != id:
		return badWorker("url %s is not the worker's: a worker with another URL is another worker; POST %s to add it", spec.URL, workersPath)
	}
	ctx, cancel := whole(r)
	defer cancel()
	if err := s.registrar.Replace(ctx, spec); err != nil {
		return s.unchanged(id, spec, err)
	}
	x.accept(accepted{Status: "accepted", ID: id.String(), Message: asked.told("the worker is registered anew as soon as it answers; GET " + locationOf(id) + " tells how that stands")})
	return nil
}

// patchWorker changes a few facts of a worker. Nobody asks it anything.
func (s *Server) patchWorker(x *exchange, r *http.Request) error {
	id, err := s.known(x, r)
	if err != nil {
		return err
	}
	raw, held, err := x.read(&route{plain: true, maxBody: wire.MaxMessage}, r)
	defer s.buffers.release(held)
	if err != nil {
		return err
	}
	asked := &patchRequest{}
	if err := decodeWorker(raw, asked, `{"priority":10}`); err != nil {
		return err
	}
	patch, err := s.patch(id, asked)
	if err != nil {
		return err
	}
	ctx, cancel := whole(r)
	defer cancel()
	if err := s.registrar.Patch(ctx, id, patch); err != nil {
		return s.unchanged(id, nil, err)
	}
	x.accept(accepted{Status: "accepted", ID: id.String(), Message: "the worker is changed"})
	return nil
}

// patchRequest is what a body changes of a worker; what else it says is left alone, as
// is what is absent, or null.
type patchRequest struct {
	Priority *int              `json:"priority"`
	Cost     *float64          `json:"cost"`
	Labels   map[string]string `json:"labels"`
	APIKey   *string           `json:"api_key"`
	Health   *healthRequest    `json:"health"`
}

func (s *Server) patch(id worker.ID, q *patchRequest) (p bootstrap.Patch, err error) {
	p = bootstrap.Patch{Priority: q.Priority, Cost: q.Cost, Labels: q.Labels}
	members := s.members(id)
	if q.APIKey != nil && len(members) > 0 { // ranks of an engine have its key
		if p.SealedKey, err = s.sealedKey(members[0].Spec, *q.APIKey); err != nil {
			return p, err
		}
		if p.SealedKey == nil {
			p.SealedKey = []byte{} // none from now on
		}
	}
	if p.Health, err = q.Health.rules(); err != nil {
		return p, err
	}
	for _, w := range members { // each record must still be one that can be kept
		if _, err := wire.AppendSpec(nil, p.Of(w.Spec)); err != nil {
			return p, unkeepable(err)
		}
	}
	return p, nil
}

// known is the id of a worker to be changed. One whose body is not wanted is told so
// before it is read.
func (s *Server) known(x *exchange, r *http.Request) (worker.ID, error) {
	id, p := workerOf(r)
	if p == nil && len(s.members(id)) == 0 {
		p = unknownWorker(id)
		if _, registering := s.registrar.Job(id); registering {
			p = workerProblem(http.StatusConflict, codeRegistering, "worker %s is still being registered; GET %s tells how that stands", id, locationOf(id))
		}
	}
	if p != nil {
		forsake(x.w, r)
		return id, p
	}
	return id, nil
}

// unchanged is why a worker is not changed.
func (s *Server) unchanged(id worker.ID, spec *worker.Spec, err error) *problem {
	switch {
	case errors.Is(err, bootstrap.ErrUnknown):
		return unknownWorker(id)
	case errors.Is(err, bootstrap.ErrRegistering):
		return registering(spec)
	case errors.Is(err, bootstrap.ErrRanks):
		return badWorker("%v (--dp-aware): DELETE %s and POST %s instead", err, locationOf(id), workersPath)
	case errors.Is(err, bootstrap.ErrLeaving):
		return badWorker("worker %s is being removed: POST %s once it is gone", id, workersPath)
	}
	return workerProblem(http.StatusInternalServerError, codeInternal, "worker %s could not be changed: %v; try again", id, err)
}
