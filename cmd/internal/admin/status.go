package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

// standing is the answer to GET /status.
type standing struct {
	Status    string `json:"status"`
	Connected bool   `json:"bus_connected"`
	Healthy   int    `json:"healthy_workers"`
	Total     int    `json:"total_workers"`
	Legs      []struct {
		Leg       string   `json:"leg"`
		Policy    string   `json:"policy"`
		Protocols []string `json:"protocols"`
		Degraded  bool     `json:"degraded"`
		Leases    int      `json:"leases"`
		Waiting   int      `json:"waiting_requests"`
		Healthy   int      `json:"healthy_workers"`
		Total     int      `json:"total_workers"`
		Selectors []struct {
			Local    bool `json:"local"`
			Excluded bool `json:"excluded"`
		} `json:"selectors"`
	} `json:"legs"`
}

// status prints how the gateway is, its legs and its workers.
func (p *program) status(ctx context.Context, c *client, o *options) error {
	raw, err := c.do(ctx, http.MethodGet, "/status", nil)
	if err != nil {
		return err
	}
	fleet, err := c.do(ctx, http.MethodGet, workersPath, nil)
	if err != nil {
		return err
	}
	var s standing
	if err := decode(c, raw, &s); err != nil {
		return err
	}
	if o.json {
		return p.joined(c, raw, fleet)
	}
	var l listed
	if err := decode(c, fleet, &l); err != nil {
		return err
	}
	bus := "connected"
	if !s.Connected {
		bus = "not connected to NATS"
	}
	if err := p.table([]string{"GATEWAY", "STATUS", "WORKERS READY", "BUS"}, [][]string{{c.gateway, s.Status, share(s.Healthy, s.Total), bus}}); err != nil {
		return err
	}
	p.say("")
	var rows [][]string
	for _, g := range s.Legs {
		excluded := 0
		for _, r := range g.Selectors {
			if r.Excluded {
				excluded++
			}
		}
		n := strconv.Itoa(len(g.Selectors))
		if excluded > 0 {
			n += " (" + strconv.Itoa(excluded) + " not answering)"
		}
		by := "by selectors"
		switch {
		case len(g.Selectors) == 0:
			by = "DEGRADED, there is no selector"
		case g.Degraded:
			by = "DEGRADED, the last one was made without a selector"
		}
		rows = append(rows, []string{g.Leg, g.Policy, strings.Join(g.Protocols, ", "), n, share(g.Healthy, g.Total), strconv.Itoa(g.Leases), strconv.Itoa(g.Waiting), by})
	}
	if err := p.table([]string{"LEG", "POLICY", "PROTOCOL", "SELECTORS", "WORKERS READY", "IN FLIGHT", "WAITING", "SELECTIONS"}, rows); err != nil {
		return err
	}
	p.say("")
	return p.workers(l.Workers, false)
}

func share(some, all int) string { return strconv.Itoa(some) + " of " + strconv.Itoa(all) }

// joined prints both answers as one object.
func (p *program) joined(c *client, status, fleet json.RawMessage) error {
	var all map[string]json.RawMessage
	var workers struct {
		Workers json.RawMessage `json:"workers"`
	}
	if err := decode(c, status, &all); err != nil {
		return err
	}
	if err := decode(c, fleet, &workers); err != nil {
		return err
	}
	all["workers"] = workers.Workers
	b, err := json.Marshal(all)
	if err != nil {
		return c.stranger(err.Error())
	}
	p.say("%s", b)
	return nil
}
