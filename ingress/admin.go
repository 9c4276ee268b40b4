package ingress

import (
	"context"
	"errors"
	"fmt"
	"net/http"
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

// addWorker begins to register the worker that the body describes. Whoever waits
// for it asks for it at the answer's Location.
func (s *Server) addWorker(x *exchange, r *http.Request) error {
	raw, held, err := x.read(&route{plain: true, maxBody: wire.MaxMessage}, r)
	defer s.buffers.release(held)
	if err != nil {
		return err
	}
	asked, err := readWorker(raw)
	if err != nil {
		return err
	}
	spec, err := asked.spec(s.cfg.Mode)
	if err != nil {
		return err
	}
	if asked.APIKey != nil {
		if spec.SealedKey, err = s.sealedKey(spec, *asked.APIKey); err != nil {
			return err
		}
	}
	location := workersPath + "/" + spec.ID.String()
	switch err := s.registrar.Add(spec); {
	case errors.Is(err, bootstrap.ErrRegistered):
		return workerProblem(http.StatusConflict, codeExists, "worker %s is registered already; DELETE %s first to register it anew", spec.URL, location)
	case errors.Is(err, bootstrap.ErrRegistering):
		return workerProblem(http.StatusConflict, codeRegistering, "worker %s is being registered already; GET %s tells how that stands", spec.URL, location)
	case err != nil:
		return workerProblem(http.StatusInternalServerError, codeInternal, "worker %s cannot be registered now: %v; try again later", spec.URL, err)
	}
	message := "the worker is registered as soon as it answers; GET " + location + " tells how that stands"
	if ignored := asked.ignored(); len(ignored) > 0 {
		message += "; accepted, but not applied yet: " + strings.Join(ignored, ", ")
	}
	x.w.Header().Set("Location", location)
	x.watch.begin(taking)
	writeJSON(x.w, http.StatusAccepted, accepted{"accepted", spec.ID.String(), spec.URL, location, message})
	return nil
}

// removeWithin bounds the removal of a worker.
const removeWithin = 10 * time.Second

// removeWorker takes a worker out of the fleet. It gets no further requests; those
// that it has go on.
func (s *Server) removeWorker(x *exchange, r *http.Request) error {
	forsake(x.w, r)
	id, p := workerOf(r)
	if p != nil {
		return p
	}
	// A client that leaves leaves no removal half done.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), removeWithin)
	defer cancel()
	switch err := s.registrar.Remove(ctx, id); {
	case errors.Is(err, bootstrap.ErrUnknown):
		return unknownWorker(id)
	case err != nil:
		return workerProblem(http.StatusInternalServerError, codeInternal, "worker %s could not be removed: %v; try again", id, err)
	}
	x.watch.begin(taking)
	writeJSON(x.w, http.StatusAccepted, accepted{Status: "accepted", ID: id.String(), Message: "the worker gets no further requests; those that it has go on"})
	return nil
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
