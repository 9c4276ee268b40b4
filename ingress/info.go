package ingress

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"

	"smg/worker"
)

func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Content-Length", "2")
	_, _ = w.Write([]byte("OK")) // a probe that has left needs no error
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

// models lists what the registered workers serve, each id once, in the order of
// registration. No worker is asked.
func (s *Server) models(w http.ResponseWriter, _ *http.Request) {
	list := modelList{Object: "list"}
	seen := map[string]bool{}
	for _, m := range s.fleet.Workers() {
		for _, model := range m.Spec.Models {
			if !seen[model.ID] {
				seen[model.ID] = true
				list.Data = append(list.Data, modelCard{ID: model.ID, Object: "model", OwnedBy: "self_hosted"})
			}
		}
	}
	if len(list.Data) == 0 {
		(&problem{status: http.StatusServiceUnavailable, form: text, message: "No models available"}).write(w)
		return
	}
	writeJSON(w, http.StatusOK, list)
}

type workerList struct {
	Workers []workerCard `json:"workers"`
	Total   int          `json:"total"`
	Stats   workerStats  `json:"stats"`
}

type workerStats struct {
	Prefill int `json:"prefill_count"`
	Decode  int `json:"decode_count"`
	Regular int `json:"regular_count"`
}

type workerCard struct {
	ID              string            `json:"id"`
	URL             string            `json:"url"`
	ModelID         string            `json:"model_id,omitempty"`
	Models          []workerModel     `json:"models"`
	WorkerType      string            `json:"worker_type"`
	ConnectionMode  string            `json:"connection_mode"`
	RuntimeType     string            `json:"runtime_type"`
	Labels          map[string]string `json:"labels"`
	Priority        int               `json:"priority"`
	Cost            float64           `json:"cost"`
	BootstrapHost   string            `json:"bootstrap_host,omitempty"`
	BootstrapPort   uint16            `json:"bootstrap_port,omitempty"`
	BootstrapSource string            `json:"bootstrap_source,omitempty"`
	Conflict        string            `json:"conflict,omitempty"`
	Healthy         bool              `json:"is_healthy"`
	Status          string            `json:"status"`
	Load            int               `json:"load"`
	HTTP2           bool              `json:"http2"`
}

type workerModel struct {
	ID      string   `json:"id"`
	Aliases []string `json:"aliases,omitempty"`
}

// workers lists who is registered. A query model=m keeps those that serve m by id
// or alias, and those with no model list.
func (s *Server) workers(w http.ResponseWriter, r *http.Request) {
	want := r.URL.Query().Get("model")
	list := workerList{Workers: []workerCard{}}
	for _, m := range s.fleet.Workers() {
		if want != "" && !serves(m.Spec, want) {
			continue
		}
		switch m.Spec.Leg {
		case worker.Regular:
			list.Stats.Regular++
		case worker.Prefill:
			list.Stats.Prefill++
		case worker.Decode:
			list.Stats.Decode++
		case worker.Encode: // counted in the total alone
		}
		list.Workers = append(list.Workers, card(m, s.fleet.Active(m.Spec.ID)))
	}
	list.Total = len(list.Workers)
	writeJSON(w, http.StatusOK, list)
}

func serves(s *worker.Spec, model string) bool {
	if len(s.Models) == 0 {
		return true
	}
	return slices.ContainsFunc(s.Models, func(m worker.Model) bool {
		return m.ID == model || slices.Contains(m.Aliases, model)
	})
}

func card(m *worker.Worker, active int) workerCard {
	s := m.Spec
	c := workerCard{
		ID: s.ID.String(), URL: s.URL, ModelID: s.ModelID(), Models: []workerModel{},
		WorkerType: s.Leg.String(), ConnectionMode: s.Mode.String(), RuntimeType: string(s.Runtime),
		Labels: s.Labels, Priority: s.Priority, Cost: s.Cost,
		BootstrapHost: s.BootstrapHost, BootstrapPort: s.BootstrapPort, BootstrapSource: s.BootstrapSource, Conflict: s.Conflict,
		Healthy: m.Record.Status == worker.Ready, Status: m.Record.Status.String(), Load: active,
	}
	if c.Labels == nil {
		c.Labels = map[string]string{}
	}
	for _, model := range s.Models {
		c.Models = append(c.Models, workerModel{model.ID, model.Aliases})
	}
	return c
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil { // the types above always marshal, but for a cost of NaN
		gatewayProblem(http.StatusInternalServerError, "internal_error", "the answer could not be written: %v", err).write(w)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(status)
	_, _ = w.Write(b) // a client that has left needs no error
}
