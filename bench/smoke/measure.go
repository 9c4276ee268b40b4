package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"smg/bench/load"
	"smg/bench/procstat"
	"smg/stats"
)

// sample is what one measurement of one subject gave.
type sample struct {
	load.Result
	cpu time.Duration // that the subject used meanwhile
}

// µs of CPU time for one answer.
func (s *sample) perRequest() float64 {
	if s.Answered == 0 {
		return 0
	}
	return micros(s.cpu) / float64(s.Answered)
}

func (s *sample) quantile(q float64) float64 { return micros(stats.Quantile(s.Latency, q)) }

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// round is one measurement of every subject, by kind; of those that a scenario does
// not have it holds nothing.
type round [kinds]sample

// void says whether the generator was too late in one of the measurements.
func (r *round) void() bool {
	for i := range r {
		if r[i].Void(0.5) {
			return true
		}
	}
	return false
}

// outcome is what a scenario gave.
type outcome struct {
	scenario
	notRun map[kind]string // subjects that the program does not know, and what it said
	rounds []round
	void   []round // measured anew, and counted for their errors alone
	answer int     // bytes of content
}

// mostVoid is how many void rounds are measured anew.
const mostVoid = 2

// answerWithin bounds the wait for answers that are outstanding at the end.
const answerWithin = 5 * time.Second

// measure runs all rounds of a scenario.
func measure(ctx context.Context, o *options, sc scenario, rng *rand.Rand) (_ *outcome, err error) {
	set, err := startSet(ctx, o, &sc)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, set.stop()) }()
	sc.subjects = set.running(sc.subjects)
	out := &outcome{scenario: sc, notRun: set.unknown}
	want, err := set.answer(ctx, &sc)
	if err != nil {
		return nil, err
	}
	out.answer = len(want)
	if err := set.settle(ctx, &sc, want); err != nil {
		return nil, err
	}
	for len(out.rounds) < o.rounds {
		var r round
		seed := rng.Uint64()
		for _, i := range rng.Perm(len(sc.subjects)) {
			which := sc.subjects[i]
			if r[which], err = set.sample(ctx, o, &sc, which, want, seed); err != nil {
				return nil, fmt.Errorf("measuring %s: %w", which, err)
			}
		}
		if r.void() && len(out.void) < mostVoid {
			out.void = append(out.void, r)
			continue
		}
		out.rounds = append(out.rounds, r)
	}
	return out, nil
}

// config is the load on one of the subjects.
func (s *set) config(sc *scenario, which kind, want []byte) load.Config {
	var also []netip.AddrPort
	for _, p := range s.processes[which][1:] {
		also = append(also, p.Addr())
	}
	addr := s.processes[which][0].Addr()
	return load.Config{
		Addr: addr, Also: also, Connections: sc.connections, Body: want, Timeout: answerWithin,
		Request: load.Post(addr.String(), path, sc.body), Mark: []byte(degradedField),
	}
}

// degradedField is what a gateway says in the head of an answer if an engine was
// chosen without a selector.
const degradedField = "X-Smg-Degraded"

// settleWithin bounds the wait for selectors.
const settleWithin = 30 * time.Second

// settle returns when every gateway selects as it should: it is ready, but what it
// asks may not be.
func (s *set) settle(ctx context.Context, sc *scenario, want []byte) error {
	for _, which := range sc.subjects {
		if !which.routes() {
			continue
		}
		cfg := s.config(sc, which, want)
		cfg.Connections = 1
		if err := settle(ctx, cfg); err != nil {
			return fmt.Errorf("waiting for %s: %w", which, err)
		}
	}
	return nil
}

func settle(ctx context.Context, cfg load.Config) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, settleWithin, fmt.Errorf("it chose without a selector for %s", settleWithin))
	defer cancel()
	d, err := load.Dial(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	t := time.NewTicker(settleWithin / 100)
	defer t.Stop()
	for {
		res, err := d.Open(ctx, []time.Duration{0})
		if err == nil && res.Answered == 1 && res.Marked == 0 {
			return nil
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return err
		case res.Errors() > 0:
			return errors.New(res.Faults())
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// answer asks the engine: what it says is what everybody has to say.
func (s *set) answer(ctx context.Context, sc *scenario) (content []byte, err error) {
	cfg := s.config(sc, sc.subjects[0], nil)
	cfg.Connections = 1
	d, err := load.Dial(cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	return d.One(ctx)
}

// sample measures one subject once, over connections of its own.
func (s *set) sample(ctx context.Context, o *options, sc *scenario, which kind, want []byte, seed uint64) (_ sample, err error) {
	d, err := load.Dial(s.config(sc, which, want))
	if err != nil {
		return sample{}, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	drive := func(length time.Duration) (load.Result, error) {
		if sc.rate == 0 {
			return d.Saturate(ctx, length)
		}
		return d.Open(ctx, load.Poisson(seed, sc.rate, length))
	}
	if _, err := drive(o.warm); err != nil {
		return sample{}, err
	}
	before, err := s.read(which)
	if err != nil {
		return sample{}, err
	}
	res, err := drive(sc.length)
	if err != nil {
		return sample{}, err
	}
	after, err := s.read(which)
	if err != nil {
		return sample{}, err
	}
	out := sample{Result: res}
	for i := range after {
		out.cpu += after[i].Used(before[i])
	}
	return out, nil
}

// read reads what the processes of a subject and their children have used.
func (s *set) read(which kind) ([]procstat.Reading, error) {
	var readings []procstat.Reading
	for _, p := range s.processes[which] {
		r, err := procstat.System().Read(p.PID())
		if err != nil {
			return nil, err
		}
		readings = append(readings, r)
	}
	return readings, nil
}
