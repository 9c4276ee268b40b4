package ingress

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
)

func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	writeText(w, http.StatusOK, "OK")
}

func writeText(w http.ResponseWriter, status int, s string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(s)))
	w.WriteHeader(status)
	_, _ = io.WriteString(w, s) // a client that has left needs no error
}

func (s *Server) readiness(w http.ResponseWriter, _ *http.Request) {
	ok, healthy, total := s.fleet.Readiness()
	switch {
	case s.draining.Load():
		writeJSON(w, http.StatusServiceUnavailable, notReady{"not ready", "draining"})
	case !ok:
		writeJSON(w, http.StatusServiceUnavailable, notReady{"not ready", "insufficient healthy workers"})
	default:
		writeJSON(w, http.StatusOK, ready{"ready", healthy, total})
	}
}

// Probes answers the three questions of probes and nothing else. It passes no layer of
// the API, and is safe to use until the process ends.
func (s *Server) Probes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", s.health)
	mux.HandleFunc("GET /liveness", s.health)
	mux.HandleFunc("GET /readiness", s.readiness)
	return mux
}

type ready struct {
	Status  string `json:"status"`
	Healthy int    `json:"healthy_workers"`
	Total   int    `json:"total_workers"`
}

type notReady struct {
	Status string `json:"status"`
	Reason string `json:"reason"`
}

type modelList struct {
	Object string      `json:"object"`
	Data   []modelCard `json:"data"`
}

type modelCard struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

// modelPage is the list of models at one generation of the fleet.
type modelPage struct {
	generation uint64
	body       []byte
}

// models lists what the registered workers serve, each id once, in the order of
// registration. No worker is asked. The page is made once for a generation of the fleet:
// anybody may ask for it.
func (s *Server) models(w http.ResponseWriter, _ *http.Request) {
	ids, generation := s.fleet.Models()
	if len(ids) == 0 {
		(&problem{status: http.StatusServiceUnavailable, form: text, message: "No models available"}).write(w)
		return
	}
	page := s.modelPage.Load()
	if page == nil || page.generation != generation {
		list := modelList{Object: "list", Data: make([]modelCard, len(ids))}
		for i, id := range ids {
			list.Data[i] = modelCard{ID: id, Object: "model", OwnedBy: "self_hosted"}
		}
		b, err := json.Marshal(list)
		if err != nil { // strings always marshal
			unwritable(w, err)
			return
		}
		page = &modelPage{generation, b}
		s.modelPage.Store(page)
	}
	writePage(w, http.StatusOK, page.body)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil { // the types above always marshal, but for a cost of NaN
		unwritable(w, err)
		return
	}
	writePage(w, status, b)
}

func unwritable(w http.ResponseWriter, err error) {
	gatewayProblem(http.StatusInternalServerError, "internal_error", "the answer could not be written: %v", err).write(w)
}

// writePage answers with JSON.
func writePage(w http.ResponseWriter, status int, b []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(status)
	_, _ = w.Write(b) // a client that has left needs no error
}
