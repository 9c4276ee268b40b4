package ingress

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"

	"smg/worker"
)

// Selection tells how the selection of workers stands. It is safe for concurrent use.
type Selection interface {
	// Connected says whether there is a connection to the message bus now.
	Connected() bool
	// Status is that of each leg that requests have, in the order of the legs.
	Status() []worker.LegStatus
}

// statusCard is what GET /status shows: this ingress, and what it knows of the rest.
type statusCard struct {
	Status    string    `json:"status"` // ready, not ready, draining
	Connected bool      `json:"bus_connected"`
	Healthy   int       `json:"healthy_workers"`
	Total     int       `json:"total_workers"`
	Legs      []legCard `json:"legs"`
}

type legCard struct {
	Leg       string         `json:"leg"`
	Policy    string         `json:"policy,omitempty"`
	Protocols []string       `json:"protocols,omitempty"` // of the leg's workers
	Conflicts []string       `json:"conflicts,omitempty"` // workers that are never chosen, and why
	Degraded  bool           `json:"degraded"`
	Leases    int            `json:"leases"`
	Waiting   int            `json:"waiting_requests"`               // of this ingress, for a worker with room
	MaxRooms  *int           `json:"max_rooms_per_worker,omitempty"` // where workers are bounded; 0 is as many as each one reports
	Healthy   int            `json:"healthy_workers"`
	Total     int            `json:"total_workers"`
	Broken    int            `json:"open_breakers"` // of the healthy ones, to which nothing is sent
	Selectors []selectorCard `json:"selectors"`
}

type selectorCard struct {
	ID       string `json:"id"` // a number beyond what JSON readers keep exact
	Local    bool   `json:"local"`
	Excluded bool   `json:"excluded"`
}

// status shows who selects for each leg, and how many workers it has. No service is
// asked.
func (s *Server) status(w http.ResponseWriter, _ *http.Request) {
	ok, healthy, total := s.fleet.Readiness()
	card := statusCard{Status: "ready", Connected: s.selection.Connected(), Healthy: healthy, Total: total, Legs: []legCard{}}
	switch {
	case s.draining.Load():
		card.Status = "draining"
	case !ok:
		card.Status = "not ready"
	}
	fleet := s.fleet.Workers()
	for _, l := range s.selection.Status() {
		c := legCard{Leg: l.Leg.String(), Policy: l.Policy, Degraded: l.Degraded, Leases: l.Leases, Waiting: l.Waiting, Selectors: []selectorCard{}}
		if l.Leg == worker.Decode {
			c.MaxRooms = &s.cfg.PD.MaxRooms
		}
		for _, m := range fleet {
			if m.Spec.Leg == l.Leg {
				c.Total++
				c.note(m.Spec)
				if m.Counts() {
					c.Healthy++
					if m.Record.Breaker == worker.Open {
						c.Broken++
					}
				}
			}
		}
		for _, r := range l.Replicas {
			c.Selectors = append(c.Selectors, selectorCard{strconv.FormatUint(uint64(r.ID), 10), r.Local, r.Excluded})
		}
		card.Legs = append(card.Legs, c)
	}
	writeJSON(w, http.StatusOK, card)
}

// note adds how a worker is spoken to, and how it hands over to other legs, and why it is never chosen.
func (c *legCard) note(s *worker.Spec) {
	if s.Runtime != "" {
		class := worker.Class{Runtime: s.Runtime, Connector: cmp.Or(s.KVConnector, s.Class().Connector), Transport: s.Class().Transport}.String()
		if s.Leg == worker.Regular { // which hands nothing over
			class = string(s.Runtime)
		}
		if i, known := slices.BinarySearch(c.Protocols, class); !known {
			c.Protocols = slices.Insert(c.Protocols, i, class)
		}
	}
	if s.Conflict != "" {
		c.Conflicts = append(c.Conflicts, s.URL+": "+s.Conflict)
	}
}
