package ingress

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"smg/bootstrap"
	"smg/wire"
	"smg/worker"
)

// Codes of the routes of workers.
const (
	codeBadRequest  = "BAD_REQUEST"
	codeNotFound    = "WORKER_NOT_FOUND"
	codeExists      = "WORKER_ALREADY_EXISTS"
	codeRegistering = "WORKER_CREATE_IN_PROGRESS"
	codeInternal    = "INTERNAL_SERVER_ERROR"
)

func workerProblem(status int, code, format string, args ...any) *problem {
	return &problem{status: status, code: code, message: fmt.Sprintf(format, args...), form: bare}
}

func unknownWorker(id worker.ID) *problem {
	return workerProblem(http.StatusNotFound, codeNotFound, "no worker has the id %s; GET /workers lists those there are", id)
}

// accepted is the answer to a change of the fleet.
type accepted struct {
	Status   string `json:"status"`
	ID       string `json:"worker_id"`
	URL      string `json:"url,omitempty"`
	Location string `json:"location,omitempty"`
	Message  string `json:"message"`
}

// described is the worker that a body describes.
func (s *Server) described(x *exchange, r *http.Request) (*workerRequest, *worker.Spec, error) {
	raw, held, err := x.read(&route{plain: true, maxBody: wire.MaxMessage}, r)
	defer s.buffers.release(held)
	if err != nil {
		return nil, nil, err
	}
	asked, err := readWorker(raw)
	if err != nil {
		return nil, nil, err
	}
	spec, err := asked.spec(s.cfg.Legs())
	if err == nil && asked.APIKey != nil {
		spec.SealedKey, err = s.sealedKey(spec, *asked.APIKey)
	}
	return asked, spec, err
}

// addWorker begins to register the worker that the body describes. Whoever waits
// for it asks for it at the answer's Location.
func (s *Server) addWorker(x *exchange, r *http.Request) error {
	asked, spec, err := s.described(x, r)
	if err != nil {
		return err
	}
	location := locationOf(spec.ID)
	switch err := s.registrar.Add(spec); {
	case errors.Is(err, bootstrap.ErrRegistered):
		return workerProblem(http.StatusConflict, codeExists, "worker %s is registered already; DELETE %s first to register it anew", spec.URL, location)
	case errors.Is(err, bootstrap.ErrRegistering):
		return registering(spec)
	case err != nil:
		return workerProblem(http.StatusInternalServerError, codeInternal, "worker %s cannot be registered now: %v; try again later", spec.URL, err)
	}
	x.w.Header().Set("Location", location)
	x.accept(accepted{"accepted", spec.ID.String(), spec.URL, location, asked.told("the worker is registered as soon as it answers; GET " + location + " tells how that stands")})
	return nil
}

func registering(s *worker.Spec) *problem {
	return workerProblem(http.StatusConflict, codeRegistering, "worker %s is being registered already; GET %s tells how that stands", s.URL, locationOf(s.ID))
}

func locationOf(id worker.ID) string { return workersPath + "/" + id.String() }

// told is an answer's message, and what has no effect of what was asked for.
func (q *workerRequest) told(message string) string {
	if ignored := q.ignored(); len(ignored) > 0 {
		message += "; accepted, but not applied yet: " + strings.Join(ignored, ", ")
	}
	return message
}

func (x *exchange) accept(a accepted) {
	x.watch.begin(taking)
	writeJSON(x.w, http.StatusAccepted, a)
}

// changeWithin bounds a change of the fleet.
const changeWithin = 10 * time.Second

// whole is r's context for a change of the fleet: a client that leaves leaves none half
// done.
func whole(r *http.Request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(r.Context()), changeWithin)
}

// removeWorker takes a worker out of the fleet. It gets no further requests; those
// that it has go on. One that is ready is shown as draining for a while.
func (s *Server) removeWorker(x *exchange, r *http.Request) error {
	forsake(x.w, r)
	id, p := workerOf(r)
	if p != nil {
		return p
	}
	ctx, cancel := whole(r)
	defer cancel()
	remove := s.registrar.Remove
	if s.drains(id) {
		remove = s.registrar.Drain
	}
	switch err := remove(ctx, id); {
	case errors.Is(err, bootstrap.ErrUnknown):
		return unknownWorker(id)
	case err != nil:
		return workerProblem(http.StatusInternalServerError, codeInternal, "worker %s could not be removed: %v; try again", id, err)
	}
	x.accept(accepted{Status: "accepted", ID: id.String(), Message: "the worker gets no further requests; those that it has go on"})
	return nil
}

// drains says whether a worker may have requests that need time to end: it, or a rank
// of it, is ready, or leaves already.
func (s *Server) drains(id worker.ID) bool {
	return slices.ContainsFunc(s.members(id), func(w *worker.Worker) bool {
		return w.Status() == worker.Ready || w.Status() == worker.Draining
	})
}

// members are the workers that an id means: the worker, or the ranks of the engine.
func (s *Server) members(id worker.ID) []*worker.Worker {
	if w := s.fleet.Lookup(id); w != nil {
		return []*worker.Worker{w}
	}
	return slices.DeleteFunc(s.fleet.Workers(), func(w *worker.Worker) bool {
		return w.Spec.DPSize == 0 || worker.IDOf(w.Spec.Base()) != id
	})
}

// workerOf is the worker that the path names, by its id or its URL.
func workerOf(r *http.Request) (worker.ID, *problem) {
	name := strings.TrimPrefix(r.URL.Path, workersPath+"/")
	if strings.Contains(name, "://") {
		u, err := worker.CanonicalURL(name)
		if err != nil {
			return worker.ID{}, workerProblem(http.StatusBadRequest, codeBadRequest, "%v", err)
		}
		return worker.IDOf(u), nil
	}
	id, err := worker.ParseID(name)
	if err != nil {
		return worker.ID{}, workerProblem(http.StatusBadRequest, codeBadRequest, "%q is neither a worker's id, which is a UUID, nor its URL; GET /workers lists both", clip(name))
	}
	return id, nil
}
