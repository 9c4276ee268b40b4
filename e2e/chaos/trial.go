package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// runTrial is a run over a site.
type runTrial struct {
	options *options
	site    *site
	load    *load
	log     io.Writer
	random  *rand.Rand
	pins    pins
	rounds  []round
	began   time.Time
	final   time.Duration // from the end of all requests to rest
}

// round is one fault, or two at a time, and what came of it.
type round struct {
	incidents []*incident
	calls     int64
	degraded  int64
	slowest   time.Duration
	healed    time.Duration // from the end of the last fault
	err       error         // what was not as it should be
}

func newTrial(o *options, s *site, log io.Writer) *runTrial {
	return &runTrial{options: o, site: s, log: log, random: rand.New(rand.NewPCG(o.seed, 0))}
}

// settleWithin bounds the waits for what has no limit of its own: workers that were
// killed to be ready again. It only catches what never comes.
const settleWithin = time.Minute

// run makes all faults, one round after another, and then ends the load.
func (t *runTrial) run(ctx context.Context) error {
	t.began = time.Now()
	if err := eventually(ctx, settleWithin, func() error { return t.site.well(ctx) }); err != nil {
		return err
	}
	t.load = startLoad(ctx, t.site, t.options.seed)
	defer t.load.end()
	if !wait(ctx, 2*time.Second) { // for streams to be open
		return ctx.Err()
	}
	var err error
	t.load.pause()
	t.pins, err = t.ask(ctx)
	t.load.resume()
	if err != nil {
		return fmt.Errorf("before any fault: %w", err)
	}
	plan, err := t.plan()
	if err != nil {
		return err
	}
	for i, incidents := range plan {
		r := t.round(ctx, incidents)
		t.rounds = append(t.rounds, *r)
		fmt.Fprintf(t.log, "%2d/%d %s: healed after %.1f s, %d calls, %d degraded, slowest %.1f s%s\n",
			i+1, len(plan), names(incidents), r.healed.Seconds(), r.calls, r.degraded, r.slowest.Seconds(), wrong(r.err))
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return t.rest(ctx)
}

func wrong(err error) string {
	if err == nil {
		return ""
	}
	return "\n      " + strings.ReplaceAll(err.Error(), "\n", "\n      ")
}

func names(incidents []*incident) string {
	var all []string
	for _, i := range incidents {
		all = append(all, i.String())
	}
	return strings.Join(all, " + ")
}

// plan draws all faults: each kind once in random order, then pairs.
func (t *runTrial) plan() ([][]*incident, error) {
	all, err := t.options.kinds(t.site.net.split())
	if err != nil {
		return nil, err
	}
	shuffle := func() {
		t.random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	}
	shuffle()
	var plan [][]*incident
	for _, k := range all[:min(len(all), t.options.faults)] {
		plan = append(plan, []*incident{t.incident(k)})
	}
	for len(plan) < t.options.faults {
		shuffle()
		pair := []*incident{t.incident(all[0]), t.incident(all[len(all)-1])}
		if len(all) == 1 || pair[0].hits(pair[1]) {
			pair = pair[:1]
		}
		for _, i := range pair {
			i.lasts = min(i.lasts, cutFor) // a minute without NATS is made once
		}
		plan = append(plan, pair)
	}
	return plan, nil
}

func (t *runTrial) incident(k kind) *incident {
	i := t.site.newIncident(k, t.random)
	i.after = time.Second + time.Duration(t.random.Int64N(int64(2*time.Second)))
	return i
}

// round makes faults at a time and checks what they leave.
func (t *runTrial) round(ctx context.Context, incidents []*incident) *round {
	r := &round{incidents: incidents}
	calls, degraded := t.load.calls.Load(), t.load.degraded.Load()
	t.load.slowest()
	done := make(chan error)
	for _, i := range incidents {
		go func() { done <- t.site.make(ctx, i) }()
	}
	for range incidents {
		r.err = errors.Join(r.err, <-done)
	}
	over := time.Now()
	if r.err != nil {
		return r
	}
	t.load.pause()
	r.calls, r.degraded = t.load.calls.Load()-calls, t.load.degraded.Load()-degraded
	r.slowest = t.load.slowest()
	err := eventually(ctx, settleWithin, func() error { return t.site.agree(ctx) })
	r.healed = time.Since(over)
	switch {
	case err != nil:
		r.err = fmt.Errorf("not healed: %w", err)
	case r.healed > t.options.within():
		r.err = fmt.Errorf("healed after %s only", r.healed)
	}
	t.load.resume()
	// Breakers close by requests, so that the load goes on meanwhile.
	if err := eventually(ctx, settleWithin, func() error { return t.site.well(ctx) }); err != nil {
		r.err = errors.Join(r.err, fmt.Errorf("a worker does not come back: %w", err))
	}
	t.load.pause()
	r.err = errors.Join(r.err, t.checkPins(ctx, incidents))
	t.load.resume()
	return r
}

// checkPins asks for each key, and expects the worker that it had, if that was not hit.
func (t *runTrial) checkPins(ctx context.Context, incidents []*incident) error {
	now, err := t.ask(ctx)
	if err != nil {
		return err
	}
	before := t.pins
	t.pins = now
	if forgotten(incidents) {
		return nil
	}
	return before.moved(now, func(worker string) bool {
		return slices.ContainsFunc(incidents, func(i *incident) bool {
			return slices.ContainsFunc(i.victims, func(m *member) bool { return m.worker() == worker })
		})
	})
}

// forgotten says whether pins may have been lost: they are with the NATS servers and
// in the memory of each selector, and a selector that starts while the servers have
// lost theirs knows none of those that the other one remembers. It answers after 5 s.
func forgotten(incidents []*incident) bool {
	has := func(k kind) bool {
		return slices.ContainsFunc(incidents, func(i *incident) bool { return i.kind == k })
	}
	return has(emptyNATS) && has(killSelector)
}

// ask asks for each key through each ingress: all must send it to the same worker. By
// a selector's choice: on a busy machine a select may be late, but not again and again.
func (t *runTrial) ask(ctx context.Context) (pins, error) {
	now := pins{}
	for key := range keys {
		for _, m := range t.site.ingresses {
			var c *call
			_ = eventually(ctx, t.options.within(), func() error {
				if c = t.load.ask(ctx, m, key); c.degraded {
					return errors.New("degraded")
				}
				return nil
			})
			switch was, ok := now[key]; {
			case c.err != nil:
				return now, fmt.Errorf("key %d through %s: %w", key, m.name, c.err)
			case c.degraded:
				return now, fmt.Errorf("key %d through %s: chosen without a selector, after everything had healed", key, m.name)
			case ok && c.worker != was:
				return now, fmt.Errorf("key %d goes to %s through one ingress, and to %s through another", key, was, c.worker)
			}
			now[key] = c.worker
		}
	}
	return now, nil
}

// rest ends all requests: then nothing may be counted and nothing held.
func (t *runTrial) rest(ctx context.Context) error {
	t.load.end()
	over := time.Now()
	err := eventually(ctx, t.options.within(), func() error {
		return errors.Join(t.site.idle(ctx), t.site.agree(ctx))
	})
	t.final = time.Since(over)
	if err != nil {
		return fmt.Errorf("after the last request: %w", err)
	}
	return nil
}
