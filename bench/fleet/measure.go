package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"smg/bench/load"
	"smg/bench/procstat"
)

// usage is what one process of ours took.
type usage struct {
	name     string
	start    time.Duration // CPU time until every worker was ready
	idle     time.Duration // CPU time of the look at the fleet at rest
	resident int64         // bytes, after that
}

// rest is what a fleet costs without any request.
type rest struct {
	ready  time.Duration
	usages []usage
	span   time.Duration // of the look
	list   time.Duration // CPU time that GET /workers took of the process asked
	bytes  int           // of its answer
}

// total adds up a property of all processes.
func (r *rest) total(of func(*usage) float64) float64 {
	sum := 0.0
	for i := range r.usages {
		sum += of(&r.usages[i])
	}
	return sum
}

// share of a core that all processes used at rest.
func (r *rest) share() float64 {
	return r.total(func(u *usage) float64 { return u.share(r.span) })
}

func (u *usage) share(span time.Duration) float64 { return float64(u.idle) / float64(span) }

// sample is one load.
type sample struct {
	load.Result
	cpu time.Duration // of all processes
}

// cost is the CPU time of a request in microseconds.
func (s *sample) cost() float64 {
	if s.Answered == 0 {
		return 0
	}
	return float64(s.cpu) / float64(time.Microsecond) / float64(s.Answered)
}

// outcome is what one site gave.
type outcome struct {
	topology topology
	workers  int
	rest     rest // of the site's first start
	quiet    rest // without load polls
	costs    map[string][]sample
}

// measure starts a topology before n workers once for each policy.
func measure(ctx context.Context, o *options, t topology, n int) (*outcome, error) {
	out := &outcome{topology: t, workers: n, costs: map[string][]sample{}}
	for i, p := range policies {
		var look *rest
		switch {
		case i == 0:
			look = &out.rest
		case p.quiet:
			look = &out.quiet
		}
		if err := out.measure(ctx, o, p, look); err != nil {
			return nil, fmt.Errorf("%s, %d workers, %s: %w", t.name, n, p.name, err)
		}
	}
	return out, nil
}

func (out *outcome) measure(ctx context.Context, o *options, p policy, look *rest) (err error) {
	s, err := startSite(ctx, o, out.topology, p, out.workers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	if look != nil {
		if *look, err = s.look(ctx, o); err != nil {
			return err
		}
	} else if err := sleep(ctx, o.settle); err != nil {
		return err
	}
	for _, k := range p.kinds {
		if err := out.load(ctx, o, s, k); err != nil {
			return fmt.Errorf("%s: %w", k.name, err)
		}
	}
	return nil
}

// look watches a site at rest.
func (s *site) look(ctx context.Context, o *options) (rest, error) {
	r := rest{ready: s.ready}
	started, err := s.read()
	if err != nil {
		return r, err
	}
	if err := sleep(ctx, o.settle); err != nil {
		return r, err
	}
	before, err := s.read()
	if err != nil {
		return r, err
	}
	begin := time.Now()
	if err := sleep(ctx, o.idle); err != nil {
		return r, err
	}
	after, err := s.read()
	if err != nil {
		return r, err
	}
	r.span = time.Since(begin)
	for i, p := range s.ours {
		u := usage{name: p.name, start: started[i].Used(procstat.Reading{}), idle: after[i].Used(before[i])}
		if u.resident, err = procstat.System().Resident(p.PID()); err != nil {
			return r, err
		}
		r.usages = append(r.usages, u)
	}
	return r, s.list(ctx, &r)
}

// lists is how often GET /workers is asked.
const lists = 5

// list measures GET /workers. What the fleet costs at rest meanwhile is in it.
func (s *site) list(ctx context.Context, r *rest) error {
	before, err := procstat.System().Read(s.front.PID())
	if err != nil {
		return err
	}
	for range lists {
		body, err := s.get(ctx, "/workers")
		if err != nil {
			return err
		}
		r.bytes = len(body)
	}
	after, err := procstat.System().Read(s.front.PID())
	r.list = after.Used(before) / lists
	return err
}

// read reads what every process of ours has used.
func (s *site) read() ([]procstat.Reading, error) {
	list := make([]procstat.Reading, len(s.ours))
	for i, p := range s.ours {
		var err error
		if list[i], err = procstat.System().Read(p.PID()); err != nil {
			return nil, err
		}
	}
	return list, nil
}

const (
	path        = "/v1/chat/completions"
	connections = 32
	// degradedField is what an answer says if its worker was chosen without a selector.
	degradedField = "X-Smg-Degraded"
)

// load loads a site with requests of a kind and takes what they cost beyond nothing.
func (out *outcome) load(ctx context.Context, o *options, s *site, k kind) error {
	addr := s.front.Addr()
	seed := o.seed
	drive := func(length time.Duration, round int) (load.Result, error) {
		moments := load.Poisson(seed, o.rate, length)
		seed++
		d, err := load.Dial(load.Config{
			Addr: addr, Connections: connections, Requests: k.requests(addr.String(), len(moments), round),
			Mark: []byte(degradedField), Timeout: answerWithin,
		})
		if err != nil {
			return load.Result{}, err
		}
		res, err := d.Open(ctx, moments)
		return res, errors.Join(err, d.Close())
	}
	if k.visits {
		// Every worker once, so that connections are there as they would be after a while.
		if _, err := drive(time.Duration(1.3*float64(out.workers)/o.rate*float64(time.Second)), 0); err != nil {
			return err
		}
	}
	for round := range o.rounds {
		if _, err := drive(o.warm, 2*round+1); err != nil {
			return err
		}
		before, err := s.read()
		if err != nil {
			return err
		}
		res, err := drive(o.length, 2*round+2)
		if err != nil {
			return err
		}
		after, err := s.read()
		if err != nil {
			return err
		}
		one := sample{Result: res}
		for i := range after {
			one.cpu += after[i].Used(before[i])
		}
		out.costs[k.name] = append(out.costs[k.name], one)
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
