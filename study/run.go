package study

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"smg/policy"
	"smg/sim"
	"smg/worker"
)

// run is a site under way.
type run struct {
	cfg       *Config
	work      *Workload
	contender *Contender

	agenda    agenda
	now       time.Duration
	fleet     *Fleet
	ingresses []*ingress
	selectors []*selector
	ranking   *worker.Ranking
	chance    *rand.Rand // of the bus

	calls    []call // by request
	outcomes []Outcome
	left     int // requests that nothing has become of yet
}

// call is a request's lease.
type call struct {
	ingress *ingress
	lease   worker.LeaseID
}

// Run lets the workload arrive at a site and returns when all requests have ended.
// It is deterministic if the contender is.
func Run(ctx context.Context, cfg Config, work *Workload, c Contender) (*Result, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	if err := work.Validate(cfg.Engine); err != nil {
		return nil, fmt.Errorf("%s: workload %s: %w", c.Name, work.Name, err)
	}
	fleet, err := newFleet(&cfg, c.Leg)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	r, err := newRun(&cfg, work, &c, fleet)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	for r.left > 0 {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
		r.next()
	}
	return &Result{Name: c.Name, Engine: cfg.Engine, Workers: cfg.Workers, Outcomes: r.outcomes}, nil
}

// newRun is a site before its first request.
func newRun(cfg *Config, work *Workload, c *Contender, fleet *Fleet) (*run, error) {
	r := &run{
		cfg: cfg, work: work, contender: c, fleet: fleet, ranking: worker.NewRanking(),
		chance: rand.New(rand.NewPCG(cfg.Seed, busStream)),
		calls:  make([]call, len(work.Requests)), outcomes: make([]Outcome, len(work.Requests)), left: len(work.Requests),
	}
	if err := r.join(); err != nil {
		return nil, err
	}
	r.agenda.add(work.Requests[0].At, func() { r.arrive(0) })
	return r, nil
}

// next does what is due next. Before that the engines are brought to its time, and
// what has ended on the way comes first: so nothing that an end brings about may
// reach an engine.
func (r *run) next() {
	if due := r.agenda.next(); due > r.fleet.now {
		r.fleet.step(due, r.hear)
	}
	x := r.agenda.pop()
	r.now = x.at
	x.do()
}

func (r *run) clock() time.Time { return epoch.Add(r.now) }

// arrive lets request i come to its ingress, and the next one behind it.
func (r *run) arrive(i int) {
	if next := i + 1; next < len(r.work.Requests) {
		r.agenda.add(r.work.Requests[next].At, func() { r.arrive(next) })
	}
	r.outcomes[i].Worker = -1
	in := r.ingresses[i%len(r.ingresses)]
	req := &policy.Request{}
	if r.contender.Inputs != nil {
		r.contender.Inputs(i, req)
	}
	req.Ask.Lease = in.plans.Lease(in.plans.Next(), r.contender.Leg, 0)
	req.Ask.Key = worker.Scoped(model, req.Keys.Counted())
	r.after(r.cfg.Select, func() {
		d, err := r.pick(i, req)
		r.after(r.cfg.Select, func() { r.place(i, in, req, d, err) })
	})
}

// after does something once a message has arrived. One that takes no time is a call.
func (r *run) after(delay time.Duration, do func()) {
	if delay == 0 {
		do()
		return
	}
	r.agenda.add(r.now+delay, do)
}

// pick has a replica choose.
func (r *run) pick(i int, req *policy.Request) (policy.Decision, error) {
	s := r.home(i, req)
	req.Ask.Now = r.clock()
	r.fleet.ask = r.sequence(i)
	return s.policy.Pick(req, s.pool)
}

func (r *run) sequence(i int) sim.Request {
	q := &r.work.Requests[i]
	return sim.Request{PromptTokens: q.Prompt, OutputTokens: q.Output, Blocks: q.Blocks}
}

// place begins the lease that a replica has granted and sends the request to its
// worker.
func (r *run) place(i int, in *ingress, req *policy.Request, d policy.Decision, err error) {
	if err != nil {
		r.fail(i, err)
		return
	}
	id := d.Worker.Spec.ID
	r.calls[i] = call{in, req.Ask.Lease}
	r.outcomes[i].Worker = r.fleet.index[id]
	r.wake(in, in.writer.Begin(worker.Lease{ID: req.Ask.Lease, Worker: id, Tokens: d.Tokens, Key: req.Ask.Key, Probe: d.Probe}))
	if err := r.fleet.submit(r.outcomes[i].Worker, i, r.sequence(i)); err != nil {
		r.fail(i, err)
		r.wake(in, in.writer.End(req.Ask.Lease, worker.Neutral, true))
	}
}

func (r *run) fail(i int, err error) {
	r.outcomes[i].Err = err
	r.left--
}

// hear notes what an engine tells of request i. The end of a lease is for its own
// time, which may be before the one that comes next.
func (r *run) hear(i int, ev sim.Event) {
	o, arrived := &r.outcomes[i], r.work.Requests[i].At
	if o.TTFT == 0 && (ev.Kind == sim.Token || ev.Kind == sim.Done) {
		o.TTFT = ev.At - arrived
	}
	if ev.Kind != sim.Done {
		return
	}
	o.Latency, o.Cached = ev.At-arrived, ev.Cached
	r.left--
	r.agenda.add(ev.At, func() {
		c := &r.calls[i]
		r.wake(c.ingress, c.ingress.writer.End(c.lease, worker.Success, false))
	})
}
