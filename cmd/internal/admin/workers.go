package admin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"smg/cmd/internal/terminal"
	"smg/worker"
)

// shown is what is looked at of a worker as the API shows it.
type shown struct {
	ID       string `json:"id"`
	URL      string `json:"url"`
	Model    string `json:"model_id"`
	Leg      string `json:"worker_type"`
	Status   string `json:"status"`
	Breaker  string `json:"circuit_breaker"`
	Load     int    `json:"load"`
	Conflict string `json:"conflict"`
	Job      *struct {
		Message string `json:"message"`
	} `json:"job_status"`
}

// listed is the answer to GET /workers.
type listed struct {
	Workers []shown `json:"workers"`
}

const workersPath = "/workers"

// list prints who is registered.
func (p *program) list(ctx context.Context, c *client, o *options) error {
	path := workersPath
	if o.model != "" {
		path += "?model=" + url.QueryEscape(o.model)
	}
	raw, err := c.do(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	if o.json {
		p.say("%s", raw)
		return nil
	}
	var l listed
	if err := decode(c, raw, &l); err != nil {
		return err
	}
	return p.workers(l.Workers, true)
}

// workers prints a table of workers, with their ids if they are needed.
func (p *program) workers(all []shown, ids bool) error {
	head, ready := []string{"URL", "LEG", "MODEL", "STATUS", "IN FLIGHT"}, 0
	if ids {
		head = append(head, "ID")
	}
	var rows [][]string
	for _, w := range all {
		if w.Status == "ready" {
			ready++
		}
		status := w.Status
		if w.Breaker == worker.Open.String() {
			status += ", breaker open"
		}
		if w.Conflict != "" {
			status += " (" + w.Conflict + ")"
		}
		row := []string{w.URL, w.Leg, w.Model, status, strconv.Itoa(w.Load)}
		if ids {
			row = append(row, w.ID)
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 && p.people {
		p.say("no workers are registered; smg workers add URL registers one")
		return nil
	}
	if err := p.table(head, rows); err != nil {
		return err
	}
	p.summary("%s, %d ready", terminal.Counted(len(all), "worker"), ready)
	return nil
}

// description is a worker as POST /workers takes it.
type description struct {
	URL           string            `json:"url"`
	Leg           string            `json:"worker_type"`
	Model         string            `json:"model_id,omitempty"`
	Labels        map[string]string `json:"labels,omitempty"`
	BootstrapHost string            `json:"bootstrap_host,omitempty"`
	BootstrapPort int               `json:"bootstrap_port,omitempty"`
}

// add registers a worker, and waits until it is ready if that is asked for.
func (p *program) add(ctx context.Context, c *client, o *options) error {
	raw, err := c.do(ctx, http.MethodPost, workersPath, description{o.args[0], o.leg, o.model, o.labels, o.bootstrapHost, o.bootstrapPort})
	if err != nil {
		return err
	}
	var accepted struct {
		ID      string `json:"worker_id"`
		URL     string `json:"url"`
		Message string `json:"message"`
	}
	if err := decode(c, raw, &accepted); err != nil {
		return err
	}
	if o.wait == 0 {
		if o.json {
			p.say("%s", raw)
			return nil
		}
		p.say("accepted   %s   %s\n%s", accepted.URL, accepted.ID, accepted.Message)
		return nil
	}
	raw, err = p.await(ctx, c, accepted.ID, accepted.URL, o.wait)
	if err != nil {
		return err
	}
	if o.json {
		p.say("%s", raw)
		return nil
	}
	p.say("ready   %s   %s", accepted.URL, accepted.ID)
	return nil
}

// lookEvery is how often a worker is looked at that is waited for.
const lookEvery = 200 * time.Millisecond

// await returns what is shown of a worker once it is ready.
func (p *program) await(ctx context.Context, c *client, id, address string, limit time.Duration) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	last := "it is being registered"
	for {
		raw, err := c.do(ctx, http.MethodGet, workersPath+"/"+id, nil)
		var w shown
		switch {
		case ctx.Err() != nil:
		case err != nil:
			if isUnknown(err) {
				return nil, failed(address, "the log of the gateway says why; behind a load balancer, another gateway may have been asked", "its registration has ended")
			}
			return nil, err
		default:
			if err := decode(c, raw, &w); err != nil {
				return nil, err
			}
			if w.Status == "ready" {
				return raw, nil
			}
			last = "its status is " + w.Status
			if w.Job != nil && w.Job.Message != "" {
				last = w.Job.Message
			}
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return nil, errors.New("ended while the worker was waited for; its registration goes on")
			}
			return nil, failed(address, "its registration goes on: smg workers shows it when it is ready, smg workers rm "+id+" ends it", "not ready within %s: %s", limit, last)
		}
	}
}

// remove takes workers out, as many as it can.
func (p *program) remove(ctx context.Context, c *client, o *options) error {
	var errs []error
	for _, name := range o.args {
		raw, err := c.do(ctx, http.MethodDelete, workersPath+"/"+url.PathEscape(name), nil)
		switch {
		case err != nil:
			errs = append(errs, err)
		case o.json:
			p.say("%s", raw)
		default:
			p.say("removed   %s", plain(name))
		}
	}
	return errors.Join(errs...)
}

// decode reads an answer of a gateway.
func decode(c *client, raw json.RawMessage, v any) error {
	if err := json.Unmarshal(raw, v); err != nil {
		return c.stranger(err.Error())
	}
	return nil
}
