package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"smg/bench/load"
	"smg/bench/procstat"
	"smg/bench/stats"
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

// round is one measurement of every subject.
type round []sample

// void says whether the generator was too late in one of the measurements.
func (r round) void() bool {
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
	n      int // of subjects
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
	out := &outcome{scenario: sc, n: o.subjects()}
	want, err := set.answer(ctx, &sc)
	if err != nil {
		return nil, err
	}
	out.answer = len(want)
	for len(out.rounds) < o.rounds {
		r := make(round, o.subjects())
		seed := rng.Uint64()
		for _, which := range rng.Perm(len(r)) {
			if r[which], err = set.sample(ctx, o, &sc, which, want, seed); err != nil {
				return nil, fmt.Errorf("measuring %s: %w", name(which), err)
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
func (s *set) config(sc *scenario, which int, want []byte) load.Config {
	return load.Config{
		Addr: s.processes[which].Addr(), Connections: sc.connections, Body: want, Timeout: answerWithin,
		Request: load.Post(s.processes[which].Addr().String(), path, sc.body),
	}
}

// answer asks the engine: what it says is what everybody has to say.
func (s *set) answer(ctx context.Context, sc *scenario) (content []byte, err error) {
	cfg := s.config(sc, direct, nil)
	cfg.Connections = 1
	d, err := load.Dial(cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	return d.One(ctx)
}

// sample measures one subject once, over connections of its own.
func (s *set) sample(ctx context.Context, o *options, sc *scenario, which int, want []byte, seed uint64) (_ sample, err error) {
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
	pid := s.processes[which].PID()
	before, err := procstat.System().Read(pid)
	if err != nil {
		return sample{}, err
	}
	res, err := drive(sc.length)
	if err != nil {
		return sample{}, err
	}
	after, err := procstat.System().Read(pid)
	if err != nil {
		return sample{}, err
	}
	return sample{Result: res, cpu: after.Used(before)}, nil
}
