package ingress

import (
	"cmp"
	"net/http"
	"slices"

	"smg/bootstrap"
	"smg/worker"
)

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
	Remarks         []string          `json:"remarks,omitempty"` // what looks wrong, and may be right
	KVConnector     string            `json:"kv_connector,omitempty"`
	KVRole          string            `json:"kv_role,omitempty"`
	KVEngineID      string            `json:"kv_engine_id,omitempty"`
	DPRank          *int              `json:"dp_rank,omitempty"`
	DPSize          int               `json:"dp_size,omitempty"`
	PairGroup       string            `json:"pair_group,omitempty"`
	Epoch           uint64            `json:"epoch,omitempty"`
	Healthy         bool              `json:"is_healthy"`
	Status          string            `json:"status"`
	Breaker         string            `json:"circuit_breaker,omitempty"` // open or half_open: little or nothing is sent
	Load            int               `json:"load"`
	HTTP2           bool              `json:"http2"`
	EngineLoad      *engineLoadCard   `json:"engine_load,omitempty"`
	Overload        *overloadCard     `json:"overload,omitempty"`
	LoadInterval    float64           `json:"load_monitor_interval_secs,omitempty"`
	Job             *jobCard          `json:"job_status,omitempty"`
}

type overloadCard struct {
	Waiting    int     `json:"waiting_requests,omitempty"`
	TokenUsage float64 `json:"token_usage,omitempty"`
}

type workerModel struct {
	ID      string   `json:"id"`
	Aliases []string `json:"aliases,omitempty"`
}

// workers lists who is registered. A query model=m keeps those that serve m by id
// or alias, and those with no model list.
func (s *Server) workers(x *exchange, r *http.Request) error {
	forsake(x.w, r)
	want := r.URL.Query().Get("model")
	id, ok := s.fleet.Canonical(want)
	if !ok {
		id = want
	}
	list := workerList{Workers: []workerCard{}}
	loads := s.rankLoads(&x.ctx)
	fleet := s.fleet.Workers()
	wrong := remarks(fleet)
	for _, m := range fleet {
		if want != "" && !serves(m.Spec, want) && !serves(m.Spec, id) {
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
		c := card(m, s.fleet.Active(m.Spec.ID))
		c.Remarks, c.EngineLoad = wrong[m.Spec.ID], engineLoad(loads[m.Spec.ID])
		list.Workers = append(list.Workers, c)
	}
	list.Total = len(list.Workers)
	x.watch.begin(taking)
	writeJSON(x.w, http.StatusOK, list)
	return nil
}

// remarks is what looks wrong with workers that share requests.
func remarks(fleet []*worker.Worker) map[worker.ID][]string {
	specs := make([]*worker.Spec, len(fleet))
	for i, m := range fleet {
		specs[i] = m.Spec
	}
	return bootstrap.Remarks(specs)
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
		WorkerType: s.Leg.String(), ConnectionMode: s.Mode.String(), RuntimeType: cmp.Or(string(s.Runtime), runtimes[0]),
		Labels: s.Labels, Priority: s.Priority, Cost: s.Cost,
		BootstrapHost: s.BootstrapHost, BootstrapPort: s.BootstrapPort, BootstrapSource: s.BootstrapSource, Conflict: s.Conflict,
		KVConnector: s.KVConnector, KVRole: s.KVRole, KVEngineID: s.KVEngineID,
		DPSize: s.DPSize, PairGroup: s.Labels[worker.GroupLabel], Epoch: m.Record.Epoch,
		Healthy: m.Status() == worker.Ready, Status: m.Status().String(), Load: active,
		LoadInterval: s.LoadInterval.Seconds(),
	}
	if m.Record.Breaker != worker.Closed {
		c.Breaker = m.Record.Breaker.String()
	}
	if s.Overload != (worker.OverloadLimits{}) {
		c.Overload = &overloadCard{s.Overload.Waiting, s.Overload.TokenUsage}
	}
	if s.DPSize > 0 {
		c.DPRank = &s.DPRank
	}
	if c.Labels == nil {
		c.Labels = map[string]string{}
	}
	for _, model := range s.Models {
		c.Models = append(c.Models, workerModel{model.ID, model.Aliases})
	}
	return c
}

// jobCard is a change of a worker that has not ended, or has failed.
type jobCard struct {
	Type      string  `json:"job_type"`
	URL       string  `json:"worker_url"`
	Status    string  `json:"status"`
	Message   *string `json:"message"`
	Timestamp int64   `json:"timestamp"`
}

func cardOfJob(j bootstrap.Job) *jobCard {
	c := &jobCard{Type: j.Type.String(), URL: j.Worker.URL, Status: "pending", Timestamp: j.Since.Unix()}
	if j.Trying {
		c.Status = "processing"
	}
	if j.Failed {
		c.Status = "failed"
	}
	if j.Reason != "" {
		c.Message = &j.Reason
	}
	return c
}

// worker shows one worker, or what is known of one that is being registered.
func (s *Server) worker(x *exchange, r *http.Request) error {
	forsake(x.w, r)
	id, p := workerOf(r)
	if p != nil {
		return p
	}
	// In this order: a registration that has ended since is in the fleet by now.
	job, registering := s.registrar.Job(id)
	fleet := s.fleet.Workers()
	known := slices.IndexFunc(fleet, func(m *worker.Worker) bool { return m.Spec.ID == id })
	if known < 0 { // an engine is shown by its first rank
		known = slices.IndexFunc(fleet, func(m *worker.Worker) bool { return m.Spec.DPSize > 0 && worker.IDOf(m.Spec.Base()) == id })
	}
	var c workerCard
	switch {
	case known >= 0:
		c = card(fleet[known], s.fleet.Active(id))
		of := fleet[known].Spec.ID
		c.Remarks, c.EngineLoad = remarks(fleet)[of], engineLoad(s.rankLoads(&x.ctx)[of])
	case registering:
		c = card(&worker.Worker{Spec: job.Worker}, 0)
	default:
		return unknownWorker(id)
	}
	if registering {
		c.Job = cardOfJob(job)
	}
	x.watch.begin(taking)
	writeJSON(x.w, http.StatusOK, c)
	return nil
}
